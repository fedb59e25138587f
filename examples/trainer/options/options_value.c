/* Values of options to and from text. */
#include "trainer/options/options_table.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *field(const option_row *row, options *o)
{
    return (char *)o + row->offset;
}

static const void *field_of(const option_row *row, const options *o)
{
    return (const char *)o + row->offset;
}

static bool bad_value(const option_row *row, const char *text, const char *expected, fault *f)
{
    return fault_set(f, CODE_USAGE, "--%s: '%s' is not %s; try --help", row->name, text, expected);
}

/* Digits only: no sign, no space, no 0x. */
static bool read_count(const char *text, size_t length, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < length; ++i) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        const uint64_t digit = (uint64_t)(text[i] - '0');
        if (*value > (UINT64_MAX - digit) / 10)
            return false;
        *value = *value * 10 + digit;
    }
    return length > 0;
}

/* Plain decimals, 0.5 or 1e-3: no space, no hexadecimal form, no inf, no nan. */
static bool read_real(const char *text, double *value)
{
    char *end;
    if (text[0] == '\0' || text[strspn(text, "0123456789.eE+-")] != '\0')
        return false;
    errno = 0;
    *value = strtod(text, &end);
    return *end == '\0' && isfinite(*value);
}

static bool set_count(const option_row *row, const char *text, options *o, fault *f)
{
    uint64_t value;
    char expected[96];
    if (read_count(text, strlen(text), &value) && (double)value >= row->low &&
        (double)value <= row->high) {
        *(uint64_t *)field(row, o) = value;
        return true;
    }
    (void)snprintf(
        expected, sizeof expected, "a whole number from %.0f to %.0f", row->low, row->high);
    return bad_value(row, text, expected, f);
}

/* Digits and, perhaps, a suffix: 1500M, 2g. Likewise CLPRUNE_MEM_LIMIT. */
static bool set_bytes(const option_row *row, const char *text, options *o, fault *f)
{
    static const char suffixes[] = "KkMmGg";
    const size_t length = strlen(text);
    const char *suffix = length > 0 ? strchr(suffixes, text[length - 1]) : NULL;
    const unsigned shift = suffix == NULL ? 0 : 10 * (unsigned)((suffix - suffixes) / 2 + 1);
    uint64_t value;
    char expected[128];
    if (read_count(text, suffix == NULL ? length : length - 1, &value) &&
        value <= (uint64_t)row->high >> shift && (double)(value << shift) >= row->low) {
        *(uint64_t *)field(row, o) = value << shift;
        return true;
    }
    (void)snprintf(expected, sizeof expected,
        "a whole number from %.0f to %.0f, of bytes or with one letter, K, M or G, such as 1500M",
        row->low, row->high);
    return bad_value(row, text, expected, f);
}

static bool set_real(const option_row *row, const char *text, options *o, fault *f)
{
    double value;
    char expected[96];
    const bool read = read_real(text, &value);
    if (read && value != 0 && fabs(value) < FLT_MIN)
        return bad_value(row, text, "0 or at least 1.18e-38: it would be rounded to 0", f);
    if (read && value >= row->low && value <= row->high) {
        *(double *)field(row, o) = value;
        return true;
    }
    (void)snprintf(expected, sizeof expected, "a number from %g to %g", row->low, row->high);
    return bad_value(row, text, expected, f);
}

static bool set_choice(const option_row *row, const char *text, options *o, fault *f)
{
    char expected[256] = "one of";
    for (size_t i = 0; row->choices[i] != NULL; ++i) {
        if (strcmp(text, row->choices[i]) == 0) {
            *(size_t *)field(row, o) = i;
            return true;
        }
        options_append(expected, sizeof expected, " %s", row->choices[i]);
    }
    return bad_value(row, text, expected, f);
}

/* "16" is 1 x 16; "4x8" is 4 x 8. */
static bool set_block(const option_row *row, const char *text, options *o, fault *f)
{
    const size_t length = strlen(text), before = strcspn(text, "x");
    uint64_t rows = 1, cols;
    bool good = before == length ? read_count(text, length, &cols)
                                 : read_count(text, before, &rows) &&
                                       read_count(text + before + 1, length - before - 1, &cols);
    good = good && rows >= 1 && rows <= 65536 && cols >= 1 && cols <= 65536;
    if (!good)
        return bad_value(row, text, "a block shape such as 16, 1x16 or 4x4", f);
    *(clprune_block *)field(row, o) = (clprune_block){(size_t)rows, (size_t)cols};
    return true;
}

static bool set_flag(const option_row *row, const char *text, options *o, fault *f)
{
    const bool on = strcmp(text, "1") == 0;
    if (!on && strcmp(text, "0") != 0)
        return bad_value(row, text, "0 or 1", f);
    *(bool *)field(row, o) = on;
    return true;
}

static bool set_text(const option_row *row, const char *text, options *o, fault *f)
{
    if (text[0] == '\0')
        return bad_value(row, text, "a name or a text", f);
    *(const char **)field(row, o) = text;
    return true;
}

bool option_set(const option_row *row, const char *text, options *o, fault *f)
{
    static bool (*const set[])(const option_row *, const char *, options *, fault *) = {
        [OPTION_FLAG] = set_flag,
        [OPTION_TEXT] = set_text,
        [OPTION_CHOICE] = set_choice,
        [OPTION_COUNT] = set_count,
        [OPTION_BYTES] = set_bytes,
        [OPTION_REAL] = set_real,
        [OPTION_BLOCK] = set_block,
    };
    return set[row->kind](row, text, o, f);
}

/* 15 digits, or 17 if 15 do not give the same number. */
static void print_real(double value, char *text, size_t size)
{
    (void)snprintf(text, size, "%.15g", value);
    if (strtod(text, NULL) < value || strtod(text, NULL) > value)
        (void)snprintf(text, size, "%.17g", value);
}

void options_block_text(clprune_block block, char *text, size_t size)
{
    (void)snprintf(text, size, "%zux%zu", block.rows, block.cols);
}

size_t options_passes(const options *o)
{
    const size_t ranks = (size_t)o->ranks.at.ranks;
    return o->micro_batches < ranks ? ranks : (size_t)o->micro_batches;
}

size_t options_pass(const options *o)
{
    const size_t passes = options_passes(o);
    return ((size_t)o->batch_size + passes - 1) / passes;
}

clprune_precision options_precision(const options *o)
{
    return o->precision == OPTIONS_UNSET
               ? CLPRUNE_PRECISION_DEFAULT
               : (clprune_precision)(CLPRUNE_PRECISION_FP32 + o->precision);
}

bool option_is_set(const option_row *row, const options *o)
{
    const void *value = field_of(row, o);
    switch (row->kind) {
    case OPTION_CHOICE:
        return *(const size_t *)value != OPTIONS_UNSET;
    case OPTION_TEXT:
        return *(const char *const *)value != NULL;
    case OPTION_COUNT:
    case OPTION_BYTES:
        return row->low <= 0 || *(const uint64_t *)value != 0;
    default:
        return true;
    }
}

size_t options_views_count(const options *o)
{
    return o->views == 2 ? 6 : o->views + 1;
}

augment_options options_augment(const options *o, uint64_t epoch)
{
    return (augment_options){.seed = o->seed,
        .epoch = (uint32_t)epoch,
        .shift = (uint32_t)o->shift,
        .reflects = o->border == 1,
        .alternates = o->mirror == 1,
        .rand_augment = (uint32_t)o->rand_augment,
        .erase = o->erase,
        .mixup = o->mixup,
        .cutmix = o->cutmix};
}

unsigned options_gelu_code_bits(const options *o)
{
    return 2u << o->gelu_code;
}

unsigned options_quantised_bits(const options *o)
{
    return 2u << o->code_bits;
}

void options_set_quantised_bits(options *o, unsigned bits)
{
    o->code_bits = bits == 8 ? 2 : bits == 4 ? 1 : 0;
}

unsigned options_quantised_group(const options *o)
{
    return 16u * (unsigned)(o->group + 1);
}

/* In the order of options_indices. */
static const clprune_index_type index_types[] = {
    CLPRUNE_INDEX_INT32, CLPRUNE_INDEX_BITMAP, CLPRUNE_INDEX_SMALLEST};

clprune_index_type options_index_type(const options *o)
{
    return o->indices == OPTIONS_UNSET ? CLPRUNE_INDEX_INT32 : index_types[o->indices];
}

size_t options_index_choice(clprune_index_type type)
{
    size_t i = sizeof index_types / sizeof *index_types - 1;
    while (i > 0 && index_types[i] != type)
        --i;
    return i;
}

keep_how options_how(const options *o)
{
    return (keep_how){.keep = options_keep(o, CLPRUNE_FORM_QUANTISED),
        .gelu_bits = options_gelu_code_bits(o),
        .store = o->store == 0 ? CLPRUNE_VALUES_FP32 : CLPRUNE_VALUES_BF16};
}

clprune_keep options_keep(const options *o, clprune_form form)
{
    return (clprune_keep){.form = form,
        .sparsity = (float)o->sparsity,
        .block = o->block,
        .norm = (clprune_norm)o->norm,
        .criterion = (clprune_criterion)o->criterion,
        .centre = o->centre == OPTIONS_UNSET ? CLPRUNE_CENTRE_NONE : (clprune_centre)o->centre,
        .value_type = (clprune_value_type)o->values,
        .index_type = options_index_type(o),
        .bits =
            form == CLPRUNE_FORM_GELU_CODE ? options_gelu_code_bits(o) : options_quantised_bits(o),
        .group = options_quantised_group(o),
        .rounding = (clprune_rounding)o->rounding,
        .rotate = o->rotate != 0 && options_quantised_bits(o) != 16,
        .cell = (unsigned)o->pool};
}

void option_print(const option_row *row, const options *o, char *text, size_t size)
{
    const void *value = field_of(row, o);
    switch (row->kind) {
    case OPTION_FLAG:
        (void)snprintf(text, size, "%d", *(const bool *)value ? 1 : 0);
        break;
    case OPTION_TEXT:
        (void)snprintf(text, size, "%s", *(const char *const *)value);
        break;
    case OPTION_CHOICE:
        (void)snprintf(text, size, "%s", row->choices[*(const size_t *)value]);
        break;
    case OPTION_COUNT:
    case OPTION_BYTES:
        (void)snprintf(text, size, "%" PRIu64, *(const uint64_t *)value);
        break;
    case OPTION_REAL:
        print_real(*(const double *)value, text, size);
        break;
    case OPTION_BLOCK:
        options_block_text(*(const clprune_block *)value, text, size);
        break;
    }
}
