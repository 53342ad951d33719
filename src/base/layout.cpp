#include "base/layout.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/check.h"

namespace laconic {
namespace {

constexpr std::size_t kMostTensors = std::size_t{1} << 24;  // the random stream's counter has 24 bits for them

}  // namespace

void require_fixed_scope(std::uint64_t entries) {
  if (entries >= kLeastScope && entries <= kMostScope && std::has_single_bit(entries)) return;
  throw InvalidConfig("a scope must have a power of two in " + std::to_string(kLeastScope) + ".." +
                      std::to_string(kMostScope) + " entries, got " + std::to_string(entries) + ": take 256");
}

Layout::Layout(std::uint64_t n) : offsets_{0, n} {}

Layout::Layout(std::span<const std::uint64_t> sizes, std::uint32_t first_tensor) : first_tensor_(first_tensor) {
  if (first_tensor + sizes.size() > kMostTensors) {
    throw InvalidConfig("a layout has " + std::to_string(first_tensor + sizes.size()) + " tensors, at most " +
                        std::to_string(kMostTensors) + " are allowed: join small tensors before you register them");
  }
  offsets_.reserve(sizes.size() + 1);
  offsets_.push_back(0);
  for (const std::uint64_t size : sizes) offsets_.push_back(offsets_.back() + size);
}

Layout Layout::in_scopes(std::uint64_t n, std::uint64_t entries) {
  require_fixed_scope(entries);
  Layout layout(n);
  layout.scope_ = entries;
  return layout;
}

std::size_t Layout::tensor_at(std::uint64_t position) const {
  LACONIC_CHECK(position < size());
  const auto after = std::upper_bound(offsets_.begin(), offsets_.end(), position);
  return static_cast<std::size_t>(after - offsets_.begin()) - 1;
}

std::uint64_t Layout::cut(std::uint64_t position, std::uint64_t alignment) const {
  if (position >= size()) return size();
  const std::uint64_t start = offsets_[tensor_at(position)];
  return start + (position - start) / alignment * alignment;
}

}  // namespace laconic
