/* Safetensors files. A byte other than 0 gives the header the length that the file has left. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "safetensors.h"

enum { PREFIX = 8 };

void fuzz_target(fuzz_input in)
{
    safetensors s;
    fault f = {0};
    const uint8_t data_bytes = fuzz_byte(&in);
    const size_t whole = in.size;
    uint8_t *file = (uint8_t *)fuzz_text(&(fuzz_input){in.data, in.size});
    if (data_bytes != 0 && whole >= PREFIX + (size_t)data_bytes - 1) {
        const uint64_t length = whole - PREFIX - (data_bytes - 1u);
        for (unsigned i = 0; i < PREFIX; ++i)
            file[i] = (uint8_t)(length >> (8 * i));
    }
    const char *path = fuzz_write("w.safetensors", file, whole);
    free(file);
    if (!safetensors_open(path, &s, &f)) {
        FUZZ_CHECK(f.code == (safetensors_readable() ? CODE_DATA : CODE_USAGE) || whole < PREFIX);
        FUZZ_CHECK(s.tensors == NULL && s.stream == NULL);
        FUZZ_CHECK(f.text[0] != '\0');
        return;
    }
    uint64_t at = 0;
    for (size_t i = 0; i < s.count; ++i) {
        const safetensor *t = &s.tensors[i];
        FUZZ_CHECK(t->from == at && t->to >= t->from && s.data + t->to <= whole);
        FUZZ_CHECK(t->rank <= SAFETENSORS_RANK && t->count <= t->to - t->from);
        FUZZ_CHECK(safetensors_find(&s, t->name) != NULL);
        float *values = malloc((size_t)t->count * sizeof *values + 1);
        FUZZ_CHECK(values != NULL);
        f = (fault){0};
        FUZZ_CHECK(safetensors_read(&s, t, values, &f) == (t->type != SAFETENSOR_OTHER));
        free(values);
        at = t->to;
    }
    safetensors_close(&s);
}
