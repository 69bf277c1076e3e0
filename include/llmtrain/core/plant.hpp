#pragma once

// A mistake that `llmtrain prove --plant` makes on purpose, to show that it would be found.
//
// The value is handed down to the one line that acts on it. Every run that is not a proof has kNone, which
// does nothing. What each is called, and what it needs, lies in job/plants.hpp.
namespace llmtrain {

enum class Plant {
  kNone,
  kRegionSum,
  kRowBias,
  kPositionRows,
  kKvGradients,
  kNormGradients,
  kNormReplicas,
  kNormLocal,
  kNormStages,
  kTiedTwice,
  kTiedStages,
  kStageGradient,
  kPaddingRow,
  kLastMicroBatch,
  kLossScale,
  kSequenceLossScale,
  kLossCount,
  kRopeBase,
  kRopeOffset,
  kWrongSample,
  kStaleWeights,
  kStaleGather,
  kOtherInit,
};

}  // namespace llmtrain
