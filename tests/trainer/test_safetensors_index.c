/* Weights in several files: an index, found in a folder, names files that have its tensors, and no
 * others; each is read from its own file. */
#include "support/test_fault.h"
#include "support/test_folder.h"
#include "trainer/files/safetensors_file.h"

/* A file of one tensor of two values. */
static void write_part(const char *folder, const char *file, const char *tensor, float value)
{
    atomic_file to = {0};
    fault f = {0};
    char name[16];
    float values[2] = {value, value + 1};
    (void)snprintf(name, sizeof name, "%s", tensor);
    const safetensor t = {
        .name = name, .type = SAFETENSOR_F32, .rank = 1, .shape = {2}, .count = 2};
    assert_true(atomic_file_open(test_text("%s/%s", folder, file), &to, &f) &&
                safetensors_put_header(&to, 1, &t, &f));
    safetensors_put_f32(&to, 2, values);
    assert_true(atomic_file_commit(&to, &f));
}

static const char *write_index(const char *folder, const char *text)
{
    const char *path = test_text("%s/model.safetensors.index.json", folder);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    (void)fputs(text, file);
    assert_int_equal(fclose(file), 0);
    return path;
}

static void several_files(NO_ROW)
{
    static const struct {
        const char *index, *part;
    } bad[] = {{"{}", "no weight_map"}, {"", "no index"}, {"{\"weight_map\":{}}", "no weight_map"},
        {"{\"weight_map\":{\"a\":\"1.st\"}}", NULL},
        {"{\"weight_map\":{\"a\":\"1.st\",\"b\":\"1.st\"}}", "names 2 tensors"},
        {"{\"weight_map\":{\"a\":\"2.st\"}}", "no such tensor"},
        {"{\"weight_map\":{\"a\":\"1.st\",\"b\":\"3.st\"}}", "3.st"},
        {"{\"weight_map\":{\"a\":\"../1.st\"}}", "no file in the folder"},
        {"{\"weight_map\":{\"a\":1}}", "no file in the folder"},
        {"{\"weight_map\":{\"b\":\"1.st\",\"a\":\"2.st\"}}", "is in"}};
    const char *folder = test_folder();
    safetensors s;
    fault opened = {0};
    TEST_REFUSED(safetensors_open(folder, &s, &f), CODE_DATA, "model.safetensors");
    write_part(folder, "1.st", "a", 3);
    write_part(folder, "2.st", "b", 5);
    (void)write_index(folder, "{\"weight_map\":{\"b\":\"2.st\",\"a\":\"1.st\"}}");
    assert_true(safetensors_open(folder, &s, &opened));
    for (size_t i = 0; i < 2; i++) {
        float values[2];
        assert_true(
            safetensors_read(&s, safetensors_find(&s, i == 0 ? "a" : "b"), values, &opened));
        assert_true(values[0] == (i == 0 ? 3 : 5) && values[1] == values[0] + 1);
    }
    safetensors_close(&s);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        const char *path = write_index(folder, bad[i].index);
        opened = (fault){0};
        const bool good = safetensors_open(path, &s, &opened);
        assert_true(good == (bad[i].part == NULL));
        if (!good)
            test_refused(good, &opened, CODE_DATA, bad[i].part);
        else
            safetensors_close(&s);
    }
}

int main(void)
{
    if (!safetensors_readable())
        return TEST_SKIPPED;
    test_list list = {0};
    test_add(&list, several_files, NULL, "several files");
    return test_run_on_host("safetensors_index", &list);
}
