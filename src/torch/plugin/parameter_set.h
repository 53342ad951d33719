#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "base/buffer.h"
#include "laconic/method.h"
#include "laconic/place.h"

namespace laconic::plugin {

/// A training loop's own parameters and their gradients, as methods see them: float32, one after another. It holds the
/// tensors themselves, never their memory, which the loop may exchange between steps. Types of 16 bits are widened on
/// the way in and rounded on the way out; what lies elsewhere, or has gaps, is copied.
class ParameterSet {
 public:
  /// InvalidConfig that names a parameter which methods cannot take, or which lies on another device than the first.
  ParameterSet(std::vector<std::string> names, std::vector<at::Tensor> parameters);

  /// What all ranks shall begin with alike, rank 0's values: parameters, and buffers beside them.
  void set_start(std::vector<at::Tensor> start) { start_ = std::move(start); }
  const std::vector<at::Tensor>& start() const { return start_; }

  /// Parameters that are not trained: a gradient of one of them is refused, for nobody would move it.
  void set_frozen(std::vector<std::string> names, std::vector<at::Tensor> frozen);

  const std::vector<Tensor>& tensors() const { return tensors_; }
  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  std::uint64_t size() const { return offsets_.back(); }

  void read(Place& place, View<float> flat) const;
  void write(Place& place, View<const float> flat);
  /// The parameter that somebody else has written since the last write or note_written; null: none. Writes behind
  /// autograd's back (`.data`) do not show.
  const std::string* changed() const;
  void note_written();

  /// Gradients times `factor`; a missing one is zero. InvalidConfig for a sparse one, or one of a frozen parameter.
  void read_gradients(Place& place, float factor, View<float> flat) const;

  /// In place, each in its own type.
  void scale_gradients(float factor);
  /// Leaves the parameters without gradients, and gives them back.
  std::vector<at::Tensor> take_gradients();
  void give_gradients(const std::vector<at::Tensor>& gradients);

  /// Gradients times `factor` where a method may work on them: in their own memory if it is float32 without gaps, else
  /// in a copy. A missing gradient is made, of zeros. Valid until close_gradients, which brings the copies back and
  /// leaves a parameter that was frozen meanwhile without a gradient: an optimizer would decay it, or let it coast.
  std::span<const TensorPart> open_gradients(Place& place, float factor);
  void close_gradients();

 private:
  void require_frozen() const;
  void require_same_size(std::size_t i) const;
  at::Tensor gradient_of(std::size_t i) const;

  std::vector<Tensor> tensors_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> start_;
  std::vector<std::string> frozen_names_;
  std::vector<at::Tensor> frozen_;
  std::vector<std::uint64_t> offsets_;  ///< and the size at the end
  std::vector<std::uint32_t> versions_;
  std::vector<TensorPart> parts_;
  std::vector<std::uint32_t> copied_;
  Buffer<float> copies_;
};

}  // namespace laconic::plugin
