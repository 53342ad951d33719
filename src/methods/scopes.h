#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/scope.h"
#include "kernels/topk/topk.h"
#include "laconic/step.h"
#include "methods/chunked_step.h"

namespace laconic {

/// A chunk's scopes, and where they and their selected entries lie among all.
struct ChunkSelection {
  std::size_t first_scope = 0;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::vector<Scope> scopes;  ///< in the chunk and in its part of the list; none if they are fixed

  template <class T>
  View<T> of_scopes(View<T> all) const { return all.sub(first_scope, scopes.size()); }
  template <class T>
  View<T> of_selected(View<T> all) const { return all.sub(first, count); }
};

/// The scopes of a model, in order: all of it, or each tensor. A scope selects max(1, floor(keep·size)) entries; scopes
/// without entries are left out. Fixed scopes, which are many and alike, are listed only for a selection that takes a
/// list.
class Scopes {
 public:
  void prepare(std::span<const Tensor> tensors, double keep, bool by_tensor);
  /// The whole model, cut at multiples of `each` entries. The list of scopes stays empty, for a kernel that takes them all.
  void prepare_fixed(std::span<const Tensor> tensors, double keep, std::uint64_t each);
  /// The same scopes as a list.
  void prepare_listed(std::span<const Tensor> tensors, double keep, std::uint64_t each);

  bool are_fixed() const { return fixed_.each != 0; }
  const FixedScopes& fixed() const { return fixed_; }

  std::span<const Scope> all() const { return scopes_; }
  /// Number of entries that are selected in all scopes together.
  std::uint64_t selected() const { return selected_; }
  ChunkSelection of(const Chunk& chunk) const;

 private:
  void add(std::uint32_t tensor, std::uint64_t offset, std::uint64_t size, double keep);

  std::vector<Scope> scopes_;
  FixedScopes fixed_;
  std::uint64_t selected_ = 0;
};

}  // namespace laconic
