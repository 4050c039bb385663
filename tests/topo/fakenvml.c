/*
 * A look-alike of libnvidia-ml.so.1 that answers from a struct (fakenvml.h). The types below are declared from NVML's public
 * documentation, apart from those of the code under test, so that a mistake in a layout is seen. With FAKE_NVML_OLD it lacks what
 * came after driver 450, to stand for an old driver.
 */
#include "tests/topo/fakenvml.h"

#include <stdio.h>
#include <string.h>

#define API __attribute__((visibility("default")))

typedef int nvmlReturn_t;
typedef struct fake_nvml_gpu *nvmlDevice_t;

typedef struct {
    char busIdLegacy[16];
    unsigned int domain;
    unsigned int bus;
    unsigned int device;
    unsigned int pciDeviceId;
    unsigned int pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct {
    unsigned int fieldId;
    unsigned int scopeId;
    long long timestamp;
    long long latencyUsec;
    int valueType;
    nvmlReturn_t nvmlReturn;
    union {
        double dVal;
        unsigned int uiVal;
        unsigned long ulVal;
        unsigned long long ullVal;
        signed long long sllVal;
    } value;
} nvmlFieldValue_t;

typedef struct {
    unsigned int version;
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned int cliqueId;
    unsigned char state;
    unsigned int healthMask;
} nvmlGpuFabricInfo_v2_t;

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, LOST = 15, UNKNOWN = 999 };

API struct fake_nvml fake_nvml;

nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlShutdown(void);
const char *nvmlErrorString(nvmlReturn_t rc);
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci);
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length);
nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor);
nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int *gen);
nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int *width);
nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, int *active);
nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link,
                                        unsigned int *version);
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
                                                 nvmlPciInfo_t *pci);
nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link, int *type);
nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int link, int capability,
                                           unsigned int *result);
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values);
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v2_t *info);

/* Counts a call; nonzero: it is one that must fail. */
static int fails(void)
{
    fake_nvml.calls++;
    return fake_nvml.fail_call > 0 &&
           (fake_nvml.calls == fake_nvml.fail_call ||
            (fake_nvml.fail_rest && fake_nvml.calls > fake_nvml.fail_call));
}

API nvmlReturn_t nvmlInit_v2(void)
{
    int rc = fails() ? UNKNOWN : fake_nvml.init_rc;

    fake_nvml.opened += rc == OK;
    return rc;
}

API nvmlReturn_t nvmlShutdown(void)
{
    fake_nvml.opened--;
    return OK;
}

API const char *nvmlErrorString(nvmlReturn_t rc)
{
    return rc == LOST ? "GPU is lost" : rc == NOT_SUPPORTED ? "Not Supported" : "Unknown Error";
}

API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    if (fails())
        return UNKNOWN;
    *count = fake_nvml.gpus;
    return fake_nvml.count_rc;
}

API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    if (fails())
        return UNKNOWN;
    if (index >= fake_nvml.gpus)
        return INVALID;
    *device = &fake_nvml.gpu[index];
    return (*device)->lost ? LOST : OK;
}

static void fill_pci(nvmlPciInfo_t *pci, const char *busid, unsigned int id)
{
    memset(pci, 0, sizeof(*pci));
    snprintf(pci->busId, sizeof(pci->busId), "%s", busid);
    sscanf(busid, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
    pci->pciDeviceId = id;
}

API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    if (fails())
        return UNKNOWN;
    fill_pci(pci, device->busid, device->device << 16 | 0x10de);
    return OK;
}

API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    if (fails() || device->name == NULL)
        return UNKNOWN;
    snprintf(name, length, "%s", device->name);
    return OK;
}

API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    if (fails())
        return UNKNOWN;
    *major = device->sm / 10;
    *minor = device->sm % 10;
    return OK;
}

API nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int *gen)
{
    *gen = device->pcie_gen;
    return fails() ? UNKNOWN : device->pcie_gen ? OK : NOT_SUPPORTED;
}

API nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int *width)
{
    *width = device->pcie_width;
    return fails() ? UNKNOWN : device->pcie_width ? OK : NOT_SUPPORTED;
}

static nvmlReturn_t check_link(nvmlDevice_t device, unsigned int link)
{
    if (fails())
        return UNKNOWN;
    if (link >= 18)
        return INVALID;
    return device->links > 0 ? OK : NOT_SUPPORTED;
}

API nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, int *active)
{
    *active = (int)link < device->links;
    return check_link(device, link);
}

API nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link,
                                            unsigned int *version)
{
    *version = device->link_version;
    return check_link(device, link);
}

API nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
                                                     nvmlPciInfo_t *pci)
{
    nvmlReturn_t rc = check_link(device, link);

    if (rc == OK)
        fill_pci(pci, device->remotes > 0 ? device->remote[(int)link % device->remotes] : "", 0);
    return rc;
}

API nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int link,
                                               int capability, unsigned int *result)
{
    *result = capability == 0;
    return check_link(device, link);
}

static nvmlReturn_t field(nvmlDevice_t device, nvmlFieldValue_t *f)
{
    switch (f->fieldId) {
    case 90:  /* NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON */
    case 164: /* NVML_FI_DEV_NVLINK_GET_SPEED */
        f->value.uiVal = device->link_MBps;
        return device->link_MBps ? OK : NOT_SUPPORTED;
    case 165: /* NVML_FI_DEV_NVLINK_GET_STATE */
        f->value.uiVal = (int)f->scopeId < device->links;
        return OK;
    case 170: /* NVML_FI_DEV_C2C_LINK_COUNT */
        f->value.uiVal = (unsigned int)device->c2c_links;
        return OK;
    case 171: /* NVML_FI_DEV_C2C_LINK_GET_STATUS */ f->value.uiVal = 1; return OK;
    case 172: /* NVML_FI_DEV_C2C_LINK_GET_MAX_BW */ f->value.uiVal = device->c2c_MBps; return OK;
    default: return NOT_SUPPORTED;
    }
}

API nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    if (fails())
        return UNKNOWN;
    for (int i = 0; i < count; i++)
        values[i].nvmlReturn = field(device, &values[i]);
    return OK;
}

#ifndef FAKE_NVML_OLD
API nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link,
                                                     int *type)
{
    *type = device->remote_type;
    return check_link(device, link);
}

API nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v2_t *info)
{
    if (fails() || info->version != (sizeof(*info) | 2u << 24))
        return INVALID;
    memcpy(info->clusterUuid, device->cluster, sizeof(info->clusterUuid));
    info->cliqueId = device->clique;
    info->state = (unsigned char)device->fabric_state;
    info->status = OK;
    return OK;
}
#endif
