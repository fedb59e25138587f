#include "ops/device/switches.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/context/fail.h"

enum { KERNELS, GEMM, MMA, BF16, ROW, FORGET, ARENA, ORDER, CHECK, WORDS, MOST_VALUES = 5 };

/* The values are in the order of their enumerators. */
static const struct {
    const char *key, *values[MOST_VALUES];
} words[WORDS] = {
    [KERNELS] = {"kernels", {"auto", "vector", "tiled"}},
    [GEMM] = {"gemm", {"auto", "vector", "tiled", "clblast"}},
    [MMA] = {"mma", {"auto", "emulated"}},
    [BF16] = {"bf16", {"auto", "converted", "pairs", "tiles"}},
    [ROW] = {"row", {"auto", "gpu", "gpu-amd", "gpu-intel", "cpu-avx2"}},
    [FORGET] = {"forget", {"keep", "poison"}},
    [ARENA] = {"arena", {"on", "off"}},
    [ORDER] = {"order", {"plain", "reversed", "mixed"}},
    [CHECK] = {"check", {"on", "off"}},
};

static bool equals(const char *text, size_t length, const char *name)
{
    return name != NULL && strlen(name) == length && strncmp(text, name, length) == 0;
}

/* Reads a number from 1 to 99999; false for anything else. */
static bool read_units(const char *text, size_t length, uint32_t *units)
{
    uint32_t value = 0;
    for (size_t i = 0; i < length && length <= 5; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = 10 * value + (uint32_t)(text[i] - '0');
    }
    if (value > 0)
        *units = value;
    return value > 0;
}

/* Reads "key=value" into `chosen` or *units; false for an unknown key or value. */
static bool read_word(const char *text, size_t length, int chosen[WORDS], uint32_t *units)
{
    const char *sign = memchr(text, '=', length);
    if (sign == NULL)
        return false;
    const size_t key = (size_t)(sign - text);
    if (equals(text, key, "units"))
        return read_units(sign + 1, length - key - 1, units);
    for (int w = 0; w < WORDS; w++)
        for (int v = 0; v < MOST_VALUES; v++)
            if (equals(text, key, words[w].key) &&
                equals(sign + 1, length - key - 1, words[w].values[v])) {
                chosen[w] = v;
                return true;
            }
    return false;
}

clprune_status clprune__switches_read(clprune__switches *switches)
{
    clprune_context *context = NULL;
    int chosen[WORDS] = {0};
    uint32_t units = 0;
    const char *text = getenv("CLPRUNE_DEBUG");
    while (text != NULL && text[0] != '\0') {
        const size_t length = strcspn(text, ",");
        REQUIRE(read_word(text, length, chosen, &units), CLPRUNE_INVALID_ARGUMENT,
            "CLPRUNE_DEBUG has \"%.*s\", expected kernels=auto|vector|tiled, "
            "gemm=auto|vector|tiled|clblast, mma=auto|emulated, bf16=auto|converted|pairs|tiles, "
            "row=auto|gpu|gpu-amd|gpu-intel|cpu-avx2, forget=keep|poison, arena=on|off, "
            "order=plain|reversed|mixed, units=1 to 99999 or check=on|off, separated by commas",
            (int)(length < 100 ? length : 100), text);
        text += length;
        text += *text == ',';
    }
    *switches = (clprune__switches){.kernels = (clprune_kernels)chosen[KERNELS],
        .gemm = (clprune__gemm_switch)chosen[GEMM],
        .emulate_mma = chosen[MMA] != 0,
        .bf16 = (clprune__bf16_switch)chosen[BF16],
        .row = (clprune__tuning_row)chosen[ROW],
        .poison = chosen[FORGET] != 0,
        .is_apart = chosen[ARENA] != 0,
        .order = (clprune__order)chosen[ORDER],
        .units = units,
        .skip_check = chosen[CHECK] != 0};
    return CLPRUNE_SUCCESS;
}
