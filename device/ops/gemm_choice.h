/*
 * Which settings serve a shape: a line of the profile file, else a model. Every rank could compute it, but rank 0's answer counts
 * (gemm.c), so ranks whose files differ still agree.
 * Threading: pure functions, and file access without locks: a profile is replaced by rename. Called by: gemm.c, braid-overlap.
 */
#ifndef BRAID_DEVICE_OPS_GEMM_CHOICE_H
#define BRAID_DEVICE_OPS_GEMM_CHOICE_H

#include <stddef.h>

#include <braid/gemm_ops.h>

/* What a choice depends on beside the shape. */
struct braid_gemm_machine {
    int ranks;
    int arch;        /* compute capability * 10, 90 for Hopper */
    int sms;         /* of this rank */
    long lt_version; /* of cuBLASLt: names of proposals are only kept within one version */
};

/* gemm_model.c: microseconds that the model expects of settings whose method is SERIAL, RING_EXCHANGE or PIPELINE. */
double braid_gemm_model_us(const struct braid_gemm_desc *desc, const struct braid_gemm_machine *on,
                           const struct braid_gemm_settings *settings);

/* The product alone. */
double braid_gemm_model_product_us(int64_t rows, int64_t n, int64_t k, int sms);

/* The bytes that a rank sends, on one copy engine. */
double braid_gemm_model_link_us(const struct braid_gemm_desc *desc,
                                const struct braid_gemm_machine *on);

/*
 * The model's choice: serial unless an overlapped schedule is expected to be at least 5 % faster, because the model is a few per
 * cent wrong. Never AUTO.
 */
void braid_gemm_model_choose(const struct braid_gemm_desc *desc,
                             const struct braid_gemm_machine *on,
                             struct braid_gemm_settings *settings);

/* Fills zero fields with their defaults. */
void braid_gemm_settings_complete(int op, struct braid_gemm_settings *settings);

/* The name of a method for people and profiles, and back (-EINVAL). */
const char *braid_gemm_method_name(int method);
int braid_gemm_method_parse(const char *name);

/* 0 when `path` has a row for it, -ENOENT when not (or no file), -EINVAL when its row does not parse. */
int braid_gemm_profile_load(const char *path, const struct braid_gemm_desc *desc,
                            const struct braid_gemm_machine *on,
                            struct braid_gemm_settings *settings);

/* The same from the rows that the library brings (gemm_profile.inc), or from `text` when it is not NULL. */
int braid_gemm_profile_shipped(const char *text, const struct braid_gemm_desc *desc,
                               const struct braid_gemm_machine *on,
                               struct braid_gemm_settings *settings);

/* Replaces or adds the row. 0 or a negative errno. */
int braid_gemm_profile_store(const char *path, const struct braid_gemm_desc *desc,
                             const struct braid_gemm_machine *on,
                             const struct braid_gemm_settings *settings);

#endif
