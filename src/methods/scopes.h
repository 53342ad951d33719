#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/topk/topk.h"
#include "laconic/step.h"
#include "methods/chunked_step.h"

namespace laconic {

/// Entries of the flat gradient among which k are selected: the whole model or one tensor. Fixed scopes, which are
/// many and alike, are listed only for a selection that takes scopes one by one (FixedScopes).
struct Scope {
  std::uint32_t tensor = 0;  ///< the first one
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t first = 0;  ///< where its selected entries begin in the list of all scopes
  std::uint64_t count = 0;  ///< k = max(1, floor(keep·size))
};

/// A chunk's scopes, and where their selected entries lie in the list.
struct ChunkSelection {
  std::size_t first_scope = 0;
  std::size_t scope_count = 0;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

/// The scopes of a model, in order. Scopes without entries are left out.
class Scopes {
 public:
  void prepare(std::span<const Tensor> tensors, double keep, bool by_tensor);
  /// The whole model, cut at multiples of `each` entries. The list of scopes stays empty, for a kernel that takes them all.
  void prepare_fixed(std::span<const Tensor> tensors, double keep, std::uint64_t each);
  /// The same scopes as a list, for a selection that takes them one by one.
  void prepare_listed(std::span<const Tensor> tensors, double keep, std::uint64_t each);

  bool are_fixed() const { return fixed_.each != 0; }
  const FixedScopes& fixed() const { return fixed_; }

  std::span<const Scope> all() const { return scopes_; }
  std::span<const Scope> of(const ChunkSelection& selection) const {
    return all().subspan(selection.first_scope, selection.scope_count);
  }
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
