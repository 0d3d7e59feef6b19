#include "gate/tripwire.h"

#include <string.h>

#include "base/scan.h"

bool tripwire_hit(const char *token, const void *data, size_t len)
{
    struct scan_set *set CLEANUP(scan_set_unrefp) = scan_set_new();
    scan_set_add(set, token, strlen(token));
    return scan_once(set, data, len);
}
