#include "methods/sparse_compression.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/elementwise/elementwise.h"
#include "kernels/sparse/sparse.h"
#include "laconic/error.h"
#include "methods/state_memory.h"

namespace laconic {

ValueFormat value_format(const Settings& settings) {
  if (settings.is("values", "f16")) return ValueFormat::f16;
  return settings.is("values", "bf16") ? ValueFormat::bf16 : ValueFormat::f32;
}

namespace {

SparseSumOptions sum_options(const Settings& settings) {
  SparseSumOptions options{.format = value_format(settings)};
  if (settings.is("route", "gather")) options.route = SparseRoute::gather;
  if (settings.is("route", "range")) options.route = SparseRoute::range;
  options.keep_union = settings.has("union") && settings.is("union", "keep");
  return options;
}

}  // namespace

SparseCompression::SparseCompression(const Settings& settings)
    : keep_(settings.number("keep")), by_tensor_(settings.is("scope", "tensor")), options_(sum_options(settings)) {}

/// With union = keep each owner of an index range returns k/W sums, and index ranges span tensors.
bool SparseCompression::by_tensor() const { return by_tensor_ && !options_.keep_union; }

void SparseCompression::prepare(Place& place, std::span<const Tensor> tensors) {
  place_ = &place;
  scopes_.prepare(tensors, keep_, by_tensor_);
  for (Buffer<float>* buffer : {&thresholds_, &next_thresholds_}) {
    buffer->reserve(place, scopes_.all().size());
    fill(place, 0.0F, buffer->view(scopes_.all().size()));
  }
  indices_.reserve(place, scopes_.selected());
  values_.reserve(place, scopes_.selected());
  if (options_.format != ValueFormat::f32) errors_.reserve(place, scopes_.selected());
}

void SparseCompression::make_sums(const ChunkPipeline& pipeline) {
  sums_ = pipeline.make_each([&](const Chunk& chunk, Communicator& channel) {
    ChunkSum chunk_sum{scopes_.of(chunk), {}, {}};
    chunk_sum.sum = std::make_unique<SparseSum>(channel, *place_, chunk.size, chunk_sum.count, options_);
    chunk_sum.borders.assign(chunk_sum.sum->borders().begin(), chunk_sum.sum->borders().end());
    return chunk_sum;
  });
}

SparseView SparseCompression::selected(const ChunkSum& chunk_sum) const {
  return SparseView{indices_.view(), values_.view()}.sub(chunk_sum.first, chunk_sum.count);
}

Exchange& SparseCompression::start(const Chunk& chunk, const ChunkFeedback& feedback, StatusView status,
                                   StepReport& report) {
  const auto largest = [&](const Scope&, const ChunkFeedback& own, SparseView selected, StatusView own_status) {
    error_feedback_topk(*place_, own.values, own.residual, own.rest, selected, own_status);
  };
  return start(chunk, feedback, largest, status, report);
}

Exchange& SparseCompression::start(const Chunk& chunk, const ChunkFeedback& feedback, const Select& select,
                                   StatusView status, StepReport& report) {
  ChunkSum& chunk_sum = sums_[chunk.number];
  {
    const Stopwatch watch(report.select_seconds);
    select_in(chunk, feedback, select, status);
    round_values(chunk_sum, feedback.rest, status);
  }
  chunk_sum.sum->go_on_from(chunk_sum.borders, chunk_sum.last_union);
  chunk_sum.sum->start(selected(chunk_sum), feedback.values, status);
  return *chunk_sum.sum;
}

/// One pass for each scope. Indices count from the chunk's start.
void SparseCompression::select_in(const Chunk& chunk, const ChunkFeedback& feedback, const Select& select,
                                  StatusView status) {
  const ChunkSum& chunk_sum = sums_[chunk.number];
  const View<float> threshold(&status.data()->threshold, 1, status.device());
  std::size_t number = chunk_sum.first_scope;
  for (const Scope& scope : scopes_.of(chunk_sum)) {
    const std::uint64_t offset = scope.offset - chunk.offset;
    const auto own = SparseView{indices_.view(), values_.view()}.sub(scope.first, scope.count);
    copy(*place_, thresholds_.view().sub(number, 1), threshold);
    select(scope,
           {feedback.values.sub(offset, scope.size), feedback.residual.sub(offset, scope.size),
            feedback.rest.sub(offset, scope.size)},
           own, status);
    copy(*place_, threshold, next_thresholds_.view().sub(number++, 1));
    shift_indices(*place_, offset, own.indices);
  }
}

/// In 16 bits a receiver sees rounded values; the rounding stays in the residual, so that nothing is lost.
void SparseCompression::round_values(const ChunkSum& chunk_sum, View<float> rest, StatusView status) {
  if (options_.format == ValueFormat::f32) return;
  const View<float> errors = errors_.view().sub(chunk_sum.first, chunk_sum.count);
  round_through_16bit(*place_, options_.format, selected(chunk_sum).values, errors, status);
  scatter(*place_, {selected(chunk_sum).indices, errors}, rest);
}

void SparseCompression::finish(const Chunk& chunk, View<float> rest) {
  scatter_add(*place_, sums_[chunk.number].sum->left(), rest);
}

void SparseCompression::commit() {
  std::swap(thresholds_, next_thresholds_);
  for (ChunkSum& chunk_sum : sums_) {
    std::copy(chunk_sum.sum->borders().begin(), chunk_sum.sum->borders().end(), chunk_sum.borders.begin());
    chunk_sum.last_union = chunk_sum.sum->last_union();
  }
}

void SparseCompression::save(State& state) const {
  put_memory(state, "thresholds", *place_, thresholds());
  std::vector<std::uint32_t> borders;  // a sparse sum has fewer than 2^32 entries
  std::vector<std::uint32_t> unions;   // of no step yet, or 1 + the last one's size
  for (const ChunkSum& chunk_sum : sums_) {
    for (const std::uint64_t border : chunk_sum.borders) borders.push_back(static_cast<std::uint32_t>(border));
    unions.push_back(static_cast<std::uint32_t>(chunk_sum.last_union + 1));
  }
  state.put("borders", View<const std::uint32_t>(borders));
  state.put("last unions", View<const std::uint32_t>(unions));
}

/// work(number of the chunk, its borders, its last union) as they were saved.
template <class Work>
void SparseCompression::each_saved_sum(const State& state, Work&& work) const {
  const std::size_t each = sums_.front().borders.size();
  std::vector<std::uint32_t> borders(sums_.size() * each);
  std::vector<std::uint32_t> unions(sums_.size());
  state.get("borders", View<std::uint32_t>(borders));
  state.get("last unions", View<std::uint32_t>(unions));
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const std::vector<std::uint64_t> own(borders.begin() + static_cast<std::ptrdiff_t>(i * each),
                                         borders.begin() + static_cast<std::ptrdiff_t>((i + 1) * each));
    work(i, own, std::uint64_t{unions[i]} - 1);
  }
}

void SparseCompression::require_loadable(const State& state) const {
  state.require_in("thresholds", 0.0, std::numeric_limits<float>::max());
  each_saved_sum(state, [&](std::size_t chunk, std::span<const std::uint64_t> borders, std::uint64_t last_union) {
    sums_[chunk].sum->require_sound(borders, last_union);
  });
}

void SparseCompression::load(const State& state) {
  get_memory(state, "thresholds", *place_, thresholds());
  each_saved_sum(state, [&](std::size_t chunk, std::span<const std::uint64_t> borders, std::uint64_t last_union) {
    std::copy(borders.begin(), borders.end(), sums_[chunk].borders.begin());
    sums_[chunk].last_union = last_union;
    sums_[chunk].sum->go_on_from(borders, last_union);
  });
}

}  // namespace laconic
