#include "trainer/report/csv_log.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/base/open_output.h"
#include "trainer/files/atomic_file.h"

#define HEADER(column, rest)                                                                       \
    "epoch,step,lr,train_loss,test_loss,top1," column ",step_ms,seconds,saved_activation_bytes,"   \
    "peak_bytes" rest "\n"
/* By csv_log.tokens and norms. */
static const char *const headers[2][2] = {
    {HEADER("images_per_second", ""), HEADER("images_per_second", ",grad_norm")},
    {HEADER("tokens_per_second", ""), HEADER("tokens_per_second", ",grad_norm")}};
enum { HEADER_SIZE = sizeof HEADER("images_per_second", ",grad_norm") };

/* Nine digits distinguish all floats. A test that was not made, and times of first steps alone,
 * give empty fields. */
static void print_row(FILE *stream, const csv_row *row, bool norms)
{
    char test[64] = ",", times[64] = ",", norm[32] = "";
    if (!isnan(row->top1))
        (void)snprintf(test, sizeof test, "%.9g,%.9g", row->test_loss, row->top1);
    if (!isnan(row->step_ms))
        (void)snprintf(times, sizeof times, "%.6g,%.6g", row->speed, row->step_ms);
    if (!isnan(row->grad_norm))
        (void)snprintf(norm, sizeof norm, "%.9g", row->grad_norm);
    (void)fprintf(stream, "%.0f,%.0f,%.9g,%.9g,%s,%s,%.6g,%.0f,%.0f%s%s\n", row->epoch, row->step,
        row->lr, row->train_loss, test, times, row->seconds, row->saved_activation_bytes,
        row->peak_bytes, norms ? "," : "", norms ? norm : "");
}

static void print_log(FILE *stream, const csv_log *log)
{
    (void)fputs(headers[log->tokens][log->norms], stream);
    for (size_t i = 0; i < log->count; ++i)
        print_row(stream, &log->rows[i], log->norms);
}

static bool reserve(csv_log *log, size_t count, fault *f)
{
    if (count <= log->room)
        return true;
    const size_t room = count < 32 ? 64 : 2 * count;
    csv_row *rows = realloc(log->rows, room * sizeof *rows);
    if (rows == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    log->rows = rows;
    log->room = room;
    return true;
}

bool csv_log_has_columns(uint64_t columns)
{
    return columns == CSV_COLUMNS || columns == CSV_COLUMNS_WITHOUT_NORMS;
}

csv_row csv_log_row(const double *rows, size_t columns, size_t index)
{
    csv_row row = {.grad_norm = (double)NAN};
    memcpy(&row, rows + index * columns, columns * sizeof *rows);
    return row;
}

bool csv_log_open(csv_log *log, const double *rows, size_t columns, size_t count, fault *f)
{
    *log = (csv_log){.norms = columns == CSV_COLUMNS};
    if (!reserve(log, count, f))
        return false;
    for (; log->count < count; ++log->count)
        log->rows[log->count] = csv_log_row(rows, columns, log->count);
    return true;
}

bool csv_log_is_empty(const char *path)
{
    char text[HEADER_SIZE];
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return false;
    const size_t size = fread(text, 1, sizeof text, file);
    const bool read = ferror(file) == 0;
    (void)fclose(file);
    bool begins = false;
    for (int i = 0; i < 4; ++i)
        begins = begins || strncmp(text, headers[i / 2][i % 2], size) == 0;
    return read && size < sizeof text && begins;
}

bool csv_log_begins(const csv_log *log, const char *path, bool *begins, fault *f)
{
    char *text = NULL;
    size_t size = 0, i = 0;
    FILE *file = fopen(path, "rb");
    *begins = file == NULL && errno == ENOENT;
    if (file == NULL)
        return *begins || fault_set(f, CODE_DATA, "cannot read %s: %s", path, strerror(errno));
    FILE *rows = open_memstream(&text, &size);
    bool printed = rows != NULL;
    if (printed) {
        print_log(rows, log);
        printed = ferror(rows) == 0;
        printed = fclose(rows) == 0 && printed;
    }
    int next = printed ? fgetc(file) : EOF;
    for (; next != EOF && i < size && next == (unsigned char)text[i]; ++i)
        next = fgetc(file);
    *begins = next == EOF || (log->count > 0 && i == size && size > 0);
    const bool good = printed ? ferror(file) == 0 || fault_set(f, CODE_DATA, "cannot read %s: %s",
                                                         path, strerror(errno))
                              : fault_set(f, CODE_MEMORY, "out of memory");
    (void)fclose(file);
    free(text);
    return good;
}

bool csv_log_write(csv_log *log, const char *path, fault *f)
{
    atomic_file file;
    if (!atomic_file_open(path, &file, f))
        return false;
    print_log(file.stream, log);
    if (!atomic_file_commit(&file, f))
        return false;
    log->path = strdup(path);
    if (log->path == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    log->stream = open_output(path, O_CREAT | O_APPEND);
    if (log->stream == NULL)
        return fault_set(f, CODE_DATA, "cannot write %s: %s", path, strerror(errno));
    return true;
}

csv_best csv_log_best(const csv_log *log, bool by_loss)
{
    csv_best best = {0};
    for (size_t i = 0; i < log->count; ++i) {
        const csv_row *row = &log->rows[i];
        if (isnan(row->top1))
            continue;
        if (best.row == NULL ||
            (by_loss ? row->test_loss < best.row->test_loss : row->top1 > best.row->top1))
            best = (csv_best){row, 0};
        else
            ++best.since;
    }
    return best;
}

bool csv_log_add(csv_log *log, const csv_row *row, fault *f)
{
    if (!reserve(log, log->count + 1, f))
        return false;
    log->rows[log->count++] = *row;
    if (log->stream == NULL)
        return true;
    print_row(log->stream, row, log->norms);
    if (fflush(log->stream) != 0 || ferror(log->stream))
        return fault_set(f, CODE_DATA, "cannot write %s: %s", log->path, strerror(errno));
    return true;
}

void csv_log_close(csv_log *log)
{
    if (log->stream != NULL)
        (void)fclose(log->stream); /* every row was flushed */
    free(log->rows);
    free(log->path);
    *log = (csv_log){0};
}
