#include "llmtrain/optim/loss_scaler.hpp"

#include <string>
#include <vector>

#include "llmtrain/spec/fields.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

// The scale before each step of a script, `o` = overflow and `.` = none, and the one after the last.
std::vector<double> scales(const LossScaleSpec& spec, const std::string& script) {
  LossScale scale = initial_loss_scale(spec);
  std::vector<double> values = {scale.value};
  for (const char step : script) {
    scale = next_loss_scale(spec, scale, step == 'o');
    values.push_back(scale.value);
  }
  return values;
}

}  // namespace

TEST_CASE("loss scaler: doubles after a window of clean steps, counted anew after an overflow", "[optim]") {
  const LossScaleSpec spec{.initial = 16, .window = 3, .hysteresis = 9, .floor = 1};
  CHECK(scales(spec, "......") == std::vector<double>{16, 16, 16, 32, 32, 32, 64});
  CHECK(scales(spec, "..o...") == std::vector<double>{16, 16, 16, 16, 16, 16, 32});
}

TEST_CASE("loss scaler: halves when the hysteresis is used up, and at each overflow from then on",
          "[optim]") {
  const LossScaleSpec spec{.initial = 16, .window = 2, .hysteresis = 2, .floor = 1};
  CHECK(scales(spec, "ooo") == std::vector<double>{16, 16, 8, 4});
  CHECK(scales(spec, "o.o") == std::vector<double>{16, 16, 16, 8});             // not in a row
  CHECK(scales(spec, "o..oo") == std::vector<double>{16, 16, 16, 32, 32, 16});  // doubling forgives
  const LossScaleSpec strict{.initial = 16, .window = 2, .hysteresis = 1, .floor = 1};
  CHECK(scales(strict, "oo") == std::vector<double>{16, 8, 4});
}

TEST_CASE("loss scaler: stays between its floor and what fp32 can hold", "[optim]") {
  const LossScaleSpec spec{.initial = 4, .window = 1, .hysteresis = 1, .floor = 2};
  CHECK(scales(spec, "ooo.") == std::vector<double>{4, 2, 2, 2, 4});
  CHECK(is_at_floor(spec, {.value = 2}));
  CHECK_FALSE(is_at_floor(spec, {.value = 4}));
  CHECK(scales(spec, std::string(200, '.')).back() == kMaxLossScale);
}
