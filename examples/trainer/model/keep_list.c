#include "trainer/model/keep_list.h"

#include <stdio.h> /* snprintf */
#include <stdlib.h>
#include <string.h>

size_t keep_place_length(const char *name)
{
    size_t length = 0;
    for (const char *p = name; *p != '\0'; ++p) {
        const size_t part = strcspn(p, ".");
        if (p[part] != '.')
            break;
        if (strspn(p, "0123456789") == part)
            length = (size_t)(p + part - name);
        p += part;
    }
    return length;
}

bool keep_list_add(keep_list *list, const char *name, const keep_tensor *tensor)
{
    const size_t count = list->count, place = keep_place_length(name);
    if ((count & (count + 1)) == 0) { /* full, at 2^n - 1 */
        keep_tensor *more = realloc(list->tensors, (2 * count + 1) * sizeof *more);
        if (more == NULL)
            return false;
        list->tensors = more;
    }
    keep_tensor *made = &list->tensors[list->count++];
    *made = *tensor;
    (void)snprintf(made->place, sizeof made->place, "%.*s", place > 0 ? (int)place : 3,
        place > 0 ? name : "net");
    (void)snprintf(made->name, sizeof made->name, "%s", name + place + (place > 0));
    return true;
}

void keep_list_close(keep_list *list)
{
    free(list->tensors);
    *list = (keep_list){0};
}

void keep_tensor_name(const keep_tensor *tensor, char *name, size_t size)
{
    const bool placed = strcmp(tensor->place, "net") != 0;
    (void)snprintf(
        name, size, "%s%s%s", placed ? tensor->place : "", placed ? "." : "", tensor->name);
}

void keep_list_set(keep_tensor *tensor, const keep_rule *rule)
{
    tensor->rule = *rule;
    tensor->given = true;
    if (!keep_has_form(rule, CLPRUNE_FORM_POOLED) &&
        (!keep_has_form(rule, CLPRUNE_FORM_PRUNED) || rule->keep.centre != CLPRUNE_CENTRE_CELLS))
        return;
    tensor->rule.keep.grid_height = (unsigned)tensor->shape.grid_height;
    tensor->rule.keep.grid_width = (unsigned)tensor->shape.grid_width;
}
