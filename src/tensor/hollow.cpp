#include "llmtrain/tensor/hollow.hpp"

#include "llmtrain/core/check.hpp"

namespace llmtrain {
namespace {

void point_at(const at::Tensor& hollow, void* memory) {
  const c10::Device host(c10::DeviceType::CPU);
  hollow.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(c10::DataPtr(memory, host));
}

}  // namespace

at::Tensor hollow_host(std::int64_t numel, DType dtype) {
  at::Tensor tensor = empty_host({numel}, dtype);  // [numel]
  withdraw_memory(tensor);
  return tensor;
}

void lend_memory(const at::Tensor& hollow, const at::Tensor& memory) {
  LLMTRAIN_CHECK(memory.is_contiguous() && memory.scalar_type() == hollow.scalar_type() &&
                     memory.numel() >= hollow.numel(),
                 "memory of {} {} for {} {}",
                 memory.numel(),
                 c10::toString(memory.scalar_type()),
                 hollow.numel(),
                 c10::toString(hollow.scalar_type()));
  point_at(hollow, memory.data_ptr());
}

void withdraw_memory(const at::Tensor& hollow) {
  point_at(hollow, nullptr);
}

}  // namespace llmtrain
