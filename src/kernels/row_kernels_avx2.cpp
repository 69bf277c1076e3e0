#define LLMTRAIN_ISA kernels_avx2
#include "row_kernels.inl"
