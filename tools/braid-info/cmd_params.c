/*
 * braid-info params (or --params): every tunable with its value in this environment, where the value
 * comes from, its range and help. The rows are those of common/params.def.
 */
#include "common/param.h"
#include "tools/braid-info/info.h"

#include <stdio.h>

static const char *type_name(const struct braid_param_row *row)
{
    static const char *const names[] = {"integer", "yes/no", "text"};

    return names[row->type];
}

static void print_plain(enum braid_param_id id)
{
    static const char *const from[] = {"default", "BRAID_", "NCCL_"};
    const struct braid_param_row *row = braid_param_row(id);
    char value[256];

    printf("%s = %s  [%s]\n", row->name, braid_param_text(id, value, sizeof(value)),
           braid_param_source(id) == BRAID_PARAM_DEFAULT ? from[0]
           : braid_param_source(id) == BRAID_PARAM_BRAID ? row->name
                                                         : row->nccl_name);
    printf("    %s%s%s\n", type_name(row), row->unit[0] ? ", " : "", row->unit);
    if (row->type == BRAID_PARAM_INT)
        printf("    from %lld to %lld, default %s\n", (long long)row->min, (long long)row->max,
               row->default_text);
    if (row->nccl_name[0] != '\0')
        printf("    else %s\n", row->nccl_name);
    printf("    %s\n", row->help);
}

static int run_params(int argc, char **argv)
{
    for (int id = 0; id < BRAID_P_COUNT; id++)
        print_plain((enum braid_param_id)id);
    return INFO_OK;
}

const struct braid_info_command braid_info_params = {
    .name = "params",
    .brief = "every tunable: value, where it comes from, range, help",
    .usage = "Usage: braid-info params\n\n"
             "Lists every tunable with its value in this environment.\n",
    .no_options = true,
    .run = run_params,
};
