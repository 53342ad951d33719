#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace laconic {

/// Entries of a fixed scope, which is a run of neighbouring entries of a flat view, wherever its tensors begin.
inline constexpr std::uint64_t kLeastScope = 64;
inline constexpr std::uint64_t kMostScope = 65'536;

/// Throws InvalidConfig unless `entries` is a power of two from kLeastScope to kMostScope.
void require_fixed_scope(std::uint64_t entries);

/// Neighbouring entries of one tensor inside a flat view.
struct Slice {
  std::uint32_t tensor = 0;  ///< index in the layout
  std::uint64_t first = 0;   ///< index in the tensor
  std::uint64_t offset = 0;  ///< index in the flat view
  std::uint64_t count = 0;
};

/// The tensors of a model as they lie one after another in a flat view, in registration order. The same on all ranks.
class Layout {
 public:
  Layout() : Layout(0) {}
  /// One tensor of n entries.
  explicit Layout(std::uint64_t n);
  /// `first_tensor`: the number of the model's tensors before these, if the view is a part of the model.
  explicit Layout(std::span<const std::uint64_t> sizes, std::uint32_t first_tensor = 0);

  /// One tensor of n entries, cut into fixed scopes: the last one has what is left.
  static Layout in_scopes(std::uint64_t n, std::uint64_t entries);

  std::size_t tensors() const { return offsets_.size() - 1; }
  std::uint64_t size() const { return offsets_.back(); }
  std::uint64_t offset(std::size_t tensor) const { return offsets_[tensor]; }
  std::uint64_t size(std::size_t tensor) const { return offsets_[tensor + 1] - offsets_[tensor]; }
  /// A tensor's number in the model, which selects its random stream.
  std::uint32_t number(std::uint32_t tensor) const { return first_tensor_ + tensor; }

  /// Entries of a fixed scope; 0 if each tensor is a scope.
  std::uint64_t scope() const { return scope_; }
  std::size_t scopes() const { return scope_ == 0 ? tensors() : scopes_in(size()); }
  /// The number of scopes that begin in `count` entries of a tensor from the start of one on.
  std::uint64_t scopes_in(std::uint64_t count) const { return scope_ == 0 ? 1 : (count + scope_ - 1) / scope_; }
  /// The scope that a slice begins with.
  std::uint64_t first_scope(const Slice& slice) const { return scope_ == 0 ? slice.tensor : slice.first / scope_; }

  /// The tensor that contains flat position `position` < size(). Empty tensors contain no position.
  std::size_t tensor_at(std::uint64_t position) const;

  /// `position` rounded down to a multiple of `alignment`, counted from the start of its tensor.
  std::uint64_t cut(std::uint64_t position, std::uint64_t alignment) const;

  /// Calls body(Slice) for each tensor that has entries in [begin, end), in order.
  template <class Body>
  void for_each_slice(std::uint64_t begin, std::uint64_t end, Body&& body) const {
    if (begin >= end) return;
    for (std::size_t tensor = tensor_at(begin); begin < end; ++tensor) {
      const std::uint64_t stop = offsets_[tensor + 1] < end ? offsets_[tensor + 1] : end;
      if (begin < stop) body(Slice{static_cast<std::uint32_t>(tensor), begin - offsets_[tensor], begin, stop - begin});
      if (begin < stop) begin = stop;
    }
  }

 private:
  std::vector<std::uint64_t> offsets_;
  std::uint32_t first_tensor_ = 0;
  std::uint64_t scope_ = 0;
};

}  // namespace laconic
