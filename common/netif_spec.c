/*
 * The grammar of BRAID_SOCKET_IFNAME, which is NCCL_SOCKET_IFNAME's, and what people get wrong in it. Pure functions; see netif.h.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/log.h"
#include "common/netif.h"
#include "common/param.h"

/* Length of the name in an item: NCCL's lists may say "name:port", of which the port has no meaning here. */
static size_t name_length(const char *item, size_t length)
{
    const char *colon = memchr(item, ':', length);

    return colon != NULL ? (size_t)(colon - item) : length;
}

bool braid_netif_spec_admits(const char *spec, const char *name)
{
    bool exclude = *spec == '^', exact, found = false;

    if (*spec == '\0')
        return true;
    spec += exclude;
    exact = *spec == '=';
    spec += exact;
    while (*spec != '\0' && !found) {
        size_t length = strcspn(spec, ","), used = name_length(spec, length);
        if (used > 0)
            found = strncmp(spec, name, used) == 0 && (!exact || name[used] == '\0');
        spec += length;
        spec += *spec == ',';
    }
    return found != exclude;
}

/* "10.0.0.1", "10.0.0.0/24", "fd00::1", "[fe80::1]:4711" */
static bool is_address(const char *item, size_t length)
{
    char text[INET6_ADDRSTRLEN + 1], *end;
    uint8_t bytes[16];

    if (*item == '[')
        return true;
    if (length >= sizeof(text))
        return false;
    memcpy(text, item, length);
    text[length] = '\0';
    end = strpbrk(text, "/%");
    if (end != NULL)
        *end = '\0';
    if (inet_pton(AF_INET6, text, bytes) == 1 || inet_pton(AF_INET, text, bytes) == 1)
        return true;
    end = strchr(text, ':');
    if (end != NULL)
        *end = '\0';
    return inet_pton(AF_INET, text, bytes) == 1;
}

static bool item_is_odd(const char *item, int length, char *why, size_t why_bytes)
{
    if (length == 0)
        snprintf(why, why_bytes, "an item is empty");
    else if (*item == '^' || *item == '=')
        snprintf(why, why_bytes,
                 "'%c' before \"%.*s\" counts only in front of the whole list; here it is taken "
                 "as part of the name",
                 *item, length - 1, item + 1);
    else if (memchr(item, ' ', (size_t)length) != NULL)
        snprintf(why, why_bytes, "\"%.*s\" contains a blank", length, item);
    else if (is_address(item, (size_t)length))
        snprintf(why, why_bytes, "\"%.*s\" is an address; names of interfaces belong here", length,
                 item);
    else if (memchr(item, ':', (size_t)length) != NULL)
        snprintf(why, why_bytes,
                 "the port in \"%.*s\" has no meaning for interfaces (BRAID_PORT_RANGE chooses "
                 "listening ports)",
                 length, item);
    else if (name_length(item, (size_t)length) >= IFNAMSIZ)
        snprintf(why, why_bytes, "\"%.*s\" is longer than an interface's name can be", length,
                 item);
    else
        return false;
    return true;
}

bool braid_netif_spec_is_odd(const char *spec, char *why, size_t why_bytes)
{
    const char *at = spec + (*spec == '^');

    at += *at == '=';
    if (*spec != '\0' && *at == '\0') {
        snprintf(why, why_bytes, "no interface is named");
        return true;
    }
    while (*at != '\0') {
        size_t length = strcspn(at, ",");
        if (item_is_odd(at, (int)length, why, why_bytes))
            return true;
        at += length;
        at += *at == ',';
    }
    return false;
}

int braid_netif_family(const char *text)
{
    if (strcmp(text, "AF_INET") == 0)
        return AF_INET;
    if (strcmp(text, "AF_INET6") == 0)
        return AF_INET6;
    if (*text != '\0')
        BRAID_WARN("%s is \"%s\": AF_INET and AF_INET6 are known; both families are used",
                   braid_param_name(BRAID_P_SOCKET_FAMILY), text);
    return AF_UNSPEC;
}
