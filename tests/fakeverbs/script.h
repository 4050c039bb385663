/*
 * The script of a fake verbs library: what devices there are and what goes wrong when. README.md has the grammar.
 * Read once a process from FAKEVERBS_SCRIPT (a file), or the built-in one with two RoCE devices.
 */
#ifndef FAKEVERBS_SCRIPT_H
#define FAKEVERBS_SCRIPT_H

#include "fabric.h"

#define FV_MAX_RULES 64

struct fv_fail_rule {
    char call[40];
    int64_t nth; /* 1 = first; 0 = every one */
    int error;   /* errno value */
    _Atomic int64_t seen;
};

struct fv_status_rule {
    int64_t nth; /* counted over the send completions of this process */
    uint32_t status, vendor_err;
};

struct fv_event_rule {
    int64_t sends; /* after that many posted sends of this process */
    char device[FV_NAME_BYTES];
    uint32_t event;
    int32_t port_state; /* new port state, or -1 */
    _Atomic bool done;
};

struct fv_script {
    char node[FV_NAME_BYTES];
    bool random_order;
    uint64_t seed;
    /* upper bound of the time after which an unanswered packet becomes an error */
    int64_t retry_ms;
    /* acknowledgements are lost: a send completes with the next one, or some ms later if the peer is still there */
    bool lost_acks;
    uint32_t device_count;
    struct fv_device_state devices[FV_MAX_DEVICES];
    struct fv_fail_rule fails[FV_MAX_RULES];
    struct fv_status_rule statuses[FV_MAX_RULES];
    struct fv_event_rule events[FV_MAX_RULES];
    uint32_t fail_count, status_count, event_count;
};

/* The parsed script; prints the line and aborts on a mistake in it, as a test with a wrong script proves nothing. */
struct fv_script *fv_script_get(void);

/*
 * Counts a call that may fail. Returns 0, or the errno value with which it must fail now (errno is set too).
 * Every such call also counts for fakeverbs_fail_nth().
 */
int fv_call_fails(const char *call);

/* Names used by scripts and by the control program; -1 when unknown. */
int fv_event_by_name(const char *name, int32_t *port_state);

#endif
