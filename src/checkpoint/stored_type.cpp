#include <array>

#include "llmtrain/checkpoint/safetensors.hpp"

namespace llmtrain {
namespace {

struct TypeRow {
  StoredType type;
  std::string_view name;
  std::uint64_t bytes;
};

constexpr std::array<TypeRow, 17> kTypes = {{{StoredType::kBool, "BOOL", 1},
                                             {StoredType::kU8, "U8", 1},
                                             {StoredType::kI8, "I8", 1},
                                             {StoredType::kF8E5M2, "F8_E5M2", 1},
                                             {StoredType::kF8E4M3, "F8_E4M3", 1},
                                             {StoredType::kF8E8M0, "F8_E8M0", 1},
                                             {StoredType::kI16, "I16", 2},
                                             {StoredType::kU16, "U16", 2},
                                             {StoredType::kF16, "F16", 2},
                                             {StoredType::kBf16, "BF16", 2},
                                             {StoredType::kI32, "I32", 4},
                                             {StoredType::kU32, "U32", 4},
                                             {StoredType::kF32, "F32", 4},
                                             {StoredType::kC64, "C64", 8},
                                             {StoredType::kF64, "F64", 8},
                                             {StoredType::kI64, "I64", 8},
                                             {StoredType::kU64, "U64", 8}}};

const TypeRow& row_of(StoredType type) {
  return kTypes[static_cast<std::size_t>(type)];
}

}  // namespace

std::string_view to_string(StoredType type) {
  return row_of(type).name;
}
std::uint64_t bytes_of(StoredType type) {
  return row_of(type).bytes;
}

std::optional<StoredType> stored_type_of(std::string_view name) {
  for (const TypeRow& row : kTypes)
    if (row.name == name) return row.type;
  return std::nullopt;
}

StoredType stored_type_of(DType dtype) {
  switch (dtype) {
    case DType::kBf16: return StoredType::kBf16;
    case DType::kFp16: return StoredType::kF16;
    case DType::kFp32: return StoredType::kF32;
    case DType::kFp64: return StoredType::kF64;
  }
  return StoredType::kF32;
}

std::optional<DType> dtype_of(StoredType type) {
  for (const DType dtype : {DType::kBf16, DType::kFp16, DType::kFp32, DType::kFp64})
    if (stored_type_of(dtype) == type) return dtype;
  return std::nullopt;
}

}  // namespace llmtrain
