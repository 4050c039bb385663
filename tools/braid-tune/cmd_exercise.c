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

static int exercise(struct group *group, const char *colls, const uint64_t *sizes, int count)
{
    int rc = group_connect(group);

    printf("coll,bytes,us,channels\n");
    while (!rc && *colls) {
        size_t length = strcspn(colls, ",");
        char word[32];

        snprintf(word, sizeof(word), "%.*s", (int)length, colls);
        for (int i = 0; i < count && !rc; i++) {
            struct worker_command command = {
                .verb = WORKER_MEASURE,
                .coll = braid_kind_find(braid_coll_names, BRAID_COLLS, word),
                .bytes = sizes[i],
                .repeat = 1,
                .launches = 3,
                .check = 1};

            if (command.coll < 0) {
                fprintf(stderr, "braid-tune: unknown collective '%s'\n", word);
                return -1;
            }
            rc = group_run(group, &command);
            if (!rc)
                printf("%s,%llu,%.2f,%d\n", braid_coll_names[command.coll],
                       (unsigned long long)sizes[i], group->reply[0].us, group->reply[0].grid);
        }
        colls += length + (colls[length] == ',');
    }
    return rc ? rc : group_disconnect(group);
}

int cmd_exercise(int argc, char **argv)
{
    static struct group group;
    const char *tuner = "", *ranks = "0", *bytes = "1K:64M", *nccl = "", *port = "0";
    const char *colls = "all_reduce,all_gather,reduce_scatter,broadcast,reduce";
    bool fake_nodes = false;
    const struct tune_option options[] = {{"--tuner", &tuner, NULL},
                                          {"--ranks", &ranks, NULL},
                                          {"--bytes", &bytes, NULL},
                                          {"--nccl", &nccl, NULL},
                                          {"--port", &port, NULL},
                                          {"--coll", &colls, NULL},
                                          {"--fake-nodes", NULL, &fake_nodes}};
    struct group_options how = {.plugin_path = ""};
    uint64_t sizes[64];
    int count = 0, rc;

    if (tune_options(argc, argv, options, ARRAY_SIZE(options), NULL, 0) < 0 ||
        (count = tune_sizes(bytes, sizes, ARRAY_SIZE(sizes))) < 1) {
        fputs(usage, stderr);
        return 2;
    }
    how.ranks = atoi(ranks);
    how.port = atoi(port);
    how.fake_nodes = fake_nodes;
    how.nccl_path = nccl;
    for (int i = 0; i < count; i++)
        how.max_bytes = MAX(how.max_bytes, sizes[i]);
    if (tuner[0])
        setenv("NCCL_TUNER_PLUGIN", tuner, 1);
    rc = group_start(&how, &group);
    if (rc)
        return rc == 1 ? 0 : 1;
    rc = exercise(&group, colls, sizes, count);
    fflush(stdout);
    group_stop(&group);
    return rc ? 1 : 0;
}
