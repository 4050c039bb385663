/*
 * This machine: sysfs first, then NVML on top, hwloc for what is still unknown or where sysfs shows
 * nothing. Each part is optional; what is missing is said in the notes.
 */
#include "common/topo/topo_live.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void braid_topo_note(struct braid_topo_notes *notes, const char *fmt, ...)
{
    size_t used;
    va_list args;

    if (notes->text == NULL || notes->size == 0)
        return;
    used = strlen(notes->text);
    if (used + 2 >= notes->size)
        return;
    va_start(args, fmt);
    vsnprintf(notes->text + used, notes->size - used - 1, fmt, args);
    va_end(args);
    strcat(notes->text, "\n");
}

static int add_hwloc(struct braid_topo *topo, struct braid_topo_notes *notes)
{
    struct braid_topo *second = braid_topo_new("hwloc");
    struct braid_topo_error error;
    char text[400];
    int rc;

    if (second == NULL)
        return -ENOMEM;
    rc = braid_topo_hwloc(second, NULL, &error);
    if (rc != 0)
        braid_topo_note(notes, "no hwloc: %s", braid_topo_error_format(&error, text, sizeof(text)));
    else
        braid_topo_fill_from(topo, second);
    braid_topo_destroy(second);
    return 0;
}

static int add_sysfs(struct braid_topo *topo, const char *root, struct braid_topo_notes *notes)
{
    struct braid_topo_files *files = braid_topo_files_folder(root);
    int rc = files == NULL ? -ENOMEM : braid_topo_sysfs(topo, files, notes);

    braid_topo_files_destroy(files);
    return rc;
}

static int devices(const struct braid_topo *topo)
{
    int count = 0;

    for (int i = 0; i < topo->object_count; i++)
        count += topo->objects[i].type == BRAID_TOPO_GPU || topo->objects[i].type == BRAID_TOPO_NIC;
    return count;
}

int braid_topo_load_live(const struct braid_topo_live *live, struct braid_topo **out,
                         char *notes_text, size_t notes_size, struct braid_topo_error *error)
{
    static const struct braid_topo_live usual;
    struct braid_topo_notes notes = {notes_text, notes_size};
    struct braid_topo_nvml nvml = {0};
    struct braid_topo *topo;
    unsigned use;
    int rc = 0;

    live = live != NULL ? live : &usual;
    use = live->use != 0 ? live->use : BRAID_TOPO_USE_SYSFS | BRAID_TOPO_USE_NVML;
    if (notes.text != NULL && notes.size > 0)
        notes.text[0] = '\0';
    topo = braid_topo_new("live");
    if (topo == NULL)
        return braid_topo_fail(error, -ENOMEM, "this machine", 0, 0, "out of memory");
    if (use & BRAID_TOPO_USE_SYSFS)
        rc = add_sysfs(topo, live->sysfs_root, &notes);
    if (rc == 0 && (use & BRAID_TOPO_USE_NVML))
        braid_topo_nvml_ask(&nvml, live->nvml_path, &notes); /* absence was noted */
    if (rc == 0 && (use & BRAID_TOPO_USE_HWLOC))
        rc = add_hwloc(topo, &notes);
    if (rc == 0)
        rc = braid_topo_nvml_apply(topo, &nvml, &notes);
    braid_topo_nvml_free(&nvml);
    if (rc == 0 && devices(topo) == 0)
        braid_topo_note(&notes, "no GPU and no network adapter was found");
    if (rc == 0)
        rc = braid_topo_finish(topo, error);
    else
        braid_topo_fail(error, rc, "this machine", 0, 0, "%s", strerror(-rc));
    if (rc != 0) {
        braid_topo_destroy(topo);
        return rc;
    }
    *out = topo;
    return 0;
}

static int find_device(const struct braid_topo *topo, const struct braid_topo_object *like)
{
    for (int i = 0; i < topo->object_count; i++)
        if (topo->objects[i].type == like->type && topo->objects[i].busid[0] != '\0' &&
            strcmp(topo->objects[i].busid, like->busid) == 0)
            return i;
    return -1;
}

/* Copies object `id` of `from` with everything above it; map[] tells what is copied already. */
static int copy_object(struct braid_topo *topo, const struct braid_topo *from, int id, int *map)
{
    const struct braid_topo_object *o = &from->objects[id];
    int parent = -1, copy;

    if (map[id] >= 0)
        return map[id];
    if (o->parent >= 0) {
        parent = copy_object(topo, from, o->parent, map);
        if (parent < 0)
            return parent;
    }
    copy = find_device(topo, o);
    for (int i = 0; o->type == BRAID_TOPO_NUMA && i < topo->object_count && copy < 0; i++)
        if (topo->objects[i].type == BRAID_TOPO_NUMA && topo->objects[i].numa_id == o->numa_id)
            copy = i;
    if (copy < 0) {
        copy = braid_topo_add(topo, o->type, o->name, o->busid);
        if (copy < 0)
            return copy;
        topo->objects[copy] = *o;
        topo->objects[copy].parent = topo->objects[copy].uplink = -1;
        if (parent >= 0) {
            const struct braid_topo_edge *up = &from->edges[o->uplink];
            int edge =
                braid_topo_attach(topo, copy, parent, up->lanes, up->lane_GBps, up->bandwidth_from);

            if (edge < 0)
                return edge;
        }
    }
    map[id] = copy;
    return copy;
}

void braid_topo_fill_from(struct braid_topo *topo, const struct braid_topo *from)
{
    int *map = malloc(((size_t)from->object_count + 1) * sizeof(*map));
    bool empty = devices(topo) == 0;

    if (map == NULL)
        return; /* what it would have added stays unknown */
    for (int i = 0; i < from->object_count; i++)
        map[i] = -1;
    for (int i = 0; i < from->object_count; i++) {
        const struct braid_topo_object *o = &from->objects[i];
        int same = find_device(topo, o);

        if (empty && (o->type == BRAID_TOPO_GPU || o->type == BRAID_TOPO_NIC) &&
            copy_object(topo, from, i, map) < 0)
            break;
        if (same >= 0 && o->uplink >= 0 && topo->objects[same].uplink >= 0) {
            struct braid_topo_edge *known = &topo->edges[topo->objects[same].uplink];
            const struct braid_topo_edge *second = &from->edges[o->uplink];

            if (known->each_way_GBps <= 0 && second->each_way_GBps > 0) {
                known->lanes = second->lanes;
                known->lane_GBps = second->lane_GBps;
                known->each_way_GBps = second->each_way_GBps;
                known->bandwidth_from = second->bandwidth_from;
            }
        }
    }
    free(map);
}
