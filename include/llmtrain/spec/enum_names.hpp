#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "llmtrain/spec/job_spec.hpp"

// The words of every enum of the job spec, in the order in which messages list them.
namespace llmtrain {

// Specialised below for each enum that a field may have.
template <class E>
struct EnumNames;

#define LLMTRAIN_ENUM_NAMES(E, N, ...)                                                     \
  template <>                                                                              \
  struct EnumNames<E> {                                                                    \
    static constexpr std::array<std::pair<std::string_view, E>, N> kAll = {{__VA_ARGS__}}; \
  }

LLMTRAIN_ENUM_NAMES(Device, 3, {"auto", Device::kAuto}, {"cpu", Device::kCpu}, {"cuda", Device::kCuda});
LLMTRAIN_ENUM_NAMES(Family,
                    5,
                    {"gpt2", Family::kGpt2},
                    {"llama", Family::kLlama},
                    {"mistral", Family::kMistral},
                    {"qwen2", Family::kQwen2},
                    {"qwen3", Family::kQwen3});
LLMTRAIN_ENUM_NAMES(NormKind, 2, {"rmsnorm", NormKind::kRmsNorm}, {"layernorm", NormKind::kLayerNorm});
LLMTRAIN_ENUM_NAMES(PositionKind, 2, {"rope", PositionKind::kRope}, {"learned", PositionKind::kLearned});
LLMTRAIN_ENUM_NAMES(MlpKind,
                    4,
                    {"swiglu", MlpKind::kSwiglu},
                    {"geglu", MlpKind::kGeglu},
                    {"gelu", MlpKind::kGelu},
                    {"gelu_tanh", MlpKind::kGeluTanh});
LLMTRAIN_ENUM_NAMES(RopeScalingKind,
                    3,
                    {"none", RopeScalingKind::kNone},
                    {"linear", RopeScalingKind::kLinear},
                    {"llama3", RopeScalingKind::kLlama3});
LLMTRAIN_ENUM_NAMES(
    DType, 4, {"bf16", DType::kBf16}, {"fp16", DType::kFp16}, {"fp32", DType::kFp32}, {"fp64", DType::kFp64});
LLMTRAIN_ENUM_NAMES(SequenceMethod,
                    3,
                    {"ring", SequenceMethod::kRing},
                    {"ulysses", SequenceMethod::kUlysses},
                    {"allgather", SequenceMethod::kAllGather});
LLMTRAIN_ENUM_NAMES(Recompute,
                    3,
                    {"none", Recompute::kNone},
                    {"selective", Recompute::kSelective},
                    {"full", Recompute::kFull});
LLMTRAIN_ENUM_NAMES(OptimizerOffload, 2, {"none", OptimizerOffload::kNone}, {"cpu", OptimizerOffload::kCpu});
LLMTRAIN_ENUM_NAMES(OptimizerKind, 2, {"adamw", OptimizerKind::kAdamW}, {"sgd", OptimizerKind::kSgd});
LLMTRAIN_ENUM_NAMES(LrStyle,
                    5,
                    {"constant", LrStyle::kConstant},
                    {"linear", LrStyle::kLinear},
                    {"cosine", LrStyle::kCosine},
                    {"wsd", LrStyle::kWsd},
                    {"inverse_sqrt", LrStyle::kInverseSqrt});
LLMTRAIN_ENUM_NAMES(ResumePolicy, 2, {"auto", ResumePolicy::kAuto}, {"never", ResumePolicy::kNever});
LLMTRAIN_ENUM_NAMES(FailureAction,
                    3,
                    {"restart", FailureAction::kRestart},
                    {"restart_excluding_node", FailureAction::kRestartExcludingNode},
                    {"stop", FailureAction::kStop});
LLMTRAIN_ENUM_NAMES(StopSignal,
                    5,
                    {"TERM", StopSignal::kTerm},
                    {"INT", StopSignal::kInt},
                    {"HUP", StopSignal::kHup},
                    {"USR1", StopSignal::kUsr1},
                    {"USR2", StopSignal::kUsr2});
LLMTRAIN_ENUM_NAMES(LogTee, 3, {"none", LogTee::kNone}, {"first", LogTee::kFirst}, {"all", LogTee::kAll});
LLMTRAIN_ENUM_NAMES(SlurmChain,
                    3,
                    {"none", SlurmChain::kNone},
                    {"dependency", SlurmChain::kDependency},
                    {"array", SlurmChain::kArray});
LLMTRAIN_ENUM_NAMES(FaultKind,
                    14,
                    {"kill", FaultKind::kKill},
                    {"stop", FaultKind::kStop},
                    {"sleep", FaultKind::kSleep},
                    {"throw", FaultKind::kThrow},
                    {"nan", FaultKind::kNan},
                    {"jitter", FaultKind::kJitter},
                    {"segv", FaultKind::kSegv},
                    {"abort", FaultKind::kAbort},
                    {"exit", FaultKind::kExit},
                    {"oom", FaultKind::kOom},
                    {"skip_collective", FaultKind::kSkipCollective},
                    {"wrong_shape", FaultKind::kWrongShape},
                    {"io", FaultKind::kIo},
                    {"drop_heartbeats", FaultKind::kDropHeartbeats});
LLMTRAIN_ENUM_NAMES(FaultErrno,
                    5,
                    {"ENOSPC", FaultErrno::kEnospc},
                    {"EIO", FaultErrno::kEio},
                    {"EDQUOT", FaultErrno::kEdquot},
                    {"EROFS", FaultErrno::kErofs},
                    {"ESTALE", FaultErrno::kEstale});
LLMTRAIN_ENUM_NAMES(FaultEach, 2, {"once", FaultEach::kOnce}, {"step", FaultEach::kStep});

#undef LLMTRAIN_ENUM_NAMES

template <class E>
concept NamedEnum = requires {
  EnumNames<E>::kAll;
};

template <NamedEnum E>
constexpr std::string_view name_of(E value) {
  for (const auto& [name, candidate] : EnumNames<E>::kAll)
    if (candidate == value) return name;
  return "?";
}

}  // namespace llmtrain
