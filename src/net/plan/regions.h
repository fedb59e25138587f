/* Parts of the net between joints, which may work on a few samples at a time. */
#ifndef CLPRUNE_NET_REGIONS_H
#define CLPRUNE_NET_REGIONS_H

#include "net/plan/plan.h"

/* joints[i]: all paths from the input to the loss go through value i, and no tile has layers on
 * both sides of it. A part of the net ends here. */
void clprune__net_list_joints(const clprune__net_plan *plan, bool *joints);

/* Cuts the net into regions at its joints; at_kept: at those that are kept. chunks: regions may
 * work on a few samples at a time. Errors: OUT_OF_HOST_MEMORY. */
clprune_status clprune__net_cut(clprune__net_plan *plan, bool chunks, bool at_kept);

/* Marks the values that regions pass on to others. */
void clprune__net_find_borders(const clprune__net_plan *plan, bool *border);

/* The region that a layer is in. */
const clprune__net_region *clprune__net_region_of(const clprune__net_plan *plan, size_t layer);

#endif
