/*
 * braid-tune exercise: real collectives under whatever tuner the environment names, each checked for right results; a line of CSV
 * each with the channels that the kernel had. NCCL's own TUNING log says which algorithm it took. Called by: main.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "tools/braid-tune/group.h"
#include "tools/braid-tune/tune.h"
#include "tuner-plugin/cost/kinds.h"

static const char usage[] = "braid-tune exercise [--tuner FILE|NAME] [--ranks N] [--fake-nodes] "
                            "[--coll NAME,..] [--bytes LIST] [--nccl FILE]\n";

static int exercise(struct group *group, const int *colls, int coll_count, const uint64_t *sizes,
                    int count)
{
    int rc = group_connect(group);

    printf("coll,bytes,us,channels\n");
    for (int i = 0; i < coll_count * count && !rc; i++) {
        struct worker_command command = {.verb = WORKER_MEASURE,
                                         .coll = colls[i / count],
                                         .bytes = sizes[i % count],
                                         .repeat = 1,
                                         .launches = 3,
                                         .check = 1};

        rc = group_run(group, &command);
        if (!rc)
            printf("%s,%llu,%.2f,%d\n", braid_coll_names[command.coll],
                   (unsigned long long)command.bytes, group->reply[0].us, group->reply[0].grid);
    }
    return rc ? rc : group_disconnect(group);
}

int cmd_exercise(int argc, char **argv)
{
    static struct group group;
    const char *tuner = "", *bytes = "1K:64M";
    const char *names = "all_reduce,all_gather,reduce_scatter,broadcast,reduce";
    struct group_options how = {.plugin_path = "", .nccl_path = "", .judge = ""};
    const struct tune_option options[] = {TUNE_TEXT("--tuner", &tuner),
                                          TUNE_TEXT("--bytes", &bytes),
                                          TUNE_TEXT("--nccl", &how.nccl_path),
                                          TUNE_TEXT("--coll", &names),
                                          TUNE_INT("--ranks", &how.ranks, 0, GROUP_RANKS_MAX),
                                          TUNE_INT("--port", &how.port, 0, 65535),
                                          TUNE_FLAG("--fake-nodes", &how.fake_nodes)};
    uint64_t sizes[64];
    int colls[BRAID_COLLS], coll_count = 0, count = 0, rc;

    if (tune_options(argc, argv, options, ARRAY_SIZE(options), NULL, 0) < 0 ||
        (coll_count = tune_colls(names, colls)) < 1 ||
        (count = tune_sizes(bytes, sizes, ARRAY_SIZE(sizes))) < 1)
        return tune_usage(usage);
    for (int i = 0; i < count; i++)
        how.max_bytes = MAX(how.max_bytes, sizes[i]);
    if (tuner[0])
        setenv("NCCL_TUNER_PLUGIN", tuner, 1);
    rc = group_start(&how, &group);
    if (rc)
        return rc == 1 ? 0 : 1;
    rc = exercise(&group, colls, coll_count, sizes, count);
    fflush(stdout);
    group_stop(&group);
    return rc ? 1 : 0;
}
