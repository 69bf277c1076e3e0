#pragma once

#include <string>
#include <utility>
#include <variant>

// Error values of the plain plane.
//
// A failure that the user or the machine can cause is returned, never thrown: `Result<T>` holds a
// value or an `Error`. A broken invariant of our own is not an Error: see check.hpp. Messages are
// lower-case sentences for a person at 3 a.m.: the value found, what is allowed, where it came from.
namespace llmtrain {

// What kind of failure it is; `exit_code_for` (exit_code.hpp) maps each kind to a process exit code.
enum class ErrorCode {
  kUsage,         // a flag or argument of the command line
  kInvalidSpec,   // the job spec
  kNotFound,      // a named thing does not exist
  kIo,            // reading failed, or the system refused a call
  kStorage,       // writing failed: full, read-only, no permission
  kCorrupt,       // bytes that fail their checks
  kData,          // token files, tokenizers, corpora
  kNoCheckpoint,  // nothing usable to resume from
  kHeld,          // the run directory belongs to a live launch
  kPreflight,     // this node cannot run the job: something it needs is not installed or not allowed
  kTimeout,
  kPeerLost,
  kUnsupported,
  kInternal,
};

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // what was found and where; names the offending value
  std::string hint;     // what to do next; may be empty
};

// `message` and, when there is one, `; hint`.
inline std::string to_string(const Error& error) {
  return error.hint.empty() ? error.message : error.message + "; " + error.hint;
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit on purpose
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  explicit operator bool() const { return state_.index() == 0; }
  bool ok() const { return state_.index() == 0; }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  // By value: what a temporary Result held outlives it, for example in `for (auto& x : list().value())`.
  T value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& { return std::get<1>(state_); }
  Error error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

// A Result without a value. `return ok_status();` on success.
using Status = Result<std::monostate>;
inline Status ok_status() {
  return std::monostate{};
}

}  // namespace llmtrain

// Returns the error of `expr` from the enclosing function, if it is one.
#define LLMTRAIN_TRY(expr)                                                   \
  do {                                                                       \
    auto llmtrain_try_status = (expr);                                       \
    if (!llmtrain_try_status) return std::move(llmtrain_try_status).error(); \
  } while (false)

// Declares `name` with the value of `expr`, or returns its error: LLMTRAIN_ASSIGN(file, open(path));
#define LLMTRAIN_ASSIGN(name, expr)                            \
  auto name##_result = (expr);                                 \
  if (!name##_result) return std::move(name##_result).error(); \
  auto name = std::move(name##_result).value()
