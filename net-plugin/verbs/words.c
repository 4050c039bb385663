/*
 * Errors in words. The advice is what public threads about NCCL, perftest and UCX converged on; README has the same table.
 */
#include "net-plugin/verbs/conn.h"

#include <errno.h>

const char *verbs_status_advice(int status, uint32_t vendor_err)
{
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
        return "the peer did not answer: its process or port is gone, the GID or subnet does not "
               "match, or a RoCE network "
               "drops packets (check PFC/ECN, `show_gids`, BRAID_IB_GID_INDEX; BRAID_IB_TIMEOUT "
               "and "
               "BRAID_IB_RETRY_CNT set how long it may take)";
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return "the peer had no receive posted: its process hangs, or both ends run different "
               "versions";
    case IBV_WC_WR_FLUSH_ERR:
        return "the queue pair had failed before: the first error of this connection tells why";
    case IBV_WC_REM_ACCESS_ERR:
        return "the peer refused the key or the range: a buffer was deregistered or freed while in "
               "use there, or GPU memory "
               "is behind an IOMMU or PCIe ACS (check `lspci -vvv | grep ACSCtl`)";
    case IBV_WC_LOC_PROT_ERR:
        return "a local buffer is outside its registration: it was freed or deregistered while a "
               "send was under way, or the "
               "NIC cannot reach GPU memory (IOMMU, PCIe ACS, nvidia_peermem)";
    case IBV_WC_REM_OP_ERR:
        return "the peer's NIC could not carry out the operation: see dmesg there";
    case IBV_WC_REM_INV_REQ_ERR:
        return "the peer's NIC found the request wrong: both ends run different versions or "
               "settings";
    case IBV_WC_LOC_LEN_ERR: return "a message is longer than the NIC takes";
    case IBV_WC_LOC_ACCESS_ERR:
        return "the peer wrote where this side's memory does not allow it: both ends run different "
               "versions, or a buffer was deregistered while in use";
    case IBV_WC_BAD_RESP_ERR:
        return "an answer came that the NIC does not understand: compare the firmware of both NICs "
               "and look for a switch or cable that damages packets";
    case IBV_WC_REM_ABORT_ERR: return "the peer's NIC gave the request up: see dmesg there";
    case IBV_WC_RESP_TIMEOUT_ERR:
        return "the peer's NIC answered too late: see BRAID_IB_TIMEOUT and the switches between";
    case IBV_WC_LOC_QP_OP_ERR:
        return "the NIC refused the work request, or its port went down: see dmesg";
    case IBV_WC_FATAL_ERR:
    case IBV_WC_GENERAL_ERR: return "the NIC failed: see dmesg";
    default: /* of other kinds of queue pairs */
        return vendor_err != 0 ? "see the NIC vendor's code" : "no NIC should say this here";
    }
}

const char *verbs_modify_advice(int err, bool roce)
{
    switch (err) {
    case ENODEV:
    case EINVAL:
        return roce ? "the source GID does not fit the peer's: check `show_gids`, "
                      "BRAID_IB_GID_INDEX and BRAID_IB_ADDR_FAMILY "
                      "(containers that share a NIC often have empty entries at the front)"
                    : "check the port's LID and the subnet manager (`sminfo`, `ibstat`)";
    case ETIMEDOUT:
        return "address resolution of the peer failed: there is no route from this GID to the "
               "peer's (check `ping -I` between "
               "the interfaces of both NICs, VLANs and ACLs)";
    case ENOMEM:
        return "the NIC or the kernel is out of memory: check `ulimit -l` and the number of queue "
               "pairs";
    default: return "";
    }
}
