/* From how many tokens on gemm was measured to be faster than rowdot in the avx512 tier
 * (bench/bench_kernels).
 *
 * Owns: these numbers. For the tier's own files only. */
#ifndef KT_KERNELS_GEMM_FROM_AVX512_H
#define KT_KERNELS_GEMM_FROM_AVX512_H

#define GEMM_FROM_Q4_0 3
#define GEMM_FROM_Q4_1 3
#define GEMM_FROM_Q5_0 5
#define GEMM_FROM_Q5_1 5
#define GEMM_FROM_Q8_0 5
#define GEMM_FROM_IQ4_NL 3
#define GEMM_FROM_MXFP4 3
#define GEMM_FROM_NVFP4 5
#define GEMM_FROM_Q2_K 2
#define GEMM_FROM_Q3_K 2
#define GEMM_FROM_Q4_K 3
#define GEMM_FROM_Q5_K 4
#define GEMM_FROM_Q6_K 5
#define GEMM_FROM_IQ4_XS 3
#define GEMM_FROM_COARSE 5
#define GEMM_FROM_FINE 5
#define GEMM_FROM_CRUMBS 5
#define GEMM_FROM_BYTES 5

#endif
