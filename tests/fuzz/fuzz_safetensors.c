/* Safetensors files. A byte other than 0 gives the header the length that the file has left. Then a
 * model of nothing but the count "a" imports the file. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "trainer/files/safetensors_file.h"
#include "trainer/files/weights.h"

enum { PREFIX = 8, BEFORE = 7 };

/* What the file says of the count: TRAINER_NO_COUNT where it is absent; false where it is wrong. */
static bool count_of(const safetensors *s, int64_t *value)
{
    fault f = {0};
    const safetensor *t = safetensors_find(s, "a");
    *value = TRAINER_NO_COUNT;
    return t == NULL || (t->type == SAFETENSOR_I64 && t->rank == 0 &&
                            safetensors_read_i64(s, t, value, &f) && *value >= 0);
}

static void import_count(const char *path, bool right, int64_t want)
{
    static const trainer_model type = {.program = "fuzz"};
    int64_t value = BEFORE;
    trainer_count count = {"a", &value};
    net_model model = {.type = &type, .counts = &count, .counts_count = 1};
    weights_imported imported;
    fault f = {0};
    FUZZ_CHECK(weights_import(&model, path, 1, &imported, &f) == right);
    FUZZ_CHECK(value == (right ? want : BEFORE));
    FUZZ_CHECK(right || (f.code == CODE_DATA && strstr(f.text, "tensor \"a\"") != NULL));
}

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
        FUZZ_CHECK(s.tensors == NULL && s.parts == NULL);
        FUZZ_CHECK(f.text[0] != '\0');
        return;
    }
    uint64_t at = 0;
    for (size_t i = 0; i < s.count; ++i) {
        const safetensor *t = &s.tensors[i];
        FUZZ_CHECK(t->from == at && t->to >= t->from && s.parts[0].data + t->to <= whole);
        FUZZ_CHECK(t->type == SAFETENSOR_OTHER ||
                   (t->rank <= SAFETENSORS_RANK && t->count <= t->to - t->from));
        FUZZ_CHECK(safetensors_find(&s, t->name) != NULL);
        const size_t room =
            t->type == SAFETENSOR_OTHER ? 0 : (size_t)t->count; /* of others it has no bound */
        float *values = malloc(room * sizeof *values + 1);
        FUZZ_CHECK(values != NULL);
        f = (fault){0};
        FUZZ_CHECK(safetensors_read(&s, t, values, &f) == (t->type < SAFETENSOR_I64));
        free(values);
        int64_t *whole_numbers = malloc(room * sizeof *whole_numbers + 1);
        FUZZ_CHECK(whole_numbers != NULL);
        f = (fault){0};
        FUZZ_CHECK(safetensors_read_i64(&s, t, whole_numbers, &f) == (t->type == SAFETENSOR_I64));
        free(whole_numbers);
        at = t->to;
    }
    int64_t count;
    const bool right = count_of(&s, &count);
    safetensors_close(&s);
    import_count(path, right, count);
}
