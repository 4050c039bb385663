/*
 * What a test tells the fake NVML: open the library, find "fake_nvml" with dlsym and fill it before the code under test opens
 * the same file. The library answers from it and counts calls; the call number `fail_call` (from 1) and those after it fail if
 * fail_rest is set. Not threaded.
 */
#ifndef BRAID_TESTS_FAKENVML_H
#define BRAID_TESTS_FAKENVML_H

struct fake_nvml_gpu {
    const char *busid; /* as NVML writes it: "00000000:1B:00.0" */
    const char *name;
    unsigned int device; /* PCI device id */
    int sm;
    int lost; /* 1: its handle cannot be had */
    unsigned int pcie_gen, pcie_width;
    int links; /* NVLinks that are up */
    unsigned int link_MBps, link_version;
    int remote_type;       /* 0 GPU, 1 CPU, 2 switch, 255 unknown */
    const char *remote[8]; /* link l leads to remote[l % remotes] */
    int remotes;           /* 0: the far end is not visible */
    int c2c_links;
    unsigned int c2c_MBps;
    unsigned char cluster[16];
    unsigned int clique;
    int fabric_state; /* 3: registered */
};

struct fake_nvml {
    int init_rc, count_rc;
    unsigned int gpus;
    struct fake_nvml_gpu gpu[16];
    int calls, fail_call, fail_rest;
    int opened; /* init minus shutdown */
};

#endif
