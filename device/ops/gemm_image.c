/*
 * gemm_kernels.cu as compiled by nvcc, as bytes of this library: GPU code for the architectures of the build and PTX for newer ones.
 * BRAID_GEMM_FATBIN is the path of the file at build time.
 */
__asm__(".section .rodata\n"
        ".balign 64\n"
        ".hidden braid_gemm_image\n"
        ".global braid_gemm_image\n"
        "braid_gemm_image:\n"
        ".incbin \"" BRAID_GEMM_FATBIN "\"\n"
        ".byte 0\n"
        ".previous\n");
