#include "torch/train/export.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "laconic/error.h"

namespace laconic {
namespace {

std::string text_of(const std::vector<std::uint64_t>& shape) {
  std::string text = "[";
  for (const std::uint64_t side : shape) {
    if (text.size() > 1) text += ' ';
    text += std::to_string(side);
  }
  return text += ']';
}

std::vector<std::uint64_t> shape_of(const torch::Tensor& tensor) {
  return {tensor.sizes().begin(), tensor.sizes().end()};
}

/// All tensors of the network in the order of its parameters, then of its buffers.
std::vector<NamedArray> arrays_of(const FlatNetwork& network, View<const float> parameters,
                                  View<const float> buffers) {
  std::vector<NamedArray> arrays;
  const auto add = [&](const auto& named, View<const float> values) {
    std::size_t offset = 0;
    for (const auto& entry : named) {
      const auto size = static_cast<std::size_t>(entry.value().numel());
      arrays.push_back({entry.key(), shape_of(entry.value()), values.sub(offset, size)});
      offset += size;
    }
  };
  add(network.network().named_parameters(), parameters);
  add(network.network().named_buffers(), buffers);
  return arrays;
}

}  // namespace

void export_model(const std::string& path, const FlatNetwork& network, const Remarks& remarks) {
  const std::vector<float> parameters = network.read_parameters();
  const std::vector<float> buffers = network.read_buffers();
  write_safetensors(path, arrays_of(network, parameters, buffers), remarks);
}

void import_model(const std::string& path, FlatNetwork& network, View<float> parameters) {
  require_size("parameters", parameters.size(), network.size());
  require_same_device("parameters", parameters.device(), Device::cpu);
  const SafetensorsFile file = read_safetensors(path);
  std::map<std::string, const NamedArray*> found;
  for (const NamedArray& array : file.arrays) found[array.name] = &array;
  std::vector<float> buffers = network.read_buffers();
  const std::vector<NamedArray> wanted = arrays_of(network, parameters, buffers);
  for (const NamedArray& array : wanted) {
    const auto at = found.find(array.name);
    if (at == found.end()) throw Error(path + " has no tensor " + array.name + ": it is another model's");
    if (at->second->shape != array.shape) {
      throw Error(path + ": tensor " + array.name + " has shape " + text_of(at->second->shape) + ", the model's is " +
                  text_of(array.shape));
    }
  }
  if (found.size() != wanted.size()) {
    throw Error(path + " has " + std::to_string(found.size()) + " tensors, the model " + std::to_string(wanted.size()));
  }
  float* out = parameters.begin();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (i == network.tensors().size()) out = buffers.data();
    const View<const float> values = found[wanted[i].name]->values;
    out = std::copy(values.begin(), values.end(), out);
  }
  network.write_buffers(buffers);
}

}  // namespace laconic
