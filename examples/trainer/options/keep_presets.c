#include "trainer/options/keep_presets.h"

#include <string.h>

bool keep_has_form(const keep_rule *rule, clprune_form form)
{
    return !rule->recomputed && rule->keep.form == form;
}

bool keep_preset_has(const keep_presets *presets, size_t preset, char letter)
{
    const char *uses = presets->rows[preset].uses;
    return uses != NULL && strchr(uses, letter) != NULL;
}

bool keep_preset_chooses(const keep_presets *presets, size_t preset)
{
    return presets->rows[preset].frames != NULL;
}

bool keep_preset_is_exact(const keep_presets *presets, size_t preset)
{
    return !keep_preset_chooses(presets, preset) && presets->rows[preset].uses == NULL;
}

size_t keep_preset_named(const keep_presets *presets, const char *name)
{
    size_t i = 0;
    while (strcmp(presets->names[i], name) != 0)
        ++i;
    return i;
}
