#pragma once

#include <span>
#include <string>
#include <vector>

#include "laconic/step.h"

namespace laconic {

/// A step from begin to finish: whether one is open, and which tensors have arrived. Tensors arrive whole, once each,
/// in any order. For calls in the wrong order it throws an InvalidConfig that names the method.
class OpenStep {
 public:
  /// `begin` and `finish` name the caller's functions in messages.
  OpenStep(const std::string& method, const char* begin, const char* finish)
      : method_(method), begin_(begin), finish_(finish) {}

  bool is_open() const { return open_; }
  /// Throws InvalidConfig if a step is open, when another one is to begin.
  void require_none() const;
  /// Throws InvalidConfig for a call that must wait until the step is finished.
  void require_closed(const char* call) const;
  void require_open(const char* call) const;
  /// Throws InvalidConfig within a step, where no state can be loaded.
  void require_loadable() const;

  void open(std::size_t tensors);
  void close() { open_ = false; }

  /// Takes the whole list. Throws InvalidConfig, and takes nothing, for an unknown tensor, a wrong size or a duplicate.
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
