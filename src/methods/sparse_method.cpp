#include "methods/sparse_method.h"

#include <algorithm>
#include <utility>

#include "base/keep.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/sparse/sparse.h"
#include "laconic/error.h"

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
    : GradientMethod(settings.method(), communicator, place),
      keep_(settings.number("keep")),
      by_tensor_(settings.is("scope", "tensor")),
      options_(sum_options(settings)) {}

void SparseMethod::prepare() {
  const auto add_stretch = [&](std::uint64_t offset, std::uint64_t size) {
    const std::uint64_t count = keep_count(keep_, size);
    if (count > 0) stretches_.push_back({offset, size, selected_count_, count});
    selected_count_ += count;
  };
  if (by_tensor_) {
    std::uint64_t offset = 0;
    for (const Tensor& tensor : tensors()) {
      add_stretch(offset, tensor.size);
      offset += tensor.size;
    }
  } else {
    add_stretch(0, parameters());
  }
  thresholds_.assign(stretches_.size(), 0.0F);
  for (Buffer<float>* buffer : {&residual_, &next_residual_}) {
    buffer->reserve(parameters());
    fill(place(), 0.0F, buffer->view(parameters()));
  }
  indices_.reserve(selected_count_);
  values_.reserve(selected_count_);
  if (options_.format != ValueFormat::f32) errors_.reserve(selected_count_);
  make_exchange();
}

void SparseMethod::make_exchange() {
  sum_ = std::make_unique<SparseSum>(communicator(), place(), parameters(), selected_count_, options_);
  borders_.assign(sum_->borders().begin(), sum_->borders().end());
  last_union_ = SparseSum::kNoUnion;
}

void SparseMethod::regrouped() { make_exchange(); }

void SparseMethod::aggregate(StepKey /*key*/, View<float> gradient, StatusView status, StepReport& report) {
  const SparseView selected{indices_.view(selected_count_), values_.view(selected_count_)};
  const View<float> rest = next_residual_.view(parameters());
  {
    const Stopwatch watch(report.select_seconds);
    for (std::size_t number = 0; number < stretches_.size(); ++number) {
      const Stretch& stretch = stretches_[number];
      const auto own = selected.sub(stretch.first, stretch.count);
      status[0].threshold = stretch.threshold;
      select(number, stretch, gradient.sub(stretch.offset, stretch.size),
             residual_.view(parameters()).sub(stretch.offset, stretch.size), rest.sub(stretch.offset, stretch.size),
             own, status);
      thresholds_[number] = status[0].threshold;
      if (stretch.offset > 0) {
        for (std::uint32_t& index : own.indices) index += static_cast<std::uint32_t>(stretch.offset);
      }
    }
    round_values(status);
  }
  sum_->go_on_from(borders_, last_union_);
  sum_->start(selected, gradient, status);
  locate_nonfinite(gradient, status[0]);
  sum_->finish();
  report.traffic = sum_->traffic();
  scatter_add(place(), sum_->left(), rest);
  remember(selected, gradient);
}

/// In 16 bits a receiver sees rounded values; the rounding stays in the residual, so that nothing is lost.
void SparseMethod::round_values(StatusView status) {
  if (options_.format == ValueFormat::f32) return;
  const View<float> errors = errors_.view(selected_count_);
  round_through_16bit(place(), options_.format, values_.view(selected_count_), errors, status);
  scatter(place(), {indices_.view(selected_count_), errors}, next_residual_.view(parameters()));
}

void SparseMethod::commit() {
  std::swap(residual_, next_residual_);
  for (std::size_t i = 0; i < stretches_.size(); ++i) stretches_[i].threshold = thresholds_[i];
  std::copy(sum_->borders().begin(), sum_->borders().end(), borders_.begin());
  last_union_ = sum_->last_union();
  committed();
}

void SparseMethod::save_memory(State& state) const {
  state.put("residual", View<const float>(residual_.view(parameters())));
  std::vector<float> thresholds;
  for (const Stretch& stretch : stretches_) thresholds.push_back(stretch.threshold);
  state.put("thresholds", View<const float>(thresholds));
  std::vector<std::uint32_t> borders;  // a sparse sum has fewer than 2^32 entries
  for (const std::uint64_t border : borders_) borders.push_back(static_cast<std::uint32_t>(border));
  state.put("borders", View<const std::uint32_t>(borders));
  state.put("last union", last_union_ == SparseSum::kNoUnion ? -1.0 : static_cast<double>(last_union_));
}

void SparseMethod::load_memory(const State& state) {
  state.get("residual", residual_.view(parameters()));
  state.get("thresholds", View<float>(thresholds_));
  for (std::size_t i = 0; i < stretches_.size(); ++i) stretches_[i].threshold = thresholds_[i];
  std::vector<std::uint32_t> saved(borders_.size());
  state.get("borders", View<std::uint32_t>(saved));
  borders_.assign(saved.begin(), saved.end());
  const double last_union = state.number("last union");
  last_union_ = last_union < 0.0 ? SparseSum::kNoUnion : static_cast<std::uint64_t>(last_union);
  sum_->go_on_from(borders_, last_union_);  // refuses what no run saved
}

}  // namespace laconic
