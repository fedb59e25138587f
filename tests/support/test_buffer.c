#include "support/test_buffer.h"

#include "support/test_folder.h"

/* Quiet NaNs; arithmetic does not make these payloads. */
#define CANARY    0x7fcaca7eu
#define UNWRITTEN 0x7fc0ffeeu

static cl_mem create(size_t bytes)
{
    cl_int code;
    cl_mem buffer =
        clCreateBuffer(clprune_context_cl(test_context()), CL_MEM_READ_WRITE, bytes, NULL, &code);
    TEST_CL(code);
    return test_own(buffer);
}

static void transfer(cl_mem buffer, size_t bytes, const void *from, void *to)
{
    cl_command_queue queue = clprune_context_queue(test_context());
    const cl_int code =
        from != NULL ? clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, bytes, from, 0, NULL, NULL)
                     : clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, bytes, to, 0, NULL, NULL);
    TEST_CL(code);
}

test_mat test_mat_make(size_t rows, size_t cols, size_t gap, const float *values)
{
    test_mat m = {.mat = {NULL, TEST_CANARIES, rows, cols, cols + gap}};
    m.elements = 2 * TEST_CANARIES + rows * m.mat.ld;
    m.written = test_alloc(m.elements * sizeof *m.written);
    for (size_t i = 0; i < m.elements; i++)
        m.written[i] = CANARY;
    m.mat.buffer = create(m.elements * sizeof *m.written);
    test_mat_set(&m, values);
    return m;
}

void test_mat_set(test_mat *m, const float *values)
{
    const clprune_mat mat = m->mat;
    for (size_t r = 0; r < mat.rows; r++) {
        uint32_t *row = m->written + mat.offset + r * mat.ld;
        for (size_t c = 0; values == NULL && c < mat.cols; c++)
            row[c] = UNWRITTEN;
        if (values != NULL)
            memcpy(row, values + r * mat.cols, mat.cols * sizeof *values);
    }
    transfer(mat.buffer, m->elements * sizeof *m->written, m->written, NULL);
}

static uint32_t *read_whole(const test_mat *m)
{
    uint32_t *now = test_alloc(m->elements * sizeof *now);
    transfer(m->mat.buffer, m->elements * sizeof *now, NULL, now);
    return now;
}

/* Elements [first, first + count) of the whole buffer are what was written. */
static void check_part(
    const test_mat *m, const uint32_t *now, size_t first, size_t count, const char *what)
{
    if (count == 0 || memcmp(now + first, m->written + first, count * sizeof *now) == 0)
        return;
    while (now[first] == m->written[first])
        first++;
    fail_msg("%s: element %td of %zu x %zu (ld %zu) was touched: 0x%08x is now 0x%08x; %s", what,
        (ptrdiff_t)first - (ptrdiff_t)m->mat.offset, m->mat.rows, m->mat.cols, m->mat.ld,
        (unsigned)m->written[first], (unsigned)now[first], test_device_label());
}

/* What lies before, between and behind the rows; with `inside_too` also the rows. */
static void check_mat(const test_mat *m, const uint32_t *now, bool inside_too, const char *what)
{
    const clprune_mat mat = m->mat;
    size_t first = 0;
    for (size_t r = 0; !inside_too && r < mat.rows; r++) {
        check_part(m, now, first, mat.offset + r * mat.ld - first, what);
        first = mat.offset + r * mat.ld + mat.cols;
    }
    check_part(m, now, first, m->elements - first, what);
}

float *test_mat_get(const test_mat *m, const char *what)
{
    const clprune_mat mat = m->mat;
    uint32_t *now = read_whole(m);
    check_mat(m, now, false, what);
    float *values = test_alloc(mat.rows * mat.cols * sizeof *values);
    for (size_t r = 0; r < mat.rows; r++)
        memcpy(values + r * mat.cols, now + mat.offset + r * mat.ld, mat.cols * sizeof *values);
    return values;
}

void test_mat_unchanged(const test_mat *m, const char *what)
{
    uint32_t *now = read_whole(m);
    check_mat(m, now, true, what);
}

void test_mats_unchanged(const char *names, size_t count, const test_mat *const *mats)
{
    for (size_t i = 0; i < count; i++)
        test_mat_unchanged(mats[i], test_text("number %zu of %s", i, names));
}

static size_t canary_bytes(void)
{
    cl_uint bits = 0;
    TEST_CL(clGetDeviceInfo(clprune_context_device(test_context()), CL_DEVICE_MEM_BASE_ADDR_ALIGN,
        sizeof bits, &bits, NULL));
    const size_t align = bits / 8, wanted = TEST_CANARIES * sizeof(float);
    return align > wanted ? align : wanted; /* both are powers of two */
}

test_buf test_buf_make(size_t bytes, const void *values)
{
    const size_t front = canary_bytes(), size = bytes > 0 ? bytes : 1, total = size + 2 * front;
    test_buf b = {.bytes = bytes, .front = front, .whole = create(total)};
    const cl_buffer_region region = {front, size};
    cl_int code;
    b.buffer =
        clCreateSubBuffer(b.whole, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    TEST_CL(code);
    (void)test_own(b.buffer);
    b.written = test_alloc(total);
    memset(b.written, 0xC5, total);
    memset(b.written + front, 0xA5, bytes);
    if (values != NULL)
        memcpy(b.written + front, values, bytes);
    transfer(b.whole, total, b.written, NULL);
    return b;
}

clprune_mat test_buf_alias(const test_buf *b, size_t rows, size_t cols)
{
    clprune_mat mat = clprune_mat_of(b->whole, rows, cols);
    mat.offset = b->front / sizeof(float);
    return mat;
}

static unsigned char *read_checked(const test_buf *b, bool inside_too, const char *what)
{
    const size_t total = (b->bytes > 0 ? b->bytes : 1) + 2 * b->front;
    unsigned char *now = test_alloc(total);
    transfer(b->whole, total, NULL, now);
    if (inside_too && memcmp(now, b->written, total) == 0)
        return now;
    for (size_t i = 0; i < total; i++) {
        const bool inside = i >= b->front && i < b->front + b->bytes;
        if (now[i] != b->written[i] && (inside_too || !inside))
            fail_msg("%s: byte %td of %zu was touched: 0x%02x is now 0x%02x; %s", what,
                (ptrdiff_t)i - (ptrdiff_t)b->front, b->bytes, b->written[i], now[i],
                test_device_label());
    }
    return now;
}

clprune_ints test_buf_ints(const test_buf *b)
{
    return (clprune_ints){b->whole, b->front / sizeof(int32_t)};
}

void *test_buf_get(const test_buf *b, const char *what)
{
    unsigned char *now = read_checked(b, false, what);
    void *values = test_alloc(b->bytes);
    memcpy(values, now + b->front, b->bytes);
    return values;
}

void test_buf_unchanged(const test_buf *b, const char *what)
{
    (void)read_checked(b, true, what);
}

test_bsr test_bsr_holding(clprune_bsr_desc desc, const float *values, const void *crow,
    const void *col, const void *bitmap)
{
    clprune_bsr_sizes sizes;
    assert_int_equal(clprune_bsr_size_query(&desc, &sizes), CLPRUNE_SUCCESS);
    test_bsr b = {.values = test_buf_make(sizes.values_bytes, values),
        .scales = test_buf_make(sizes.scales_bytes, NULL),
        .crow = test_buf_make(sizes.crow_bytes, crow),
        .col = test_buf_make(sizes.col_bytes, col),
        .bitmap = test_buf_make(sizes.bitmap_bytes, bitmap)};
    b.bsr = (clprune_bsr){
        desc, b.values.buffer, b.crow.buffer, b.col.buffer, b.scales.buffer, b.bitmap.buffer};
    return b;
}

test_bsr test_bsr_make(clprune_bsr_desc desc)
{
    return test_bsr_holding(desc, NULL, NULL, NULL, NULL);
}
