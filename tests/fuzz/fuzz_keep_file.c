/* Keep files of both models: a byte, then the text. What is written of accepted rules reads back
 * as the same rules. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "resmlp_model.h"
#include "resnet_model.h"
#include "trainer/options/keep_file.h"

/* The same settings, by what a file would say of them; equal bytes say the same. */
static bool same(const keep_rule *a, const keep_rule *b)
{
    char x[512], y[512];
    if (memcmp(a, b, sizeof *a) == 0)
        return true;
    keep_file_form(a, x, sizeof x);
    keep_file_form(b, y, sizeof y);
    return strcmp(x, y) == 0;
}

void fuzz_target(fuzz_input in)
{
    const uint8_t flags = fuzz_byte(&in);
    const trainer_model *model = (flags & 1) ? &resnet_model : &resmlp_model;
    options o = options_defaults(model);
    fault f = {0};
    char *text, *written = NULL;
    o.sparsity = (flags & 2) ? 0.5 : 0;
    options_settle(&o);
    if (model->keep->count == 0)
        FUZZ_CHECK(model->settle(&(trainer_sizes){.arch = model->arch}) == NULL);
    const char *path = fuzz_write("rules", in.data, in.size);
    if (!keep_file_read(path, &text, &f)) {
        FUZZ_CHECK(f.code == CODE_DATA && text == NULL);
        fuzz_check_text(f.text, path);
        return;
    }
    const size_t count = model->keep->count;
    keep_rule *rules = calloc(count, sizeof *rules), *again = calloc(count, sizeof *again);
    FUZZ_CHECK(rules != NULL && again != NULL);
    const keep_how how = options_how(&o);
    keep_preset_rules(model->keep, 0, &how, 0, rules);
    memcpy(again, rules, count * sizeof *rules);
    if (!keep_file_apply(text, "rules", &o, rules, &f)) {
        FUZZ_CHECK(f.code == CODE_DATA);
        fuzz_check_text(f.text, "rules:");
    } else {
        keep_set_grids(model->keep, rules);
        FUZZ_CHECK(keep_file_write(model->keep, rules, &written, &f));
        if (!keep_file_apply(written, "written", &o, again, &f))
            fuzz_check(false, f.text, __FILE__, __LINE__);
        for (size_t i = 0; i < count; ++i)
            FUZZ_CHECK(same(&rules[i], &again[i]));
    }
    free(rules);
    free(again);
    free(text);
    free(written);
    options_close(&o);
}
