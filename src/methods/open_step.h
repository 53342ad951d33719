#pragma once

#include <span>
#include <string>
#include <vector>

#include "laconic/step.h"

namespace laconic {

/// A step from begin to finish: whether one is open, and which tensors have arrived, each whole and once, in any order.
/// Throws InvalidConfig in the method's name for calls out of turn.
class OpenStep {
 public:
  /// `begin` and `finish`: the caller's functions, for messages.
  OpenStep(const std::string& method, const char* begin, const char* finish)
      : method_(method), begin_(begin), finish_(finish) {}

  bool is_open() const { return open_; }
  void require_none() const;
  void require_open(const char* call) const;
  /// Throws InvalidConfig for a state that is loaded within a step.
  void require_loadable() const;

  void open(std::size_t tensors);
  void close() { open_ = false; }

  /// Takes the whole list or nothing of it. Throws InvalidConfig for an unknown tensor, a wrong size or a duplicate.
  void take(std::span<const Tensor> tensors, std::span<const TensorPart> parts);
  /// Throws InvalidConfig with the name of a tensor that has not arrived.
  void require_all(std::span<const Tensor> tensors) const;

 private:
  void take_one(std::span<const Tensor> tensors, const TensorPart& part);

  const std::string& method_;
  const char* begin_;
  const char* finish_;
  bool open_ = false;
  std::vector<bool> arrived_;
};

}  // namespace laconic
