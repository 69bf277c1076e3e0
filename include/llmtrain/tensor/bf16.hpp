#pragma once

// Whether this CPU multiplies bf16 in hardware.
//
// Where it does not, libtorch's bf16 products are up to forty times slower than fp32 ones; we then widen
// the operands, multiply in fp32 and round once, which is also more exact.
namespace llmtrain {

bool has_native_bf16();

}  // namespace llmtrain
