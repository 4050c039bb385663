/*
 * Parser of the script and the rules about failing calls. One line, one statement; `%n` in a line is replaced by the
 * number of the node (FAKEVERBS_NODE), so that one script serves every process of a test.
 */
#include "script.h"

#include "fakeverbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char builtin_script[] =
    "device mlx5_0 guid 0x0c42a1030000%n00 link ethernet speed 100 mtu 4096 subnet rail0\n"
    "gid 0 v1 fe80::e42:a1ff:fe00:%n\n"
    "gid 1 v2 fe80::e42:a1ff:fe00:%n\n"
    "gid 2 v1 ::ffff:10.1.0.%n\n"
    "gid 3 v2 ::ffff:10.1.0.%n\n"
    "device mlx5_1 guid 0x0c42a1030001%n00 link ethernet speed 100 mtu 4096 subnet rail1\n"
    "gid 0 v1 fe80::e42:a1ff:fe01:%n\n"
    "gid 1 v2 fe80::e42:a1ff:fe01:%n\n"
    "gid 2 v1 ::ffff:10.2.0.%n\n"
    "gid 3 v2 ::ffff:10.2.0.%n\n";

static struct fv_script script;
static pthread_once_t script_once = PTHREAD_ONCE_INIT;
static _Atomic int64_t calls_seen;
static _Atomic int64_t call_to_fail;

static const struct {
    const char *name;
    uint32_t value;
} errno_names[] =
    {
        {"ENOMEM", ENOMEM},   {"EOPNOTSUPP", EOPNOTSUPP},
        {"EINVAL", EINVAL},   {"ETIMEDOUT", ETIMEDOUT},
        {"ENODEV", ENODEV},   {"EPERM", EPERM},
        {"EAGAIN", EAGAIN},   {"EIO", EIO},
        {"ENOSPC", ENOSPC},   {"EFAULT", EFAULT},
        {"ENODATA", ENODATA},
},
  status_names[] = {
      {"LOC_LEN_ERR", IBV_WC_LOC_LEN_ERR},
      {"LOC_QP_OP_ERR", IBV_WC_LOC_QP_OP_ERR},
      {"LOC_PROT_ERR", IBV_WC_LOC_PROT_ERR},
      {"WR_FLUSH_ERR", IBV_WC_WR_FLUSH_ERR},
      {"BAD_RESP_ERR", IBV_WC_BAD_RESP_ERR},
      {"LOC_ACCESS_ERR", IBV_WC_LOC_ACCESS_ERR},
      {"REM_INV_REQ_ERR", IBV_WC_REM_INV_REQ_ERR},
      {"REM_ACCESS_ERR", IBV_WC_REM_ACCESS_ERR},
      {"REM_OP_ERR", IBV_WC_REM_OP_ERR},
      {"RETRY_EXC_ERR", IBV_WC_RETRY_EXC_ERR},
      {"RNR_RETRY_EXC_ERR", IBV_WC_RNR_RETRY_EXC_ERR},
      {"REM_ABORT_ERR", IBV_WC_REM_ABORT_ERR},
      {"FATAL_ERR", IBV_WC_FATAL_ERR},
      {"RESP_TIMEOUT_ERR", IBV_WC_RESP_TIMEOUT_ERR},
      {"GENERAL_ERR", IBV_WC_GENERAL_ERR},
};

static const struct {
    const char *name;
    uint32_t value;
    int32_t port_state;
} event_names[] = {
    {"port_err", IBV_EVENT_PORT_ERR, IBV_PORT_DOWN},
    {"port_active", IBV_EVENT_PORT_ACTIVE, IBV_PORT_ACTIVE},
    {"gid_change", IBV_EVENT_GID_CHANGE, -1},
    {"lid_change", IBV_EVENT_LID_CHANGE, -1},
    {"pkey_change", IBV_EVENT_PKEY_CHANGE, -1},
    {"sm_change", IBV_EVENT_SM_CHANGE, -1},
    {"client_reregister", IBV_EVENT_CLIENT_REREGISTER, -1},
    {"device_fatal", IBV_EVENT_DEVICE_FATAL, -1},
};

static void mistake(const char *line, const char *what)
{
    fprintf(stderr, "fakeverbs: %s in script line: %s\n", what, line);
    abort();
}

int fv_event_by_name(const char *name, int32_t *port_state)
{
    for (size_t i = 0; i < sizeof(event_names) / sizeof(event_names[0]); i++)
        if (strcmp(name, event_names[i].name) == 0) {
            *port_state = event_names[i].port_state;
            return (int)event_names[i].value;
        }
    return -1;
}

static bool device_number(struct fv_device_state *device, const char *key, uint64_t value)
{
    const struct {
        const char *key;
        uint32_t *member;
    } numbers[] = {
        {"speed", &device->speed_gbps}, {"lid", &device->lid},
        {"max_qp", &device->max_qp},    {"max_cqe", &device->max_cqe},
        {"max_wr", &device->max_wr},    {"inline", &device->max_inline},
        {"max_mr", &device->max_mr},    {"max_sge", &device->max_sge},
        {"vendor", &device->vendor_id}, {"part", &device->vendor_part_id},
        {"atomics", &device->atomics},
    };

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (strcmp(key, numbers[i].key) == 0) {
            *numbers[i].member = (uint32_t)value;
            return true;
        }
    if (strcmp(key, "guid") == 0) {
        device->guid = htobe64(value);
        return true;
    }
    if (strcmp(key, "mtu") == 0) {
        for (device->mtu = IBV_MTU_256;
             device->mtu < IBV_MTU_4096 && (128u << device->mtu) < value;)
            device->mtu++;
        return true;
    }
    return false;
}

static void device_key(struct fv_device_state *device, const char *key, const char *value,
                       const char *line)
{
    if (strcmp(key, "link") == 0)
        device->link_layer =
            strcmp(value, "infiniband") == 0 ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
    else if (strcmp(key, "state") == 0)
        device->port_state = strcmp(value, "active") == 0 ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    else if (strcmp(key, "subnet") == 0)
        snprintf(device->subnet, sizeof(device->subnet), "%s", value);
    else if (strcmp(key, "path") == 0)
        snprintf(device->path, sizeof(device->path), "%s", value);
    else if (strcmp(key, "without") == 0 && strcmp(value, "order") == 0)
        device->flags |= FV_NO_ORDER;
    else if (strcmp(key, "without") == 0)
        device->flags |= FV_NO_RELAXED;
    else if (strcmp(key, "with") == 0)
        device->flags &= ~FV_NO_DMABUF;
    else if (!device_number(device, key, strtoull(value, NULL, 0)))
        mistake(line, "unknown key");
}

static struct fv_device_state *device_add(struct fv_script *s, const char *name, const char *line)
{
    struct fv_device_state *device = &s->devices[s->device_count];

    if (s->device_count == FV_MAX_DEVICES)
        mistake(line, "too many devices");
    s->device_count++;
    memcpy(device->node, s->node, sizeof(device->node));
    snprintf(device->name, sizeof(device->name), "%s", name);
    snprintf(device->path, sizeof(device->path), "/sys/class/infiniband/%s", name);
    device->guid = htobe64(0x0c42a10300000000ull + s->device_count);
    device->vendor_id = 0x02c9;
    device->vendor_part_id = 4129;
    device->port_state = IBV_PORT_ACTIVE;
    device->mtu = IBV_MTU_4096;
    device->link_layer = IBV_LINK_LAYER_ETHERNET;
    device->speed_gbps = 100;
    device->lid = s->device_count;
    device->max_qp = FV_MAX_QPS;
    device->max_cqe = FV_CQ_DEPTH;
    device->max_wr = FV_RQ_DEPTH;
    device->max_inline = 512;
    device->max_mr = FV_MAX_MRS;
    device->max_sge = 16;
    device->atomics = 1;
    device->flags = FV_NO_DMABUF;
    return device;
}

static void parse_gid(struct fv_device_state *device, char **words, const char *line)
{
    long index = words[1] ? strtol(words[1], NULL, 0) : -1;
    struct fv_gid *gid;

    if (!device || index < 0 || index >= FV_MAX_GIDS || !words[2] || !words[3])
        mistake(line, "wrong gid");
    gid = &device->gids[index];
    if (inet_pton(AF_INET6, words[3], &gid->gid) != 1)
        mistake(line, "not an address");
    gid->type = strcmp(words[2], "v2") == 0   ? IBV_GID_TYPE_ROCE_V2
                : strcmp(words[2], "v1") == 0 ? IBV_GID_TYPE_ROCE_V1
                                              : IBV_GID_TYPE_IB;
    gid->valid = true;
}

static void parse_rule(struct fv_script *s, char **words, const char *line)
{
    if (!words[1] || !words[2] || !words[3])
        mistake(line, "too few words");
    if (s->fail_count == FV_MAX_RULES || s->status_count == FV_MAX_RULES ||
        s->event_count == FV_MAX_RULES)
        mistake(line, "too many rules");
    if (strcmp(words[0], "fail") == 0) {
        struct fv_fail_rule *rule = &s->fails[s->fail_count++];
        snprintf(rule->call, sizeof(rule->call), "%s", words[1]);
        rule->nth = strcmp(words[2], "*") == 0 ? 0 : strtoll(words[2], NULL, 0);
        for (size_t i = 0; i < sizeof(errno_names) / sizeof(errno_names[0]); i++)
            if (strcmp(words[3], errno_names[i].name) == 0)
                rule->error = (int)errno_names[i].value;
        if (rule->error == 0)
            mistake(line, "unknown errno");
    } else if (strcmp(words[0], "status") == 0) {
        struct fv_status_rule *rule = &s->statuses[s->status_count++];
        rule->nth = strtoll(words[1], NULL, 0);
        for (size_t i = 0; i < sizeof(status_names) / sizeof(status_names[0]); i++)
            if (strcmp(words[2], status_names[i].name) == 0)
                rule->status = status_names[i].value;
        rule->vendor_err = (uint32_t)strtoul(words[3], NULL, 0);
        if (rule->status == 0)
            mistake(line, "unknown status");
    } else {
        struct fv_event_rule *rule = &s->events[s->event_count++];
        int event = fv_event_by_name(words[3], &rule->port_state);
        rule->sends = strtoll(words[1], NULL, 0);
        snprintf(rule->device, sizeof(rule->device), "%s", words[2]);
        if (event < 0)
            mistake(line, "unknown event");
        rule->event = (uint32_t)event;
    }
}

static void parse_words(struct fv_script *s, char **words, const char *line)
{
    struct fv_device_state *device = s->device_count ? &s->devices[s->device_count - 1] : NULL;

    if (strcmp(words[0], "device") == 0 && words[1]) {
        device = device_add(s, words[1], line);
        for (int i = 2; words[i]; i += 2) {
            if (!words[i + 1])
                mistake(line, "a key without a value");
            device_key(device, words[i], words[i + 1], line);
        }
    } else if (strcmp(words[0], "gid") == 0) {
        parse_gid(device, words, line);
    } else if (strcmp(words[0], "order") == 0 && words[1]) {
        s->random_order = strcmp(words[1], "random") == 0;
        s->seed = words[2] ? strtoull(words[2], NULL, 0) : 1;
    } else if (strcmp(words[0], "lost_acks") == 0) {
        s->lost_acks = true;
    } else if (strcmp(words[0], "retry_ms") == 0 && words[1]) {
        s->retry_ms = strtoll(words[1], NULL, 0);
    } else if (strcmp(words[0], "fail") == 0 || strcmp(words[0], "status") == 0 ||
               strcmp(words[0], "event") == 0) {
        parse_rule(s, words, line);
    } else {
        mistake(line, "unknown statement");
    }
}

static void parse_line(struct fv_script *s, const char *line)
{
    char text[512];
    char *words[64] = {0};
    char *place = NULL;
    size_t used = 0;
    int count = 0;

    for (const char *p = line; *p && *p != '#' && used + FV_NAME_BYTES < sizeof(text); p++) {
        if (p[0] == '%' && p[1] == 'n') {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s", s->node);
            p++;
        } else {
            text[used++] = *p;
        }
    }
    text[used] = '\0';
    for (char *word = strtok_r(text, " \t\r\n", &place); word && count < 62;
         word = strtok_r(NULL, " \t\r\n", &place))
        words[count++] = word;
    if (count > 0)
        parse_words(s, words, line);
}

static void parse_file(struct fv_script *s, FILE *file)
{
    char line[512];

    while (fgets(line, sizeof(line), file))
        parse_line(s, line);
    fclose(file);
}

static void script_load(void)
{
    const char *path = getenv("FAKEVERBS_SCRIPT");
    const char *node = getenv("FAKEVERBS_NODE");
    FILE *file = path && *path ? fopen(path, "re")
                               : fmemopen((void *)builtin_script, sizeof(builtin_script) - 1, "r");

    snprintf(script.node, sizeof(script.node), "%s", node && *node ? node : "1");
    script.retry_ms = 200;
    if (!file) {
        fprintf(stderr, "fakeverbs: cannot read the script %s: %s\n", path, strerror(errno));
        abort();
    }
    parse_file(&script, file);
}

struct fv_script *fv_script_get(void)
{
    pthread_once(&script_once, script_load);
    return &script;
}

int fv_call_fails(const char *call)
{
    struct fv_script *s = fv_script_get();
    int64_t seen = atomic_fetch_add(&calls_seen, 1) + 1;
    int error = 0;

    if (seen == atomic_load(&call_to_fail))
        error = ENOMEM;
    for (uint32_t i = 0; i < s->fail_count; i++) {
        struct fv_fail_rule *rule = &s->fails[i];
        if (strcmp(rule->call, call) != 0)
            continue;
        if (atomic_fetch_add(&rule->seen, 1) + 1 == rule->nth || rule->nth == 0)
            error = rule->error;
    }
    if (error)
        errno = error;
    return error;
}

void fakeverbs_fail_nth(int64_t nth)
{
    atomic_store(&calls_seen, 0);
    atomic_store(&call_to_fail, nth);
}

int64_t fakeverbs_calls(void)
{
    return atomic_load(&calls_seen);
}
