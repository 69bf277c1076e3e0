#define LLMTRAIN_ISA kernels_baseline
#include "row_kernels.inl"
