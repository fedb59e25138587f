/* Rows of numbers from the files golden_*.safetensors, in which each tensor is a row of doubles. */
#ifndef CLPRUNE_GOLDEN_ROWS_H
#define CLPRUNE_GOLDEN_ROWS_H

#include "support/test_device.h"
#include "support/test_folder.h"

typedef struct golden_row {
    char name[64];
    const double *numbers;
} golden_row;

/* The `count` rows named GROUP/NAME, in the order of the file, with NAME as their name. Each has
 * `width` numbers. The header is read in the one form that make_golden.py writes, without a JSON
 * parser, which a build may lack; any other form and any other count fail the case. The rows live
 * until the end of the case. */
static inline const golden_row *golden_rows_read(
    const char *path, const char *group, size_t count, size_t width)
{
    size_t size, found = 0, read = 0;
    uint64_t header_size;
    const char *file = test_file_read(path, &size), *at = file + sizeof header_size;
    (void)memcpy(&header_size, file, sizeof header_size);
    const double *numbers = (const double *)(const void *)(at + header_size);
    assert_int_equal(header_size % sizeof *numbers, 0);
    golden_row *rows = test_alloc(count * sizeof *rows);
    do {
        char in[64], name[64];
        size_t shape, from, to;
        int length = 0;
        (void)sscanf(at + 1, /* behind { or , */
            "\"%63[^/]/%63[^\"]\":{\"dtype\":\"F64\",\"shape\":[%zu],\"data_offsets\":[%zu,%zu]}%n",
            in, name, &shape, &from, &to, &length);
        if (length == 0)
            fail_msg("%s, tensor %zu: not as make_golden.py writes it", path, read);
        assert_int_equal(shape, width);
        assert_int_equal(from, read * width * sizeof *numbers);
        assert_int_equal(to, from + width * sizeof *numbers);
        if (strcmp(in, group) == 0) {
            assert_true(found < count);
            rows[found].numbers = numbers + read * width;
            (void)memcpy(rows[found++].name, name, sizeof name);
        }
        at += 1 + length;
        read++;
    } while (*at == ',');
    assert_int_equal(found, count);
    assert_int_equal(size, sizeof header_size + header_size + read * width * sizeof *numbers);
    return rows;
}

#endif
