/* segment-train: runs on images with a label for each pixel.
 *
 * The mean intersection over union is that of a model that says one class everywhere, counted by
 * hand; it reads no memory that a step has left (the test runs with forget=poison). A run that
 * stopped goes on to the same weights. An epoch without a test has no mean. What moves or mixes
 * images of one label is refused. */
#include "support/test_dataset.h"
#include "support/test_folder.h"
#include "support/test_model.h"
#include "support/test_run.h"

#define SMALL                                                                                      \
    "--arch unet_micro --image-size 16 --train-limit 10 --test-limit 5 --batch-size 4 "            \
    "--optimizer sgd --lr 0.05 "

extern const trainer_model segment_model;

enum { EDGE = 16, EACH = EDGE * EDGE, CLASSES = 6, TESTS = 5 };

/* Sets the last layer's bias so that one class has the largest logit of every pixel. */
static void say_only(training_run *run, int class)
{
    float bias[CLASSES] = {0};
    bias[class] = 1e6f;
    TEST_OK(
        clprune_mat_write(run->s.context, test_weight(run->s.model, "outc.conv.bias")->mat, bias));
}

static void intersections(NO_ROW)
{
    static uint8_t images[TESTS * 3 * EACH];
    static int32_t labels[TESTS * EACH];
    static const uint32_t order[TESTS] = {0, 1, 2, 3, 4};
    training_run *run = test_run_open(&segment_model, SMALL "--epochs 1");
    double has[CLASSES] = {0}, classes = 0;
    read_batch(run->s.data, DATASET_TEST, order, TESTS, NULL, images, labels);
    for (size_t i = 0; i < TESTS * EACH; i++)
        has[labels[i]]++;
    for (int c = 0; c < CLASSES; c++)
        classes += has[c] > 0;
    test_run_epoch(run);
    for (int c = 0; c < CLASSES; c++) {
        const double counted = has[c] > 0 ? classes : classes + 1;
        say_only(run, c);
        TEST_GOOD(run_evaluate(run, &f));
        assert_near(run->top1, 100 * has[c] / (TESTS * EACH), 1e-3, "top-1");
        assert_near(run->mean_iou, 100 * has[c] / (TESTS * EACH) / counted, 1e-9, "mean IoU");
        assert_int_equal(run->iou_classes, (int)counted);
    }
    TEST_GOOD(run_finish_epoch(run, &f));
}

static void resumed(NO_ROW)
{
    const char *folder = test_folder();
    test_run_whole(&segment_model, SMALL "--epochs 2 --output-dir %s/whole", folder);
    training_run *run = test_run_open(
        &segment_model, SMALL "--epochs 2 --test-every 2 --output-dir %s/part", folder);
    run->s.options->steps = 4;
    test_run_epoch(run);
    TEST_GOOD(run_finish_epoch(run, &f)); /* without a test */
    assert_true(isnan(run->top1) && isnan(run->mean_iou));
    test_run_epoch(run); /* one step */
    TEST_GOOD(run_save(run, &f));
    test_end(run);
    test_run_whole(&segment_model, "--resume %s/part/last.ckpt", folder);
    const checkpoint *whole = test_checkpoint(test_text("%s/whole/last.ckpt", folder)),
                     *part = test_checkpoint(test_text("%s/part/last.ckpt", folder));
    const char *const names[] = {"param/inc.double_conv.0.weight", "param/outc.conv.bias"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const checkpoint_record *a = test_record(whole, names[i]), *b = test_record(part, names[i]);
        assert_memory_equal(a->data, b->data, a->rows * a->cols * sizeof(float));
    }
}

static void refused(NO_ROW)
{
    static const char *const rows[] = {"--shift 2", "--border reflect", "--mirror alternate",
        "--views 2", "--rand-augment 9", "--erase 0.5", "--mixup 0.2", "--cutmix 1"};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        test_run_refused(&segment_model, CODE_USAGE,
            test_text("%.*s does not go with a label for each pixel", (int)strcspn(rows[i], " "),
                rows[i]),
            SMALL "%s", rows[i]);
    test_run_refused(&segment_model, CODE_USAGE, "a multiple of 4 up to 4096",
        "--arch unet_micro --image-size 18 --epochs 1");
    test_run_refused(&segment_model, CODE_USAGE, "a multiple of 16 up to 4096",
        "--arch unet --image-size 40 --epochs 1");
}

int main(void)
{
    test_list list = {0};
    ADD(&list, intersections);
    ADD(&list, resumed);
    ADD(&list, refused);
    return test_run_on_each_device("segment", &list);
}
