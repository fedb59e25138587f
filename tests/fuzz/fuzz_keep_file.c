/* Keep files of both models: a byte, then the text. What is written of accepted rules reads back
 * as the same rules. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "resmlp_model.h"
#include "resnet_model.h"
#include "trainer/model/net_model.h"
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

/* A copy of the list of the model's usual sizes, which is made once. */
static keep_list copy_list(const trainer_model *model)
{
    static keep_list lists[2];
    keep_list *list = &lists[model == &resnet_model];
    trainer_sizes sizes = {.arch = model->arch};
    if (list->count == 0)
        FUZZ_CHECK(net_model_settle(model, &sizes) == NULL &&
                   net_model_list(model, &sizes, &(keep_choice){0}, 8, list) == NULL);
    const keep_list copy = {malloc(list->count * sizeof *copy.tensors), list->count};
    FUZZ_CHECK(copy.tensors != NULL);
    memcpy(copy.tensors, list->tensors, list->count * sizeof *copy.tensors);
    return copy;
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
    const char *path = fuzz_write("rules", in.data, in.size);
    if (!keep_file_read(path, &text, &f)) {
        FUZZ_CHECK(f.code == CODE_DATA && text == NULL);
        fuzz_check_text(f.text, path);
        return;
    }
    keep_list rules = copy_list(model), again = copy_list(model);
    if (!keep_file_apply(text, "rules", &o, &rules, &f)) {
        FUZZ_CHECK(f.code == CODE_DATA);
        fuzz_check_text(f.text, "rules:");
    } else {
        FUZZ_CHECK(keep_file_write(&rules, &written, &f));
        if (!keep_file_apply(written, "written", &o, &again, &f))
            fuzz_check(false, f.text, __FILE__, __LINE__);
        for (size_t i = 0; i < rules.count; ++i)
            FUZZ_CHECK(same(&rules.tensors[i].rule, &again.tensors[i].rule));
    }
    keep_list_close(&rules);
    keep_list_close(&again);
    free(text);
    free(written);
    options_close(&o);
}
