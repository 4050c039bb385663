/*
 * The container behind topo.h: objects, edges, lookups, words, and the small helpers that loaders
 * share. It owns the memory of a topology. What is done to a topology once it is complete is in
 * topo_finish.c.
 */
#include "common/topo/topo_build.h"
#include "common/topo/topo_spec.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct braid_topo *braid_topo_new(const char *origin)
{
    struct braid_topo *topo = calloc(1, sizeof(*topo));

    if (topo == NULL)
        return NULL;
    topo->origin = origin;
    topo->nodes = 1;
    return topo;
}

void braid_topo_destroy(struct braid_topo *topo)
{
    if (topo == NULL)
        return;
    for (int type = 0; type < BRAID_TOPO_TYPES; type++)
        free(topo->by_type[type]);
    free(topo->gpu_nic);
    free(topo->edge_of);
    free(topo->first_edge);
    free(topo->edges);
    free(topo->objects);
    free(topo);
}

/* Makes room for one more element of `bytes` each. */
static int grow(void **array, int *room, int count, int limit, size_t bytes)
{
    int more = *room ? *room * 2 : 64;
    void *grown;

    if (count < *room)
        return 0;
    if (count >= limit)
        return -E2BIG;
    grown = realloc(*array, (size_t)more * bytes);
    if (grown == NULL)
        return -ENOMEM;
    *array = grown;
    *room = more;
    return 0;
}

int braid_topo_add(struct braid_topo *topo, enum braid_topo_type type, const char *name,
                   const char *busid)
{
    struct braid_topo_object made = {.type = type};
    void *array = topo->objects;
    int rc;

    /* Filled before the array may move, since name and busid may be those of another object. */
    made.index = made.parent = made.uplink = -1;
    made.numa_id = made.cpu_family = made.cpu_model = -1;
    made.cuda_dev = made.rail = -1;
    braid_topo_copy(made.name, sizeof(made.name), name);
    if (!braid_topo_busid(busid, made.busid))
        made.busid[0] = '\0';
    rc = grow(&array, &topo->object_room, topo->object_count, BRAID_TOPO_MAX_OBJECTS,
              sizeof(*topo->objects));
    topo->objects = array;
    if (rc != 0)
        return rc;
    topo->objects[topo->object_count] = made;
    return topo->object_count++;
}

struct braid_topo_object *braid_topo_at(struct braid_topo *topo, int id)
{
    return &topo->objects[id];
}

static int new_edge(struct braid_topo *topo, enum braid_topo_link type, int a, int b, int lanes,
                    double lane_GBps, enum braid_topo_source from)
{
    void *array = topo->edges;
    int rc = grow(&array, &topo->edge_room, topo->edge_count, BRAID_TOPO_MAX_EDGES,
                  sizeof(*topo->edges));
    struct braid_topo_edge *edge;

    topo->edges = array;
    if (rc != 0)
        return rc;
    edge = &topo->edges[topo->edge_count];
    memset(edge, 0, sizeof(*edge));
    edge->type = type;
    edge->a = a;
    edge->b = b;
    edge->lanes = lanes;
    edge->lane_GBps = lane_GBps;
    edge->each_way_GBps = lanes * lane_GBps;
    edge->bandwidth_from = edge->each_way_GBps > 0 ? from : BRAID_TOPO_FROM_NOTHING;
    edge->latency_us = braid_topo_spec_latency_us(type);
    edge->latency_from = BRAID_TOPO_FROM_DEFAULT;
    return topo->edge_count++;
}

int braid_topo_attach(struct braid_topo *topo, int id, int parent, int lanes, double lane_GBps,
                      enum braid_topo_source from)
{
    int edge = new_edge(topo, BRAID_TOPO_LINK_PCIE, id, parent, lanes, lane_GBps, from);

    if (edge >= 0) {
        topo->objects[id].parent = parent;
        topo->objects[id].uplink = edge;
    }
    return edge;
}

int braid_topo_link(struct braid_topo *topo, enum braid_topo_link type, int a, int b, int lanes,
                    double lane_GBps, enum braid_topo_source from)
{
    for (int i = 0; i < topo->edge_count; i++) {
        struct braid_topo_edge *edge = &topo->edges[i];

        if (edge->type != type || type == BRAID_TOPO_LINK_NET ||
            !((edge->a == a && edge->b == b) || (edge->a == b && edge->b == a)))
            continue;
        if (type != BRAID_TOPO_LINK_NVLINK)
            return i;
        edge->lanes += lanes;
        if (lane_GBps > 0)
            edge->lane_GBps = lane_GBps;
        edge->each_way_GBps = edge->lanes * edge->lane_GBps;
        edge->bandwidth_from = edge->each_way_GBps > 0 ? from : BRAID_TOPO_FROM_NOTHING;
        return i;
    }
    return new_edge(topo, type, a, b, lanes, lane_GBps, from);
}

bool braid_topo_busid(const char *text, char out[BRAID_TOPO_BUSID_LEN])
{
    unsigned long long domain = 0;
    unsigned int field[3]; /* bus, device, function */
    int colons = 0, used = 0;

    if (text == NULL)
        return false;
    for (const char *p = text; *p != '\0'; p++)
        colons += *p == ':';
    if (colons == 2 &&
        sscanf(text, "%8llx:%2x:%2x.%1x%n", &domain, &field[0], &field[1], &field[2], &used) != 4)
        return false;
    if (colons == 1 && sscanf(text, "%2x:%2x.%1x%n", &field[0], &field[1], &field[2], &used) != 3)
        return false;
    if ((colons != 1 && colons != 2) || text[used] != '\0')
        return false;
    snprintf(out, BRAID_TOPO_BUSID_LEN, "%04llx:%02x:%02x.%x", domain, field[0], field[1],
             field[2]);
    return true;
}

int braid_topo_fail(struct braid_topo_error *error, int rc, const char *source, int line,
                    int column, const char *fmt, ...)
{
    va_list args;

    if (error == NULL)
        return rc;
    braid_topo_copy(error->source, sizeof(error->source), source);
    error->line = line;
    error->column = column;
    va_start(args, fmt);
    vsnprintf(error->text, sizeof(error->text), fmt, args);
    va_end(args);
    return rc;
}

const char *braid_topo_error_format(const struct braid_topo_error *error, char *out, size_t size)
{
    if (error->line > 0 && error->column > 0)
        snprintf(out, size, "%s:%d:%d: %s", error->source, error->line, error->column, error->text);
    else if (error->line > 0)
        snprintf(out, size, "%s:%d: %s", error->source, error->line, error->text);
    else
        snprintf(out, size, "%s: %s", error->source, error->text);
    return out;
}

int braid_topo_number(const char *text, double *out, const char **end)
{
    double value = 0, scale = 1;
    const char *p = text;
    int digits = 0;

    for (; isdigit((unsigned char)*p) && digits < 18; p++, digits++)
        value = value * 10 + (*p - '0');
    if (*p == '.' && digits > 0)
        for (p++; isdigit((unsigned char)*p) && digits < 18; p++, digits++) {
            scale /= 10;
            value += scale * (*p - '0');
        }
    if (digits == 0 || isdigit((unsigned char)*p))
        return -EINVAL;
    *out = value;
    *end = p;
    return 0;
}

void braid_topo_copy(char *out, size_t size, const char *text)
{
    size_t length = strnlen(text, size - 1);

    memcpy(out, text, length);
    out[length] = '\0';
}

int braid_topo_slurp(const char *path, char **text_p, size_t *bytes_p,
                     struct braid_topo_error *error)
{
    FILE *file = fopen(path, "re");
    size_t room = 0, used = 0;
    char *text = NULL;
    int rc = 0;

    if (file == NULL) {
        rc = -errno;
        return braid_topo_fail(error, rc, path, 0, 0, "cannot be opened (%s)", strerror(-rc));
    }
    while (rc == 0) {
        if (used + 1 >= room) {
            char *grown = realloc(text, room ? room * 2 : 65536);

            if (grown == NULL) {
                rc = braid_topo_fail(error, -ENOMEM, path, 0, 0, "out of memory");
                break;
            }
            text = grown;
            room = room ? room * 2 : 65536;
        }
        size_t got = fread(text + used, 1, room - used - 1, file);

        used += got;
        if (used > BRAID_TOPO_MAX_FILE_BYTES)
            rc = braid_topo_fail(error, -E2BIG, path, 0, 0, "is larger than %d MiB",
                                 BRAID_TOPO_MAX_FILE_BYTES >> 20);
        else if (got == 0 && ferror(file))
            rc = braid_topo_fail(error, -errno, path, 0, 0, "cannot be read (%s)", strerror(errno));
        else if (got == 0)
            break;
    }
    fclose(file);
    if (rc != 0) {
        free(text);
        return rc;
    }
    text[used] = '\0';
    *text_p = text;
    *bytes_p = used;
    return 0;
}

int braid_topo_objects(const struct braid_topo *topo)
{
    return topo->object_count;
}

int braid_topo_edges(const struct braid_topo *topo)
{
    return topo->edge_count;
}

const struct braid_topo_object *braid_topo_object(const struct braid_topo *topo, int id)
{
    return id >= 0 && id < topo->object_count ? &topo->objects[id] : NULL;
}

const struct braid_topo_edge *braid_topo_edge(const struct braid_topo *topo, int id)
{
    return id >= 0 && id < topo->edge_count ? &topo->edges[id] : NULL;
}

int braid_topo_count(const struct braid_topo *topo, enum braid_topo_type type)
{
    return topo->type_count[type];
}

int braid_topo_id(const struct braid_topo *topo, enum braid_topo_type type, int index)
{
    return index >= 0 && index < topo->type_count[type] ? topo->by_type[type][index] : -1;
}

int braid_topo_find(const struct braid_topo *topo, const char *busid_or_name)
{
    char busid[BRAID_TOPO_BUSID_LEN];
    bool is_busid = braid_topo_busid(busid_or_name, busid);

    for (int i = 0; i < topo->object_count; i++)
        if (is_busid ? strcmp(topo->objects[i].busid, busid) == 0
                     : strcmp(topo->objects[i].name, busid_or_name) == 0)
            return i;
    return -1;
}

int braid_topo_nodes(const struct braid_topo *topo)
{
    return topo->nodes;
}

void braid_topo_set_nodes(struct braid_topo *topo, int nodes)
{
    topo->nodes = nodes > 0 ? nodes : 1;
}

const char *braid_topo_origin(const struct braid_topo *topo)
{
    return topo->origin;
}

bool braid_topo_below(const struct braid_topo *topo, int id, int ancestor)
{
    for (int hops = 0; id >= 0 && hops <= topo->object_count; hops++) {
        if (id == ancestor)
            return true;
        id = topo->objects[id].parent;
    }
    return false;
}

int braid_topo_numa_of(const struct braid_topo *topo, int id)
{
    for (int hops = 0; id >= 0 && hops <= topo->object_count; hops++) {
        if (topo->objects[id].type == BRAID_TOPO_NUMA)
            return id;
        id = topo->objects[id].parent;
    }
    return -1;
}

static const char *word(const char *const *words, size_t count, unsigned int value)
{
    return value < count ? words[value] : "?";
}

const char *braid_topo_type_name(enum braid_topo_type type)
{
    static const char *const words[] = {"numa", "bridge", "gpu", "nvswitch", "nic", "rail"};

    return word(words, ARRAY_SIZE(words), type);
}

const char *braid_topo_link_name(enum braid_topo_link type)
{
    static const char *const words[] = {"nvlink", "c2c", "pcie", "cpu", "net"};

    return word(words, ARRAY_SIZE(words), type);
}

const char *braid_topo_source_name(enum braid_topo_source from)
{
    static const char *const words[] = {"unknown", "default", "spec",     "hwloc",
                                        "sysfs",   "nvml",    "nccl-xml", "synthetic"};

    return word(words, ARRAY_SIZE(words), from);
}

const char *braid_topo_path_name(enum braid_topo_path_type type)
{
    static const char *const words[] = {"LOC", "NVL", "NVB", "C2C", "PIX", "PXB",
                                        "P2C", "PHB", "SYS", "NET", "DIS"};

    return word(words, ARRAY_SIZE(words), type);
}

const char *braid_topo_resource_name(enum braid_topo_resource_kind kind)
{
    static const char *const words[] = {"nvlink-port", "nvswitch", "pcie-link", "root",
                                        "cpu-link",    "c2c",      "nic"};

    return word(words, ARRAY_SIZE(words), kind);
}
