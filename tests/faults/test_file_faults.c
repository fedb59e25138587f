/* Files of the trainer while each call of the system or of the allocator fails: an error is not
 * taken for a file that is missing, and running out of memory not for a broken file.
 *
 * access, lstat, stat and realpath that fail replace no link. Memory also runs out in Jansson and
 * while a log is compared. */
#define _GNU_SOURCE

#include <sys/stat.h>
#include <unistd.h>

#include "support/fault_host.h"
#include "support/gguf_text.h"
#include "support/test_fault.h"
#include "support/test_folder.h"
#include "trainer/files/atomic_file.h"
#include "trainer/files/plain_file.h"
#include "trainer/files/safetensors_file.h"
#include "trainer/files/tensors/gguf_file.h"
#include "trainer/report/csv_log.h"
#include "trainer/vocabulary/chat.h"

/* Whether a call failed; none does any more. */
static bool disarm(void)
{
    const bool failed = fault_host_fired() != NULL;
    fault_host_arm(FAULT_FILES, 0, false);
    return failed;
}

static void exists(NO_ROW)
{
    const char *folder = test_folder(), *file = test_text("%s/file", folder),
               *none = test_text("%s/none", folder), *below = test_text("%s/none", file);
    bool there;
    fault f = {0};
    test_file_write(file, "x", 1);
    assert_true(plain_file_exists(file, &there, &f) && there);
    assert_true(plain_file_exists(none, &there, &f) && !there);
    assert_true(plain_file_exists(below, &there, &f) && !there);
    fault_host_arm(FAULT_FILES, 1, false);
    const bool good = plain_file_exists(file, &there, &f);
    (void)disarm();
    test_refused(good, &f, CODE_DATA, "/file: Input/output error");
}

/* The link stays, and the file that it names is the old one or the new one. */
static void linked(NO_ROW)
{
    const char *folder = test_folder(), *target = test_text("%s/target", folder),
               *link = test_text("%s/link", folder);
    for (int group = 0; group < FAULT_GROUPS; group++)
        for (int forever = 0; forever < 2; forever++)
            for (unsigned at = 1, failed = 1; failed; at++) {
                struct stat status;
                size_t size = 0;
                atomic_file file;
                fault f = {0};
                test_file_write(target, "old", 3);
                (void)unlink(link);
                assert_int_equal(symlink("target", link), 0);
                fault_host_arm((fault_group)group, at, forever);
                bool good = atomic_file_open(link, &file, &f);
                if (good) {
                    atomic_file_put(&file, "new", 3);
                    good = atomic_file_commit(&file, &f);
                }
                failed = disarm();
                assert_int_equal(lstat(link, &status), 0);
                if (!S_ISLNK(status.st_mode))
                    fail_msg("call %u of group %d: the link was replaced", at, group);
                if (!good)
                    assert_int_equal(f.code, group == FAULT_MEMORY ? CODE_MEMORY : CODE_DATA);
                else
                    assert_string_equal((char *)test_file_read(target, &size), "new");
                assert_true(!good || size == 3);
            }
}

static void log_begins(NO_ROW)
{
    const csv_row row = {.epoch = 1, .step = 2};
    const char *path = test_text("%s/log.csv", test_folder());
    csv_log log;
    fault f = {0};
    assert_true(csv_log_open(&log, &row.epoch, CSV_COLUMNS, 1, &f));
    assert_true(csv_log_write(&log, path, &f));
    for (int group = 0; group < FAULT_GROUPS; group++)
        for (unsigned at = 1, failed = 1; failed; at++) {
            bool begins = false;
            f = (fault){0};
            fault_host_arm((fault_group)group, at, false);
            const bool good = csv_log_begins(&log, path, &begins, &f);
            failed = disarm();
            if (good && !begins)
                fail_msg("call %u of group %d: taken for another log", at, group);
            if (!good)
                assert_int_equal(f.code, group == FAULT_MEMORY ? CODE_MEMORY : CODE_DATA);
        }
    csv_log_close(&log);
}

/* Jansson's allocations are this program's. */
static void json(NO_ROW)
{
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
        "\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}";
    safetensors s;
    fault f = {0};
    if (!safetensors_parse("w", header, sizeof header - 1, 8, &s, &f) && f.code == CODE_USAGE)
        skip(); /* built without jansson */
    safetensors_close(&s);
    unsigned at = 0;
    for (bool failed = true; failed;) {
        f = (fault){0};
        const long before = fault_host_blocks();
        fault_host_arm(FAULT_MEMORY, ++at, false);
        const bool good = safetensors_parse("w", header, sizeof header - 1, 8, &s, &f);
        failed = disarm();
        if (failed && f.code != CODE_MEMORY)
            fail_msg("allocation %u: code %d: %s", at, f.code, f.text);
        assert_int_equal(good, !failed);
        safetensors_close(&s);
        assert_int_equal(fault_host_blocks(), before);
    }
    assert_true(at > 20);
}

/* Each call fails while a file is opened, its tensor and its tokens are read, and a text, and a
 * conversation in the chat template, become tokens. */
static void gguf(NO_ROW)
{
    static const char template[] = "{{ bos_token }}{% for message in messages %}{% if "
                                   "message['role'] == 'user' %}{{ '[INST] ' "
                                   "+ message['content'] + ' [/INST]' }}{% else %}{{ "
                                   "message['content'] + eos_token }}{% endif "
                                   "%}{% endfor %}";
    static const chat_message messages[] = {{"user", "a", 1}, {"assistant", "b", 1}};
    static unsigned char bytes[1 << 14];
    static char text[1 << 14];
    size_t used = (size_t)sprintf(text,
        "GGUF 4:3 8:1 8:8 s:general.architecture 4:8 s:llama s:tokenizer.ggml.model 4:8 s:llama "
        "s:tokenizer.ggml.bos_token_id 4:4 4:0 s:tokenizer.ggml.eos_token_id 4:4 4:1 "
        "s:tokenizer.ggml.scores 4:9 4:6 8:258 z:1032 s:tokenizer.ggml.token_type 4:9 4:5 8:258 "
        "4:3 4:3 ");
    for (unsigned i = 0; i < 256; ++i)
        used += (size_t)sprintf(text + used, "4:6 ");
    used += (size_t)sprintf(text + used, "s:tokenizer.ggml.tokens 4:9 4:8 8:258 s:<s> s:</s> ");
    for (unsigned i = 0; i < 256; ++i)
        used += (size_t)sprintf(text + used, "s:<0x%02X> ", i);
    used += (size_t)sprintf(text + used, "s:tokenizer.chat_template 4:8 8:%zu ", strlen(template));
    for (const char *p = template; *p != '\0'; ++p)
        used += (size_t)sprintf(text + used, "x:%x ", (unsigned)(unsigned char)*p);
    (void)sprintf(text + used, "s:t 4:1 8:8 4:0 8:0 p:32 z:32");
    const size_t size = gguf_text_make(text, bytes, sizeof bytes);
    const char *path = test_text("%s/file.gguf", test_folder());
    test_file_write(path, bytes, size);
    for (fault_group group = FAULT_MEMORY; group < FAULT_GROUPS; ++group) {
        unsigned at = 0;
        for (bool failed = true; failed;) {
            fault f = {0};
            float values[8];
            gguf_file g;
            vocabulary v = {0};
            token_list list = {0}, said = {0};
            unsigned char *learnt = NULL;
            chat c = {0};
            const long before = fault_host_blocks(), open = fault_host_files();
            fault_host_arm(group, ++at, false);
            const bool good =
                gguf_open(path, &g, &f) && gguf_read(&g, &g.tensors[0], 0, values, &f) &&
                vocabulary_open(path, &v, &f) && vocabulary_prepare(&v, &f) &&
                vocabulary_encode(&v, "text", "aaaa", 4, 0, &list, &f) && chat_open(&v, &c, &f) &&
                chat_encode(&c, &v, "lines", messages, 2, false, &said, &learnt, &f);
            chat_close(&c);
            vocabulary_close(&v);
            free(list.tokens);
            free(said.tokens);
            free(learnt);
            gguf_close(&g);
            const char *which = fault_host_fired();
            const bool harmless =
                which != NULL && (strcmp(which, "fclose") == 0 || strcmp(which, "stat") == 0);
            failed = disarm();
            assert_true(good == (!failed || harmless));
            if (!good && f.code != (group == FAULT_MEMORY ? CODE_MEMORY : CODE_DATA))
                fail_msg("call %u: code %d: %s", at, f.code, f.text);
            assert_int_equal(fault_host_blocks(), before);
            assert_int_equal(fault_host_files(), open);
        }
        assert_true(at > 8);
    }
}

int main(void)
{
    test_list list = {0};
    test_add(&list, exists, NULL, "a file exists");
    test_add(&list, linked, NULL, "a link stays");
    test_add(&list, log_begins, NULL, "a log begins");
    test_add(&list, json, NULL, "JSON");
    test_add(&list, gguf, NULL, "GGUF");
    return test_run_on_host("file_faults", &list);
}
