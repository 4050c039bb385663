/*
 * Choosing a profile for a machine and a communicator: folders are searched for *.profile, the most specific match wins. Rank-local
 * facts end here: they choose profiles and nothing else, and the set's hash tells when ranks chose differently.
 * Owns the profiles of a set. Threading: no shared state, any thread (init only). Called by: tuner_setup.c, tools/braid-tune.
 */
#include "tuner-plugin/cost/profile.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

static int in_range(const double *range, int value)
{
    if (range[0] == range[0] && value < range[0])
        return 0;
    return !(range[1] == range[1] && value > range[1]);
}

int braid_profile_fits(const char *glob, const char *value)
{
    return !glob[0] || !fnmatch(glob, value, FNM_CASEFOLD);
}

/* How narrow the range of a match row is; a profile for exactly two ranks beats one for two to eight. */
static int narrowness(const double *range)
{
    if (range[0] != range[0] && range[1] != range[1])
        return 0;
    return range[0] == range[1] ? 2 : 1;
}

static int specificity(const struct braid_profile *profile)
{
    return 16 * !!profile->match_gpu[0] + 8 * !!profile->match_net[0] +
           3 * narrowness(profile->match_nodes) + narrowness(profile->match_ranks);
}

const struct braid_profile *braid_profile_set_pick(const struct braid_profile_set *set, int ranks,
                                                   int nodes)
{
    const struct braid_profile *best = NULL;

    for (int i = 0; i < set->count; i++) {
        const struct braid_profile *profile = set->profiles[i];

        if (!in_range(profile->match_ranks, ranks) || !in_range(profile->match_nodes, nodes))
            continue;
        if (!best || specificity(profile) > specificity(best))
            best = profile;
    }
    return best;
}

int braid_profile_set_add(struct braid_profile_set *set, const struct braid_profile *profile)
{
    struct braid_profile **grown =
        realloc(set->profiles, ((size_t)set->count + 1) * sizeof(*grown));
    struct braid_profile *copy = malloc(sizeof(*copy));

    if (grown)
        set->profiles = grown;
    if (!grown || !copy) {
        free(copy);
        return -ENOMEM;
    }
    *copy = *profile;
    set->profiles[set->count++] = copy;
    set->hash = (set->hash ^ profile->hash) * 0x100000001b3ull + 1;
    return 0;
}

int braid_profile_find(const char *name, const char *dirs, struct braid_profile *profile,
                       struct braid_profile_error *error)
{
    const char *dot = strrchr(name, '.');
    int rc;

    if (strchr(name, '/'))
        return braid_profile_read(name, profile, error);
    do {
        size_t length = strcspn(dirs, ":");
        char path[sizeof(profile->path)];

        snprintf(path, sizeof(path), "%.*s/%s%s", (int)length, dirs, name,
                 dot && !strcmp(dot, ".profile") ? "" : ".profile");
        rc = braid_profile_read(path, profile, error);
        dirs += length + (dirs[length] == ':');
    } while (rc && !error->line && *dirs);
    return rc;
}

static int is_profile(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');

    return dot && !strcmp(dot, ".profile");
}

/* Not alphasort: it follows the locale, and every rank must see the same order. */
static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int load_file(struct braid_profile_set *set, const struct braid_machine_key *key,
                     const char *dir, const char *name, struct braid_profile *scratch,
                     struct braid_profile_error *error)
{
    struct braid_profile_error here;
    char path[sizeof(scratch->path)];
    int n = snprintf(path, sizeof(path), "%s/%s", dir, name);

    if (n < 0 || (size_t)n >= sizeof(path))
        return 0;
    if (braid_profile_read(path, scratch, &here)) {
        if (error->line < 0)
            *error = here;
        return 0;
    }
    if (!braid_profile_fits(scratch->match_gpu, key->gpu) ||
        !braid_profile_fits(scratch->match_net, key->net))
        return 0;
    return braid_profile_set_add(set, scratch);
}

static int load_dir(struct braid_profile_set *set, const struct braid_machine_key *key,
                    const char *dir, struct braid_profile *scratch,
                    struct braid_profile_error *error)
{
    struct dirent **entries = NULL;
    int count = scandir(dir, &entries, is_profile, by_bytes), rc = 0;

    for (int i = 0; i < count; i++) {
        if (!rc)
            rc = load_file(set, key, dir, entries[i]->d_name, scratch, error);
        free(entries[i]);
    }
    free(entries);
    return rc;
}

int braid_profile_set_load(const char *dirs, const struct braid_machine_key *key,
                           struct braid_profile_set *set, struct braid_profile_error *error)
{
    struct braid_profile *scratch = malloc(sizeof(*scratch));
    int rc = scratch ? 0 : -ENOMEM;

    memset(error, 0, sizeof(*error));
    error->line = -1;
    while (!rc && *dirs) {
        size_t length = strcspn(dirs, ":");
        char dir[400];

        if (length && length < sizeof(dir)) {
            memcpy(dir, dirs, length);
            dir[length] = 0;
            rc = load_dir(set, key, dir, scratch, error);
        }
        dirs += length + (dirs[length] == ':');
    }
    free(scratch);
    return rc;
}

void braid_profile_set_free(struct braid_profile_set *set)
{
    for (int i = 0; i < set->count; i++)
        free(set->profiles[i]);
    free(set->profiles);
    memset(set, 0, sizeof(*set));
}
