#pragma once

#include <stdexcept>
#include <utility>

#include "llmtrain/core/result.hpp"

// Carries an Error of the plain plane through the tensor plane, which throws.
namespace llmtrain {

class ErrorException : public std::runtime_error {
 public:
  explicit ErrorException(Error error) : std::runtime_error(to_string(error)), error_(std::move(error)) {}
  const Error& error() const { return error_; }

 private:
  Error error_;
};

// The value, or its error as an exception.
template <class T>
T value_or_throw(Result<T> result) {
  if (!result) throw ErrorException(std::move(result).error());
  return std::move(result).value();
}

}  // namespace llmtrain
