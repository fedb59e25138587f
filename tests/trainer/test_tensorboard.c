/* Event files, read back by a reader that shares no code with the writer.
 *
 * Known checksums. Each scalar of each step is there; an unmeasured one is left out. A resumed run
 * begins with a START at its next step. */
#include "support/test_fault.h"
#include "support/test_folder.h"
#include "trainer/report/tensorboard.h"

/* CRC-32C, a table of a nibble at a time. */
static uint32_t crc_of(const unsigned char *p, size_t n)
{
    uint32_t table[16], crc = 0xffffffffu;
    for (uint32_t i = 0; i < 16; i++) {
        table[i] = i;
        for (int k = 0; k < 4; k++)
            table[i] = table[i] % 2 ? table[i] / 2 ^ 0x82f63b78u : table[i] / 2;
    }
    for (; n > 0; n--, p++) {
        crc = table[(crc ^ *p) % 16] ^ crc / 16;
        crc = table[(crc ^ (uint32_t)(*p / 16)) % 16] ^ crc / 16;
    }
    return crc ^ 0xffffffffu;
}

static void checksums(NO_ROW)
{
    unsigned char bytes[32] = {0};
    assert_int_equal(tensorboard_crc((const unsigned char *)"123456789", 9), 0xe3069283u);
    assert_int_equal(tensorboard_crc(bytes, 32), 0x8a9136aau); /* RFC 3720, B.4 */
    memset(bytes, 0xff, 32);
    assert_int_equal(tensorboard_crc(bytes, 32), 0x62a8ab43u);
    assert_int_equal(crc_of(bytes, 32), 0x62a8ab43u);
}

static uint64_t number(const unsigned char **p, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value += (uint64_t) * (*p)++ << (8 * i);
    return value;
}

static uint64_t varint(const unsigned char **p)
{
    uint64_t value = 0;
    int shift = 0;
    for (; **p >= 128; shift += 7)
        value += (uint64_t)(*(*p)++ - 128) << shift;
    return value + ((uint64_t) * (*p)++ << shift);
}

/* One scalar of a file. */
typedef struct scalar {
    uint64_t step;
    char tag[64];
    float value;
} scalar;

enum { MOST = 64 };

/* Reads an Event; its scalars, or "start", go behind the `count` that are there. */
static size_t read_event(
    const unsigned char *p, const unsigned char *end, scalar *scalars, size_t count, bool first)
{
    uint64_t step = 0;
    double wall = 0;
    bool version = false, starts = false;
    while (p < end) {
        const uint64_t key = varint(&p);
        if (key == (1 << 3 | 1)) {
            const uint64_t bits = number(&p, 8);
            memcpy(&wall, &bits, sizeof wall);
        } else if (key == (2 << 3 | 0)) {
            step = varint(&p);
        } else if (key == (3 << 3 | 2)) {
            const uint64_t n = varint(&p);
            version = n == 13 && memcmp(p, "brain.Event:2", 13) == 0;
            p += n;
        } else if (key == (7 << 3 | 2)) { /* SessionLog: status 1 */
            assert_int_equal(varint(&p), 2);
            starts = varint(&p) == (1 << 3 | 0) && varint(&p) == 1;
        } else {
            assert_int_equal(key, 5 << 3 | 2);
            const uint64_t length = varint(&p);
            for (const unsigned char *stop = p + length; p < stop; count++) {
                assert_int_equal(varint(&p), 1 << 3 | 2);
                (void)varint(&p);
                assert_int_equal(varint(&p), 1 << 3 | 2);
                const uint64_t n = varint(&p);
                scalar *s = &scalars[count];
                (void)snprintf(s->tag, sizeof s->tag, "%.*s", (int)n, (const char *)p);
                p += n;
                assert_int_equal(varint(&p), 2 << 3 | 5);
                const uint32_t bits = (uint32_t)number(&p, 4);
                memcpy(&s->value, &bits, sizeof s->value);
                s->step = step;
            }
        }
    }
    assert_true(wall > 1.6e9);
    assert_int_equal(version, first);
    if (starts) {
        assert_true(count < MOST);
        scalars[count++] = (scalar){step, "start", 0};
    }
    return count;
}

static size_t read_file(const char *path, scalar *scalars)
{
    size_t bytes, count = 0;
    unsigned char *file = test_file_read(path, &bytes);
    const unsigned char *p = file, *end = file + bytes;
    for (bool first = true; p < end; first = false) {
        const unsigned char *at = p;
        const uint64_t length = number(&p, 8);
        uint32_t crc = crc_of(at, 8);
        assert_int_equal((uint32_t)number(&p, 4), (crc >> 15 | crc << 17) + 0xa282ead8u);
        assert_true(length <= (uint64_t)(end - p));
        count = read_event(p, p + length, scalars, count, first);
        crc = crc_of(p, (size_t)length);
        p += length;
        assert_int_equal((uint32_t)number(&p, 4), (crc >> 15 | crc << 17) + 0xa282ead8u);
    }
    return count;
}

static float value_of(const scalar *scalars, size_t count, uint64_t step, const char *tag)
{
    for (size_t i = 0; i < count; i++)
        if (scalars[i].step == step && strcmp(scalars[i].tag, tag) == 0)
            return scalars[i].value;
    return NAN;
}

static void read_back(NO_ROW)
{
    static const struct {
        uint64_t step;
        const char *tag;
        float value;
    } want[] = {{391, "loss/train", 1.5f}, {391, "loss/test", 1.25f}, {391, "top1/test", 42.5f},
        {391, "lr", 0.1f}, {391, "memory/peak_bytes", 2e9f}, {300000000, "loss/train", 0.75f},
        {300000000, "speed/step_ms", 50}, {391, "gradient/norm", 0.5f}};
    const char *folder = test_folder(), *inner = test_text("%s/a/b", folder),
               *file = test_text("%s/c", folder);
    char name[TEST_PATH];
    tensorboard board;
    scalar scalars[MOST];
    TEST_GOOD(tensorboard_open(inner, 0, &board, &f));
    const csv_row rows[2] = {{1, 391, 0.1, 1.5, 1.25, 42.5, 1000, 100.5, 30, 1e9, 2e9, 0.5},
        {2, 300000000, 0.05, 0.75, (double)NAN, (double)NAN, 2000, 50, 60, 1e9, 2e9, (double)NAN}};
    TEST_GOOD(tensorboard_add(&board, &rows[0], &f));
    TEST_GOOD(tensorboard_add(&board, &rows[1], &f)); /* flushed before the file is closed */
    assert_int_equal(test_folder_count(inner, name), 1);
    test_says(name, "events.out.tfevents.");
    const size_t count = read_file(test_text("%s/%s", inner, name), scalars);
    tensorboard_close(&board);
    assert_int_equal(count, 9 + 6); /* what was not measured is left out */
    for (size_t i = 0; i < COUNT_OF(want); i++)
        assert_true(value_of(scalars, count, want[i].step, want[i].tag) == want[i].value);
    assert_true(isnan(value_of(scalars, count, 300000000, "loss/test")));
    /* a file in the folder's place */
    test_file_write(file, "", 0);
    TEST_REFUSED(tensorboard_open(file, 0, &board, &f), CODE_DATA, "");
    tensorboard_close(&board);
}

/* A run that resumes after 782 steps takes back what a lost one wrote of later ones. */
static void resumed(NO_ROW)
{
    const char *folder = test_folder();
    const csv_row row = {3, 1173, 0.1, 1.5, 1.25, 42.5, 1000, 100.5, 30, 1e9, 2e9, (double)NAN};
    char name[TEST_PATH];
    tensorboard board;
    scalar scalars[MOST];
    TEST_GOOD(tensorboard_open(folder, 782, &board, &f));
    TEST_GOOD(tensorboard_add(&board, &row, &f));
    tensorboard_close(&board);
    assert_int_equal(test_folder_count(folder, name), 1);
    const size_t count = read_file(test_text("%s/%s", folder, name), scalars);
    assert_int_equal(count, 1 + 8);
    assert_string_equal(scalars[0].tag, "start");
    assert_int_equal(scalars[0].step, 783);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, checksums, NULL, "checksums");
    test_add(&list, read_back, NULL, "read back");
    test_add(&list, resumed, NULL, "a resumed run");
    return test_run_on_host("tensorboard", &list);
}
