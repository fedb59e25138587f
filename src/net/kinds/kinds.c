#include "net/kinds/kinds.h"

#define ADDRESS(name) clprune__net_##name,

const clprune__net_way *const clprune__net_ways[] = {CLPRUNE__NET_WAYS(ADDRESS) NULL};
