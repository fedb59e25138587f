/* The list of forms. */
#include "nn/store/form.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/check.h"

#define ADDRESS(name) &clprune__form_##name,
static const clprune__form *const forms[] = {CLPRUNE__FORMS(ADDRESS)};

const clprune__form *clprune__form_of(clprune_form form)
{
    return (unsigned)form < sizeof forms / sizeof forms[0] ? forms[form] : NULL;
}

bool clprune__form_reads_bf16_dy(const clprune_context *context, clprune_form form)
{
    return clprune__gemm_reads_bf16_dy(context) && clprune__form_of(form)->product_reads_bf16;
}

const char *clprune_form_name(clprune_form form)
{
    const clprune__form *found = clprune__form_of(form);
    return found != NULL ? found->name : "unknown";
}

static clprune_status find_form(
    clprune_context *context, const clprune_keep *keep, const clprune__form **form)
{
    *form = clprune__form_of(keep->form);
    REQUIRE(*form != NULL, CLPRUNE_INVALID_ARGUMENT,
        "form is %d, expected a clprune_form (clprune/keep.h)", (int)keep->form);
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__keep_settle(
    clprune_context *context, const clprune_keep *keep, clprune_keep *settled)
{
    REQUIRE(keep != NULL, CLPRUNE_INVALID_ARGUMENT, "keep is NULL");
    const clprune__form *form;
    TRY(find_form(context, keep, &form));
    TRY(clprune__check_reserved(context, "keep", keep->reserved, sizeof keep->reserved));
    *settled = *keep;
    if (form->settle != NULL)
        TRY(form->settle(context, settled));
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__keep_restores(clprune_context *context, const clprune_keep *keep)
{
    const clprune__form *form;
    TRY(find_form(context, keep, &form));
    REQUIRE(form->packing == NULL, CLPRUNE_INVALID_ARGUMENT,
        "form is %s, which does not restore a layer's input; it is for activations "
        "(clprune/activation.h)",
        form->name);
    return CLPRUNE_SUCCESS;
}
