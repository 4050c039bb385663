/*
 * braid-info: picks the subcommand. The table below is the only list of subcommands.
 */
#include "braid/version.h"
#include "common/util.h"
#include "tools/braid-info/info.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct braid_info_command *const commands[] = {
    &braid_info_topo,
    &braid_info_params,
    &braid_info_net,
};

static void print_usage(FILE *out)
{
    fprintf(out, "Usage: braid-info SUBCOMMAND [OPTIONS]\n\nSubcommands:\n");
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
        fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->brief);
    fprintf(out, "\nbraid-info SUBCOMMAND --help tells more; --version prints the version.\n");
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

static int run(const struct braid_info_command *command, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (is_help(argv[i])) {
            fputs(command->usage, stdout);
            return INFO_OK;
        }
    if (command->no_options && argc > 1) {
        fprintf(stderr, "braid-info %s: \"%s\" is not expected (--help tells more)\n",
                command->name, argv[1]);
        return INFO_USAGE;
    }
    return command->run(argc, argv);
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL;

    if (word == NULL || is_help(word)) {
        print_usage(word == NULL ? stderr : stdout);
        return word == NULL ? INFO_USAGE : INFO_OK;
    }
    if (strcmp(word, "--version") == 0) {
        puts("braid-info " BRAID_VERSION_STRING);
        return INFO_OK;
    }
    if (strncmp(word, "--", 2) == 0)
        word += 2;
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
        if (strcmp(word, commands[i]->name) == 0)
            return run(commands[i], argc - 1, argv + 1);
    fprintf(stderr, "braid-info: unknown subcommand \"%s\" (--help lists them)\n", argv[1]);
    return INFO_USAGE;
}
