/*
 * braid-tune: what the tuner would do and why, profiles compared, fitted and measured. Dispatches to the cmd_*.c files.
 */
#include <stdio.h>
#include <string.h>

#include "braid/version.h"
#include "common/util.h"
#include "tools/braid-tune/tune.h"

static const struct {
    const char *name, *help;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"explain",
     "what would be chosen, why, and beside it NCCL's choice and the bound; no GPU needed",
     cmd_explain},
    {"diff", "what two profiles say differently, and where they decide differently", cmd_diff},
    {"calibrate", "measure this machine through NCCL and fit its profile", cmd_calibrate},
    {"exercise", "run collectives under the tuner that the environment names, and check results",
     cmd_exercise},
    {"judge", "what the tuner decides on a measured sweep, as CSV", cmd_judge},
    {"fit", "a profile from a sweep file", cmd_fit},
    {"plot", "pictures and one page of a sweep (needs python3 and matplotlib)", cmd_plot},
    {"predict", "predictions in bulk, for evaluation scripts", cmd_predict},
    {"waves", "channels that cost a GEMM no extra wave", cmd_waves},
};

static void print_usage(FILE *out)
{
    fprintf(out, "Usage: braid-tune COMMAND ...\n");
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
    fprintf(out, "braid-tune COMMAND --help tells more; --version prints the version.\n");
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(commands); i++) {
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(argc - 1, argv + 1);
    }
    if (argc > 1 && !strcmp(argv[1], "--version")) {
        puts("braid-tune " BRAID_VERSION_STRING);
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "--help") && strcmp(argv[1], "-h") && strcmp(argv[1], "help")) {
        fprintf(stderr, "braid-tune: unknown command \"%s\" (--help lists them)\n", argv[1]);
        return 2;
    }
    print_usage(argc > 1 ? stdout : stderr);
    return argc > 1 ? 0 : 2;
}
