/* The tuning table: built-in rows, the file that overrides them, every refusal, and products that
 * stay right under odd but legal parameters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/bspmm_ref.h"
#include "support/test_buffer.h"
#include "support/test_compare.h"
#include "support/test_folder.h"
#include "support/test_product.h"
#include "support/test_rng.h"

enum { MOST_PARAMETERS = 128 };

static char folder[TEST_PATH], file[TEST_PATH + 16];

/* The name of the device under test as a JSON string. */
static const char *device_json(void)
{
    static char text[1024];
    char name[256] = "";
    assert_int_equal(clGetDeviceInfo(clprune_context_device(test_context()), CL_DEVICE_NAME,
                         sizeof name - 1, name, NULL),
        CL_SUCCESS);
    char *to = text;
    *to++ = '"';
    for (const char *p = name; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\')
            *to++ = '\\';
        *to++ = *p;
    }
    *to++ = '"';
    *to = '\0';
    return text;
}

/* Writes the file; @ stands for the name of the device, and for the row's head where it comes
 * first:
 * "@..." is {"clprune_tuning":1,"rows":[{"device":NAME,...}]}. */
static void write_file(const char *text)
{
    static char whole[16384];
    size_t length = 0;
    const bool row = text[0] == '@';
    if (row)
        length =
            (size_t)snprintf(whole, sizeof whole, "{\"clprune_tuning\":1,\"rows\":[{\"device\":");
    for (const char *p = text; *p != '\0'; p++)
        length += *p == '@'
                      ? (size_t)snprintf(whole + length, sizeof whole - length, "%s", device_json())
                      : (size_t)snprintf(whole + length, sizeof whole - length, "%c", *p);
    if (row)
        length += (size_t)snprintf(whole + length, sizeof whole - length, "}]}");
    assert_true(length < sizeof whole);
    test_file_write(file, whole, length);
}

/* A context on the queue of the one under test, with or without the file. */
static clprune_status open_with(const char *path, clprune_context **context)
{
    const clprune_context_options options = {.kernels = clprune_context_kernels(test_context())};
    test_environment("CLPRUNE_TUNING", path);
    const clprune_status status =
        clprune_context_create(clprune_context_queue(test_context()), &options, context);
    test_environment("CLPRUNE_TUNING", NULL);
    return status;
}

static clprune_context *open_tuned(const char *text)
{
    clprune_context *context;
    write_file(text);
    if (open_with(file, &context) != CLPRUNE_SUCCESS)
        fail_msg("%s\n%s", text, clprune_last_error(NULL));
    return context;
}

static size_t parameters_of(const clprune_context *context, clprune_tuning_parameter *parameters)
{
    size_t count = 0;
    assert_int_equal(
        clprune_context_tuning(context, MOST_PARAMETERS, parameters, &count), CLPRUNE_SUCCESS);
    assert_true(count > 20 && count <= MOST_PARAMETERS);
    return count;
}

static void built_in(void **state)
{
    (void)state;
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
    assert_int_equal(clprune_context_tuning(test_context(), 1, two, &again), CLPRUNE_SUCCESS);
    assert_int_equal(again, count);
    assert_non_null(two[0].key);
    assert_null(two[1].key);
    assert_int_equal(clprune_context_tuning(test_context(), 0, NULL, &again), CLPRUNE_SUCCESS);
    assert_int_equal(
        clprune_context_tuning(test_context(), 1, NULL, &again), CLPRUNE_INVALID_ARGUMENT);
    assert_int_equal(
        clprune_context_tuning(test_context(), 0, NULL, NULL), CLPRUNE_INVALID_ARGUMENT);
    assert_int_equal(clprune_context_tuning(NULL, 0, NULL, &again), CLPRUNE_INVALID_ARGUMENT);
    assert_non_null(strstr(clprune_last_error(NULL), "context, parameters or count is NULL"));
    assert_null(clprune_context_tuning_source(NULL));
    assert_null(strchr(clprune_context_tuning_source(test_context()), '/'));
}

/* Rows go by the facts of a device, which a dry context takes from its caller. */
static void built_in_by_device(void **state)
{
    (void)state;
    static const struct {
        const char *vendor, *row;
        cl_device_type type;
        uint32_t width;
    } cases[] = {
        {"GenuineIntel", "cpu-avx512", CL_DEVICE_TYPE_CPU, 16},
        {"AuthenticAMD", "cpu-avx512-amd", CL_DEVICE_TYPE_CPU, 16},
        {"AuthenticAMD", "cpu-avx2", CL_DEVICE_TYPE_CPU, 8},
        {"AMD", "gpu", CL_DEVICE_TYPE_GPU, 16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        clprune_device_info device = {.type = cases[i].type,
            .vector_width = cases[i].width,
            .compute_units = 2,
            .max_work_group = 256,
            .local_memory = 1 << 19};
        strcpy(device.vendor, cases[i].vendor);
        clprune_context *context;
        assert_int_equal(clprune_context_create_dry(&device, NULL, &context), CLPRUNE_SUCCESS);
        assert_string_equal(clprune_context_tuning_source(context), cases[i].row);
        clprune_context_destroy(context);
    }
}

/* A file that gives every parameter its built-in value is accepted: the rows keep their own rules.
 */
static void built_in_is_legal(void **state)
{
    (void)state;
    clprune_tuning_parameter p[MOST_PARAMETERS], q[MOST_PARAMETERS];
    static char text[8192];
    const size_t count = parameters_of(test_context(), p);
    size_t length = (size_t)snprintf(text, sizeof text, "@,\"parameters\":{");
    const char *section = "";
    for (size_t i = 0; i < count; i++) {
        if (!p[i].is_set)
            continue;
        if (strcmp(section, p[i].section) != 0)
            length += (size_t)snprintf(text + length, sizeof text - length, "%s\"%s\":{",
                section[0] != '\0' ? "}," : "", p[i].section);
        length += (size_t)snprintf(text + length, sizeof text - length, "%s\"%s\":%u",
            strcmp(section, p[i].section) != 0 ? "" : ",", p[i].key, p[i].value);
        section = p[i].section;
    }
    (void)snprintf(text + length, sizeof text - length, "}}");
    clprune_context *context = open_tuned(text);
    assert_int_equal(parameters_of(context, q), count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(p[i].value, q[i].value);
    assert_string_equal(clprune_context_tuning_source(context), file);
    clprune_context_destroy(context);
}

static void override(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "@,\"parameters\":{\"gemm\":{\"panel_depth\":77}}",
        "@,\"driver\":\"x\",\"speedup\":{\"gemm\":1.5,\"y\":[]},\"parameters\":{\"gemm\":{"
        "\"panel_depth\":77}}",
        "{\"rows\":[{\"device\":\"other\",\"parameters\":{\"what\":{}},\"x\":1},{\"parameters\":{"
        "\"gemm\":{\"panel_depth\":77}},\"device\":@}],\"clprune_tuning\":1}",
    };
    clprune_tuning_parameter before[MOST_PARAMETERS], after[MOST_PARAMETERS];
    const size_t count = parameters_of(test_context(), before);
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        clprune_context *context = open_tuned(texts[t]);
        assert_int_equal(parameters_of(context, after), count);
        for (size_t i = 0; i < count; i++)
            if (strcmp(after[i].section, "gemm") == 0 && strcmp(after[i].key, "panel_depth") == 0)
                assert_int_equal(after[i].value, 77);
            else
                assert_int_equal(after[i].value, before[i].value);
        clprune_context_destroy(context);
    }
}

/* Rows for other devices only, no rows, an empty variable: the built-in row. */
static void not_for_this_device(void **state)
{
    (void)state;
    static const char *const texts[] = {"{\"clprune_tuning\":1,\"rows\":[]}",
        "{\"clprune_tuning\":1,\"rows\":[{\"device\":\"other\",\"parameters\":7}]}"};
    clprune_context *context;
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        context = open_tuned(texts[t]);
        assert_string_equal(
            clprune_context_tuning_source(context), clprune_context_tuning_source(test_context()));
        clprune_context_destroy(context);
    }
    assert_int_equal(open_with("", &context), CLPRUNE_SUCCESS);
    clprune_context_destroy(context);
}

static void refused(const char *path, const char *part)
{
    clprune_context *context = test_context();
    assert_int_equal(open_with(path, &context), CLPRUNE_INVALID_ARGUMENT);
    assert_null(context);
    if (strstr(clprune_last_error(NULL), part) == NULL ||
        strstr(clprune_last_error(NULL), path) == NULL)
        fail_msg("\"%s\" or \"%s\" is not in \"%s\"", part, path, clprune_last_error(NULL));
}

typedef struct refusal {
    const char *text, *part;
} refusal;

#define XGEMM(a, b)                                                                                \
    "@,\"parameters\":{\"clblast\":{\"inner_run\":50},\"clblast.Xgemm\":{\"GEMMK\":0,\"KREG\":1,"  \
    "\"KWG\":32,\"KWI\":2,\"MDIMA\":"                                                              \
    "8,"                                                                                           \
    "\"MDIMC\":8,\"MWG\":" a ",\"NDIMB\":8,\"NDIMC\":8,\"NWG\":64,\"SA\":0,\"SB\":0,\"STRM\":0,"   \
    "\"STRN\":0,\"VWM\":" b ",\"VWN\":2}}"

static const refusal refusals[] = {
    {"", ":1:1: the text ends too early"},
    {"[]", ":1:1: expected an object"},
    {"{}", "clprune_tuning: missing"},
    {"{\"rows\":[]}", "clprune_tuning: missing"},
    {"{\"clprune_tuning\":1}", "rows: missing"},
    {"{\"clprune_tuning\":2,\"rows\":[]}", "clprune_tuning: this version"},
    {"{\"clprune_tuning\":\"1\",\"rows\":[]}", "clprune_tuning: expected a whole"},
    {"{\"clprune_tuning\":1,\"rows\":{}}", "rows: expected an array"},
    {"{\"clprune_tuning\":1,\"rows\":[],\"rows\":[]}", "rows: given twice"},
    {"{\"clprune_tuning\":1,\"rows\":[1]}", ":1:29: rows: expected an object"},
    {"{\"clprune_tuning\":1,\"rows\":[{}]}", "rows.device: missing"},
    {"{\"clprune_tuning\":1,\"rows\":[{\"device\":1}]}", "rows: expected a string"},
    {"{\"clprune_tuning\":1,\"rows\":[],\"more\":1}", "more: there is no such key"},
    {"{\"clprune_tuning\":1,\"rows\":[]} x", "more text after the value"},
    {"{\"clprune_tuning\":1,\n\"rows\":[,]}", ":2:9: rows: expected an object"},
    {"@", "rows.parameters: missing"},
    {"@,\"device\":@", "rows.device: given twice"},
    {"@,\"what\":1,\"parameters\":{}", "rows.what: there is no such key"},
    {"@,\"driver\":1,\"parameters\":{}", "rows.driver: expected a string"},
    {"@,\"parameters\":[]", "parameters: expected an object"},
    {"@,\"parameters\":{},\"parameters\":{}", "rows.parameters: given twice"},
    {"@,\"parameters\":{}},{\"device\":@,\"parameters\":{}", "a second row"},
    {"@,\"parameters\":{\"gem\":{}}", "parameters.gem: there is no such section"},
    {"@,\"parameters\":{\"gemm\":7}", "parameters.gemm: expected an object"},
    {"@,\"parameters\":{\"gemm\":{\"depth\":7}}", "gemm.depth: there is no such parameter"},
    {"@,\"parameters\":{\"gemm\":{\"ahead\":7}}", "gemm.ahead: there is no such parameter"},
    {"@,\"parameters\":{\"gemm\":{\"panel_depth\":\"7\"}}", "gemm.panel_depth: expected a whole"},
    {"@,\"parameters\":{\"gemm\":{\"panel_depth\":7.5}}", "gemm.panel_depth: expected a whole"},
    {"@,\"parameters\":{\"gemm\":{\"panel_depth\":-7}}", "gemm.panel_depth: expected a whole"},
    {"@,\"parameters\":{\"gemm\":{\"panel_depth\":0}}", "gemm.panel_depth: 0 is not from 1"},
    {"@,\"parameters\":{\"gemm\":{\"panel_depth\":4294967297}}", "gemm.panel_depth: 4294967297"},
    {"@,\"parameters\":{\"gemm\":{\"panel_depth\":7,\"panel_depth\":7}}", "given twice"},
    {"@,\"parameters\":{\"gemm\":{\"panel_depth\":7},\"gemm\":{\"panel_depth\":7}}", "given twice"},
    {"@,\"parameters\":{\"tiled_tn\":{\"panel\":40}}",
        "tiled_tn.panel: 40 is not from 16 to 256 or "
        "no multiple of 16"},
    {"@,\"parameters\":{\"gemm\":{\"accumulators\":2,\"tile_vectors\":3}}",
        "tile_vectors exceeds accumulators"},
    {"@,\"parameters\":{\"bspmm_tn\":{\"accumulators\":2,\"tile_columns\":3}}",
        "tile_columns or long_list_columns exceeds accumulators"},
    {"@,\"parameters\":{\"bspmm_nt\":{\"accumulators\":2,\"tile_rows\":3}}",
        "tile_rows exceeds accumulators"},
    {"@,\"parameters\":{\"clblast.Xgemv\":{\"WGS1\":64}}", "parameters.clblast.Xgemv"},
    {XGEMM("64", "3"), "powers of two"},
    {XGEMM("48", "8"), "must divide MWG"},
    {XGEMM("0", "8"), "clblast.Xgemm.MWG: 0 is not from"},
};

static void refusal_of_file(void **state)
{
    const refusal *r = *state;
    write_file(r->text);
    refused(file, r->part);
}

static void refusal_of_path(void **state)
{
    (void)state;
    refused("/does/not/exist.json", "cannot read");
    refused(folder, "is not a file");
    static char spaces[(1 << 20) + 1];
    memset(spaces, ' ', sizeof spaces);
    test_file_write(file, spaces, sizeof spaces);
    refused(file, "larger than");
}

static void truncated(void **state)
{
    (void)state;
    write_file("@,\"driver\":\"1\",\"parameters\":{\"gemm\":{\"panel_depth\":77}}");
    size_t size;
    char *text = test_file_read(file, &size);
    for (size_t n = 0; n < size; n++) {
        test_file_write(file, text, n);
        refused(file, "");
    }
    free(text);
}

/* Of a kernel of CLBlast that the built-in row does not set, every parameter is needed. */
static void incomplete_blast(void **state)
{
    (void)state;
    clprune_tuning_parameter p[MOST_PARAMETERS];
    const size_t count = parameters_of(test_context(), p);
    bool set = true;
    for (size_t i = 0; i < count; i++)
        set = set && p[i].is_set != 0;
    write_file("@,\"parameters\":{\"clblast.Pad\":{\"PAD_DIMX\":16}}");
    if (!set) {
        refused(file, "clblast.Pad.PAD_DIMY: missing");
        return;
    }
    clprune_context *context;
    assert_int_equal(open_with(file, &context), CLPRUNE_SUCCESS);
    clprune_context_destroy(context);
}

/* Legal tunings that nobody would choose, and the AVX2 row. */
static const char *const odd[] = {
    "@,\"parameters\":{"
    "\"gemm\":{\"accumulators\":1,\"packed_accumulators\":1,\"tile_vectors\":1,\"panel_depth\":1,"
    "\"block_rows\":1,"
    "\"packed_depth\":1,\"packed_rows\":1,\"groups_per_unit\":1},"
    "\"bspmm_tn\":{\"accumulators\":1,\"tile_columns\":1,\"long_list_columns\":1,\"panel_bytes\":"
    "64,\"results_bytes\":64,"
    "\"ahead\":0,\"segment_rows\":1,\"groups_per_unit\":1},"
    "\"bspmm_nt\":{\"accumulators\":1,\"tile_rows\":1,\"chunk_columns\":1,\"segment_rows\":1,"
    "\"ahead\":0,\"groups_per_unit\":1},"
    "\"tiled_tn\":{\"panel\":16,\"tile_columns\":1,\"segment_rows\":1,\"groups_per_unit\":1},"
    "\"tiled_nt\":{\"panel\":16,\"groups_per_unit\":1}}",
    "@,\"parameters\":{"
    "\"gemm\":{\"accumulators\":10,\"packed_accumulators\":12,\"tile_vectors\":2,\"panel_depth\":7,"
    "\"block_rows\":48,"
    "\"packed_depth\":7,\"packed_rows\":13,\"groups_per_unit\":256},"
    "\"bspmm_tn\":{\"accumulators\":10,\"tile_columns\":3,\"long_list\":1,\"panel_bytes\":9999,"
    "\"ahead\":1,"
    "\"segment_rows\":37,\"groups_per_unit\":256},"
    "\"bspmm_nt\":{\"accumulators\":10,\"tile_rows\":3,\"chunk_columns\":5,\"segment_rows\":11,"
    "\"ahead\":1,\"groups_per_unit\":256},"
    "\"tiled_tn\":{\"panel\":48,\"tile_columns\":5,\"segment_rows\":37,\"groups_per_unit\":256},"
    "\"tiled_nt\":{\"panel\":48,\"groups_per_unit\":256}}",
    "@,\"parameters\":{"
    "\"gemm\":{\"accumulators\":29,\"packed_accumulators\":32,\"tile_vectors\":8,\"panel_depth\":"
    "4096,\"block_rows\":4096,"
    "\"packed_depth\":4096,\"packed_rows\":1024},"
    "\"bspmm_tn\":{\"accumulators\":32,\"tile_columns\":32,\"long_list_columns\":16,\"long_list\":"
    "2,\"panel_bytes\":16777216,"
    "\"results_bytes\":268435456,\"ahead\":1024,\"segment_rows\":4096},"
    "\"bspmm_nt\":{\"accumulators\":32,\"tile_rows\":8,\"chunk_columns\":1024,"
    "\"ahead\":1024,\"segment_rows\":4096},"
    "\"tiled_tn\":{\"panel\":128,\"tile_columns\":7,\"segment_rows\":4096},"
    "\"tiled_nt\":{\"panel\":128}}",
    "@,\"parameters\":{"
    "\"gemm\":{\"accumulators\":6,\"packed_accumulators\":8,\"tile_vectors\":1,\"panel_depth\":256,"
    "\"block_rows\":96},"
    "\"bspmm_tn\":{\"accumulators\":6,\"tile_columns\":6,\"long_list_columns\":6,"
    "\"panel_bytes\":20480,"
    "\"results_bytes\":131072},"
    "\"bspmm_nt\":{\"accumulators\":6,\"tile_rows\":6}}",
};

static void gemm_under(clprune_context *context, const char *text, bool ta, bool tb)
{
    static const gemm_shape shapes[] = {{1, 1, 1}, {19, 20, 200}, {65, 130, 67}, {247, 31, 9}};
    static const size_t gaps[3] = {3, 1, 2};
    char label[1024];
    (void)snprintf(label, sizeof label, "\n%s", text);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        test_product(context, shapes[s], ta, tb, 0.5f, -1, gaps, label);
}

static void bspmm_under(clprune_context *context, const char *text, bool tn, clprune_bsr_desc d)
{
    enum { OUTPUTS = 83 };
    const bspmm_ref_sizes sizes = {d.batch, d.rows, d.cols, OUTPUTS};
    const size_t in_rows = d.batch * (tn ? d.rows : OUTPUTS), in_cols = tn ? OUTPUTS : d.cols;
    const size_t out_cols = tn ? d.cols : d.rows;
    float *x = test_new_normal(4, d.batch * d.rows * d.cols);
    float *in = test_new_normal(5, in_rows * in_cols);
    float *old = test_new_normal(6, OUTPUTS * out_cols);
    test_mat dx = test_mat_make(d.batch * d.rows, d.cols, 0, x);
    test_mat dense = test_mat_make(d.batch * d.rows, d.cols, 0, NULL);
    test_mat din = test_mat_make(in_rows, in_cols, 3, in),
             out = test_mat_make(OUTPUTS, out_cols, 1, old);
    test_bsr xs = test_bsr_make(d);
    TEST_OK(clprune_prune(
        test_context(), CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST, 0, dx.mat, &xs.bsr, NULL));
    TEST_OK(clprune_bsr_unpack(test_context(), &xs.bsr, dense.mat, NULL));
    float *kept = test_mat_get(&dense, "dense");
    TEST_OK(tn ? clprune_bspmm_tn(context, 0.5f, -1, din.mat, &xs.bsr, out.mat, NULL)
               : clprune_bspmm_nt(context, 0.5f, -1, din.mat, &xs.bsr, out.mat, NULL));
    float *got = test_mat_get(&out, "dw");
    gemm_ref ref = tn ? bspmm_ref_tn(sizes, 0.5f, -1, in, kept, old)
                      : bspmm_ref_nt(sizes, 0.5f, -1, in, kept, old);
    test_close("dw", OUTPUTS, out_cols, got, ref.want, ref.bound, "%s, block %zu x %zu\n%s",
        tn ? "tn" : "nt", d.block.rows, d.block.cols, text);
    gemm_ref_free(&ref);
    free(x);
    free(in);
    free(old);
    free(kept);
    free(got);
    test_mat_free(&dx);
    test_mat_free(&dense);
    test_mat_free(&din);
    test_mat_free(&out);
    test_bsr_free(&xs);
}

/* The tiled family has CLBlast's, for which one case will do. */
static void dense_products(void **state)
{
    if (clprune_context_kernels(test_context()) == CLPRUNE_KERNELS_TILED)
        skip();
    clprune_context *context = open_tuned(*state);
    for (int transposes = 0; transposes < 4; transposes++)
        gemm_under(context, *state, transposes & 1, transposes & 2);
    clprune_context_destroy(context);
}

static void sparse_products(void **state)
{
    static const clprune_bsr_desc descs[] = {
        {3, 45, 101, {1, 16}, 157}, {2, 45, 50, {3, 7}, 60}, {1, 257, 33, {1, 4}, 1000}};
    clprune_context *context = open_tuned(*state);
    for (size_t i = 0; i < sizeof descs / sizeof *descs; i++) {
        bspmm_under(context, *state, true, descs[i]);
        bspmm_under(context, *state, false, descs[i]);
    }
    clprune_context_destroy(context);
}

/* Another kernel of CLBlast, through the file; CLBlast keeps it for the rest of the process. */
static void blast_products(void **state)
{
    test_debug("gemm=clblast");
    clprune_context *context = open_tuned(*state);
    test_debug(NULL);
    for (int transposes = 0; transposes < 4; transposes++)
        gemm_under(context, *state, transposes & 1, transposes & 2);
    clprune_context_destroy(context);
}

int main(void)
{
    unsetenv("CLPRUNE_TUNING");
    test_folder_make(folder);
    (void)snprintf(file, sizeof file, "%s/tuning.json", folder);
    test_list list = {0};
    test_add(&list, built_in, NULL, "the built-in row");
    test_add(&list, built_in_by_device, NULL, "the built-in row goes by the device");
    test_add(&list, built_in_is_legal, NULL, "the built-in row is legal");
    test_add(&list, override, NULL, "the row for this device overrides");
    test_add(&list, not_for_this_device, NULL, "nothing for this device");
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        test_add(&list, refusal_of_file, &refusals[i], "refused: %.120s", refusals[i].part);
    test_add(&list, refusal_of_path, NULL, "refused: no file, a folder, a large file");
    test_add(&list, truncated, NULL, "refused: every truncation");
    test_add(&list, incomplete_blast, NULL, "CLBlast kernels in part");
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        test_add(&list, dense_products, odd[i], "gemm, odd tuning %zu", i);
        test_add(&list, sparse_products, odd[i], "bspmm, odd tuning %zu", i);
    }
    test_add(&list, blast_products, XGEMM("64", "4"), "gemm, another set for CLBlast");
    const int failed = test_run_on_devices("tuning", &list);
    test_folder_remove(folder);
    return failed;
}
