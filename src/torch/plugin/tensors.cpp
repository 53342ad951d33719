#include "torch/plugin/tensors.h"

#include <string>

#include "laconic/error.h"

namespace laconic::plugin {
namespace {

Device device_of(const at::Tensor& tensor, const char* what) {
  if (tensor.device().is_cpu()) return Device::cpu;
  if (tensor.device().is_cuda()) return Device::cuda;
  throw InvalidConfig(std::string(what) + " lies on " + tensor.device().str() +
                      "; it must lie on the CPU or a CUDA device");
}

void require_plain(const at::Tensor& tensor, at::ScalarType type, const char* what) {
  if (!tensor.defined()) throw InvalidConfig(std::string(what) + " is no tensor");
  if (tensor.layout() != at::kStrided) throw InvalidConfig(std::string(what) + " is sparse; it must be dense");
  if (tensor.scalar_type() != type) {
    throw InvalidConfig(std::string(what) + " has type " + at::toString(tensor.scalar_type()) + "; it must be " +
                        at::toString(type));
  }
  if (!tensor.is_contiguous()) throw InvalidConfig(std::string(what) + " has gaps; call .contiguous()");
}

at::Tensor borrowed(void* memory, std::size_t size, Device device, at::ScalarType type) {
  const auto options = at::TensorOptions().dtype(type).device(device == Device::cpu ? at::kCPU : at::kCUDA);
  // An empty view may have no address, and torch asks CUDA where an address lies.
  if (size == 0) return at::empty({0}, options);
  return at::from_blob(memory, {static_cast<std::int64_t>(size)}, options);
}

}  // namespace

View<float> float_view(const at::Tensor& tensor, const char* what) {
  require_plain(tensor, at::kFloat, what);
  const Device device = device_of(tensor, what);
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel()), device};
}

bool has_16bit(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
}

GradientView gradient_view(const at::Tensor& tensor, const char* what) {
  if (!has_16bit(tensor)) return float_view(tensor, what);
  require_plain(tensor, tensor.scalar_type(), what);
  const NumberType type = tensor.scalar_type() == at::kHalf ? NumberType::float16 : NumberType::bfloat16;
  return {static_cast<std::byte*>(tensor.data_ptr()), type, static_cast<std::size_t>(tensor.numel()),
          device_of(tensor, what)};
}

View<std::byte> byte_view(const at::Tensor& tensor, const char* what) {
  require_plain(tensor, at::kByte, what);
  const Device device = device_of(tensor, what);
  return {reinterpret_cast<std::byte*>(tensor.data_ptr<std::uint8_t>()), static_cast<std::size_t>(tensor.numel()),
          device};
}

at::Tensor bytes_on_cpu(const at::Tensor& tensor, const char* what) {
  require_plain(tensor, at::kByte, what);
  return device_of(tensor, what) == Device::cpu ? tensor : tensor.cpu();
}

at::Tensor borrowed_floats(View<float> view) { return borrowed(view.data(), view.size(), view.device(), at::kFloat); }

at::Tensor borrowed_bytes(View<std::byte> view) { return borrowed(view.data(), view.size(), view.device(), at::kByte); }

at::Tensor borrowed_bytes(View<const std::byte> view) {
  return borrowed(const_cast<std::byte*>(view.data()), view.size(), view.device(), at::kByte);
}

}  // namespace laconic::plugin
