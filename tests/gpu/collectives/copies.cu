/* All-gather, all-to-all(-v) and broadcast, likewise. */
#include "test.h"

enum { GATHER, ALL_TO_ALL, BROADCAST, ALL_TO_ALL_V };
static const char *const copy_names[] = {"all_gather", "all_to_all", "broadcast", "all_to_all_v"};

static int run_copy(struct rank *r, int what, uint64_t bytes, uint32_t method, int in_place,
                    int window, int shift, uint32_t sms)
{
    struct braid_op_options options = BRAID_OP_OPTIONS_INIT;
    char *base = window ? r->win : r->out, *out = base + shift;
    uint64_t out_bytes = what == BROADCAST ? bytes : bytes * ranks;
    char text[160];
    int rc = 0, root = (int)(bytes % ranks);

    if (out_bytes + shift + 16 > BUFFER_BYTES)
        return 0;
    options.method = method;
    options.sms = sms;
    snprintf(text, sizeof(text), "%s/%llu %s%s%s shift %d sms %u", copy_names[what],
             (unsigned long long)bytes, method_names[method], in_place ? " in place" : "",
             window ? " window" : "", shift, sms);
    for (uint32_t it = 1; it <= 3 && rc == 0; it++) {
        char *in = r->in + shift;

        CHECK(cudaMemsetAsync(base, 0xa5, out_bytes + shift + 16, r->stream));
        if (what == GATHER) {
            if (in_place)
                in = out + r->rank * bytes;
            fill_bytes<<<64, 256, 0, r->stream>>>(in, bytes, r->rank, 0, r->found, it);
            skew(r);
            rc = braid_all_gather(r->ops, in, out, bytes, &options, r->stream);
            for (int p = 0; p < ranks; p++)
                check_bytes<<<64, 256, 0, r->stream>>>(out + p * bytes, bytes, p, 0, r->found, it);
        } else if (what == ALL_TO_ALL) {
            if (in_place)
                in = out;
            fill_bytes<<<64, 256, 0, r->stream>>>(in, bytes * ranks, r->rank, 0, r->found, it);
            skew(r);
            rc = braid_all_to_all(r->ops, in, out, bytes, &options, r->stream);
            for (int p = 0; p < ranks; p++)
                check_bytes<<<64, 256, 0, r->stream>>>(out + p * bytes, bytes, p, r->rank * bytes,
                                                       r->found, it);
        } else {
            if (in_place)
                in = out;
            if (r->rank == root)
                fill_bytes<<<64, 256, 0, r->stream>>>(in, bytes, root, 0, r->found, it);
            skew(r);
            rc = braid_broadcast(r->ops, in, out, bytes, root, &options, r->stream);
            check_bytes<<<64, 256, 0, r->stream>>>(out, bytes, root, 0, r->found, it);
        }
        check_value<<<1, 32, 0, r->stream>>>((unsigned char *)out + out_bytes, 16, 0xa5, r->found);
    }
    return settle(r, text, rc, 0);
}

/* Lengths by (source, destination): ragged, with zeros, or everything to rank 0. */
static uint64_t pair_bytes(int pattern, int source, int dest, uint64_t bytes)
{
    if (pattern == 0)
        return mix(source * 131 + dest * 17 + 5) % (bytes + 1) & ~15ull;
    if (pattern == 1)
        return mix(source * 131 + dest * 17 + 6) % 3 == 0 ? 0
                                                          : mix(source * 7 + dest) % (bytes + 1);
    return dest == 0 ? bytes : 0;
}

static int run_all_to_all_v(struct rank *r, uint64_t bytes, int pattern)
{
    size_t send[MAX_TEST_RANKS], send_at[MAX_TEST_RANKS], recv[MAX_TEST_RANKS],
        recv_at[MAX_TEST_RANKS];
    size_t in_bytes = 0, out_bytes = 0;
    char text[160];
    int rc = 0;

    for (int p = 0; p < ranks; p++) {
        send[p] = pair_bytes(pattern, r->rank, p, bytes);
        recv[p] = pair_bytes(pattern, p, r->rank, bytes);
        send_at[p] = in_bytes;
        recv_at[p] = out_bytes;
        in_bytes += pattern == 1 ? send[p] : (send[p] + 15) & ~15ull;
        out_bytes += pattern == 1 ? recv[p] : (recv[p] + 15) & ~15ull;
    }
    snprintf(text, sizeof(text), "all_to_all_v/%llu pattern %d", (unsigned long long)bytes,
             pattern);
    if (in_bytes > BUFFER_BYTES || out_bytes > BUFFER_BYTES)
        return 0;
    for (uint32_t it = 1; it <= 3 && rc == 0; it++) {
        CHECK(cudaMemsetAsync(r->out, 0xa5, out_bytes + 16, r->stream));
        for (int p = 0; p < ranks; p++)
            fill_bytes<<<64, 256, 0, r->stream>>>(r->in + send_at[p], send[p], r->rank,
                                                  (uint64_t)p << 28, r->found, it);
        skew(r);
        rc = braid_all_to_all_v(r->ops, r->in, send, send_at, r->out, recv, recv_at, NULL,
                                r->stream);
        for (int p = 0; p < ranks; p++)
            check_bytes<<<64, 256, 0, r->stream>>>(r->out + recv_at[p], recv[p], p,
                                                   (uint64_t)r->rank << 28, r->found, it);
        check_value<<<1, 32, 0, r->stream>>>((unsigned char *)r->out + out_bytes, 16, 0xa5,
                                             r->found);
    }
    return settle(r, text, rc, 0);
}

int stage_copies(struct rank *r, double until)
{
    static const uint64_t sizes[] = {1,     7,      16,       1000,    1536,     4096,
                                     65536, 100001, 1u << 20, 3000016, 12u << 20};
    static const uint32_t methods[] = {BRAID_METHOD_AUTO, BRAID_METHOD_PACKETS, BRAID_METHOD_STAGED,
                                       BRAID_METHOD_DIRECT, BRAID_METHOD_ENGINE};

    for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (int what = GATHER; what <= BROADCAST; what++) {
            for (unsigned m = 0; m < 5; m++) {
                for (int v = 0; v < 4; v++) {
                    int in_place = v & 1, window = methods[m] >= BRAID_METHOD_DIRECT || v == 3,
                        shift = v == 2 ? 3 : 0;

                    if (methods[m] == BRAID_METHOD_PACKETS && sizes[s] > (900u << 10) / (ranks - 1))
                        continue;
                    if ((methods[m] == BRAID_METHOD_DIRECT && in_place && what == ALL_TO_ALL) ||
                        (methods[m] == BRAID_METHOD_ENGINE && what == BROADCAST))
                        continue;
                    if (anyone_broken(run_copy(r, what, sizes[s], methods[m], in_place, window,
                                               shift, v == 1 ? 3 : 0)))
                        return 1;
                    if (anyone_broken(now_s() > until))
                        return 0;
                }
            }
        }
        for (int pattern = 0; pattern < 3; pattern++) {
            if (anyone_broken(run_all_to_all_v(r, sizes[s], pattern)))
                return 1;
        }
    }
    return 0;
}
