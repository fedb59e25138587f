/* The JSON reader: values, every kind of error, truncated and hostile text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json_read.h"
#include "support/test_device.h"
#include "support/test_rng.h"

/* A copy without a terminating zero, so that a sanitizer sees a read beyond the end. */
static char *exact_copy(const char *text, size_t size)
{
    char *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    memcpy(copy, text, size);
    return copy;
}

static bool is_valid(const char *text, size_t size)
{
    char *copy = exact_copy(text, size);
    clprune__json json = clprune__json_begin(copy, size);
    (void)clprune__json_skip(&json);
    const bool valid = clprune__json_end(&json);
    assert_int_equal(valid, json.error == NULL);
    size_t line, column;
    clprune__json_position(&json, &line, &column);
    assert_true(line >= 1 && column >= 1 && json.mark >= copy && json.mark <= copy + size);
    free(copy);
    return valid;
}

static void valid_text(void **state)
{
    const char *text = *state;
    assert_true(is_valid(text, strlen(text)));
}

static void invalid_text(void **state)
{
    const char *text = *state;
    assert_false(is_valid(text, strlen(text)));
}

static void values(void **state)
{
    (void)state;
    static const char text[] = " {\"a\" : [1,\t18446744073709551615, [] ],\r\n\"\\u0062\\/\":"
                               "\"\\u00e9\\u20AC\\n\\\\\",\"c\":{}} ";
    static const uint64_t wanted[] = {1, UINT64_MAX};
    clprune__json json = clprune__json_begin(text, sizeof text - 1);
    char key[8], word[16];
    uint64_t value;
    assert_true(clprune__json_object(&json));
    assert_true(clprune__json_key(&json, key, sizeof key));
    assert_string_equal(key, "a");
    assert_true(clprune__json_array(&json));
    for (int i = 0; i < 2; i++) {
        assert_true(clprune__json_element(&json));
        assert_true(clprune__json_whole(&json, &value));
        assert_true(value == wanted[i]);
    }
    assert_true(clprune__json_element(&json));
    assert_true(clprune__json_skip(&json));
    assert_false(clprune__json_element(&json));
    assert_true(clprune__json_key(&json, key, sizeof key));
    assert_string_equal(key, "b/");
    size_t line, column;
    clprune__json_position(&json, &line, &column);
    assert_int_equal(line, 2);
    assert_int_equal(column, 1);
    assert_true(clprune__json_string(&json, word, sizeof word));
    assert_string_equal(word, "\xC3\xA9\xE2\x82\xAC\n\\");
    assert_true(clprune__json_key(&json, key, sizeof key));
    assert_true(clprune__json_object(&json));
    assert_false(clprune__json_key(&json, key, sizeof key));
    assert_false(clprune__json_key(&json, key, sizeof key));
    assert_true(clprune__json_end(&json));
}

/* A string of n bytes needs n + 1; what is no whole number of 64 bits is refused. */
static void limits(void **state)
{
    (void)state;
    static const char *const numbers[] = {
        "18446744073709551616", "-1", "-0", "1.0", "1e3", "\"1\"", "true", "", "01"};
    char word[4];
    uint64_t value = 7;
    clprune__json json = clprune__json_begin("\"abc\"", 5);
    assert_true(clprune__json_string(&json, word, sizeof word));
    json = clprune__json_begin("\"abcd\"", 6);
    assert_false(clprune__json_string(&json, word, sizeof word));
    assert_false(clprune__json_skip(&json)); /* the error sticks */
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        json = clprune__json_begin(numbers[i], strlen(numbers[i]));
        (void)clprune__json_whole(&json, &value);
        assert_false(clprune__json_end(&json));
    }
}

static void depth(void **state)
{
    (void)state;
    char text[4096];
    memset(text, '[', sizeof text);
    assert_false(is_valid(text, sizeof text));
    for (size_t n = 1; n <= CLPRUNE__JSON_DEPTH + 1; n++) {
        memset(text, '[', n);
        memset(text + n, ']', n);
        assert_int_equal(is_valid(text, 2 * n), n <= CLPRUNE__JSON_DEPTH);
    }
}

static const char sample[] =
    "{\"a\":[1,-2.5e+3,{\"b\":null}],\"c\\u00e9\\n\":\"d\",\"e\":[true,false]}";

static void truncated(void **state)
{
    (void)state;
    const size_t size = sizeof sample - 1;
    assert_true(is_valid(sample, size));
    for (size_t n = 0; n < size; n++)
        assert_false(is_valid(sample, n));
}

/* Changed bytes: no crash, no endless loop, whatever the verdict. */
static void hostile(void **state)
{
    (void)state;
    test_rng rng = {5};
    for (int run = 0; run < 20000; run++) {
        char text[sizeof sample];
        memcpy(text, sample, sizeof text);
        for (size_t i = test_rng_below(&rng, 4) + 1; i > 0; i--)
            text[test_rng_below(&rng, sizeof text - 1)] = (char)test_rng_next(&rng);
        (void)is_valid(text, sizeof text - 1);
    }
    for (int run = 0; run < 20000; run++) {
        static const char alphabet[] = "{}[],:\"\\u01e.-tn \x01\xFF";
        char text[24];
        for (size_t i = 0; i < sizeof text; i++)
            text[i] = alphabet[test_rng_below(&rng, sizeof alphabet)];
        (void)is_valid(text, sizeof text);
    }
}

int main(void)
{
    static const char *const good[] = {"0", "-0.5E-7", "\"\"", "null", " [ ] ", "{\"a\":{}}",
        "[1,2]", "\"\\ud7ff\"", "\"\x80\xFF\"", "{\"a\":1,\"a\":2}"};
    static const char *const bad[] = {"", " ", "{", "}", "[", "]", "[1,]", "[,1]", "[1 2]", "{,}",
        "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "{'a':1}", "{1:1}", "01", "1.", ".5", "+1",
        "-", "1e", "1e+", "0x1", "NaN", "Infinity", "tru", "nulls", "TRUE", "\"", "\"\\\"",
        "\"\\x41\"", "\"\\u12\"", "\"\\u12g4\"", "\"\\u0000\"", "\"\\ud800\"", "\"\\ud83d\\ude00\"",
        "\"\t\"", "\"\n\"", "1 2", "[] []", "[]]", "[}", "{]", "// 1\n1", "[1]//", "\357\273\2771"};
    test_list list = {0};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        test_add(&list, valid_text, good[i], "valid: %s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        test_add(&list, invalid_text, bad[i], "invalid: %s", bad[i]);
    test_add(&list, values, NULL, "values, escapes and positions");
    test_add(&list, limits, NULL, "limits of strings and numbers");
    test_add(&list, depth, NULL, "the depth is limited");
    test_add(&list, truncated, NULL, "every truncation is refused");
    test_add(&list, hostile, NULL, "changed and random bytes");
    return test_run_on_host("json_read", &list);
}
