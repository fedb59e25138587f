#include "trainer/report/tensorboard.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "trainer/base/open_output.h"
#include "trainer/files/atomic_file.h"

enum { MOST_EVENT = 1024 };

/* A protocol buffer that grows; bytes that do not fit are a bug and are cut off. */
typedef struct buffer {
    unsigned char bytes[MOST_EVENT];
    size_t count;
} buffer;

uint32_t tensorboard_crc(const unsigned char *bytes, size_t count)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < count; ++i) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; ++bit)
            crc = (crc >> 1) ^ (UINT32_C(0x82f63b78) & (0u - (crc & 1)));
    }
    return ~crc;
}

static void put(buffer *b, const void *bytes, size_t count)
{
    if (count > sizeof b->bytes - b->count)
        return;
    memcpy(b->bytes + b->count, bytes, count);
    b->count += count;
}

static void put_little_endian(buffer *b, uint64_t value, unsigned count)
{
    for (unsigned i = 0; i < count; ++i)
        put(b, &(unsigned char){(unsigned char)(value >> (8 * i))}, 1);
}

static void put_varint(buffer *b, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        put(b, &(unsigned char){(unsigned char)(value | 0x80)}, 1);
    put(b, &(unsigned char){(unsigned char)value}, 1);
}

/* The types of a field on the wire. */
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void put_key(buffer *b, unsigned field, unsigned wire)
{
    put_varint(b, field << 3 | wire);
}

static void put_bytes(buffer *b, unsigned field, const void *bytes, size_t count)
{
    put_key(b, field, BYTES);
    put_varint(b, count);
    put(b, bytes, count);
}

/* Event: double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5;
 * SessionLog session_log = 7. SessionLog: SessionStatus status = 1; START is 1. */
static buffer event(uint64_t step)
{
    struct timespec now = {0};
    buffer b = {.count = 0};
    uint64_t bits;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    const double wall = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    memcpy(&bits, &wall, sizeof bits);
    put_key(&b, 1, FIXED64);
    put_little_endian(&b, bits, 8);
    put_key(&b, 2, VARINT);
    put_varint(&b, step);
    return b;
}

/* Summary: repeated Value value = 1. Value: string tag = 1; float simple_value = 2. */
static void put_scalar(buffer *summary, const char *tag, double value)
{
    const float single = (float)value;
    uint32_t bits;
    buffer b = {.count = 0};
    if (isnan(value)) /* not measured */
        return;
    memcpy(&bits, &single, sizeof bits);
    put_bytes(&b, 1, tag, strlen(tag));
    put_key(&b, 2, FIXED32);
    put_little_endian(&b, bits, 4);
    put_bytes(summary, 1, b.bytes, b.count);
}

static uint32_t masked(const unsigned char *bytes, size_t count)
{
    const uint32_t crc = tensorboard_crc(bytes, count);
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

static bool write_record(tensorboard *board, const buffer *data, fault *f)
{
    buffer record = {.count = 0};
    put_little_endian(&record, data->count, 8);
    put_little_endian(&record, masked(record.bytes, 8), 4);
    (void)fwrite(record.bytes, 1, record.count, board->stream);
    (void)fwrite(data->bytes, 1, data->count, board->stream);
    record.count = 0;
    put_little_endian(&record, masked(data->bytes, data->count), 4);
    (void)fwrite(record.bytes, 1, record.count, board->stream);
    if (fflush(board->stream) == 0 && !ferror(board->stream))
        return true;
    return fault_set(f, CODE_DATA, "cannot write %s: %s", board->path, strerror(errno));
}

bool tensorboard_open(const char *folder, uint64_t steps, tensorboard *board, fault *f)
{
    static const char version[] = "brain.Event:2";
    char host[256] = "localhost";
    *board = (tensorboard){0};
    if (!make_folder(folder, f))
        return false;
    (void)gethostname(host, sizeof host - 1);
    const size_t size = strlen(folder) + sizeof host + 96;
    board->path = malloc(size);
    if (board->path == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    (void)snprintf(board->path, size, "%s/events.out.tfevents.%lld.%s.%ld", folder,
        (long long)time(NULL), host, (long)getpid());
    board->stream = open_output(board->path, O_CREAT | O_EXCL);
    bool good = board->stream != NULL ||
                fault_set(f, CODE_DATA, "cannot write %s: %s", board->path, strerror(errno));
    buffer first = event(0);
    put_bytes(&first, 3, version, sizeof version - 1);
    good = good && write_record(board, &first, f);
    if (steps > 0) {
        buffer start = event(steps + 1);
        put_bytes(&start, 7, (const unsigned char[]){1 << 3 | VARINT, 1}, 2);
        good = good && write_record(board, &start, f);
    }
    if (!good)
        tensorboard_close(board);
    return good;
}

bool tensorboard_add(tensorboard *board, const csv_row *row, fault *f)
{
    if (board->stream == NULL)
        return true;
    buffer summary = {.count = 0}, e = event((uint64_t)row->step);
    put_scalar(&summary, "loss/train", row->train_loss);
    if (!isnan(row->top1)) {
        put_scalar(&summary, "loss/test", row->test_loss);
        put_scalar(&summary, "top1/test", row->top1);
    }
    put_scalar(&summary, "lr", row->lr);
    put_scalar(&summary, "gradient/norm", row->grad_norm);
    put_scalar(&summary, board->tokens ? "speed/tokens_per_second" : "speed/images_per_second",
        row->speed);
    put_scalar(&summary, "speed/step_ms", row->step_ms);
    put_scalar(&summary, "memory/saved_activation_bytes", row->saved_activation_bytes);
    put_scalar(&summary, "memory/peak_bytes", row->peak_bytes);
    put_bytes(&e, 5, summary.bytes, summary.count);
    return write_record(board, &e, f);
}

void tensorboard_close(tensorboard *board)
{
    if (board->stream != NULL)
        (void)fclose(board->stream);
    free(board->path);
    *board = (tensorboard){0};
}
