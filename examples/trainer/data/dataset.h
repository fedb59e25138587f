/*
 * dataset.h: samples for the trainer. Labelled images: CIFAR-10, CIFAR-100, IDX files (MNIST),
 * folders of JPEG and PNG files (ImageNet). Sequences of tokens. Or a set of either that the
 * program makes itself.
 *
 *     dataset *data;
 *     if (!dataset_open("generated", NULL, &data, &fault)) ...
 *     dataset_shuffle(seed, epoch, dataset_count(data, DATASET_TRAIN), order);
 *     dataset_batch(data, DATASET_TRAIN, order, 32, &augment, images, labels, &fault);
 *     dataset_close(data);
 *
 * Everything random is a pure function of seeds, epoch and index, never of what was asked before:
 * a run resumed at an epoch's start gets the same bits as one that was never stopped.
 *
 * Letters: n samples in a batch, S pixels per side, 3 channels (red, green, blue), T tokens in a
 * sequence. Images are (n, 3, S, S), row-major, a byte each, with a label each. Sequences are (n,
 * T), int32, and so are their labels: the same text one token later. Sentences have a label each.
 * Images for segmentation have a label for each pixel, (n, S, S).
 *
 * Faults name the file (if any) and what is wrong with it: CODE_USAGE for an option or index that
 * makes no sense for this set; CODE_DATA for a file, or any known set of files, that is missing or
 * wrong; CODE_MEMORY for want of memory or descriptors, where the files may be good. A dataset does
 * not change after it is opened: threads may share it.
 */
#ifndef TRAINER_DATASET_H
#define TRAINER_DATASET_H

#include <stdbool.h>
#include <stddef.h> /* size_t */
#include <stdint.h>

#include "trainer/base/fault.h"
#include "trainer/data/augment/augment.h" /* augment_options */

enum { DATASET_CHANNELS = 3, DATASET_LEVELS = 256 };

typedef enum dataset_split { DATASET_TRAIN = 0, DATASET_TEST = 1 } dataset_split;

/* The mean and the deviation that dataset_levels takes. */
typedef enum dataset_normalise {
    DATASET_BY_DATA,     /* the set's own; of folders ImageNet's */
    DATASET_BY_IMAGENET, /* ImageNet's */
    DATASET_BY_HALF      /* 0.5 and 0.5: levels from -1 to 1 */
} dataset_normalise;

/* Hears a line that is no failure. Calls come from any thread, one at a time. */
typedef void dataset_hear_fn(void *user, const char *note);

/*
 * Zero means the default, so {0} asks for nothing special.
 *
 *     image_size       CIFAR and IDX: the files'. Folders: 1 to 4096; default usual_image_size, or
 *                      224. Generated: 16 to 1024; default 32
 *     classes          CIFAR: 10 or 100, as the files. IDX and folders: at least the files'.
 *                      Generated: 2 to 1250, default 10; with pixels 2 to 6, default 6
 *     train_limit      CIFAR and IDX: at most so many, the first; default all. Folders: at most so
 *                      many, spread over all classes; default all. Sentences: at most so many,
 *                      drawn over all; default all. Generated: exactly so many; default 8000
 *     test_limit       likewise; generated: default 2000
 *     seed             of generated images; else ignored
 *     pixels           of images: each pixel has a label, 0 ... classes - 1, or CLPRUNE_IGNORED; of
 * a folder classes must be given, and files have masks (dataset_folder.c) normalise        of
 * images: the mean and the deviation; default the set's own skip_broken      folders: an image that
 * cannot be read is replaced by the next; else ignored hear             told of files of folders
 * that are left out when the set is opened, of classes without images, and of each broken image
 * once; default nobody
 *
 *     context          T, 1 to 65536: the set is of tokens, and classes, which must be given, is
 *                      the vocabulary; limits count sequences. 0: of images
 *     model            of tokens: the model with the vocabulary of texts (text_tokens.h), not
 *                      owned. NULL: a text is its bytes
 *     labels           of tokens: sequences are sentences, with a length up to T and one label
 *                      below this number. 0: with a label for each token
 *
 *     apart            of tokens with a label each: sequences have whole texts of NAME.jsonl
 *                      (text_packs.h), of which the last tenth is for tests
 *
 *     resumed          the dataset_checksum of the run that goes on, whose tests are kept; 0: none
 *
 * Limits end at 2^31 - 1.
 */
typedef struct dataset_options {
    uint32_t image_size; /* S */
    uint32_t classes;
    uint32_t train_limit, test_limit;
    uint64_t seed;
    uint64_t resumed;
    size_t context;
    struct text_model *model;
    uint32_t labels;
    uint32_t usual_image_size;
    dataset_normalise normalise;
    bool pixels;
    bool apart;
    bool skip_broken;
    int processes; /* that share the cores; 0: one */
    dataset_hear_fn *hear;
    void *hear_user;
} dataset_options;

typedef struct dataset dataset;

/*
 * Opens a set. source is "generated" or a folder (write "./generated" for a folder of that name).
 *
 * A folder holds the set's binary version [1], directly or in its usual subfolder:
 *
 *     CIFAR-10     cifar-10-batches-bin/data_batch_{1..5}.bin, test_batch.bin
 *                  records: label, 3072 pixels
 *     CIFAR-100    cifar-100-binary/train.bin, test.bin
 *                  records: coarse label, fine label (the one used), 3072 pixels
 *
 * Pixels are 32x32 bytes, one colour plane after the other. The files found decide which set it is;
 * two sets are an error, also of one kind. Files are read into host memory up to the limits
 * (files past the train limit are not even opened); all of CIFAR-10 is 184 MB. Any whole number of
 * records >= 1 is a legal file. A label that is not one of the set's classes is an error.
 *
 * Generated images are made when a batch asks for them, so that a large set costs no memory;
 * dataset_generated.c says what they show. Their bits depend on (seed, image_size, classes, split,
 * index) alone, on any machine. The label of image i is i mod classes, unless pixels have labels.
 * Mirroring an image does not change its class.
 *
 * options may be NULL. On failure *out is NULL. The caller closes *out.
 *
 * IDX files are those of MNIST and of sets of its format: train-images-idx3-ubyte,
 * train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, directly or where
 * torchvision puts them (MNIST/raw, FashionMNIST/raw, ...), unpacked. Their images are grey
 * squares, and are never mirrored.
 *
 * Folders are train/CLASS/FILE and val/CLASS/FILE (or test); dataset_folder.c says how files are
 * cut.
 *
 * Tokens (options->context > 0) are in a file (token_file.h), or in train.bin or train.txt of a
 * folder; dataset_tokens.c says which of them are for tests, dataset_sentences.c how sentences are
 * written.
 *
 * [1] A. Krizhevsky, https://www.cs.toronto.edu/~kriz/cifar.html, "Binary version".
 */
bool dataset_open(const char *source, const dataset_options *options, dataset **out, fault *f);

/* Frees everything; accepts NULL. */
void dataset_close(dataset *data);

const char *dataset_name(const dataset *data);    /* "CIFAR-10", "CIFAR-100", "IDX", ... */
uint64_t dataset_skipped(const dataset *data);    /* broken images met so far */
uint32_t dataset_classes(const dataset *data);    /* labels are 0 ... classes - 1 */
uint32_t dataset_image_size(const dataset *data); /* S */
uint32_t dataset_count(const dataset *data, dataset_split split); /* samples in a split, >= 1 */

/* What a sample is. */
typedef struct dataset_shape {
    size_t bytes;  /* of its inputs: 3 * S * S, or 4 * T, or 4 * (T + 1), or 8 * T */
    size_t labels; /* 1, or T, or S * S */
    bool tokens;
    bool lengths; /* a sentence's tokens, then zeros up to T, then how many tokens there are */
    bool starts;  /* T tokens, then for each the row at which its text begins */
} dataset_shape;
dataset_shape dataset_sample(const dataset *data);
/* Where tests come from: "DIR/val.bin", "the last tenth of FILE"; "" if they are generated. */
const char *dataset_tests(const dataset *data);
/* Whether images are moved as augment.h says; those of folders have windows of their own, and
 * generated ones with labels of pixels are only mirrored. */
bool dataset_moves(const dataset *data);
/* Whether the tokens are the bytes of a text. */
bool dataset_is_text(const dataset *data);
/* Tells sets of one name apart. IDX: of the training pixels and labels; CIFAR: likewise, up to the
 * limit; folders: of the names of all training files; generated: 0. */
uint64_t dataset_checksum(const dataset *data);
/* Folders: a checksum of the sizes of the training files, of 65536 of them if there are more; else
 * 0. */
uint64_t dataset_sizes(const dataset *data);
/* Of the tests, where dataset_checksum has none of them: of IDX and CIFAR all, of folders 64
 * images, spread over all; else 0. */
uint64_t dataset_tests_checksum(const dataset *data);
/* Of images, (3, 256): the value of each byte of each channel, (v / 255 - mean[c]) / std[c]. */
const float *dataset_levels(const dataset *data);

/*
 * Reads count samples.
 *
 * indices  (count) each < dataset_count(data, split); repeats are fine
 * augment  NULL for the samples as they are (tests); else each image is cropped and mirrored at
 *          random, see augment.h, and sequences begin at an offset that is drawn for the epoch
 * inputs   (count, 3, S, S) receives the bytes; dataset_levels has their values. Or (count, T)
 *          int32, of sentences (count, T + 1), of texts apart (count, 2 T), and is aligned for them
 * labels   (count), or (count, T), or (count, S, S), receives the labels
 *
 * On failure inputs and labels hold nothing of use.
 */
bool dataset_batch(const dataset *data, dataset_split split, const uint32_t *indices, size_t count,
    const augment_options *augment, uint8_t *inputs, int32_t *labels, fault *f);

/* The labels among these that are not CLPRUNE_IGNORED. */
uint64_t dataset_labels_counted(const int32_t *labels, size_t count);

/* *labels: the same of all these samples; arguments as in dataset_batch. 0, and nothing is read, if
 * the set is not of tokens, or if all of its labels count. */
bool dataset_count_labels(const dataset *data, dataset_split split, const uint32_t *indices,
    size_t count, const augment_options *augment, uint64_t *labels, fault *f);

/* dataset_batch of images that augment->mixup or cutmix may mix with others of the split.
 *
 * others   (count) receives the other images' labels; the images' own where they were not mixed
 * shares   (count) receives what counts of the first label, in [0, 1]; the rest is of the other
 */
bool dataset_batch_mixed(const dataset *data, dataset_split split, const uint32_t *indices,
    size_t count, const augment_options *augment, uint8_t *inputs, int32_t *labels, int32_t *others,
    float *shares, fault *f);

/* The order of an epoch: fills indices (n) with a permutation of 0 ... n - 1 that depends on
 * (seed, epoch, n) alone. Draws are without bias. */
void dataset_shuffle(uint64_t seed, uint32_t epoch, uint32_t n, uint32_t *indices);

#endif
