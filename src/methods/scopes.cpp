#include "methods/scopes.h"

#include <algorithm>

#include "base/keep.h"

namespace laconic {

void Scopes::prepare(std::span<const Tensor> tensors, double keep, bool by_tensor) {
  std::uint64_t offset = 0;
  for (std::uint32_t tensor = 0; tensor < tensors.size(); ++tensor) {
    if (by_tensor) add(tensor, offset, tensors[tensor].size, keep);
    offset += tensors[tensor].size;
  }
  if (!by_tensor) add(0, 0, offset, keep);
}

void Scopes::prepare_fixed(std::span<const Tensor> tensors, double keep, std::uint64_t each) {
  std::uint64_t size = 0;
  for (const Tensor& tensor : tensors) size += tensor.size;
  const std::uint64_t rest = size % each;
  fixed_ = {each, keep_count(keep, each), keep_count(keep, rest == 0 && size > 0 ? each : rest)};
  selected_ = fixed_.selected(size);
}

void Scopes::prepare_listed(std::span<const Tensor> tensors, double keep, std::uint64_t each) {
  std::uint64_t size = 0;
  for (const Tensor& tensor : tensors) size += tensor.size;
  for (std::uint64_t offset = 0; offset < size; offset += each) add(0, offset, std::min(each, size - offset), keep);
}

void Scopes::add(std::uint32_t tensor, std::uint64_t offset, std::uint64_t size, double keep) {
  const std::uint64_t count = keep_count(keep, size);
  if (count > 0) scopes_.push_back({tensor, offset, size, selected_, count});
  selected_ += count;
}

ChunkSelection Scopes::of(const Chunk& chunk) const {
  ChunkSelection selection;
  if (are_fixed()) {  // all tensors are one chunk
    selection.count = selected_;
    return selection;
  }
  for (std::size_t i = 0; i < scopes_.size(); ++i) {
    const Scope& scope = scopes_[i];
    if (scope.offset < chunk.offset || scope.offset >= chunk.offset + chunk.size) continue;
    if (selection.scopes.empty()) selection.first_scope = i, selection.first = scope.first;
    selection.scopes.push_back(
        {scope.tensor, scope.offset - chunk.offset, scope.size, scope.first - selection.first, scope.count});
    selection.count += scope.count;
  }
  return selection;
}

}  // namespace laconic
