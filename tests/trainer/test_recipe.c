/* What the recipes of records need, with the network of airbench94: a run with all of it goes on to
 * the same bits; its first weights whiten the data; slow weights, factors of the learning rate, and
 * the mean over views of a test image are what they say. */
#include "support/test_dataset.h"
#include "support/test_folder.h"
#include "support/test_model.h"
#include "support/test_run.h"
#include "trainer/model/net_model.h"

extern const trainer_model airbench_model;

/* Three steps an epoch, the last with fewer images. */
#define SMALL "--train-limit 40 --test-limit 12 --batch-size 16 --optimizer sgd --lr 0.5 "
#define RECIPE                                                                                     \
    "--nesterov --momentum 0.85 --lookahead 0.9 --schedule linear --points 0:0.2,0.25:1,1:0.1 "    \
    "--rates *.norm?.bias:8:0.5,whiten.bias:1:1:1 --shift 2 --border reflect --mirror alternate "  \
    "--rand-augment 9 --erase 0.5 --mixup 0.8 --cutmix 1 --views 6 "

static clprune_mat param_of(const training_run *run, const char *name)
{
    size_t i = 0;
    while (strcmp(run->s.params[i].name, name) != 0)
        assert_true(++i < run->s.params_count);
    return run->s.params[i].value;
}

static float *values_of(const training_run *run, clprune_mat mat)
{
    float *values = test_floats(mat.rows * mat.cols);
    TEST_OK(clprune_mat_read(run->s.context, mat, values));
    return values;
}

static void goes_on(NO_ROW)
{
    const char *folder = test_folder();
    size_t slow = 0;
    test_run_whole(&airbench_model, SMALL RECIPE "--epochs 3 --output-dir %s/whole", folder);
    test_run_whole(
        &airbench_model, SMALL RECIPE "--epochs 3 --steps 5 --output-dir %s/part", folder);
    test_run_whole(&airbench_model, "--resume %s/part/last.ckpt", folder);
    const checkpoint *whole = test_checkpoint(test_text("%s/whole/last.ckpt", folder));
    const checkpoint *part = test_checkpoint(test_text("%s/part/last.ckpt", folder));
    for (size_t i = 0; i < whole->count; i++) {
        const checkpoint_record *a = &whole->records[i], *b = test_record(part, a->name);
        if (strchr(a->name, '/') == NULL || a->type != CHECKPOINT_F32)
            continue;
        slow += strncmp(a->name, "slow/", 5) == 0;
        assert_int_equal(a->rows * a->cols, b->rows * b->cols);
        assert_memory_equal(a->data, b->data, a->rows * a->cols * sizeof(float));
    }
    assert_int_equal(slow, 1 + 6 + 6 + 1 + 12); /* parameters and running statistics */
    /* at the end the weights are the slow ones */
    const checkpoint_record *last = test_record(whole, "slow/head.weight");
    assert_memory_equal(last->data, test_record(whole, "param/head.weight")->data,
        last->rows * last->cols * sizeof(float));
    training_run *tested =
        test_run_open(&airbench_model, "--resume %s/part/last.ckpt --test-only", folder);
    TEST_GOOD(run_evaluate(tested, &f));
}

/* In the first epoch a parameter with an epoch of its own moves, and then no more. */
static void rates(NO_ROW)
{
    training_run *run = test_run_open(&airbench_model, SMALL RECIPE "--epochs 3 --steps 9");
    const clprune_mat bias = param_of(run, "whiten.bias"), head = param_of(run, "head.weight");
    float *before = values_of(run, bias);
    run->s.options->lookahead = 0; /* which moves it on */
    slow_weights_close(&run->s.slow);
    for (int epoch = 0; epoch < 2; epoch++) {
        float *head_before = values_of(run, head);
        test_run_epoch(run);
        TEST_GOOD(run_finish_epoch(run, &f));
        const float *after = values_of(run, bias);
        assert_int_equal(
            memcmp(before, after, bias.rows * bias.cols * sizeof *before) != 0, epoch == 0);
        assert_true(
            memcmp(head_before, values_of(run, head), head.rows * head.cols * sizeof *before) != 0);
        memcpy(before, after, bias.rows * bias.cols * sizeof *before);
    }
}

/* Whitened patches of the first images have the variance v / (v + 5e-4) and no covariance. */
static void whitens(NO_ROW)
{
    enum { IMAGES = 40, IN = 12, FILTERS = 24 };
    training_run *run = test_run_open(&airbench_model, SMALL "--steps 1");
    const dataset *data = run->s.data;
    const float *levels = dataset_levels(data);
    uint8_t *bytes = test_alloc(IMAGES * 3 * SIDE * SIDE);
    int32_t labels[IMAGES];
    uint32_t order[IMAGES];
    double sums[FILTERS][FILTERS] = {{0}};
    for (uint32_t i = 0; i < IMAGES; i++)
        order[i] = i;
    TEST_GOOD(dataset_batch(data, DATASET_TRAIN, order, IMAGES, NULL, bytes, labels, &f));
    const float *w = values_of(run, test_weight(run->s.model, "whiten.weight")->mat);
    const float *conv = values_of(run, test_weight(run->s.model, "group2.conv1.weight")->mat);
    for (size_t n = 0; n < IMAGES; n++)
        for (size_t y = 0; y + 1 < SIDE; y++)
            for (size_t x = 0; x + 1 < SIDE; x++) {
                double out[FILTERS] = {0};
                for (size_t k = 0; k < IN; k++) { /* taps, then channels */
                    const size_t c = k % 3, at = (y + k / 6) * SIDE + x + k / 3 % 2;
                    const uint8_t byte = bytes[(n * 3 + c) * SIDE * SIDE + at];
                    for (size_t o = 0; o < FILTERS; o++)
                        out[o] += (double)w[o * IN + k] * (double)levels[c * DATASET_LEVELS + byte];
                }
                for (size_t a = 0; a < FILTERS; a++)
                    for (size_t b = 0; b <= a; b++)
                        sums[a][b] += out[a] * out[b] / (IMAGES * 31.0 * 31.0);
            }
    double largest = 0, last = 2;
    for (size_t a = 0; a < IN; a++) {
        assert_true(sums[a][a] <= 1.0001 && sums[a][a] <= last + 1e-6); /* the largest first */
        last = sums[a][a];
        largest = fmax(largest, last);
        for (size_t b = 0; b < a; b++)
            assert_near(sums[a][b], 0, 1e-3, "covariance");
        for (size_t k = 0; k < IN; k++)
            assert_true(w[a * IN + k] == -w[(a + IN) * IN + k]);
    }
    assert_near(largest, 1, 1e-2, "variance");
    for (size_t o = 0; o < 8; o++) /* 8 channels in, 16 out: the first are the identity */
        for (size_t k = 0; k < 72; k++)
            assert_true(conv[o * 72 + k] == (k == 4 * 8 + o ? 1.0f : 0.0f));
    assert_true(conv[8 * 72] != 0 && fabs((double)conv[8 * 72]) <= 1 / sqrt(72.0));
}

/* The loss of two views is that of the mean of their logits. */
static void views(void **state)
{
    const size_t count = 12, views = *(const size_t *)*state;
    const uint32_t order[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    training_run *run = test_run_open(&airbench_model, SMALL "--steps 3 --views %zu", views);
    session *s = &run->s;
    double logits[12][10] = {{0}};
    int32_t labels[12];
    test_run_epoch(run);
    for (size_t v = 0; v < views; v++) {
        const augment_view *view = &augment_views(views)[v];
        const augment_options moved = {.reflects = true, .fixed = &view->move};
        TEST_GOOD(feed_batch(&s->feed, DATASET_TEST, order, count, &moved, &f));
        memcpy(labels, s->feed.slot[s->feed.next ^ 1].labels, sizeof labels);
        const clprune_net_data data = session_data(s, count, count);
        TEST_OK(net_model_forward(s->model, &data, false));
        const float *got = values_of(run, clprune_net_output(s->model->net, count));
        for (size_t i = 0; i < count * 10; i++)
            logits[i / 10][i % 10] += (double)view->weight * (double)got[i];
    }
    double want = 0;
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (size_t k = 0; k < 10; k++)
            sum += exp(logits[i][k]);
        want += (log(sum) - logits[i][labels[i]]) / (double)count;
    }
    TEST_GOOD(run_evaluate(run, &f));
    assert_near(run->test_loss, want, 1e-5, "loss");
}

static double log_p(const float *logits, int32_t label)
{
    double sum = 0;
    for (size_t k = 0; k < 10; k++)
        sum += exp((double)logits[k]);
    return (double)logits[label] - log(sum);
}

/* The loss of a step on mixed images is that of both labels, by the shares; that of a test is not
 * mixed. */
static void mixes(NO_ROW)
{
    enum { COUNT = 16 };
    training_run *run =
        test_run_open(&airbench_model, SMALL "--mixup 1 --cutmix 1 --label-smoothing 0 --steps 1");
    session *s = &run->s;
    const augment_options augment = options_augment(s->options, 0);
    uint32_t order[COUNT];
    float got[COUNT], between = 0;
    for (uint32_t i = 0; i < COUNT; i++)
        order[i] = i;
    for (int tests = 0; tests < 2; tests++) {
        const size_t count = tests ? 12 : COUNT;
        TEST_GOOD(feed_batch(&s->feed, tests ? DATASET_TEST : DATASET_TRAIN, order, count,
            tests ? NULL : &augment, &f));
        const struct feed_slot *slot = &s->feed.slot[s->feed.next ^ 1];
        const clprune_net_data data = session_data(s, count, count);
        const clprune_mat loss = clprune_mat_rows(s->tally.loss, 0, count);
        TEST_OK(net_model_forward(s->model, &data, false));
        const float *logits = values_of(run, clprune_net_output(s->model->net, count));
        TEST_OK(clprune_net_loss(s->model->net, &data, loss, CLPRUNE_NO_MAT));
        TEST_OK(clprune_mat_read(s->context, loss, got));
        for (size_t i = 0; i < count; i++) {
            const double share = (double)slot->shares[i];
            assert_true(!tests || share == 1);
            between += share < 1;
            assert_near((double)got[i],
                -share * log_p(logits + 10 * i, slot->labels[i]) -
                    (1 - share) * log_p(logits + 10 * i, slot->others[i]),
                1e-5, "a loss");
        }
    }
    assert_true(between > COUNT / 2);
}

/* Every fifth step, and the last. */
static void looks_ahead(NO_ROW)
{
    training_run *run = test_run_open(&airbench_model, SMALL "--lookahead 0.5 --steps 1");
    const clprune_mat head = param_of(run, "head.weight");
    const float *first = values_of(run, head);
    const double a = pow(0.5, 5) * pow(10.0 / 12.0, 3);
    TEST_OK(clprune_mat_fill(run->s.context, 3, head, NULL));
    for (uint64_t step = 6; step < 10; step++) {
        TEST_OK(slow_weights_lookahead(&run->s.slow, 0.5, step, 12));
        assert_true(values_of(run, head)[0] == 3);
    }
    TEST_OK(slow_weights_lookahead(&run->s.slow, 0.5, 10, 12));
    const double want = a * (double)first[0] + (1 - a) * 3;
    assert_near((double)values_of(run, head)[0], want, 1e-6, "slow weight");
    TEST_OK(clprune_mat_fill(run->s.context, 7, head, NULL));
    TEST_OK(slow_weights_lookahead(&run->s.slow, 0.5, 12, 12));
    assert_near((double)values_of(run, head)[0], want, 1e-6, "the last weight");
}

/* Tests see the means of the weights, the run goes on with its own. */
static void means(NO_ROW)
{
    const char *folder = test_folder();
    training_run *run =
        test_run_open(&airbench_model, SMALL "--ema 0.5 --epochs 2 --output-dir %s", folder);
    const clprune_mat head = param_of(run, "head.weight");
    double want = (double)values_of(run, head)[0];
    for (uint64_t step = 1; step <= 3; step++) {
        const double a = fmin(0.5, (1 + (double)step) / (10 + (double)step));
        run->s.options->steps = step;
        test_run_epoch(run);
        want = a * want + (1 - a) * (double)values_of(run, head)[0];
    }
    const float *own = values_of(run, head);
    assert_true(fabs(want - (double)own[0]) > 1e-6);
    TEST_GOOD(session_swap_means(&run->s, &f));
    const float *mean = values_of(run, head);
    assert_near((double)mean[0], want, 1e-6, "a mean");
    run->s.options->ema = 0; /* the test does not swap */
    TEST_GOOD(run_evaluate(run, &f));
    const double loss = run->test_loss;
    run->s.options->ema = 0.5;
    TEST_GOOD(session_swap_means(&run->s, &f) && run_evaluate(run, &f));
    assert_true(run->test_loss == loss);
    assert_memory_equal(values_of(run, head), own, head.rows * head.cols * sizeof *own);
    TEST_GOOD(run_finish_epoch(run, &f) && run_save(run, &f));
    test_end(run);
    training_run *again = test_run_open(&airbench_model, "--resume %s/last.ckpt", folder);
    TEST_GOOD(run_evaluate(again, &f));
    assert_true(again->test_loss == loss);
}

static void refused(NO_ROW)
{
    static const struct {
        const char *options, *said;
    } rows[] = {
        {"--optimizer adamw --nesterov", "--nesterov needs --optimizer sgd"},
        {"--optimizer adamw --momentum 0.5", "--momentum needs --optimizer sgd"},
        {"--optimizer sgd --nesterov --momentum 0", "--nesterov needs --momentum above 0"},
        {"--ema 0.9 --lookahead 0.9", "--ema does not go with --lookahead"},
        {"--points 0:1,1:0", "--points needs --schedule linear"},
        {"--schedule linear --points 0:1", "--points: '0:1' is not 2 to 8 points"},
        {"--rates head", "--rates: 'head' is not PATTERN:LR"},
        {"--rates head*:1:2:3:4", "is not PATTERN:LR"},
        {"--rates head*:-1", "is not PATTERN:LR"},
        {"--rates head*::2", "is not PATTERN:LR"},
        {"--rates head*:1,tail*:0.5", "no parameter is named like 'tail*'"},
        {"--erase 0.5 --no-augment", "--erase does not go with --no-augment"},
        {"--rand-augment 9 --no-augment", "--rand-augment does not go with --no-augment"},
        {"--mixup 0.5 --no-augment", "--mixup does not go with --no-augment"},
        {"--cutmix 1 --no-augment", "--cutmix does not go with --no-augment"},
        {"--mixup -1", "--mixup: '-1' is not a number from 0 to 1000"},
        {"--erase 1.5", "--erase: '1.5' is not a number from 0 to 1"},
        {"--shift 32", "--shift 32: images have 32 pixels per side"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        test_run_refused(&airbench_model, CODE_USAGE, rows[i].said,
            "--train-limit 16 --test-limit 4 --batch-size 16 --steps 1 %s", rows[i].options);
}

int main(void)
{
    static const size_t counts[] = {1, 2, 6};
    test_list list = {0};
    test_add(&list, goes_on, NULL, "a resumed run");
    test_add(&list, rates, NULL, "rates");
    test_add(&list, whitens, NULL, "first weights");
    for (size_t i = 0; i < COUNT_OF(counts); i++)
        test_add(&list, views, &counts[i], "views: %zu", counts[i]);
    test_add(&list, mixes, NULL, "mixed images");
    test_add(&list, looks_ahead, NULL, "lookahead");
    test_add(&list, means, NULL, "means");
    test_add(&list, refused, NULL, "refused");
    return test_run_on_each_device("recipe", &list);
}
