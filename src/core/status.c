#include "clprune/status.h"

const char *clprune_status_name(clprune_status status)
{
    switch (status) {
#define CLPRUNE_STATUS_NAME(name, value, text)                                                     \
    case name:                                                                                     \
        return #name;
        CLPRUNE_STATUS_LIST(CLPRUNE_STATUS_NAME)
#undef CLPRUNE_STATUS_NAME
    }
    return "CLPRUNE_UNKNOWN_STATUS";
}

const char *clprune_status_string(clprune_status status)
{
    switch (status) {
#define CLPRUNE_STATUS_TEXT(name, value, text)                                                     \
    case name:                                                                                     \
        return text;
        CLPRUNE_STATUS_LIST(CLPRUNE_STATUS_TEXT)
#undef CLPRUNE_STATUS_TEXT
    }
    return "a status this version of clprune does not know";
}
