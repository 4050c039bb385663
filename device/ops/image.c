/*
 * The collectives' kernels as data in libbraid.so: the module that nvcc made of kernels/kernels.cu, or nothing when the library was
 * built without nvcc. Data only.
 */
#include "device/ops/ops.h"

#ifdef BRAID_KERNEL_IMAGE
__asm__(".section .rodata, \"a\"\n"
        ".balign 64\n"
        ".globl braid_kernel_image_data\n"
        ".hidden braid_kernel_image_data\n"
        "braid_kernel_image_data:\n"
        ".incbin \"" BRAID_KERNEL_IMAGE "\"\n"
        ".byte 0\n"
        ".previous\n");
extern const unsigned char braid_kernel_image_data[];
const void *const braid_kernel_image = braid_kernel_image_data;
#else
const void *const braid_kernel_image = NULL;
#endif
