#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "base/buffer.h"
#include "laconic/method.h"
#include "laconic/place.h"

namespace laconic::plugin {

/// A training loop's own parameters and their gradients, as methods see them: float32, one after another. It holds the
/// tensors, not pointers to their memory, because the loop may replace that memory between steps. 16-bit types are
/// converted to float32 when read and rounded when written. Tensors with gaps, or on another device than the place's,
/// are copied.
class ParameterSet {
 public:
  /// Throws an InvalidConfig that names the parameter if methods cannot use one, or if one lies on another device than
  /// the first.
  ParameterSet(std::vector<std::string> names, std::vector<at::Tensor> parameters);

  /// The tensors that all ranks must begin with, with rank 0's values: parameters and buffers.
  void set_start(std::vector<at::Tensor> start) { start_ = std::move(start); }
  const std::vector<at::Tensor>& start() const { return start_; }

  /// Parameters that are not trained. A gradient of one of them is rejected, because nothing would apply it.
  void set_frozen(std::vector<std::string> names, std::vector<at::Tensor> frozen);

  /// For parameters that are parts of other tensors, which may replace them: the parts as they are now, and whether each
  /// is trained. A part that was replaced by one with other values counts as changed.
  void follow(std::vector<at::Tensor> parameters, std::vector<bool> trained);
  /// Whether the parameter is trained, and has not been frozen meanwhile.
  bool trains(std::size_t i) const { return trained_.empty() ? parameters_[i].requires_grad() : trained_[i]; }

  const std::vector<Tensor>& tensors() const { return tensors_; }
  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  std::uint64_t size() const { return offsets_.back(); }

  void read(Place& place, View<float> flat) const;
  void write(Place& place, View<const float> flat);
  /// A parameter that other code has written since the last write or note_written, or null. Writes that bypass autograd
  /// (`.data`) are not detected.
  const std::string* changed() const;
  void note_written();

  /// Reads gradients times `factor` and times `scaling`; a missing gradient is zero. `scaling` is one number on any
  /// device, or undefined. It is used on the device of the methods, and the CPU does not read it unless they work there.
  /// Throws InvalidConfig for a sparse gradient or one of a frozen parameter.
  void read_gradients(Place& place, float factor, const at::Tensor& scaling, View<float> flat) const;

  /// Makes all ranks' gradients alike for an optimizer that skips parameters without one: a missing gradient becomes
  /// zeros, and a parameter that has been frozen meanwhile has none.
  void complete_gradients();
  /// Scales in place, each gradient in its own type.
  void scale_gradients(float factor);
  /// The same by one number on any device, which the CPU does not read if the gradients are on a device too.
  void scale_gradients(const at::Tensor& scaling);
  /// Removes the gradients from the parameters and returns them.
  std::vector<at::Tensor> take_gradients();
  void give_gradients(const std::vector<at::Tensor>& gradients);

  /// Gradients times `factor`, for a method to work on: in their own memory if they have no gaps and are on the place's
  /// device, otherwise in a copy in float32 there. Gradients of 16 bits are copied too if they must be scaled or the
  /// method does not take them. A missing gradient is created as zeros. They are valid until
  /// close_gradients, which writes the copies back. It leaves a parameter that has been frozen meanwhile without a
  /// gradient; otherwise an optimizer would still change it by weight decay or momentum.
  std::span<const TensorPart> open_gradients(Place& place, float factor, const at::Tensor& scaling, bool takes_16bit);
  void close_gradients();

 private:
  void require_frozen() const;
  void require_same_size(std::size_t i) const;
  at::Tensor gradient_of(std::size_t i) const;
  at::Tensor on_place(const at::Tensor& scaling, const Place& place) const;

  std::vector<Tensor> tensors_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> start_;
  std::vector<std::string> frozen_names_;
  std::vector<at::Tensor> frozen_;
  std::vector<std::uint64_t> offsets_;  ///< of each parameter; the last entry is the total size
  std::vector<std::uint32_t> versions_;
  std::vector<bool> trained_;  ///< empty: the parameters know
  std::vector<TensorPart> parts_;
  std::vector<std::uint32_t> copied_;
  Buffer<float> copies_;  ///< where the place works
};

}  // namespace laconic::plugin
