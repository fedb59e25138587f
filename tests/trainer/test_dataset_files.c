/* The trainer's data sets from files of other kinds: IDX, and folders of JPEG and PNG files.
 *
 * IDX: pixels, labels, each fault of a header. JPEG and PNG: resizing against its definition, the
 * same images from any thread, windows and mirrors as drawn. A broken file is named or counted;
 * running out of memory or descriptors does not count as one. Refused: a JPEG of 600 scans, more
 * than 2^28 pixels, files of 2 GiB, FIFOs. */
#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/test_dataset.h"

#if TRAINER_IMAGES
#include <png.h>

#include "support/test_images.h"
#endif

/* Calls of the program's own objects until one fails, with for_ever also all later ones; 0: none
 * does. */
static atomic_int allocations_left, entries_left, failed;
static bool for_ever;

static bool fails(atomic_int *left)
{
    if (atomic_load(left) <= 0 || atomic_fetch_sub(left, 1) != 1)
        return false;
    if (for_ever)
        atomic_store(left, 1);
    atomic_fetch_add(&failed, 1);
    return true;
}

TEST_WRAP(void *, malloc, (size_t size))
{
    return fails(&allocations_left) ? NULL : __real_malloc(size);
}

TEST_WRAP(void *, calloc, (size_t count, size_t size))
{
    return fails(&allocations_left) ? NULL : __real_calloc(count, size);
}

TEST_WRAP(struct dirent *, readdir, (DIR * folder))
{
    if (!fails(&entries_left))
        return __real_readdir(folder);
    errno = EIO;
    return NULL;
}

static const char *path_in(const char *folder, const char *name)
{
    return test_text("%s/%s", folder, name);
}

/* ---- IDX ------------------------------------------------------------------------------------- */

enum { WIDE = 4, TRAIN = 5, TEST = 3 };

static void put_set(const char *folder)
{
    uint8_t pixels[TRAIN * WIDE * WIDE];
    const uint8_t labels[TRAIN] = {2, 0, 1, 2, 3};
    const uint32_t train[3] = {TRAIN, WIDE, WIDE}, test[3] = {TEST, WIDE, WIDE};
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(3 * i);
    put_idx(folder, "train-images-idx3-ubyte", 0x803, 3, train, pixels, sizeof pixels);
    put_idx(folder, "train-labels-idx1-ubyte", 0x801, 1, train, labels, TRAIN);
    put_idx(folder, "t10k-images.idx3-ubyte", 0x803, 3, test, pixels, TEST * WIDE * WIDE);
    put_idx(folder, "t10k-labels-idx1-ubyte", 0x801, 1, test, labels, TEST);
}

static void idx_images(NO_ROW)
{
    const char *folder = test_folder();
    (void)make_folder_in(folder, "MNIST");
    const char *inner = make_folder_in(folder, "MNIST/raw");
    put_set(inner);
    const dataset *data = open_well(folder, NULL);
    assert_int_equal(dataset_classes(data), 4);
    assert_int_equal(dataset_image_size(data), WIDE);
    assert_int_equal(dataset_count(data, DATASET_TRAIN), TRAIN);
    assert_int_equal(dataset_count(data, DATASET_TEST), TEST);
    uint8_t images[2 * 3 * WIDE * WIDE];
    int32_t labels[2];
    const uint32_t indices[2] = {4, 1};
    read_batch(data, DATASET_TRAIN, indices, 2, NULL, images, labels);
    assert_true(labels[0] == 3 && labels[1] == 0);
    for (int i = 0; i < 2; i++)
        for (int c = 0; c < 3; c++)
            for (int k = 0; k < WIDE * WIDE; k++)
                assert_int_equal(images[(i * 3 + c) * WIDE * WIDE + k],
                    (uint8_t)(3 * ((int)indices[i] * WIDE * WIDE + k)));
    /* normalised: mean 0, deviation 1 over the training split */
    double sum = 0, squares = 0;
    for (int i = 0; i < TRAIN * WIDE * WIDE; i++) {
        const double v = (double)dataset_levels(data)[(uint8_t)(3 * i)];
        sum += v;
        squares += v * v;
    }
    assert_true(fabs(sum) < 1e-4 && fabs(squares / (TRAIN * WIDE * WIDE) - 1) < 1e-5);
    /* never mirrored: of 64 epochs, each row of pixels still rises where it is not black */
    for (uint32_t epoch = 0; epoch < 64; epoch++) {
        const augment_options augment = {7, epoch};
        read_batch(data, DATASET_TRAIN, indices, 1, &augment, images, labels);
        for (int y = 0; y < WIDE; y++)
            assert_true(images[y * WIDE + 1] < images[y * WIDE + 2]);
    }
    data = open_well(inner, &(dataset_options){.train_limit = 2, .test_limit = 1, .classes = 7});
    assert_int_equal(dataset_count(data, DATASET_TRAIN), 2);
    assert_int_equal(dataset_classes(data), 7);
}

static void hear(void *user, const char *note)
{
    char *heard = user;
    (void)snprintf(heard + strlen(heard), TEST_PATH - strlen(heard), "%s\n", note);
}

/* Classes 4 to 6 have no image, and tests none of class 3. */
static void idx_empty_classes(NO_ROW)
{
    const char *folder = test_folder();
    char heard[TEST_PATH] = "";
    put_set(folder);
    (void)open_well(folder, &(dataset_options){.hear = hear, .hear_user = heard});
    test_says(heard, ": 1 of 4 classes have no test sample, 3 among them");
    assert_null(strstr(heard, "training"));
    const dataset *data =
        open_well(folder, &(dataset_options){.classes = 7, .hear = hear, .hear_user = heard});
    test_says(heard, ": 3 of 7 classes have no training sample, 4 among them");
    test_says(heard, ": 4 of 7 classes have no test sample, 3 among them");
    assert_string_equal(dataset_tests(data), path_in(folder, "t10k-images.idx3-ubyte"));
}

/* Which of two kinds is meant is not guessed; nor which of two sets of a kind a run had. */
static void two_sets(NO_ROW)
{
    const char *folder = test_folder();
    const uint8_t pixels[TRAIN * WIDE * WIDE] = {1};
    (void)make_folder_in(folder, "MNIST");
    const char *raw = make_folder_in(folder, "MNIST/raw"),
               *cifar = make_folder_in(folder, "cifar-10-batches-bin");
    put_set(raw);
    const uint64_t checksum = dataset_checksum(open_well(folder, NULL));
    const dataset_options few = {.train_limit = 2, .test_limit = 1};
    assert_true(dataset_checksum(open_well(folder, &few)) == checksum);
    put_idx(raw, "train-labels-idx1-ubyte", 0x801, 1, (const uint32_t[]){TRAIN},
        (const uint8_t[TRAIN]){2, 0, 1, 3, 2}, TRAIN); /* the same, for other images */
    assert_true(dataset_checksum(open_well(folder, NULL)) != checksum);
    put_set(raw);
    put_idx(raw, "train-images-idx3-ubyte", 0x803, 3, (const uint32_t[]){TRAIN, WIDE, WIDE}, pixels,
        sizeof pixels);
    assert_true(dataset_checksum(open_well(folder, NULL)) != checksum);
    test_file_write(path_in(cifar, "data_batch_1.bin"), "", 0);
    expect_failure(folder, NULL, CODE_USAGE, "holds more than one kind of set", "");
}

typedef struct idx_fault {
    const char *what, *name;
    uint32_t magic, size[3];
    unsigned sizes;
    size_t bytes;
    const char *part; /* of the message */
} idx_fault;

static const idx_fault idx_faults[] = {
    {"another magic", "train-images-idx3-ubyte", 0x802, {5, 4, 4}, 3, 80, "00000802"},
    {"packed", "train-labels-idx1-ubyte", 0x1f8b0808, {5}, 1, 5, "gunzip"},
    {"too short", "train-images-idx3-ubyte", 0x803, {5, 4, 4}, 3, 79,
        "has 95 bytes, its header asks for 96"},
    {"too long", "t10k-labels-idx1-ubyte", 0x801, {3}, 1, 4,
        "has 12 bytes, its header asks for 11"},
    {"swapped", "train-images-idx3-ubyte", 0x801, {5}, 1, 8, "expected 00000803: these are labels"},
    {"swapped", "train-labels-idx1-ubyte", 0x803, {5, 4, 4}, 3, 80,
        "expected 00000801: these are images"},
    {"no images", "train-images-idx3-ubyte", 0x803, {0, 4, 4}, 3, 0, "size 0"},
    {"too many", "train-images-idx3-ubyte", 0x803, {0xffffffff, 4, 4}, 3, 80, "size 4294967295"},
    {"huge", "train-images-idx3-ubyte", 0x803, {0x7fffffff, 0x7fffffff, 0x7fffffff}, 3, 80, "size"},
    {"no squares", "train-images-idx3-ubyte", 0x803, {5, 2, 8}, 3, 80, "squares"},
    {"another number", "train-labels-idx1-ubyte", 0x801, {4}, 1, 4, "4 labels for 5 images"},
    {"another size", "t10k-images.idx3-ubyte", 0x803, {3, 2, 2}, 3, 12, "other split"},
    {"only a header", "train-images-idx3-ubyte", 0x803, {5}, 1, 0, "header"},
};

static void idx_refused(void **state)
{
    const idx_fault *row = *state;
    const uint8_t zeros[128] = {0};
    const char *folder = test_folder();
    put_set(folder);
    put_idx(folder, row->name, row->magic, row->sizes, row->size, zeros, row->bytes);
    expect_failure(folder, NULL, CODE_DATA, row->part, row->name);
}

/* A set is not called missing where memory runs out while its files are looked for. */
static void idx_without_memory(NO_ROW)
{
    const char *folder = test_folder();
    dataset *data;
    put_set(folder);
    for (int turn = 0; turn < 2; turn++)
        for (int at = 1;; at++) {
            for_ever = turn == 1;
            atomic_store(&failed, 0);
            atomic_store(&allocations_left, at);
            fault f = {0};
            const bool good = dataset_open(folder, NULL, &data, &f);
            atomic_store(&allocations_left, 0);
            for_ever = false;
            if (atomic_load(&failed) == 0) {
                test_good(good, &f);
                assert_true(at > 20);
                dataset_close(data);
                break;
            }
            test_refused(good, &f, CODE_MEMORY, "out of memory");
        }
}

/* ---- folders --------------------------------------------------------------------------------- */

#if TRAINER_IMAGES

static void put_png(const char *path, uint32_t width, uint32_t height, const uint8_t *rgb)
{
    png_image png = {
        .version = PNG_IMAGE_VERSION, .width = width, .height = height, .format = PNG_FORMAT_RGB};
    assert_int_not_equal(png_image_write_to_file(&png, path, 0, rgb, 0, NULL), 0);
}

static uint8_t *make_jpeg(int width, int height, const uint8_t *rgb, int flags, size_t *count)
{
    return test_jpeg(width, height, rgb, TJPF_RGB, TJSAMP_444, 95, flags, count);
}

static void put_jpeg(const char *path, int width, int height, const uint8_t *rgb)
{
    size_t size;
    const uint8_t *bytes = make_jpeg(width, height, rgb, TJFLAG_ACCURATEDCT, &size);
    test_file_write(path, bytes, size);
}

/* The same by its definition: the mean of the pixels under a triangle around each new pixel. */
static double resized(
    const uint8_t *rgb, int width, int height, image_window w, int size, int y, int x, int c)
{
    const double step[2] = {w.height / size, w.width / size};
    const double centre[2] = {w.top + (y + 0.5) * step[0], w.left + (x + 0.5) * step[1]};
    double sum = 0, weights = 0;
    for (int v = 0; v < height; v++)
        for (int u = 0; u < width; u++) {
            const double a = 1 - fabs(v + 0.5 - centre[0]) / fmax(1, step[0]);
            const double b = 1 - fabs(u + 0.5 - centre[1]) / fmax(1, step[1]);
            if (a > 0 && b > 0) {
                sum += a * b * rgb[(v * width + u) * 3 + c];
                weights += a * b;
            }
        }
    return sum / weights;
}

static void resizing(NO_ROW)
{
    enum { WIDTH = 23, HEIGHT = 17, MOST = 40 };
    static const struct {
        image_window window;
        int size;
    } rows[] = {{{0, 0, 23, 17}, 8}, {{3, 2, 14, 14}, 14}, {{3, 2, 14, 14}, 7}, {{5, 1, 3, 9}, 40},
        {{2.5, 0.25, 20, 16.5}, 5}, {{22, 16, 1, 1}, 3}, {{0, 0, 23, 17}, 1}};
    const char *path = path_in(test_folder(), "a.png");
    uint8_t rgb[HEIGHT * WIDTH * 3], pixels[3 * MOST * MOST], mirrored[3 * MOST * MOST];
    uint32_t draw = 1;
    for (size_t i = 0; i < sizeof rgb; i++)
        rgb[i] = (uint8_t)((draw = draw * 1664525 + 1013904223) >> 24);
    put_png(path, WIDTH, HEIGHT, rgb);
    size_t count;
    uint8_t *bytes = test_file_read(path, &count);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const int size = rows[i].size;
        const image_window window = rows[i].window;
        assert_null(test_decode(bytes, count, window, (uint32_t)size, false, pixels));
        assert_null(test_decode(bytes, count, window, (uint32_t)size, true, mirrored));
        for (int c = 0; c < 3; c++)
            for (int y = 0; y < size; y++)
                for (int x = 0; x < size; x++) {
                    const double want = resized(rgb, WIDTH, HEIGHT, window, size, y, x, c);
                    const int at = (c * size + y) * size + x;
                    if (fabs(pixels[at] - want) > 0.51)
                        fail_msg("window %zu, channel %d at %d, %d: %d, expected %.2f", i, c, y, x,
                            pixels[at], want);
                    assert_int_equal(mirrored[(c * size + y) * size + size - 1 - x], pixels[at]);
                }
    }
}

#ifdef TJFLAG_LIMITSCANS
/* A progressive file whose last scan is repeated, each time over all of the image. */
static void many_scans(NO_ROW)
{
    enum { EDGE = 16, FEW = 400, MANY = 600 };
    uint8_t rgb[EDGE * EDGE * 3], pixels[3 * EDGE * EDGE];
    for (size_t i = 0; i < sizeof rgb; i++)
        rgb[i] = (uint8_t)(i * 37);
    size_t size;
    uint8_t *jpeg = make_jpeg(EDGE, EDGE, rgb, TJFLAG_PROGRESSIVE, &size);
    size_t last = 0; /* where the last scan begins; it ends before the two bytes of the end */
    for (size_t i = 0; i + 1 < size; i++)
        if (jpeg[i] == 0xff && jpeg[i + 1] == 0xda)
            last = i;
    const size_t scan = size - 2 - last;
    assert_true(last > 0 && scan > 8);
    uint8_t *file = test_alloc(size + MANY * scan);
    for (int repeats = FEW; repeats <= MANY; repeats += MANY - FEW) {
        size_t count = size - 2;
        memcpy(file, jpeg, count);
        for (int i = 0; i < repeats; i++, count += scan)
            memcpy(file + count, jpeg + last, scan);
        memcpy(file + count, jpeg + size - 2, 2);
        const char *why =
            test_decode(file, count + 2, (image_window){0, 0, EDGE, EDGE}, EDGE, false, pixels);
        assert_int_equal(why == NULL, repeats == FEW);
        if (why != NULL && strstr(why, "scans") == NULL)
            fail_msg("'%s' does not speak of scans", why);
    }
}
#endif

/* The checksum of a PNG chunk. */
static uint32_t crc_of(const uint8_t *bytes, size_t count)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 1) != 0 ? crc >> 1 ^ UINT32_C(0xedb88320) : crc >> 1;
    }
    return ~crc;
}

static void put_big_endian(uint8_t *bytes, unsigned count, uint32_t value)
{
    for (unsigned i = 0; i < count; i++)
        bytes[i] = (uint8_t)(value >> 8 * (count - 1 - i));
}

/* Headers that claim 2^28 pixels, and one column more. */
static void many_pixels(NO_ROW)
{
    enum { EDGE = 16, HUGE_EDGE = 1 << 14, IHDR = 12 };
    const char *path = path_in(test_folder(), "a.png");
    uint8_t rgb[EDGE * EDGE * 3] = {0}, pixels[3 * EDGE * EDGE];
    size_t size[2];
    put_png(path, EDGE, EDGE, rgb);
    uint8_t *jpeg = make_jpeg(EDGE, EDGE, rgb, 0, &size[0]), *png = test_file_read(path, &size[1]);
    size_t frame = 0; /* where the JPEG has its frame header: FF C0, length, precision, height */
    while (jpeg[frame] != 0xff || jpeg[frame + 1] != 0xc0)
        assert_true(++frame + 9 < size[0]);
    for (uint32_t more = 0; more < 2; more++) {
        put_big_endian(jpeg + frame + 5, 2, HUGE_EDGE);
        put_big_endian(jpeg + frame + 7, 2, HUGE_EDGE + more);
        put_big_endian(png + IHDR + 4, 4, HUGE_EDGE + more);
        put_big_endian(png + IHDR + 8, 4, HUGE_EDGE);
        put_big_endian(png + IHDR + 17, 4, crc_of(png + IHDR, 17));
        for (int kind = 0; kind < 2; kind++) {
            const char *why = test_decode(kind == 0 ? jpeg : png, size[kind],
                (image_window){0, 0, HUGE_EDGE, HUGE_EDGE}, EDGE, false, pixels);
            const bool many = why != NULL && strstr(why, "too many") != NULL;
            if (many != (more == 1))
                fail_msg("%s, 2^28 pixels and %u columns: '%s'", kind == 0 ? "JPEG" : "PNG", more,
                    why == NULL ? "" : why);
        }
    }
}

/* A folder of train/{a,b}, val/b; each image is of one colour. */
static const char *put_folders(void)
{
    static const char *const made[] = {
        "train", "train/b", "train/a", "val", "val/b", "val/.hidden", "train/a/x.jpg.d"};
    static const struct {
        const char *name;
        uint8_t colour[3];
    } files[] = {{"train/a/1.png", {10, 20, 30}}, {"train/a/2.JPEG", {200, 100, 50}},
        {"train/b/1.jpg", {0, 255, 0}}, {"train/b/3.Png", {90, 90, 90}},
        {"val/b/1.jpeg", {1, 2, 3}}};
    const char *folder = test_folder();
    uint8_t rgb[48 * 32 * 3];
    for (size_t i = 0; i < COUNT_OF(made); i++)
        (void)make_folder_in(folder, made[i]);
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        const char *path = path_in(folder, files[i].name);
        for (size_t p = 0; p < sizeof rgb; p++)
            rgb[p] = files[i].colour[p % 3];
        if (i == 0 || i == 3 || i == 4) /* the last one has a JPEG's name, as in ImageNet */
            put_png(path, 48, 32, rgb);
        else
            put_jpeg(path, 48, 32, rgb);
    }
    test_file_write(path_in(folder, "train/a/notes.txt"), "no image", 8);
    return folder;
}

static void folders(NO_ROW)
{
    const char *folder = put_folders();
    dataset_options wanted = {.usual_image_size = 16};
    const dataset *data = open_well(folder, &wanted);
    assert_int_equal(dataset_classes(data), 2);
    assert_int_equal(dataset_image_size(data), 16);
    assert_int_equal(dataset_count(data, DATASET_TRAIN), 4);
    assert_int_equal(dataset_count(data, DATASET_TEST), 1);
    enum { IMAGE = 3 * 16 * 16 };
    uint8_t images[4 * IMAGE], again[4 * IMAGE];
    int32_t labels[4];
    const uint32_t indices[4] = {3, 0, 1, 2};
    const int colour[4][3] = {{90, 90, 90}, {10, 20, 30}, {200, 100, 50}, {0, 255, 0}};
    const augment_options augments[2] = {{1, 0}, {1, 1}};
    for (int turn = 0; turn < 3; turn++) {
        const augment_options *augment = turn == 0 ? NULL : &augments[turn - 1];
        read_batch(data, DATASET_TRAIN, indices, 4, augment, images, labels);
        read_batch(data, DATASET_TRAIN, indices, 4, augment, again, labels);
        assert_memory_equal(images, again, sizeof images); /* whichever thread made which */
        assert_true(labels[0] == 1 && labels[1] == 0 && labels[2] == 0 && labels[3] == 1);
        for (int i = 0; i < 4; i++)
            for (int c = 0; c < 3; c++)
                for (int p = 0; p < 256; p++)
                    assert_true(abs(images[i * IMAGE + c * 256 + p] - colour[i][c]) <= 2);
    }
    read_batch(data, DATASET_TEST, &indices[1], 1, NULL, images, labels);
    assert_int_equal(labels[0], 1);
    assert_true(images[0] == 1 && images[256] == 2 && images[512] == 3);
    /* a limit leaves images of both classes */
    wanted.train_limit = 2;
    data = open_well(folder, &wanted);
    const uint32_t both[2] = {0, 1};
    read_batch(data, DATASET_TRAIN, both, 2, NULL, images, labels);
    assert_true(labels[0] == 0 && labels[1] == 1);
    const uint64_t checksum = dataset_checksum(data);
    /* another name of a class, or number of images, is another set */
    static const char *const names[][2] = {{"train/a", "train/A"}, {"train/a/1.png", "train/a/1"}};
    for (int i = 0; i < 2; i++) {
        const char *path = path_in(folder, names[i][0]), *other = path_in(folder, names[i][1]);
        assert_int_equal(rename(path, other), 0);
        assert_true(dataset_checksum(open_well(folder, &wanted)) != checksum);
        assert_int_equal(rename(other, path), 0);
        assert_true(dataset_checksum(open_well(folder, &wanted)) == checksum);
    }
    /* a broken file is named, or passed over and counted */
    wanted.train_limit = 0;
    const char *path = path_in(folder, "train/a/2.JPEG");
    size_t bytes;
    const uint8_t *jpeg = test_file_read(path, &bytes);
    test_file_write(path, jpeg, 40);
    data = open_well(folder, &wanted);
    refuse_batch(data, DATASET_TRAIN, indices, 4, images, labels, CODE_DATA, "train/a/2.JPEG: ");
    assert_int_equal(dataset_skipped(data), 0);
    wanted.skip_broken = true;
    data = open_well(folder, &wanted);
    read_batch(data, DATASET_TRAIN, indices, 4, NULL, images, labels);
    assert_int_equal(dataset_skipped(data), 1);
    assert_int_equal(labels[2], 1); /* the next one */
    /* what is no set */
    (void)make_folder_in(folder, "val/c");
    expect_failure(folder, &wanted, CODE_DATA, "val/c: train has no such class", "");
}

/* A FIFO, and a file of 2 GiB that begins as an image: refused by name and without waiting, or
 * passed over. */
static void no_usual_files(NO_ROW)
{
    static const char *const parts[] = {
        "train/a/2.JPEG: it is a FIFO", "train/a/2.JPEG: it is empty, or larger than 2 GiB"};
    const char *folder = put_folders(), *path = path_in(folder, "train/a/2.JPEG");
    const uint32_t indices[4] = {3, 0, 1, 2};
    uint8_t images[4 * 3 * 16 * 16], rgb[16 * 16 * 3] = {0};
    int32_t labels[4];
    for (int large = 0; large < 2; large++) {
        assert_int_equal(unlink(path), 0);
        if (large) {
            put_jpeg(path, 16, 16, rgb);
            assert_int_equal(truncate(path, (off_t)1 << 31), 0);
        } else {
            assert_int_equal(mkfifo(path, 0600), 0);
        }
        for (int skips = 0; skips < 2; skips++) {
            (void)alarm(60);
            const dataset *data =
                open_well(folder, &(dataset_options){.usual_image_size = 16, .skip_broken = skips});
            if (skips)
                read_batch(data, DATASET_TRAIN, indices, 4, NULL, images, labels);
            else
                refuse_batch(
                    data, DATASET_TRAIN, indices, 4, images, labels, CODE_DATA, parts[large]);
            (void)alarm(0);
            assert_int_equal(dataset_skipped(data), skips);
        }
    }
}

/* A good image is not passed over where memory runs out, whichever allocation fails. */
static void out_of_memory(NO_ROW)
{
    const dataset_options wanted = {.usual_image_size = 16, .skip_broken = true};
    uint8_t image[3 * 16 * 16];
    int32_t label;
    const dataset *data = open_well(put_folders(), &wanted);
    for (uint32_t index = 0; index < 4; index++) { /* JPEG and PNG */
        int at = 0;
        bool good;
        fault f = {0};
        do {
            atomic_store(&allocations_left, ++at);
            good = dataset_batch(data, DATASET_TRAIN, &index, 1, NULL, image, &label, &f);
            if (atomic_exchange(&allocations_left, 0) > 0)
                break;
            test_refused(good, &f, CODE_MEMORY, "");
            assert_int_equal(dataset_skipped(data), 0);
        } while (at < 100);
        test_good(good, &f);
        assert_true(at > 5);
    }
}

/* Nor where no file can be opened any more. */
static void out_of_descriptors(NO_ROW)
{
    fault f = {0};
    const dataset_options wanted = {.usual_image_size = 16, .skip_broken = true};
    const uint32_t indices[4] = {0, 1, 2, 3};
    uint8_t images[4 * 3 * 16 * 16];
    int32_t labels[4];
    struct rlimit limit, none;
    const dataset *data = open_well(put_folders(), &wanted);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){0, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const bool read = dataset_batch(data, DATASET_TRAIN, indices, 4, NULL, images, labels, &f);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    test_refused(read, &f, CODE_MEMORY, strerror(EMFILE));
    assert_int_equal(dataset_skipped(data), 0);
    read_batch(data, DATASET_TRAIN, indices, 4, NULL, images, labels);
}

/* A folder that cannot be read to its end is no smaller set. */
static void unreadable_folder(NO_ROW)
{
    const char *folder = put_folders();
    const dataset_options wanted = {.usual_image_size = 16};
    dataset *data;
    int at = 0;
    for (;;) {
        atomic_store(&entries_left, ++at);
        fault f = {0};
        const bool good = dataset_open(folder, &wanted, &data, &f);
        if (atomic_exchange(&entries_left, 0) > 0) {
            test_good(good, &f);
            break;
        }
        test_refused(good, &f, CODE_DATA, strerror(EIO));
    }
    assert_true(at > 15);
    assert_int_equal(dataset_count(data, DATASET_TRAIN), 4);
    dataset_close(data);
}

/* Draws of windows: inside, of the area and the shape that the paper has; the mean area is 54 %
 * without the draws that do not fit. */
static void crops(NO_ROW)
{
    const char *folder = put_folders();
    uint8_t rgb[64 * 64 * 3];
    for (int y = 0; y < 64; y++) /* red is the column, green the row */
        for (int x = 0; x < 64; x++) {
            const uint8_t pixel[3] = {(uint8_t)(4 * x), (uint8_t)(4 * y), 0};
            memcpy(rgb + (y * 64 + x) * 3, pixel, 3);
        }
    put_png(path_in(folder, "train/a/1.png"), 64, 64, rgb);
    const dataset *data = open_well(folder, &(dataset_options){.image_size = 16});
    enum { DRAWS = 400 };
    double areas = 0;
    int mirrors = 0, windows = 0;
    double before = 0;
    for (uint32_t epoch = 0; epoch < DRAWS; epoch++) {
        const augment_options augment = {3, epoch};
        const uint32_t index = 0;
        uint8_t image[3 * 256];
        int32_t label;
        read_batch(data, DATASET_TRAIN, &index, 1, &augment, image, &label);
        /* from the centres of the outer pixels, 15/16 of a window apart */
        const double across = (image[15] - image[0]) / 4.0 * 16 / 15;
        const double down = (image[256 + 240] - image[256]) / 4.0 * 16 / 15;
        const double area = fabs(across) * down / (64 * 64), ratio = fabs(across) / down;
        mirrors += across < 0;
        areas += area;
        windows += fabs(area - before) > 1e-9;
        before = area;
        if (area < 0.05 || area > 1.05 || ratio < 0.6 || ratio > 1.7)
            fail_msg("epoch %u: area %.3f, ratio %.3f", epoch, area, ratio);
    }
    assert_true(mirrors > DRAWS * 0.4 && mirrors < DRAWS * 0.6);
    assert_true(windows > DRAWS * 0.9);
    assert_true(areas / DRAWS > 0.45 && areas / DRAWS < 0.6);
}

#endif

int main(void)
{
    test_list list = {0};
    test_add(&list, idx_images, NULL, "IDX");
    test_add(&list, idx_empty_classes, NULL, "IDX, classes without images");
    test_add(&list, two_sets, NULL, "two sets");
    for (size_t i = 0; i < COUNT_OF(idx_faults); i++)
        test_add(&list, idx_refused, &idx_faults[i], "IDX, refused: %s", idx_faults[i].what);
    test_add(&list, idx_without_memory, NULL, "IDX, memory runs out");
#if TRAINER_IMAGES
    test_add(&list, resizing, NULL, "resizing");
#ifdef TJFLAG_LIMITSCANS
    test_add(&list, many_scans, NULL, "a JPEG of many scans");
#endif
    test_add(&list, many_pixels, NULL, "an image of too many pixels");
    test_add(&list, folders, NULL, "folders");
    test_add(&list, no_usual_files, NULL, "FIFOs and files of 2 GiB among images");
    test_add(&list, out_of_memory, NULL, "memory runs out");
    test_add(&list, out_of_descriptors, NULL, "file descriptors run out");
    test_add(&list, unreadable_folder, NULL, "a folder that cannot be read to its end");
    test_add(&list, crops, NULL, "random windows");
#endif
    return test_run_on_host("dataset_files", &list);
}
