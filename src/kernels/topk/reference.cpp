#include <algorithm>
#include <numeric>

#include "base/workspace.h"
#include "kernels/convert/blocks.h"
#include "kernels/residual.h"
#include "kernels/topk/selection.h"

namespace laconic::reference {
namespace {

/// Puts the k positions of the largest keys, equals by lowest position, first and in ascending order.
void largest_first(View<const std::uint32_t> keys, View<std::uint32_t> positions, std::size_t k) {
  std::iota(positions.begin(), positions.end(), 0U);
  const auto before = [&](std::uint32_t left, std::uint32_t right) {
    return keys[left] != keys[right] ? keys[left] > keys[right] : left < right;
  };
  if (k < positions.size()) std::nth_element(positions.begin(), positions.begin() + k, positions.end(), before);
  std::sort(positions.begin(), positions.begin() + k);
}

}  // namespace

void select_largest(Place& place, const topk::Selection& selection, Status& status) {
  const std::size_t n = selection.gradient.size();
  const std::size_t k = selection.selected.size();
  Workspace::Scope scope(place.workspace());
  const auto keys = place.workspace().take<std::uint32_t>(n);
  const auto positions = place.workspace().take<std::uint32_t>(n);

  std::uint32_t highest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    selection.rest[i] = with_residual(number_at(selection.gradient, i), selection.residual[i]);
    keys[i] = topk::key_of(selection.rest[i]);
    highest = std::max(highest, keys[i]);
  }
  if (highest >= topk::kNonfiniteKey) return give_up_nonfinite(selection, status);

  if (selection.rescored != nullptr) {
    const auto support = selection.rescored->indices;
    for (std::uint32_t i = 0; i < support.size() && support[i] < n; ++i) {
      keys[support[i]] = topk::key_of(selection.rescored->score_at(i, selection.rest[support[i]]));
    }
  }
  largest_first(keys, positions, k);

  std::uint32_t lowest = k == 0 ? 0 : topk::kNonfiniteKey;
  for (std::size_t i = 0; i < k; ++i) {
    selection.selected.indices[i] = positions[i];
    selection.selected.values[i] = selection.rest[positions[i]];
    selection.rest[positions[i]] = 0.0F;
    lowest = std::min(lowest, keys[positions[i]]);
  }
  status.count = k;
  status.threshold = std::bit_cast<float>(lowest);
}

void select_in_scopes(Place& place, const topk::Selection& selection, const FixedScopes& scopes, Status& status) {
  const std::size_t n = selection.gradient.size();
  for (std::size_t scope = 0, first = 0; scope < scopes.count(n); ++scope) {
    const std::size_t begin = scope * scopes.each;
    const std::size_t size = std::min<std::size_t>(scopes.each, n - begin);
    const std::size_t k = scopes.keep_of(scope, n);
    const topk::Selection own{selection.gradient.sub(begin, size), selection.residual.sub(begin, size),
                              selection.rest.sub(begin, size), nullptr, selection.selected.sub(first, k)};
    Status own_status;
    select_largest(place, own, own_status);
    status.nonfinite |= own_status.nonfinite;
    for (std::size_t i = first; i < first + k; ++i) {
      selection.selected.indices[i] += static_cast<std::uint32_t>(begin);
    }
    first += k;
  }
}

void split_largest(Place& place, ConstSparseView entries, SparseView kept, SparseView left) {
  Workspace::Scope scope(place.workspace());
  const auto keys = place.workspace().take<std::uint32_t>(entries.size());
  const auto positions = place.workspace().take<std::uint32_t>(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) keys[i] = topk::key_of(entries.values[i]);
  largest_first(keys, positions, kept.size());

  for (std::size_t i = 0, taken = 0; i < entries.size(); ++i) {
    const bool keep = taken < kept.size() && positions[taken] == i;
    const SparseView& target = keep ? kept : left;
    const std::size_t place_in_target = keep ? taken : i - taken;
    target.indices[place_in_target] = entries.indices[i];
    target.values[place_in_target] = entries.values[i];
    taken += keep ? 1 : 0;
  }
}

}  // namespace laconic::reference
