#include "methods/sparse_compression.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/transfer.h"
#include "kernels/coded/coded.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/sparse/sparse.h"
#include "laconic/error.h"
#include "methods/state_memory.h"
#include "methods/sum_options.h"

namespace laconic {

namespace {

SparseSumOptions sum_options(const Settings& settings) {
  SparseSumOptions options{.format = value_format(settings)};
  const auto is = [&](const char* setting, const char* choice) {
    return settings.has(setting) && settings.is(setting, choice);
  };
  if (is("route", "gather")) options.route = SparseRoute::gather;
  if (is("route", "range")) options.route = SparseRoute::range;
  options.coded_return = is("union", "keep") || is("return", "coded");
  return options;
}

void require_indexable(std::uint64_t entries, const std::string& what, const char* remedy) {
  if (entries <= kMostSparseEntries) return;
  throw InvalidConfig(what + " must have at most " + std::to_string(kMostSparseEntries) +
                      " entries for a list with 32-bit indices, got " + std::to_string(entries) + ": " + remedy);
}

/// Refuses tensors whose entries a list cannot name. A list is of one tensor, or of the whole model.
void require_indexable(std::span<const Tensor> tensors, bool by_tensor) {
  std::uint64_t parameters = 0;
  for (const Tensor& tensor : tensors) {
    if (by_tensor) require_indexable(tensor.size, "tensor " + tensor.name, "split it");
    parameters += tensor.size;
  }
  if (by_tensor) return;
  require_indexable(parameters, "the model",
                    "set scope to tensor and return to full, or give parameters to several methods");
}

}  // namespace

SparseCompression::SparseCompression(const Settings& settings, Selection selection)
    : keep_(settings.number("keep")),
      selection_(selection),
      by_tensor_(settings.is("scope", "tensor")),
      fixed_(settings.is("scope", "chunk") ? static_cast<std::uint64_t>(settings.whole("chunk")) : 0),
      options_(sum_options(settings)) {}

/// With return = coded each owner of an index range returns k/W sums, and index ranges span tensors. So do fixed
/// scopes.
bool SparseCompression::by_tensor() const { return by_tensor_ && !options_.coded_return; }

void SparseCompression::prepare(Place& place, std::span<const Tensor> tensors) {
  place_ = &place;
  require_indexable(tensors, by_tensor());
  most_chunks_ = by_tensor() ? std::max<std::size_t>(tensors.size(), 1) : 1;
  if (fixed_ == 0) {
    scopes_.prepare(tensors, keep_, by_tensor_);
  } else if (selection_ == Selection::own) {
    scopes_.prepare_listed(tensors, keep_, fixed_);
  } else {
    scopes_.prepare_fixed(tensors, keep_, fixed_);
  }
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
    rank_ = channel.rank();
    ChunkSum chunk_sum{scopes_.of(chunk), {}, {}, {}, {}, {}};
    cut_scopes(chunk_sum);
    SparseSumOptions options = options_;
    options.cuts = chunk_sum.cuts;
    chunk_sum.sum = std::make_unique<SparseSum>(channel, *place_, chunk.size, chunk_sum.count, options);
    chunk_sum.borders.assign(chunk_sum.sum->borders().begin(), chunk_sum.sum->borders().end());
    return chunk_sum;
  });
  LACONIC_CHECK(sums_.size() <= most_chunks_);
}

/// Which scopes of the chunk share magnitudes. The model is one scope.
void SparseCompression::cut_scopes(ChunkSum& chunk_sum) const {
  if (!is_coded(options_.format)) return;
  if (fixed_ != 0) chunk_sum.cuts.each = static_cast<std::uint32_t>(fixed_);
  if (!by_tensor_) return;
  for (const Scope& scope : chunk_sum.scopes) chunk_sum.starts.push_back(static_cast<std::uint32_t>(scope.offset));
  chunk_sum.cuts.starts = chunk_sum.starts;
  if (place_->device() == Device::cpu) return;
  chunk_sum.device_starts.reserve(*place_, chunk_sum.starts.size());
  const View<std::uint32_t> there = chunk_sum.device_starts.view(chunk_sum.starts.size());
  copy_from_cpu(*place_, chunk_sum.starts.data(), there);
  chunk_sum.cuts.device_starts = there;
}

SparseView SparseCompression::selected(const ChunkSum& chunk_sum) const {
  return {chunk_sum.of_selected(indices_.view()), chunk_sum.of_selected(values_.view())};
}

Thresholds SparseCompression::thresholds_of(const ChunkSum& chunk_sum) const {
  return {chunk_sum.of_scopes(thresholds_.view()), chunk_sum.of_scopes(next_thresholds_.view())};
}

Exchange& SparseCompression::start(const Chunk& chunk, const ChunkFeedback& feedback, StatusView status,
                                   StepReport& report) {
  select_largest(chunk, feedback, status, report);
  return send(chunk, feedback, status);
}

Exchange& SparseCompression::start_from(int leader, const Chunk& chunk, const ChunkFeedback& feedback,
                                        StatusView status, StepReport& report) {
  if (rank_ == leader) {
    select_largest(chunk, feedback, status, report);
  } else {
    fill(*place_, 0.0F, feedback.rest);
    copy(*place_, thresholds(), next_thresholds_.view(scopes_.all().size()));
  }
  SparseSum& sum = *sums_[chunk.number].sum;
  sum.start_from(leader, selected(chunk), feedback.values, status);
  return sum;
}

void SparseCompression::select_largest(const Chunk& chunk, const ChunkFeedback& feedback, StatusView status,
                                       StepReport& report) {
  const Stopwatch watch(report.select_seconds);
  if (scopes_.are_fixed()) {
    error_feedback_topk_by_scope(*place_, feedback.values, feedback.residual, feedback.rest, scopes_.fixed(),
                                 selected(chunk), status);
  } else {
    const ChunkSum& chunk_sum = sums_[chunk.number];
    error_feedback_topk_by_scope(*place_, feedback.values, feedback.residual, feedback.rest, chunk_sum.scopes,
                                 thresholds_of(chunk_sum), selected(chunk_sum), status);
  }
  code_selected(chunk, feedback.rest, status);
}

Exchange& SparseCompression::start(const Chunk& chunk, const ChunkFeedback& feedback, const Select& select,
                                   StatusView status, StepReport& report) {
  {
    const Stopwatch watch(report.select_seconds);
    const ChunkSum& chunk_sum = sums_[chunk.number];
    select(feedback, chunk_sum, thresholds_of(chunk_sum), selected(chunk_sum), status);
    code_selected(chunk, feedback.rest, status);
  }
  return send(chunk, feedback, status);
}

Exchange& SparseCompression::send(const Chunk& chunk, const ChunkFeedback& feedback, StatusView status) {
  ChunkSum& chunk_sum = sums_[chunk.number];
  chunk_sum.sum->go_on_from(chunk_sum.borders, chunk_sum.last_union);
  chunk_sum.sum->start(selected(chunk_sum), feedback.values, status, feedback.own_means);
  return *chunk_sum.sum;
}

/// A receiver sees rounded values unless they are sent as f32; the rounding stays in the residual, so that nothing is
/// lost.
void SparseCompression::code_selected(const Chunk& chunk, View<float> rest, StatusView status) {
  if (options_.format == ValueFormat::f32) return;
  const ChunkSum& chunk_sum = sums_[chunk.number];
  const SparseView own = selected(chunk_sum);
  const View<float> errors = chunk_sum.of_selected(errors_.view());
  if (is_coded(options_.format)) {
    code_values(*place_, options_.format, chunk_sum.cuts, chunk_sum.cuts.of(0, chunk.size), own, errors, status);
  } else {
    round_through_16bit(*place_, options_.format, own.values, errors, status);
  }
  scatter(*place_, {own.indices, errors}, rest);
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
  borders.resize(most_chunks_ * sums_.front().borders.size());
  unions.resize(most_chunks_);
  state.put("borders", View<const std::uint32_t>(borders));
  state.put("last unions", View<const std::uint32_t>(unions));
}

/// Of the chunks that were there, without the room for more. A chunk has entries, unless the model has none.
std::vector<SparseCompression::SavedSum> SparseCompression::saved_sums(const State& state) const {
  const std::size_t each = sums_.front().borders.size();
  std::vector<std::uint32_t> borders(most_chunks_ * each);
  std::vector<std::uint32_t> unions(most_chunks_);
  state.get("borders", View<std::uint32_t>(borders));
  state.get("last unions", View<std::uint32_t>(unions));
  std::vector<SavedSum> sums;
  for (std::size_t i = 0; i < unions.size(); ++i) {
    const auto begin = borders.begin() + static_cast<std::ptrdiff_t>(i * each);
    SavedSum sum{{begin, begin + static_cast<std::ptrdiff_t>(each)}, std::uint64_t{unions[i]} - 1};
    SparseSum::require_sound(sum.borders.back(), sum.borders, sum.last_union);
    if (sum.borders.back() > 0) sums.push_back(std::move(sum));
  }
  return sums;
}

void SparseCompression::require_loadable(const State& state) const {
  state.require_in("thresholds", 0.0, std::numeric_limits<float>::max());
  std::uint64_t expected = 0;
  for (const ChunkSum& chunk_sum : sums_) expected += chunk_sum.borders.back();
  std::uint64_t found = 0;
  for (const SavedSum& saved : saved_sums(state)) found += saved.borders.back();
  if (found == expected) return;
  throw InvalidConfig("saved state's borders divide " + std::to_string(found) + " entries, expected " +
                      std::to_string(expected) + ": load a state as it was saved");
}

/// The size of chunks depends on the device and on the caller. If it was another one, sums begin as in a first step:
/// they may take other routes for a step, and their results have the same bits. With `return = coded`, where borders
/// decide more, all tensors are one chunk.
void SparseCompression::load(const State& state) {
  get_memory(state, "thresholds", *place_, thresholds());
  const std::vector<SavedSum> saved = saved_sums(state);
  const auto size_of = [](const auto& sum) { return sum.borders.back(); };
  const bool as_here = std::ranges::equal(saved, sums_, {}, size_of, size_of);
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    ChunkSum& chunk_sum = sums_[i];
    if (as_here) {
      chunk_sum.borders = saved[i].borders;
      chunk_sum.last_union = saved[i].last_union;
    } else {
      set_even_borders(chunk_sum.borders.back(), chunk_sum.borders);
      chunk_sum.last_union = SparseSum::kNoUnion;
    }
    chunk_sum.sum->go_on_from(chunk_sum.borders, chunk_sum.last_union);
  }
}

}  // namespace laconic
