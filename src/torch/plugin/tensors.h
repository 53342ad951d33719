#pragma once

#include <ATen/ATen.h>

#include "laconic/gradient_view.h"
#include "laconic/view.h"

namespace laconic::plugin {

/// The memory of a dense, contiguous tensor. Throws an InvalidConfig that names `what` for another type, a tensor with
/// gaps, or a device that a method cannot read.
View<float> float_view(const at::Tensor& tensor, const char* what);
/// The same for a tensor of any type that a gradient may have: float32, float16 or bfloat16.
GradientView gradient_view(const at::Tensor& tensor, const char* what);
bool has_16bit(const at::Tensor& tensor);
View<std::byte> byte_view(const at::Tensor& tensor, const char* what);

/// Bytes in CPU memory: the tensor itself, or a copy if it lies on a CUDA device. Throws InvalidConfig as above.
at::Tensor bytes_on_cpu(const at::Tensor& tensor, const char* what);

/// A tensor over somebody else's memory, which must outlive it.
at::Tensor borrowed_floats(View<float> view);
at::Tensor borrowed_bytes(View<std::byte> view);
/// For calls that only read. c10d has no const tensors.
at::Tensor borrowed_bytes(View<const std::byte> view);

}  // namespace laconic::plugin
