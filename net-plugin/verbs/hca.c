/*
 * NCCL_IB_HCA. See hca.h. Called by dev.c (discovery) and braid-info (why a device is not used). Any thread.
 */
#include "net-plugin/verbs/hca.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "mlx5_0:1" of `bytes` bytes against one port. */
static bool item_matches(const char *item, size_t bytes, const char *device, int port, bool exact)
{
    const char *colon = memchr(item, ':', bytes);
    size_t name_bytes = colon != NULL ? (size_t)(colon - item) : bytes;

    if (colon != NULL && atoi(colon + 1) != port)
        return false;
    if (strncmp(item, device, name_bytes) != 0)
        return false;
    return !exact || device[name_bytes] == '\0';
}

bool braid_hca_admits(const char *list, const char *device, int port)
{
    bool invert = *list == '^';
    bool exact, found = false;

    list += invert;
    exact = *list == '=';
    list += exact;
    if (*list == '\0')
        return true;
    for (const char *item = list; *item != '\0' && !found;) {
        size_t bytes = strcspn(item, ",");
        found = bytes > 0 && item_matches(item, bytes, device, port, exact);
        item += bytes + (item[bytes] == ',');
    }
    return found != invert;
}

bool braid_hca_is_odd(const char *list, char *why, size_t why_bytes)
{
    const char *rest = list + (*list == '^');

    rest += *rest == '=';
    if (*list != '\0' && *rest == '\0')
        snprintf(why, why_bytes, "\"%s\" names no device and so admits all", list);
    else if (strpbrk(rest, "^=") != NULL)
        snprintf(why, why_bytes, "in \"%s\" '^' and '=' count only in front of the whole list",
                 list);
    else if (strstr(rest, ",,") != NULL || *rest == ',')
        snprintf(why, why_bytes, "\"%s\" has an empty item", list);
    else if (strchr(rest, ' ') != NULL)
        snprintf(why, why_bytes, "\"%s\" has a space, which belongs to the name", list);
    else
        return false;
    return true;
}
