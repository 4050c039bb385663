/* All-reduce and reduce-scatter: formats, methods, sizes, alignments, in place and apart, in a window and not. */
#include "test.h"

struct sum_case {
    int scatter; /* reduce-scatter */
    int number;
    uint64_t count;
    uint32_t method;
    int in_place, window;
    int shift; /* elements off alignment */
    uint32_t sms;
    float scale;
};

static int run_sum(struct rank *r, const struct sum_case *k)
{
    struct braid_op_options options = BRAID_OP_OPTIONS_INIT;
    uint64_t size = number_bytes[k->number], all = k->scatter ? k->count * ranks : k->count;
    char *base = k->window ? r->win : r->out, *out = base + k->shift * size;
    /* a pull reads its peers' windows; apart, the input is the window's second half */
    char *apart = k->method == BRAID_METHOD_PULL ? r->win + BUFFER_BYTES / 2 : r->in;
    char *in = k->in_place ? out : apart + k->shift * size;
    char text[160];
    int rc = 0;

    if ((all + k->shift + 16) * size > BUFFER_BYTES / (k->in_place || apart == r->in ? 1 : 2))
        return 0;
    options.method = k->method;
    options.sms = k->sms;
    options.scale = k->scale;
    snprintf(text, sizeof(text), "%s/%s/%llu %s%s%s shift %d sms %u",
             k->scatter ? "reduce_scatter" : "all_reduce", number_names[k->number],
             (unsigned long long)(k->count * size), method_names[k->method],
             k->in_place ? " in place" : "", k->window ? " window" : "", k->shift, k->sms);
    for (uint32_t it = 1; it <= 3 && rc == 0; it++) {
        char *result = k->scatter && k->in_place ? out + r->rank * k->count * size : out;

        if (!k->in_place)
            CHECK(cudaMemsetAsync(base, 0xff, (all + k->shift) * size + 16, r->stream));
        fill_numbers<<<64, 256, 0, r->stream>>>(in, all, k->number, r->rank, r->found, it);
        skew(r);
        rc =
            k->scatter
                ? braid_reduce_scatter(r->ops, in, result, k->count, k->number, &options, r->stream)
                : braid_all_reduce(r->ops, in, result, k->count, k->number, &options, r->stream);
        check_sum<<<64, 256, 0, r->stream>>>(result, k->count, k->scatter ? r->rank * k->count : 0,
                                             k->number, ranks, k->scale, r->found, it);
        if (!k->in_place) /* nothing behind the end */
            check_value<<<1, 32, 0, r->stream>>>((unsigned char *)result + k->count * size, 16,
                                                 0xff, r->found);
    }
    return settle(r, text, rc, !k->scatter);
}

int stage_sums(struct rank *r, double until)
{
    static const uint64_t counts[] = {1,    3,      8,      191,    500,     512,     4096,    8192,
                                      8191, 100003, 262144, 524288, 1000001, 4194304, 16777216};
    static const uint32_t all_methods[] = {BRAID_METHOD_AUTO, BRAID_METHOD_PACKETS,
                                           BRAID_METHOD_ONE_SHOT, BRAID_METHOD_TWO_SHOT,
                                           BRAID_METHOD_PULL};
    static const uint32_t scatter_methods[] = {BRAID_METHOD_AUTO, BRAID_METHOD_PACKETS,
                                               BRAID_METHOD_STAGED, BRAID_METHOD_PULL};

    /* bf16 and f32 in full, the others in a few sizes. */
    for (int scatter = 0; scatter < 2; scatter++) {
        for (int n = 0; n < BRAID_NUMBER_COUNT; n++) {
            int number = n == 0 ? BRAID_BF16 : n == 2 ? BRAID_F32 : n;

            for (unsigned c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
                unsigned methods = scatter ? 4 : 5;

                if (number != BRAID_BF16 && c % 3 != 1)
                    continue;
                for (unsigned m = 0; m < methods; m++) {
                    uint32_t method = scatter ? scatter_methods[m] : all_methods[m];
                    uint64_t bytes = counts[c] * number_bytes[number];

                    if (method == BRAID_METHOD_PACKETS && bytes > (900u << 10) / (ranks - 1))
                        continue;
                    for (int v = 0; v < 4; v++) {
                        struct sum_case k = {scatter,
                                             number,
                                             counts[c],
                                             method,
                                             v & 1,
                                             method == BRAID_METHOD_TWO_SHOT ||
                                                 method == BRAID_METHOD_PULL || v == 3,
                                             v == 2 ? 1 : 0,
                                             v == 1 ? 4u : 0u,
                                             v == 2 ? 0.5f : 1.0f};

                        if (bytes > (8u << 20) && v != 0 && v != 3)
                            continue;
                        if (anyone_broken(run_sum(r, &k)))
                            return 1;
                        if (anyone_broken(now_s() > until))
                            return 0;
                    }
                }
            }
        }
    }
    return 0;
}
