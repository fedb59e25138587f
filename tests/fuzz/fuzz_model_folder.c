/* A folder of transformers: the length of config.json in two bytes, config.json, which is
 * tokenizer.json, too, the index of files of weights. What is accepted has sizes that go together,
 * and tensors that can be read. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "gpt_config.h"
#include "trainer/files/safetensors_file.h"
#include "trainer/vocabulary/text_tokens.h"

/* The files that the index may name: a tensor "a", and "b" and "c". */
static void write_parts(void)
{
    static const char one[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
                      two[] = "{\"b\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]},"
                              "\"c\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[4,12]}}";
    static const struct {
        const char *name, *header;
        size_t length, data;
    } parts[] = {{"m/1.st", one, sizeof one - 1, 4}, {"m/2.st", two, sizeof two - 1, 12}};
    for (size_t i = 0; i < 2; ++i) {
        uint8_t file[8 + sizeof two + 12] = {(uint8_t)parts[i].length};
        memcpy(file + 8, parts[i].header, parts[i].length);
        (void)fuzz_write(parts[i].name, file, 8 + parts[i].length + parts[i].data);
    }
}

static void check_config(const char *folder)
{
    gpt_arch a = {0};
    const char *wrong = gpt_config_read(folder, &a);
    if (wrong != NULL) {
        fuzz_check_text(wrong, "config.json");
        return;
    }
    FUZZ_CHECK(a.dim > 0 && a.depth > 0 && a.heads > 0 && a.context > 0 && a.vocabulary > 0);
    FUZZ_CHECK((a.head > 0 || a.dim % a.heads == 0) && a.eps > 0 && a.eps <= 1);
    FUZZ_CHECK(a.hidden == 0 || (a.heads % a.kv_heads == 0 && a.rotary.theta > 1));
}

/* config.json as tokenizer.json and tokenizer_config.json, and the index as lines of texts; wraps:
 * their prompts are messages. */
static void check_vocabulary(const char *folder, const char *lines, bool wraps)
{
    static const char text[] = "a 12 it's \xc3\xa9<x>\n\n";
    text_model m = {.path = folder, .chat = wraps};
    const vocabulary *v = &m.words;
    token_list list = {0};
    fault f = {0};
    if (!text_model_open(&m, &f)) {
        FUZZ_CHECK(v->bytes == NULL);
        fuzz_check_text(f.text, NULL);
        return;
    }
    text_tokens made;
    if (v->count > 0 && vocabulary_prepare(&m.words, &f) &&
        vocabulary_encode(v, "text", text, sizeof text - 1, VOCABULARY_SPECIAL, &list, &f) &&
        text_tokens_open(lines, &m, &made, &f)) {
        const off_t tokens = lseek(made.mask, 0, SEEK_END);
        FUZZ_CHECK(lseek(made.descriptor, 0, SEEK_END) == 4 * tokens);
        FUZZ_CHECK(made.begins[0] == 0 && made.begins[made.lines] == (uint64_t)tokens);
        (void)close(made.descriptor);
        (void)close(made.mask);
        free(made.begins);
    } else if (v->count > 0)
        fuzz_check_text(f.text, NULL);
    for (size_t i = 0; i < list.count; ++i)
        FUZZ_CHECK(list.tokens[i] >= 0 && (size_t)list.tokens[i] < v->count);
    free(list.tokens);
    text_model_close(&m);
}

static void check_weights(const char *folder)
{
    safetensors s;
    fault f = {0};
    if (!safetensors_open(folder, &s, &f)) {
        FUZZ_CHECK(s.tensors == NULL && s.parts == NULL);
        fuzz_check_text(f.text, NULL);
        return;
    }
    FUZZ_CHECK(s.count >= 1 && s.count <= 3);
    for (size_t i = 0; i < s.count; ++i) {
        float values[2];
        f = (fault){0};
        FUZZ_CHECK(safetensors_read(&s, &s.tensors[i], values, &f) ==
                   (s.tensors[i].type < SAFETENSOR_I64));
    }
    safetensors_close(&s);
}

void fuzz_target(fuzz_input in)
{
    char folder[512];
    const fuzz_input config = fuzz_part(&in, fuzz_word(&in, UINT16_MAX));
    fuzz_subfolder("m");
    write_parts();
    (void)snprintf(folder, sizeof folder, "%s/m", fuzz_folder());
    (void)fuzz_write("m/config.json", config.data, config.size);
    (void)fuzz_write("m/tokenizer.json", config.data, config.size);
    (void)fuzz_write("m/tokenizer_config.json", config.data, config.size);
    (void)fuzz_write("m/model.safetensors.index.json", in.data, in.size);
    check_config(folder);
    check_vocabulary(folder, fuzz_write("m/lines.jsonl", in.data, in.size), in.size % 2 == 1);
    check_weights(folder);
    fuzz_remove("m");
}
