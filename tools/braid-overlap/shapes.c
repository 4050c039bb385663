/* Shapes, see shapes.h. */
#include "tools/braid-overlap/shapes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <braid/gemm_ops.h>

#include "common/util.h"

/* Public dimensions: hidden size, feed-forward size, query and key/value heads times the size of a head. */
static const struct model {
    const char *name;
    int64_t hidden, ffn, q, kv;
} models[] = {
    {"llama3-8b", 4096, 14336, 4096, 1024},
    {"llama3-70b", 8192, 28672, 8192, 1024},
    {"qwen2.5-32b", 5120, 27648, 5120, 1024},
    {"gpt3-175b", 12288, 49152, 12288, 12288},
};

int shape_parse(const char *text, struct shape *shape)
{
    static const char *const names[] = {"ag_gemm:", "gemm_rs:", "gemm_ar:"};
    long long m, n, k;
    char a, b, rest;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        size_t bytes = strlen(names[i]);

        if (strncmp(text, names[i], bytes) != 0)
            continue;
        if (sscanf(text + bytes, "%lld%c%lld%c%lld%c", &m, &a, &n, &b, &k, &rest) != 5 || a != b ||
            (a != ',' && a != 'x') || m <= 0 || n <= 0 || k <= 0)
            return -EINVAL;
        *shape = (struct shape){(int)i, m, n, k};
        return 0;
    }
    return -EINVAL;
}

static int append(struct shape *list, size_t room, size_t *count, struct shape shape)
{
    if (*count == room)
        return -ENOSPC;
    list[(*count)++] = shape;
    return 0;
}

int shapes_of_model(const char *model, int64_t tokens, int ranks, struct shape *list, size_t room,
                    size_t *count)
{
    for (size_t i = 0; i < ARRAY_SIZE(models); i++) {
        const struct model *m = &models[i];
        const struct shape all[] = {
            {BRAID_AG_GEMM, tokens, (m->q + 2 * m->kv) / ranks, m->hidden}, /* query, key, value */
            {BRAID_GEMM_RS, tokens, m->hidden, m->q / ranks},               /* attention's output */
            {BRAID_AG_GEMM, tokens, 2 * m->ffn / ranks, m->hidden},         /* gate and up */
            {BRAID_GEMM_RS, tokens, m->hidden, m->ffn / ranks},             /* down */
        };

        if (strcmp(model, m->name) != 0)
            continue;
        if (tokens % ranks || m->q % ranks || m->kv % ranks || m->ffn % ranks)
            return -EINVAL;
        for (size_t j = 0; j < ARRAY_SIZE(all); j++)
            if (append(list, room, count, all[j]) != 0)
                return -ENOSPC;
        return 0;
    }
    return -ENOENT;
}

size_t shapes_standard(struct shape *list, size_t room)
{
    static const int64_t dims[][3] = {
        {8192, 14336, 8192}, {8192, 4096, 8192},  {2048, 14336, 8192},
        {16384, 2048, 4096}, {16384, 1024, 8192}, {8192, 1024, 4096},
        {512, 14336, 8192},  {128, 14336, 8192},  {64, 4096, 8192},
    };
    size_t count = 0;

    for (size_t i = 0; i < ARRAY_SIZE(dims); i++) {
        append(list, room, &count,
               (struct shape){BRAID_AG_GEMM, dims[i][0], dims[i][1], dims[i][2]});
        append(list, room, &count,
               (struct shape){BRAID_GEMM_RS, dims[i][0], dims[i][2], dims[i][1]});
    }
    return count;
}

const char *shapes_models(void)
{
    static char names[256];

    if (names[0] == '\0')
        for (size_t i = 0; i < ARRAY_SIZE(models); i++)
            snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", i ? " " : "",
                     models[i].name);
    return names;
}
