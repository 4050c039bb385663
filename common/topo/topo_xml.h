/*
 * XML events from text, through libexpat opened at run time. For the files of this room.
 * Threading: calls may run at once in several threads.
 */
#ifndef BRAID_COMMON_TOPO_XML_H
#define BRAID_COMMON_TOPO_XML_H

#include "common/topo/topo.h"

struct braid_topo_xml;

/* Handlers return 0, or a negative errno after braid_topo_xml_fail(): parsing stops there. */
struct braid_topo_xml_handlers {
    int (*open)(struct braid_topo_xml *xml, void *user, const char *element);
    int (*close)(struct braid_topo_xml *xml, void *user, const char *element);
};

/* Parses text. -ENOSYS: no libexpat; -EINVAL: malformed, or a DOCTYPE, or nested beyond 64 deep. */
int braid_topo_xml_parse(const char *text, size_t bytes, const char *name,
                         const struct braid_topo_xml_handlers *handlers, void *user,
                         struct braid_topo_error *error);

/* Within open(): an attribute of the element, NULL if it has none of this name. */
const char *braid_topo_xml_attr(const struct braid_topo_xml *xml, const char *name);

/* Within a handler: fills the error with the place; returns -EINVAL. */
int braid_topo_xml_fail(struct braid_topo_xml *xml, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
