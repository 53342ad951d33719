#include "methods/sparse_method.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/keep.h"
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

SparseMethod::SparseMethod(const Settings& settings, Communicator& communicator, Place& place)
    : GradientBase(settings.method(), communicator, place),
      keep_(settings.number("keep")),
      by_tensor_(settings.is("scope", "tensor")),
      options_(sum_options(settings)) {}

void SparseMethod::add_stretch(std::uint64_t offset, std::uint64_t size) {
  const std::uint64_t count = keep_count(keep_, size);
  if (count > 0) stretches_.push_back({offset, size, selected_count_, count});
  selected_count_ += count;
}

void SparseMethod::prepare() {
  std::uint64_t offset = 0;
  for (const Tensor& tensor : tensors()) {
    if (by_tensor_) add_stretch(offset, tensor.size);
    offset += tensor.size;
  }
  if (!by_tensor_) add_stretch(0, parameters());
  thresholds_.assign(stretches_.size(), 0.0F);
  for (Buffer<float>* buffer : {&residual_, &next_residual_}) {
    buffer->reserve(place(), parameters());
    fill(place(), 0.0F, buffer->view(parameters()));
  }
  indices_.reserve(place(), selected_count_);
  values_.reserve(place(), selected_count_);
  if (options_.format != ValueFormat::f32) errors_.reserve(place(), selected_count_);
  deal_shares();
}

void SparseMethod::deal_shares() {
  shares_ = pipeline().make_each([&](const Chunk& chunk, Communicator& channel) {
    Share share{share_of(chunk, stretches_), {}, {}};
    share.sum = std::make_unique<SparseSum>(channel, place(), chunk.size, share.count, options_);
    share.borders.assign(share.sum->borders().begin(), share.sum->borders().end());
    return share;
  });
}

void SparseMethod::regrouped() { deal_shares(); }

SparseView SparseMethod::selected(const Share& share) const {
  return SparseView{indices_.view(), values_.view()}.sub(share.first, share.count);
}

Exchange& SparseMethod::start_chunk(const Chunk& chunk, View<float> gradient, StatusView status, StepReport& report) {
  Share& share = shares_[chunk.number];
  {
    const Stopwatch watch(report.select_seconds);
    select_in(chunk, gradient, status);
  }
  share.sum->go_on_from(share.borders, share.last_union);
  share.sum->start(selected(share), gradient, status);
  return *share.sum;
}

/// Indices count from the chunk's start.
void SparseMethod::select_in(const Chunk& chunk, View<const float> gradient, StatusView status) {
  const Share& share = shares_[chunk.number];
  const View<const float> residual = residual_.view(parameters()).sub(chunk.offset, chunk.size);
  const View<float> rest = next_residual_.view(parameters()).sub(chunk.offset, chunk.size);
  for (std::size_t number = share.first_stretch; number < share.first_stretch + share.stretch_count; ++number) {
    const Stretch& stretch = stretches_[number];
    const std::uint64_t offset = stretch.offset - chunk.offset;
    const auto own = SparseView{indices_.view(), values_.view()}.sub(stretch.first, stretch.count);
    status[0].threshold = stretch.threshold;
    select(number, stretch, gradient.sub(offset, stretch.size), residual.sub(offset, stretch.size),
           rest.sub(offset, stretch.size), own, status);
    thresholds_[number] = status[0].threshold;
    shift_indices(place(), offset, own.indices);
  }
  round_values(share, rest, status);
}

/// In 16 bits a receiver sees rounded values; the rounding stays in the residual, so that nothing is lost.
void SparseMethod::round_values(const Share& share, View<float> rest, StatusView status) {
  if (options_.format == ValueFormat::f32) return;
  const View<float> errors = errors_.view().sub(share.first, share.count);
  round_through_16bit(place(), options_.format, selected(share).values, errors, status);
  scatter(place(), {selected(share).indices, errors}, rest);
}

void SparseMethod::finish_chunk(const Chunk& chunk, View<float> aggregate, StatusView, StepReport&) {
  const Share& share = shares_[chunk.number];
  scatter_add(place(), share.sum->left(), next_residual_.view(parameters()).sub(chunk.offset, chunk.size));
  remember(share.first, selected(share), aggregate);
}

void SparseMethod::commit() {
  std::swap(residual_, next_residual_);
  for (std::size_t i = 0; i < stretches_.size(); ++i) stretches_[i].threshold = thresholds_[i];
  for (Share& share : shares_) {
    std::copy(share.sum->borders().begin(), share.sum->borders().end(), share.borders.begin());
    share.last_union = share.sum->last_union();
  }
  committed();
}

void SparseMethod::save_memory(State& state) const {
  put_memory(state, "residual", place(), residual_.view(parameters()));
  std::vector<float> thresholds;
  for (const Stretch& stretch : stretches_) thresholds.push_back(stretch.threshold);
  state.put("thresholds", View<const float>(thresholds));
  std::vector<std::uint32_t> borders;  // a sparse sum has fewer than 2^32 entries
  std::vector<std::uint32_t> unions;   // of no step yet, or 1 + the last one's size
  for (const Share& share : shares_) {
    for (const std::uint64_t border : share.borders) borders.push_back(static_cast<std::uint32_t>(border));
    unions.push_back(static_cast<std::uint32_t>(share.last_union + 1));
  }
  state.put("borders", View<const std::uint32_t>(borders));
  state.put("last unions", View<const std::uint32_t>(unions));
}

/// work(share, its borders, its last union) as they were saved.
template <class Work>
void SparseMethod::each_saved_share(const State& state, Work&& work) const {
  const std::size_t each = shares_.front().borders.size();
  std::vector<std::uint32_t> borders(shares_.size() * each);
  std::vector<std::uint32_t> unions(shares_.size());
  state.get("borders", View<std::uint32_t>(borders));
  state.get("last unions", View<std::uint32_t>(unions));
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    const std::vector<std::uint64_t> own(borders.begin() + static_cast<std::ptrdiff_t>(i * each),
                                         borders.begin() + static_cast<std::ptrdiff_t>((i + 1) * each));
    work(i, own, std::uint64_t{unions[i]} - 1);
  }
}

void SparseMethod::require_loadable_memory(const State& state) const {
  MethodMemory::require_loadable_memory(state);
  state.require_in("thresholds", 0.0, std::numeric_limits<float>::max());
  each_saved_share(state, [&](std::size_t share, std::span<const std::uint64_t> borders, std::uint64_t last_union) {
    shares_[share].sum->require_sound(borders, last_union);
  });
}

void SparseMethod::load_memory(const State& state) {
  get_memory(state, "residual", place(), residual_.view(parameters()));
  state.get("thresholds", View<float>(thresholds_));
  for (std::size_t i = 0; i < stretches_.size(); ++i) stretches_[i].threshold = thresholds_[i];
  each_saved_share(state, [&](std::size_t share, std::span<const std::uint64_t> borders, std::uint64_t last_union) {
    std::copy(borders.begin(), borders.end(), shares_[share].borders.begin());
    shares_[share].last_union = last_union;
    shares_[share].sum->go_on_from(borders, last_union);
  });
}

}  // namespace laconic
