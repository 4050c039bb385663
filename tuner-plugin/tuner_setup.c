/*
 * From a process's environment to tuners: settings, the profiles that fit this machine, one tuner a kind of communicator, and the
 * identity that peers compare. Logs what was found, once a communicator, at INFO (subsystem TUNING), and a bad profile once at WARN.
 * Owns the profile set (read at the first communicator, freed with the last) and the list of tuners, both under one lock.
 * Called by: abi/.
 */
#include "tuner-plugin/tuner_setup.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "braid/wire/tuner_id.h"
#include "common/log.h"
#include "common/param.h"
#include "tuner-plugin/machine.h"

/* Communicators of equal shape share a tuner: its tables are large and constant. */
struct shared_tuner {
    struct shared_tuner *next;
    struct braid_tuner *tuner;
    struct braid_shape shape;
    int ceiling, users;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct braid_profile_set set;
static struct braid_tuner_settings settings;
static struct shared_tuner *tuners;
static bool loaded;

extern __attribute__((visibility("default"))) struct braid_wire_tuner_id braid_tuner_id;
struct braid_wire_tuner_id braid_tuner_id;

/*
 * NCCL_ALGO and NCCL_PROTO: "ring,tree", or lists for collectives, "ring;allreduce:tree". An entry without a collective speaks of
 * all of them.
 */
static void read_forced(const char *value, bool *forced)
{
    while (value && *value) {
        size_t length = strcspn(value, ";"), name = strcspn(value, ":;");
        char word[32];
        int coll;

        if (name == length) {
            for (coll = 0; coll < BRAID_COLLS; coll++)
                forced[coll] = forced[coll] || length;
        } else if (name < sizeof(word)) {
            memcpy(word, value, name);
            word[name] = 0;
            coll = braid_kind_find(braid_coll_names, BRAID_COLLS, word);
            if (coll >= 0)
                forced[coll] = true;
        }
        value += length + (value[length] == ';');
    }
}

void braid_tuner_settings_read(struct braid_tuner_settings *out)
{
    const char *policy = braid_param_nccl_env("NCCL_CTA_POLICY");

    memset(out, 0, sizeof(*out));
    out->sm_budget = (int)braid_param_int(BRAID_P_SM_BUDGET);
    out->overlap = braid_param_bool(BRAID_P_OVERLAP);
    out->overlap_ratio = (double)braid_param_int(BRAID_P_OVERLAP_TOLERANCE) / 1000;
    out->efficiency = policy && (!strcmp(policy, "1") || strcasestr(policy, "EFFICIENCY"));
    read_forced(braid_param_nccl_env("NCCL_ALGO"), out->forced);
    read_forced(braid_param_nccl_env("NCCL_PROTO"), out->forced);
}

static void warn_profile(const struct braid_profile_error *error)
{
    BRAID_WARN("tuner profile %s:%d: %s; NCCL's own choices stay where it would have applied",
               error->file, error->line, error->text);
}

/* The profile named by BRAID_TUNER_PROFILE: a path, or a name in the profile folders. */
static void load_named(const char *name, const char *dirs, const struct braid_machine_key *key)
{
    struct braid_profile *profile = malloc(sizeof(*profile));
    struct braid_profile_error error = {{0}, 0, "out of memory"};

    if (!profile)
        return warn_profile(&error);
    if (braid_profile_find(name, dirs, profile, &error))
        warn_profile(&error);
    else if (!key->gpu[0] || braid_profile_fits(profile->match_gpu, key->gpu))
        braid_profile_set_add(&set, profile);
    else
        BRAID_WARN(
            "tuner profile %s is for GPU '%s', this machine has '%s'; NCCL decides by itself",
            profile->path, profile->match_gpu, key->gpu);
    free(profile);
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * 0x100000001b3ull + (value >> 32);
}

/* Everything that decides, apart from what NCCL passes in. */
static uint64_t decision_hash(void)
{
    uint64_t hash = mix(0xcbf29ce484222325ull, set.hash);

    hash = mix(hash, (uint64_t)settings.sm_budget);
    hash = mix(hash, (uint64_t)(settings.overlap ? 1 + settings.overlap_ratio * 1000 : 0));
    hash = mix(hash, settings.efficiency);
    for (int coll = 0; coll < BRAID_COLLS; coll++)
        hash = mix(hash, settings.forced[coll]);
    return hash ? hash : 1;
}

static void load_once(void)
{
    const char *name = braid_param_str(BRAID_P_TUNER_PROFILE);
    struct braid_machine_key key;
    struct braid_profile_error error = {{0}, -1, ""};
    char dirs[2048];

    if (loaded)
        return;
    loaded = true;
    braid_tuner_settings_read(&settings);
    braid_profile_dirs(dirs, sizeof(dirs));
    braid_machine_key_read(&key);
    if (!strcmp(name, "none")) {
        BRAID_INFO(BRAID_LOG_TUNING, "BRAID_TUNER_PROFILE=none: NCCL decides by itself");
    } else if (name[0]) {
        load_named(name, dirs, &key);
    } else {
        braid_profile_set_load(dirs, &key, &set, &error);
        BRAID_INFO(BRAID_LOG_TUNING, "%d tuner profiles for GPU '%s', network '%s' in %s",
                   set.count, key.gpu, key.net, dirs);
        if (error.line >= 0)
            warn_profile(&error);
    }
    braid_tuner_id.hash = decision_hash();
    braid_tuner_id.bytes = sizeof(braid_tuner_id);
}

static void publish(const struct braid_profile *profile)
{
    if (braid_tuner_id.magic)
        return;
    snprintf(braid_tuner_id.name, sizeof(braid_tuner_id.name), "%.*s", BRAID_WIRE_TUNER_ID_NAME - 1,
             profile ? profile->name : "none");
    __atomic_store_n(&braid_tuner_id.magic, BRAID_WIRE_TUNER_ID_MAGIC, __ATOMIC_RELEASE);
}

static void announce(const struct braid_shape *shape, const struct braid_profile *profile)
{
    if (profile)
        BRAID_INFO(BRAID_LOG_TUNING | BRAID_LOG_INIT,
                   "tuner: profile '%s' (%016llx) of %s for %d ranks on %d nodes, hash %016llx%s",
                   profile->name, (unsigned long long)profile->hash, profile->path, shape->ranks,
                   shape->nodes, (unsigned long long)braid_tuner_id.hash,
                   profile->trust == 0 ? "; a guess: only SM budgets apply" : "");
    else
        BRAID_INFO(BRAID_LOG_TUNING | BRAID_LOG_INIT,
                   "tuner: no profile for %d ranks on %d nodes: NCCL decides, hash %016llx",
                   shape->ranks, shape->nodes, (unsigned long long)braid_tuner_id.hash);
}

static bool same_shape(const struct braid_shape *a, const struct braid_shape *b)
{
    return a->ranks == b->ranks && a->nodes == b->nodes && a->node_ranks == b->node_ranks;
}

static struct braid_tuner *open_locked(const struct braid_shape *shape, int ceiling)
{
    struct braid_tuner_settings mine;
    const struct braid_profile *profile;
    struct shared_tuner *shared;

    load_once();
    profile = braid_profile_set_pick(&set, shape->ranks, shape->nodes);
    publish(profile);
    announce(shape, profile);
    if (!profile)
        return NULL;
    for (shared = tuners; shared; shared = shared->next) {
        if (same_shape(&shared->shape, shape) && shared->ceiling == ceiling) {
            shared->users++;
            return shared->tuner;
        }
    }
    shared = calloc(1, sizeof(*shared));
    mine = settings;
    mine.channel_ceiling = ceiling;
    if (!shared || braid_tuner_create(profile, shape, &mine, &shared->tuner)) {
        free(shared);
        BRAID_WARN("tuner: out of memory; NCCL decides by itself");
        return NULL;
    }
    shared->shape = *shape;
    shared->ceiling = ceiling;
    shared->users = 1;
    shared->next = tuners;
    tuners = shared;
    return shared->tuner;
}

struct braid_tuner *braid_tuner_open(size_t ranks, size_t nodes, size_t domain_ranks, int ceiling)
{
    struct braid_shape shape = braid_shape_make(ranks, nodes);
    struct braid_tuner *tuner;

    if (domain_ranks >= 1 && domain_ranks <= (size_t)shape.ranks)
        shape.node_ranks = (int)domain_ranks;
    pthread_mutex_lock(&lock);
    tuner = open_locked(&shape, ceiling);
    pthread_mutex_unlock(&lock);
    return tuner;
}

void braid_tuner_close(struct braid_tuner *tuner)
{
    struct shared_tuner **link;

    pthread_mutex_lock(&lock);
    for (link = &tuners; *link; link = &(*link)->next) {
        struct shared_tuner *shared = *link;

        if (shared->tuner == tuner && --shared->users == 0) {
            *link = shared->next;
            braid_tuner_destroy(shared->tuner);
            free(shared);
            break;
        }
        if (shared->tuner == tuner)
            break;
    }
    pthread_mutex_unlock(&lock);
}

/* When NCCL unloads the plugin. */
static __attribute__((destructor)) void unload(void)
{
    braid_profile_set_free(&set);
}
