/* The index that a run keeps blocks with: by preset, by option, from checkpoints old and new. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "support/test_device.h"

typedef struct indices_row {
    const char *name;
    const char *arguments[6]; /* ends with NULL */
    const char *settings;     /* of the checkpoint, each ended by ';'; NULL: none */
    clprune_index_type want;
} indices_row;

static const indices_row rows[] = {
    {"dense", {NULL}, NULL, CLPRUNE_INDEX_INT32},
    {"paper", {"--activations", "paper", NULL}, NULL, CLPRUNE_INDEX_INT32},
    {"paper, asked for", {"--activations", "paper", "--indices", "bitmap", NULL}, NULL,
        CLPRUNE_INDEX_BITMAP},
    {"compact", {"--activations", "compact", NULL}, NULL, CLPRUNE_INDEX_SMALLEST},
    {"compact, asked for", {"--indices", "int32", "--activations", "compact", NULL}, NULL,
        CLPRUNE_INDEX_INT32},
    {"a checkpoint without the option, paper", {"--resume", "c", NULL},
        "activations=paper;values=fp32;", CLPRUNE_INDEX_INT32},
    {"a checkpoint without the option, compact", {"--resume", "c", NULL},
        "activations=compact;values=fp16;", CLPRUNE_INDEX_SMALLEST},
    {"a checkpoint", {"--resume", "c", NULL}, "activations=compact;indices=int16;",
        CLPRUNE_INDEX_INT16},
    {"a checkpoint, asked for otherwise", {"--resume", "c", "--indices", "int32", NULL},
        "activations=compact;indices=int16;", CLPRUNE_INDEX_INT32},
    {"a checkpoint without the option, asked for", {"--resume", "c", "--indices", "bitmap", NULL},
        "activations=paper;", CLPRUNE_INDEX_BITMAP},
};

static void indices(void **state)
{
    const indices_row *row = *state;
    char program[] = "resmlp-train", words[6][32], *argv[8] = {program}, settings[128];
    int argc = 1;
    options o;
    fault f = {0};
    for (; row->arguments[argc - 1] != NULL; argc++) {
        (void)snprintf(words[argc - 1], sizeof words[0], "%s", row->arguments[argc - 1]);
        argv[argc] = words[argc - 1];
    }
    optind = 0; /* getopt starts anew */
    assert_true(options_parse(argc, argv, &o, &f));
    if (row->settings != NULL) {
        const size_t size = strlen(row->settings);
        memcpy(settings, row->settings, size);
        for (size_t i = 0; i < size; i++)
            if (settings[i] == ';')
                settings[i] = '\0';
        assert_true(options_restore(&o, settings, size, &f));
    }
    assert_int_equal(o.indices, row->want);

    /* What is saved is what was settled. */
    char *text, want[32];
    size_t size;
    bool found = false;
    (void)snprintf(want, sizeof want, "indices=%s", options_indices[row->want]);
    assert_true(options_save(&o, &text, &size, &f));
    for (const char *p = text; p < text + size; p += strlen(p) + 1)
        found = found || strcmp(p, want) == 0;
    assert_true(found);
    free(text);
    options_close(&o);
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        test_add(&list, indices, &rows[i], "indices: %s", rows[i].name);
    return test_run_on_host("options", &list);
}
