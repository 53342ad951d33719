#pragma once

#include <ATen/ATen.h>

#include "laconic/view.h"

namespace laconic::plugin {

/// The memory of a dense, contiguous tensor. InvalidConfig, which names `what`, for another type, a tensor with gaps or
/// one on another device than a method can read.
View<float> float_view(const at::Tensor& tensor, const char* what);
View<std::byte> byte_view(const at::Tensor& tensor, const char* what);

/// Bytes that the host can read: the tensor, or a copy of one that lies on a CUDA device. InvalidConfig as above.
at::Tensor bytes_on_host(const at::Tensor& tensor, const char* what);

/// A tensor over somebody else's memory, which must outlive it.
at::Tensor borrowed_floats(View<float> view);
at::Tensor borrowed_bytes(View<std::byte> view);
/// For calls that only read; c10d has no word for that.
at::Tensor borrowed_bytes(View<const std::byte> view);

}  // namespace laconic::plugin
