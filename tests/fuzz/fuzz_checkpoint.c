/* Checkpoints: a byte, then the file. An odd byte repairs what almost no input has right: the
 * header, the size and the checksum, so that records are read, too. Then what a resumed run takes
 * from them: its settings and its overrides of the preset. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "resmlp_model.h"
#include "trainer/files/checkpoint.h"
#include "trainer/options/keep_file.h"
#include "trainer/options/options.h"

enum { HEADER = 16, TRAILER = 24, BLOCKS = 3 };

static void repair(uint8_t *file, size_t size)
{
    static const uint8_t magic[8] = {'C', 'L', 'P', 'R', 'C', 'K', 'P', 'T'};
    const uint32_t version = 2, order = 0x01020304, mark = 0xFFFFFFFF;
    const uint64_t bytes = size;
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    memcpy(file, magic, sizeof magic);
    memcpy(file + 8, &version, 4);
    memcpy(file + 12, &order, 4);
    memcpy(file + size - TRAILER, &mark, 4);
    memcpy(file + size - TRAILER + 8, &bytes, 8);
    for (size_t i = 0; i < size - 8; ++i)
        hash = (hash ^ file[i]) * UINT64_C(0x100000001B3);
    memcpy(file + size - 8, &hash, 8);
}

static size_t element(checkpoint_type type)
{
    return type == CHECKPOINT_BYTES ? 1 : type == CHECKPOINT_F32 ? 4 : 8;
}

/* Names end and data lie within the file. */
static void check_record(const checkpoint *c, const checkpoint_record *r)
{
    const unsigned char *data = r->data, *name = (const unsigned char *)r->name;
    const uint64_t bytes = r->rows * r->cols * element(r->type);
    fault f = {0};
    FUZZ_CHECK(r->cols == 0 || r->rows <= UINT64_MAX / element(r->type) / r->cols);
    FUZZ_CHECK(name > c->bytes && data >= name + strlen(r->name));
    FUZZ_CHECK(bytes <= (uint64_t)(c->bytes + c->size - data));
    FUZZ_CHECK(r->name[0] == '\0' || checkpoint_find(c, r->name) != NULL);
    FUZZ_CHECK((uintptr_t)data % 8 == 0);
    if (checkpoint_find(c, r->name) == r)
        FUZZ_CHECK(checkpoint_get(c, r->name, r->type, r->rows, r->cols, &f) == r->data);
    else
        (void)checkpoint_get(c, r->name, r->type, r->rows, r->cols, &f);
}

static void use_settings(const checkpoint *c, const char *path)
{
    const checkpoint_record *settings = checkpoint_find(c, "options"),
                            *keep = checkpoint_find(c, "keep");
    options o = options_defaults(&resmlp_model);
    fault f = {0};
    o.resume = path;
    if (settings != NULL && settings->type == CHECKPOINT_BYTES &&
        !options_restore(&o, settings->data, (size_t)(settings->rows * settings->cols), &f))
        FUZZ_CHECK(f.code != CODE_OK);
    const char *text = keep != NULL ? keep->data : NULL;
    const uint64_t length = keep != NULL ? keep->rows * keep->cols : 0;
    if (keep != NULL && keep->type == CHECKPOINT_BYTES && length > 0 && text[length - 1] == '\0') {
        static keep_list list; /* any rules do */
        trainer_sizes sizes = {.arch = resmlp_model.arch};
        if (list.count == 0)
            FUZZ_CHECK(net_model_settle(&resmlp_model, &sizes) == NULL &&
                       net_model_list(&resmlp_model, &sizes, &(keep_choice){0}, 8, &list) == NULL);
        f = (fault){0};
        if (!keep_file_apply(text, "the checkpoint", &o, &list, &f))
            FUZZ_CHECK(f.code == CODE_DATA);
    }
    options_close(&o);
}

void fuzz_target(fuzz_input in)
{
    checkpoint c;
    fault f = {0};
    const bool repaired = (fuzz_byte(&in) & 1) != 0 && in.size >= HEADER + TRAILER;
    uint8_t *file = (uint8_t *)fuzz_text(&(fuzz_input){in.data, in.size});
    if (repaired)
        repair(file, in.size);
    const char *path = fuzz_write("a.ckpt", file, in.size);
    free(file);
    if (!checkpoint_open(path, &c, &f)) {
        FUZZ_CHECK(f.code == CODE_DATA && c.bytes == NULL && c.records == NULL);
        fuzz_check_text(f.text, path);
        return;
    }
    for (size_t i = 0; i < c.count; ++i)
        check_record(&c, &c.records[i]);
    use_settings(&c, path);
    checkpoint_close(&c);
}
