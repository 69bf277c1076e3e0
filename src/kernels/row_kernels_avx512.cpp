#define LLMTRAIN_ISA kernels_avx512
#include "row_kernels.inl"
