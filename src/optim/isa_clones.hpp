#pragma once

// Functions that are compiled for several instruction sets; the loader picks the best one for this CPU.
//
// Put it on plain loops whose result does not depend on the choice: files that use it are compiled without
// fused multiply-add contraction (see src/CMakeLists.txt), so every clone rounds alike.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define LLMTRAIN_ISA_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define LLMTRAIN_ISA_CLONES
#endif
