/*
 * braid-info net: the network interfaces that Braid's sockets and handles would use on this machine, and why not the others. Reads the
 * same settings as the plugin and goes through the same choice.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/netif.h"
#include "common/param.h"
#include "net-plugin/socket/socket.h"
#include "tools/braid-info/info.h"

static void print_chosen(struct braid_netif *netif)
{
    char text[BRAID_ADDR_TEXT];

    braid_netif_read_hardware(netif);
    printf("  %-15s used, %d Mbit/s%s", netif->name, netif->speed_Mbps,
           netif->pci_path[0] != '\0' ? ", PCI " : "");
    if (netif->pci_path[0] != '\0')
        printf("%s", strrchr(netif->pci_path, '/') + 1);
    if (netif->numa_node >= 0)
        printf(", NUMA node %d", netif->numa_node);
    printf("\n");
    for (int i = 0; i < netif->addrs_count; i++) {
        braid_addr_text(&netif->addrs[i], text, sizeof(text));
        *strrchr(text, ':') = '\0'; /* the port, which is none */
        printf("  %-15s   %s/%u\n", "", text, netif->prefix_bits[i]);
    }
}

static int print_interfaces(const struct braid_netif_found *found, int count,
                            struct braid_netif *out, struct braid_netif_verdict *verdicts)
{
    const char *spec = braid_param_str(BRAID_P_SOCKET_IFNAME);
    const char *family = braid_param_str(BRAID_P_SOCKET_FAMILY);
    const char *ports = braid_param_str(BRAID_P_PORT_RANGE);
    char why[160];
    int seen = 0, chosen, at = 0;
    uint16_t first, last;

    chosen = braid_netif_choose(spec, braid_netif_family(family), found, count, out,
                                BRAID_NETIF_MAX, verdicts, &seen);
    if (chosen < 0)
        return INFO_FAILED;
    printf("Network interfaces (%s %s%s%s, %s %s; listening ports: %s)\n",
           braid_param_name(BRAID_P_SOCKET_IFNAME), *spec != '\0' ? "\"" : "",
           *spec != '\0' ? spec : "not set", *spec != '\0' ? "\"" : "",
           braid_param_name(BRAID_P_SOCKET_FAMILY), *family != '\0' ? family : "not set",
           *ports != '\0' ? ports : "any");
    if (braid_netif_spec_is_odd(spec, why, sizeof(why)))
        printf("  odd setting: %s: %s\n", braid_param_name(BRAID_P_SOCKET_IFNAME), why);
    if (braid_sock_ports(ports, &first, &last) != 0)
        printf("  odd setting: BRAID_PORT_RANGE is not \"first-last\" with ports from 1 to 65535; "
               "any port is used\n");
    for (int i = 0; i < seen; i++) {
        if (verdicts[i].chosen)
            print_chosen(&out[at++]);
        else
            printf("  %-15s not used: %s\n", verdicts[i].name, verdicts[i].why);
    }
    if (chosen == 0)
        printf("  no interface can be used: NCCL would fall back to its own sockets\n");
    return chosen > 0 ? INFO_OK : INFO_FAILED;
}

static int run(int argc, char **argv)
{
    struct braid_netif_found *found = calloc(BRAID_NETIF_FOUND, sizeof(*found));
    struct braid_netif_verdict *verdicts = calloc(BRAID_NETIF_SEEN, sizeof(*verdicts));
    struct braid_netif *out = calloc(BRAID_NETIF_MAX, sizeof(*out));
    int rc = INFO_FAILED, count;
    char plan[240];

    if (found != NULL && verdicts != NULL && out != NULL) {
        count = braid_netif_scan(found, BRAID_NETIF_FOUND);
        if (count < 0)
            fprintf(stderr, "braid-info: cannot list interfaces: %s\n", strerror(-count));
        else
            rc = print_interfaces(found, count, out, verdicts);
    }
    free(out);
    free(verdicts);
    free(found);
    braid_socket_make_plan(plan, sizeof(plan));
    printf("Sockets: %s\n", plan);
    braid_socket_make_engine(plan, sizeof(plan));
    printf("  %s\n", plan);
    printf("  What is measured is one INFO line of the job for each decision (NCCL_DEBUG=INFO).\n");
    braid_info_net_rdma();
    return rc;
}

const struct braid_info_command braid_info_net = {
    .name = "net",
    .brief = "network interfaces, RDMA devices and GIDs: which are used, and why not the others",
    .usage = "Usage: braid-info net\n\n"
             "Lists this machine's network interfaces as the net plugin judges them under the\n"
             "present settings (BRAID_SOCKET_IFNAME, BRAID_SOCKET_FAMILY and NCCL's twins), then\n"
             "every RDMA device, port and GID, the limits that matter and the settings in force.\n"
             "Exit code 1 when no interface can be used.\n",
    .no_options = true,
    .run = run,
};
