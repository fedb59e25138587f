/* A folder of transformers: the length of config.json in two bytes, config.json, the index of files
 * of weights. What is accepted has sizes that go together, and tensors that can be read. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "gpt_config.h"
#include "trainer/files/safetensors_file.h"

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
    FUZZ_CHECK(a.dim % a.heads == 0 && a.eps > 0 && a.eps <= 1);
    FUZZ_CHECK(a.hidden == 0 || (a.heads % a.kv_heads == 0 && a.theta > 1));
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
    (void)fuzz_write("m/model.safetensors.index.json", in.data, in.size);
    check_config(folder);
    check_weights(folder);
    fuzz_remove("m");
}
