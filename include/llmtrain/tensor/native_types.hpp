#pragma once

#include <ATen/core/Tensor.h>

// Which element types this CPU multiplies in hardware.
//
// Where it does not, libtorch's products in a narrow type are up to forty times slower than fp32 ones; we
// then widen the operands, multiply in fp32 and round once, which is also more exact.
namespace llmtrain {

bool multiplies_natively(at::ScalarType type);

}  // namespace llmtrain
