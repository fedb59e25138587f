/* The tuning table: built-in rows, the file that overrides them, every refusal, and products that
 * stay right under odd but legal parameters. */
#include "support/test_index.h"
#include "support/test_product.h"

enum { MOST_PARAMETERS = 128 };

static const char *folder, *file;

/* All blocks and transposes with each tuning, and dense products of few columns; labelled slow. */
static bool full;

static const char *device_name(void)
{
    static char name[256];
    TEST_CL(clGetDeviceInfo(
        clprune_context_device(test_context()), CL_DEVICE_NAME, sizeof name - 1, name, NULL));
    return name;
}

/* Writes the file; @ stands for the device's name. "@..." is a whole file with the row "...". */
static void write_file(const char *text)
{
    static char whole[16384];
    size_t length = 0;
    const bool row = text[0] == '@';
    if (row)
        length = (size_t)snprintf(
            whole, sizeof whole, "clprune_tuning = 1\ndevice = %s\n", device_name());
    for (const char *p = text + row; *p != '\0'; p++)
        length += *p == '@'
                      ? (size_t)snprintf(whole + length, sizeof whole - length, "%s", device_name())
                      : (size_t)snprintf(whole + length, sizeof whole - length, "%c", *p);
    if (row)
        length += (size_t)snprintf(whole + length, sizeof whole - length, "end\n");
    assert_true(length < sizeof whole);
    test_file_write(file, whole, length);
}

/* A context on the queue of the one under test, with a file. */
static clprune_context *open_with(const char *path)
{
    const clprune_context_options options = {.kernels = clprune_context_kernels(test_context())};
    test_environment("CLPRUNE_TUNING", path);
    return test_open_on(clprune_context_queue(test_context()), &options);
}

static clprune_context *open_tuned(const char *text)
{
    write_file(text);
    return open_with(file);
}

static size_t parameters_of(const clprune_context *context, clprune_tuning_parameter *parameters)
{
    size_t count = 0;
    TEST_OK(clprune_context_tuning(context, MOST_PARAMETERS, parameters, &count));
    assert_true(count > 20 && count <= MOST_PARAMETERS);
    return count;
}

static void built_in(NO_ROW)
{
    clprune_tuning_parameter p[MOST_PARAMETERS];
    const size_t count = parameters_of(test_context(), p);
    for (size_t i = 0; i < count; i++) {
        if (!p[i].is_set)
            continue;
        if (p[i].value < p[i].least || p[i].value > p[i].most || p[i].value % p[i].multiple != 0)
            fail_msg("%s.%s is %u", p[i].section, p[i].key, p[i].value);
    }
    size_t again = 0;
    clprune_tuning_parameter two[2] = {{.key = NULL}, {.key = NULL}};
    TEST_OK(clprune_context_tuning(test_context(), 1, two, &again));
    assert_int_equal(again, count);
    assert_non_null(two[0].key);
    assert_null(two[1].key);
    TEST_OK(clprune_context_tuning(test_context(), 0, NULL, &again));
    assert_int_equal(
        clprune_context_tuning(test_context(), 1, NULL, &again), CLPRUNE_INVALID_ARGUMENT);
    assert_int_equal(
        clprune_context_tuning(test_context(), 0, NULL, NULL), CLPRUNE_INVALID_ARGUMENT);
    TEST_FAILS_IN(NULL, clprune_context_tuning(NULL, 0, NULL, &again), CLPRUNE_INVALID_ARGUMENT,
        "context, parameters or count is NULL");
    assert_null(clprune_context_tuning_source(NULL));
    assert_null(strchr(clprune_context_tuning_source(test_context()), '/'));
}

/* Rows go by the facts of a device, which a dry context takes from its caller. */
static void built_in_by_device(NO_ROW)
{
    static const struct {
        const char *vendor, *row;
        cl_device_type type;
        uint32_t width;
    } cases[] = {
        {"GenuineIntel", "cpu-avx512", CL_DEVICE_TYPE_CPU, 16},
        {"AuthenticAMD", "cpu-avx512-amd", CL_DEVICE_TYPE_CPU, 16},
        {"AuthenticAMD", "cpu-avx2", CL_DEVICE_TYPE_CPU, 8},
        {"GenuineIntel", "cpu-avx2", CL_DEVICE_TYPE_CPU, 8},
        {"Advanced Micro Devices, Inc.", "gpu-amd", CL_DEVICE_TYPE_GPU, 1},
        {"AMD", "gpu-amd", CL_DEVICE_TYPE_GPU, 16},
        {"Intel(R) Corporation", "gpu-intel", CL_DEVICE_TYPE_GPU, 1},
        {"Intel", "gpu-intel", CL_DEVICE_TYPE_GPU, 4},
        {"NVIDIA Corporation", "gpu", CL_DEVICE_TYPE_GPU, 1},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        clprune_device_info device = {.type = cases[i].type,
            .vector_width = cases[i].width,
            .compute_units = 2,
            .max_work_group = 256,
            .local_memory = 1 << 19};
        strcpy(device.vendor, cases[i].vendor);
        clprune_context *context = test_open_dry(&device, NULL);
        assert_string_equal(clprune_context_tuning_source(context), cases[i].row);
    }
}

/* A file with the built-in value of every parameter is accepted: the rows keep their own rules. */
static void built_in_is_legal(NO_ROW)
{
    clprune_tuning_parameter p[MOST_PARAMETERS], q[MOST_PARAMETERS];
    static char text[8192];
    const size_t count = parameters_of(test_context(), p);
    size_t length = (size_t)snprintf(text, sizeof text, "@");
    for (size_t i = 0; i < count; i++)
        if (p[i].is_set)
            length += (size_t)snprintf(text + length, sizeof text - length, "%s.%s = %u\n",
                p[i].section, p[i].key, p[i].value);
    clprune_context *context = open_tuned(text);
    assert_int_equal(parameters_of(context, q), count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(p[i].value, q[i].value);
    assert_string_equal(clprune_context_tuning_source(context), file);
    const char *path = folder; /* to the same file */
    while (strlen(path) < 2000)
        path = test_text("%s/.", path);
    path = test_text("%s%s", path, file + strlen(folder));
    assert_string_equal(clprune_context_tuning_source(open_with(path)), path);
}

static void override(NO_ROW)
{
    static const char *const texts[] = {
        "@gemm.panel_depth = 77\n",
        "@driver = x\n# gemm.panel_depth = 78\n\n \tgemm.panel_depth=77\t \r\n",
        "# for two devices\nclprune_tuning = 1\ndevice = other\nwhat = 7\ngemm.panel_depth = 5\n"
        "device = other\ndevice = @\ngemm.panel_depth = 77\ndevice = third\nend",
    };
    clprune_tuning_parameter before[MOST_PARAMETERS], after[MOST_PARAMETERS];
    const size_t count = parameters_of(test_context(), before);
    for (size_t t = 0; t < COUNT_OF(texts); t++) {
        clprune_context *context = open_tuned(texts[t]);
        assert_int_equal(parameters_of(context, after), count);
        for (size_t i = 0; i < count; i++)
            if (strcmp(after[i].section, "gemm") == 0 && strcmp(after[i].key, "panel_depth") == 0)
                assert_int_equal(after[i].value, 77);
            else
                assert_int_equal(after[i].value, before[i].value);
    }
}

/* Rows for other devices only, no rows, an empty variable: the built-in row. */
static void not_for_this_device(NO_ROW)
{
    static const char *const texts[] = {"clprune_tuning = 1\nend\n",
        "clprune_tuning = 1\ndevice = other\ngemm.panel_depth = 77\nend\n"};
    for (size_t t = 0; t < COUNT_OF(texts); t++)
        assert_string_equal(clprune_context_tuning_source(open_tuned(texts[t])),
            clprune_context_tuning_source(test_context()));
    (void)open_with("");
}

static void refused(const char *path, const char *part)
{
    test_environment("CLPRUNE_TUNING", path);
    test_open_fails(clprune_context_queue(test_context()), NULL, CLPRUNE_INVALID_ARGUMENT, part);
    test_says(clprune_last_error(NULL), path);
}

typedef struct refusal {
    const char *text, *part;
} refusal;

/* clang-format off */
#define XGEMM(a, b) \
    "@clblast.inner_run = 50\n" \
    "clblast.GemmRoutine.XGEMM_MIN_INDIRECT_SIZE = 1\n" \
    "clblast.Xgemm.GEMMK = 0\n" \
    "clblast.Xgemm.KREG = 1\n" \
    "clblast.Xgemm.KWG = 32\n" \
    "clblast.Xgemm.KWI = 2\n" \
    "clblast.Xgemm.MDIMA = 8\n" \
    "clblast.Xgemm.MDIMC = 8\n" \
    "clblast.Xgemm.MWG = " a "\n" \
    "clblast.Xgemm.NDIMB = 8\n" \
    "clblast.Xgemm.NDIMC = 8\n" \
    "clblast.Xgemm.NWG = 64\n" \
    "clblast.Xgemm.SA = 0\n" \
    "clblast.Xgemm.SB = 0\n" \
    "clblast.Xgemm.STRM = 0\n" \
    "clblast.Xgemm.STRN = 0\n" \
    "clblast.Xgemm.VWM = " b "\n" \
    "clblast.Xgemm.VWN = 2\n"
/* clang-format on */

#define HEAD "clprune_tuning = 1\n"

static const refusal refusals[] = {
    {"", ":0: clprune_tuning: missing"},
    {"# nothing\n", ":1: clprune_tuning: missing"},
    {"{\"clprune_tuning\": 1, \"rows\": []}\n",
        ":1: {\"clprune_tuning\": 1, \"rows\": []}: expected"},
    {"device = @\n" HEAD "end\n", ":1: device: expected \"clprune_tuning = 1\" first"},
    {"end\n", ":1: end: expected"},
    {"clprune_tuning = 2\nend\n", ":1: clprune_tuning: this version"},
    {"clprune_tuning = \"1\"\nend\n", "clprune_tuning: this version"},
    {"clprune_tuning\nend\n", "clprune_tuning: expected \"key = value\""},
    {"clprune_tuning =\nend\n", "clprune_tuning: expected \"key = value\""},
    {HEAD HEAD "end\n", ":2: clprune_tuning: given twice"},
    {HEAD, ":1: end: missing"},
    {HEAD "end\nend\n", ":3: end: there is more"},
    {HEAD "end\n\ndevice = @\n", ":4: device = "},
    {HEAD "= 7\nend\n", ":2: expected"},
    {HEAD "more = 1\nend\n", ":2: more: expected \"device = name\" before it"},
    {HEAD "gemm.panel_depth = 7\nend\n", "gemm.panel_depth: expected \"device = name\""},
    {HEAD "device = @\nsomething\nend\n", ":3: something: expected"},
    {"@device = @\n", ":3: device: a second row"},
    {"@device = other\ndevice = @\n", ":4: device: a second row"},
    {"@driver = 1\ndriver = 1\n", ":4: driver: given twice"},
    {"@what = 1\n", ":3: what: there is no such parameter"},
    {"@gem.panel_depth = 7\n", "gem.panel_depth: there is no such parameter"},
    {"@gemm = 7\n", "gemm: there is no such parameter"},
    {"@gemm.depth = 7\n", "gemm.depth: there is no such parameter"},
    {"@gemm.ahead = 7\n", "gemm.ahead: there is no such parameter"},
    {"@panel_depth = 7\n", "panel_depth: there is no such parameter"},
    {"@gemm.panel_depth = \"7\"\n", "gemm.panel_depth: \"\"7\"\" is not a whole number"},
    {"@gemm.panel_depth = 7.5\n", "gemm.panel_depth: \"7.5\" is not a whole number"},
    {"@gemm.panel_depth = -7\n", "gemm.panel_depth: \"-7\" is not a whole number"},
    {"@gemm.panel_depth = +7\n", "gemm.panel_depth: \"+7\" is not a whole number"},
    {"@gemm.panel_depth = 0x7\n", "gemm.panel_depth: \"0x7\" is not a whole number"},
    {"@gemm.panel_depth = 7 # deep\n", "gemm.panel_depth: \"7 # deep\" is not a whole number"},
    {"@gemm.panel_depth = 7 7\n", "gemm.panel_depth: \"7 7\" is not a whole number"},
    {"@gemm.panel_depth = = 7\n", "gemm.panel_depth: \"= 7\" is not a whole number"},
    {"@gemm.panel_depth =\n", "gemm.panel_depth: expected"},
    {"@gemm.panel_depth = 0\n", ":3: gemm.panel_depth: \"0\" is not a whole number from 1 to 4096"},
    {"@gemm.panel_depth = 4097\n", "gemm.panel_depth: \"4097\""},
    {"@gemm.panel_depth = 4294967297\n", "gemm.panel_depth: \"4294967297\""},
    {"@gemm.panel_depth = 18446744073709551617\n", "gemm.panel_depth: \"18446744073709551617\""},
    {"@gemm.panel_depth = 7\ngemm.panel_depth = 7\n", ":4: gemm.panel_depth: given twice"},
    {"@tiled_tn.panel = 40\n",
        "tiled_tn.panel: \"40\" is not a whole number from 16 to 256 and a multiple of 16"},
    {"@gemm_tiled.rows = 6\n",
        "gemm_tiled.rows: \"6\" is not a whole number from 4 to 8 and a multiple of 4"},
    {"@gemm.accumulators = 2\ngemm.tile_vectors = 3\n",
        ":2: gemm: tile_vectors exceeds accumulators"},
    {"@bspmm_tn.accumulators = 2\nbspmm_tn.tile_columns = 3\n",
        "tile_columns or long_list_columns exceeds accumulators"},
    {"@bspmm_nt.accumulators = 2\nbspmm_nt.tile_rows = 3\n", "tile_rows exceeds accumulators"},
    {"@bspmm_nt.accumulators = 2\nbspmm_nt.tile_rows = 3\ndevice = other\n",
        ":2: bspmm_nt: tile_rows exceeds accumulators"},
    {"@clblast.Xgemv.WGS1 = 64\n", "clblast.Xgemv.WGS1: there is no such parameter"},
    {XGEMM("64", "3"), "powers of two"},
    {XGEMM("48", "8"), "must divide MWG"},
    {XGEMM("0", "8"), "clblast.Xgemm.MWG: \"0\" is not"},
};

static void refusal_of_file(void **state)
{
    const refusal *r = *state;
    write_file(r->text);
    refused(file, r->part);
}

static void refusal_of_path(NO_ROW)
{
    refused("/does/not/exist", "cannot read");
    refused(folder, "is not a regular file");
    static char spaces[(1 << 20) + 1];
    memset(spaces, ' ', sizeof spaces);
    test_file_write(file, spaces, sizeof spaces);
    refused(file, "larger than");
    test_file_write(file, spaces, 1000);
    refused(file, ":1: the line is too long");
    test_file_write(file, "clprune_tuning = 1\n\0\nend\n", 25);
    refused(file, ":2: the line has a zero byte");
}

static void truncated(NO_ROW)
{
    write_file("@driver = 1\ngemm.panel_depth = 77\n");
    size_t size;
    char *text = test_file_read(file, &size);
    for (size_t n = 0; n + 1 < size; n++) { /* the last newline may be missing */
        test_file_write(file, text, n);
        refused(file, "");
    }
}

/* Of a kernel of CLBlast that the built-in row does not set, every parameter is needed. */
static void incomplete_blast(NO_ROW)
{
    clprune_tuning_parameter p[MOST_PARAMETERS];
    const size_t count = parameters_of(test_context(), p);
    bool set = true;
    for (size_t i = 0; i < count; i++)
        set = set && p[i].is_set != 0;
    write_file("@clblast.Pad.PAD_DIMX = 16\n");
    if (!set) {
        refused(file, ":2: clblast.Pad.PAD_DIMY: missing");
        return;
    }
    (void)open_with(file);
}

/* Legal tunings that nobody would choose, and the AVX2 row. */
static const char *const odd[] = {
    "@gemm.accumulators = 1\ngemm.packed_accumulators = 1\ngemm.tile_vectors = 1\n"
    "gemm.panel_depth = 1\ngemm.block_rows = 1\ngemm.packed_depth = 1\n"
    "gemm.packed_rows = 1\ngemm.groups_per_unit = 1\nbspmm_tn.accumulators = 1\n"
    "bspmm_tn.tile_columns = 1\nbspmm_tn.long_list_columns = 1\n"
    "bspmm_tn.panel_bytes = 64\nbspmm_tn.results_bytes = 64\nbspmm_tn.ahead = 0\n"
    "bspmm_tn.segment_rows = 1\nbspmm_tn.groups = 1\n"
    "bspmm_nt.accumulators = 1\nbspmm_nt.tile_rows = 1\nbspmm_nt.chunk_columns = 1\n"
    "bspmm_nt.segment_rows = 1\nbspmm_nt.ahead = 0\nbspmm_nt.groups = 1\n"
    "tiled_tn.panel = 16\ntiled_tn.tile_columns = 1\ntiled_tn.segment_rows = 1\n"
    "tiled_tn.groups_per_unit = 1\ntiled_nt.panel = 16\n"
    "tiled_nt.tile_columns = 1\ntiled_nt.segment_rows = 1\n"
    "tiled_nt.groups_per_unit = 1\n",
    "@gemm.accumulators = 10\ngemm.packed_accumulators = 12\ngemm.tile_vectors = 2\n"
    "gemm.panel_depth = 7\ngemm.block_rows = 48\ngemm.packed_depth = 7\n"
    "gemm.packed_rows = 13\ngemm.groups_per_unit = 256\nbspmm_tn.accumulators = 10\n"
    "bspmm_tn.tile_columns = 3\nbspmm_tn.long_list = 1\nbspmm_tn.panel_bytes = 9999\n"
    "bspmm_tn.ahead = 1\nbspmm_tn.segment_rows = 37\nbspmm_tn.groups = 256\n"
    "bspmm_nt.accumulators = 10\nbspmm_nt.tile_rows = 3\nbspmm_nt.chunk_columns = 5\n"
    "bspmm_nt.segment_rows = 11\nbspmm_nt.ahead = 1\nbspmm_nt.groups = 256\n"
    "tiled_tn.panel = 48\ntiled_tn.tile_columns = 5\ntiled_tn.segment_rows = 37\n"
    "tiled_tn.groups_per_unit = 256\ntiled_nt.panel = 48\n"
    "tiled_nt.tile_columns = 5\ntiled_nt.segment_rows = 11\n"
    "tiled_nt.groups_per_unit = 256\n",
    "@gemm.accumulators = 29\ngemm.packed_accumulators = 32\ngemm.tile_vectors = 8\n"
    "gemm.panel_depth = 4096\ngemm.block_rows = 4096\ngemm.packed_depth = 4096\n"
    "gemm.packed_rows = 1024\nbspmm_tn.accumulators = 32\n"
    "bspmm_tn.tile_columns = 32\nbspmm_tn.long_list_columns = 16\n"
    "bspmm_tn.long_list = 2\nbspmm_tn.panel_bytes = 16777216\n"
    "bspmm_tn.results_bytes = 268435456\nbspmm_tn.ahead = 1024\n"
    "bspmm_tn.segment_rows = 4096\nbspmm_nt.accumulators = 32\n"
    "bspmm_nt.tile_rows = 8\nbspmm_nt.chunk_columns = 1024\nbspmm_nt.ahead = 1024\n"
    "bspmm_nt.segment_rows = 4096\ntiled_tn.panel = 128\ntiled_tn.tile_columns = 7\n"
    "tiled_tn.segment_rows = 256\ntiled_nt.panel = 128\n",
    "@gemm.accumulators = 6\ngemm.packed_accumulators = 8\ngemm.tile_vectors = 1\n"
    "gemm.panel_depth = 256\ngemm.block_rows = 96\nbspmm_tn.accumulators = 6\n"
    "bspmm_tn.tile_columns = 6\nbspmm_tn.long_list_columns = 6\n"
    "bspmm_tn.panel_bytes = 20480\nbspmm_tn.results_bytes = 131072\n"
    "bspmm_nt.accumulators = 6\nbspmm_nt.tile_rows = 6\n",
};

static void gemm_under(clprune_context *context, const char *text, bool ta, bool tb)
{
    /* All as wide as the widest tiles: narrower ones, for few columns, are other programs. */
    static const gemm_shape shapes[] = {{1, 130, 1}, {19, 115, 200}, {65, 130, 67}, {247, 128, 9}};
    static const gemm_shape narrow[] = {{1, 1, 1}, {19, 20, 200}, {247, 31, 9}};
    static const size_t gaps[3] = {3, 1, 2};
    const char *label = test_text("\n%s", text);
    for (size_t s = 0; s < COUNT_OF(shapes); s++)
        test_product(context, shapes[s], ta, tb, 0.5f, -1, gaps, label);
    for (size_t s = 0; full && s < COUNT_OF(narrow); s++)
        test_product(context, narrow[s], ta, tb, 0.5f, -1, gaps, label);
}

static void bspmm_under(
    clprune_context *context, const char *text, product kind, clprune_bsr_desc d)
{
    const bspmm_ref_sizes sizes = {d.batch, d.rows, d.cols, 83};
    test_mat x =
        test_mat_make(d.batch * d.rows, d.cols, 0, test_new_normal(4, d.batch * d.rows * d.cols));
    operands o = operands_make(kind, sizes, 5, 3, 1);
    test_bsr xs = test_pruned(d, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST, 0, &x);
    operands_reset(&o, -1);
    TEST_OK(kind == TN ? clprune_bspmm_tn(context, 0.5f, -1, o.din.mat, &xs.bsr, o.out.mat, NULL)
                       : clprune_bspmm_nt(context, 0.5f, -1, o.din.mat, &xs.bsr, o.out.mat, NULL));
    (void)operands_check(&o, 0.5f, -1, test_unpacked(&xs.bsr),
        test_text("block %zu x %zu\n%s", d.block.rows, d.block.cols, text));
}

/* The rows of GPUs, which no CPU takes unless it is asked to. Other tests run with them too, as
 * test_NAME_ROW. */
static void gpu_row(void **state)
{
    static const clprune_bsr_desc descs[] = {
        {3, 45, 101, {1, 16}, 157}, {1, 257, 36, {1, 4}, 1000}};
    if (clprune_context_kernels(test_context()) == CLPRUNE_KERNELS_VECTOR)
        skip();
    const char *row = *state;
    test_debug(test_text("row=%s,gemm=tiled", row));
    clprune_context *context = open_with("");
    assert_string_equal(clprune_context_tuning_source(context), row);
    for (int transposes = 0; transposes < 4; transposes++)
        gemm_under(context, row, transposes & 1, transposes & 2);
    for (size_t i = 0; i < COUNT_OF(descs); i++) {
        bspmm_under(context, row, TN, descs[i]);
        bspmm_under(context, row, NT, descs[i]);
    }
}

/* The tiled family has CLBlast's, for which one case will do. */
static void dense_products(void **state)
{
    if (clprune_context_kernels(test_context()) == CLPRUNE_KERNELS_TILED)
        skip();
    const char *const *text = *state;
    const int one = (int)(text - odd) % 2; /* of neither and of both; else of one matrix */
    clprune_context *context = open_tuned(*text);
    for (int transposes = 0; transposes < 4; transposes++)
        if (full || (transposes % 3 != 0) == one)
            gemm_under(context, *text, transposes & 1, transposes & 2);
}

static void sparse_products(void **state)
{
    static const clprune_bsr_desc descs[] = {
        {3, 45, 101, {1, 16}, 157}, {2, 45, 50, {3, 7}, 60}, {1, 257, 33, {1, 4}, 1000}};
    const char *const *text = *state;
    const size_t one = (size_t)(text - odd) % 3; /* each has programs of its own to compile */
    clprune_context *context = open_tuned(*text);
    for (size_t i = 0; i < COUNT_OF(descs); i++)
        if (full || i == one) {
            bspmm_under(context, *text, TN, descs[i]);
            bspmm_under(context, *text, NT, descs[i]);
        }
}

/* Another kernel of CLBlast, through the file, for products of any size; CLBlast keeps it for the
 * rest of the process. */
static void blast_products(void **state)
{
    if (clprune_context_kernels(test_context()) == CLPRUNE_KERNELS_VECTOR)
        skip();
    test_debug("gemm=clblast");
    clprune_context *context = open_tuned(*state);
    for (int transposes = 0; transposes < 4; transposes++)
        gemm_under(context, *state, transposes & 1, transposes & 2);
}

int main(int argc, char **argv)
{
    full = argc > 1 && strcmp(argv[1], "full") == 0;
    unsetenv("CLPRUNE_TUNING");
    folder = test_folder();
    file = test_text("%s/tuning", folder);
    test_list list = {0};
    test_add(&list, built_in, NULL, "the built-in row");
    test_add(&list, built_in_by_device, NULL, "the built-in row goes by the device");
    static const char *const rows[] = {"gpu", "gpu-amd", "gpu-intel", "cpu-avx2"};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        test_add(&list, gpu_row, rows[i], "products with the row %s", rows[i]);
    test_add(&list, built_in_is_legal, NULL, "the built-in row is legal");
    test_add(&list, override, NULL, "the row for this device overrides");
    test_add(&list, not_for_this_device, NULL, "nothing for this device");
    for (size_t i = 0; i < COUNT_OF(refusals); i++)
        test_add(&list, refusal_of_file, &refusals[i], "refused: %.120s", refusals[i].part);
    test_add(&list, refusal_of_path, NULL, "refused: no file, a folder, a large file");
    test_add(&list, truncated, NULL, "refused: every truncation");
    test_add(&list, incomplete_blast, NULL, "CLBlast kernels in part");
    for (size_t i = 0; i < COUNT_OF(odd); i++) {
        test_add(&list, dense_products, &odd[i], "gemm, odd tuning %zu", i);
        test_add(&list, sparse_products, &odd[i], "bspmm, odd tuning %zu", i);
    }
    test_add(&list, blast_products, XGEMM("64", "4"), "gemm, another set for CLBlast");
    return test_run_on_devices("tuning", &list);
}
