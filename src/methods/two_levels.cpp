#include "methods/two_levels.h"

#include <algorithm>

#include "laconic/error.h"
#include "transport/staged/communicator.h"

namespace laconic {

TwoLevelMethod::TwoLevelMethod(std::unique_ptr<GradientBase> inner, TwoLevels& levels, Place& place)
    : GradientBase(inner->name(), levels.all(), place), inner_(std::move(inner)), levels_(levels) {
  if (place.device() == Device::cpu) return;
  staged_within_ = std::make_unique<staged::StagedCommunicator>(levels.within(), place);
}

void TwoLevelMethod::prepare() {
  cut_tensors();
  if (core().chunk_entries_set() > 0) inner_->set_chunk_entries(core().chunk_entries_set());
  inner_->register_tensors(slices_);
  own_.reserve(place(), offsets_.back());
  gradients_.resize(pipeline().chunks().size());
  channel_of_ = pipeline().make_each([&](const Chunk& chunk, Communicator& channel) {
    const auto same = [&](const auto& each) { return &each->channel == &channel; };
    const auto found = std::find_if(channels_.begin(), channels_.end(), same);
    OnChannel* shared = found != channels_.end() ? found->get() : nullptr;
    if (shared == nullptr) shared = channels_.emplace_back(std::make_unique<OnChannel>(channel, place())).get();
    shared->mean.reserve(chunk.size);
    shared->gathered.reserve(chunk.size);
    return shared;
  });
  gather_statuses_.reserve(place(), channels_.size());
}

/// A tensor lies in one chunk, and a range is contiguous, so a rank has at most one slice of it.
void TwoLevelMethod::cut_tensors() {
  slices_ = tensors();
  const auto local = static_cast<std::size_t>(levels_.within().rank());
  for (const Chunk& chunk : pipeline().chunks()) {
    const auto borders = even_borders(chunk.size, levels_.within().size());
    std::uint64_t begin = 0;
    for (std::uint32_t i = chunk.first_tensor; i < chunk.first_tensor + chunk.tensor_count; ++i) {
      const std::uint64_t end = begin + tensors()[i].size;
      const std::uint64_t first = std::max(begin, borders[local]);
      slices_[i].size = std::max(first, std::min(end, borders[local + 1])) - first;
      begin = end;
    }
  }
  offsets_.assign(1, 0);
  for (const Tensor& slice : slices_) offsets_.push_back(offsets_.back() + slice.size);
}

void TwoLevelMethod::require_loadable_memory(const State& state) const {
  MethodMemory::require_loadable_memory(state);
  inner_->require_loadable(state.nested("inner"));
}

void TwoLevelMethod::do_resize(Communicator* /*next*/) {
  throw InvalidConfig(name() + " on two levels keeps its ranks, hosts " + levels_.hosts() +
                      ": it cannot be resized; start a new run without its memory, or use one level");
}

void TwoLevelMethod::on_begin() {
  const StepKey step = key();
  inner_->begin_exchange({.seed = seed_of_slice(step.seed, levels_.within().rank()), .step = step.step});
}

View<float> TwoLevelMethod::own_range(const Chunk& chunk) const {
  const std::uint64_t begin = offsets_[chunk.first_tensor];
  return own_.view(offsets_.back()).sub(begin, offsets_[chunk.first_tensor + chunk.tensor_count] - begin);
}

Exchange& TwoLevelMethod::start_chunk(const Chunk& chunk, GradientView gradient, StatusView status, StepReport&) {
  gradients_[chunk.number] = gradient;
  ScatteredMean& mean = channel_of_[chunk.number]->mean;
  mean.start(gradient, own_range(chunk), status);
  return mean;
}

/// The inner method starts its exchanges in an order of its own, however chunks end here.
void TwoLevelMethod::finish_chunk(const Chunk& chunk, GradientView, StatusView, StepReport&) {
  const View<float> own = own_.view(offsets_.back());
  parts_.clear();
  for (std::uint32_t i = chunk.first_tensor; i < chunk.first_tensor + chunk.tensor_count; ++i) {
    parts_.push_back({i, own.sub(offsets_[i], slices_[i].size)});
  }
  inner_->exchange().add(parts_);
}

std::uint64_t TwoLevelMethod::poll() {
  pipeline().poll();
  inner_->exchange().poll();
  return 0;
}

/// What a chunk's exchange found counts on this machine alone; the inner method's verdict is the same on all machines.
/// Which rank it was is found by whoever had the value in its own gradient.
void TwoLevelMethod::second_level(Status& status, StepReport& report) {
  inner_->exchange().finish();
  status.nonfinite_rank = 0;
  status.nonfinite = finite_in_host(inner_->exchange().status().nonfinite == 0) ? 0 : 1;
  if (status.nonfinite == 0) gather(report);
}

bool TwoLevelMethod::finite_in_host(bool mine) {
  const std::uint32_t finite = mine ? 1 : 0;
  verdicts_.resize(static_cast<std::size_t>(levels_.within().size()));
  levels_.within()
      .all_gather(as_bytes(View<const std::uint32_t>(&finite, 1)), as_writable_bytes(View<std::uint32_t>(verdicts_)))
      .wait();
  return std::find(verdicts_.begin(), verdicts_.end(), 0U) == verdicts_.end();
}

void TwoLevelMethod::gather(StepReport& report) {
  const auto chunks = pipeline().chunks();
  const StatusView statuses = gather_statuses_.view(channels_.size());
  clear_status(place(), statuses);
  const auto end = [&](const Chunk& chunk) {
    GatheredRanges& gathered = channel_of_[chunk.number]->gathered;
    gathered.finish();
    report.within += gathered.traffic();
  };
  for (const Chunk& chunk : chunks) {
    if (chunk.number >= channels_.size()) end(chunks[chunk.number - channels_.size()]);
    channel_of_[chunk.number]->gathered.start(own_range(chunk), gradients_[chunk.number],
                                              statuses.sub(chunk.number % channels_.size(), 1));
  }
  for (const Chunk& chunk : chunks.last(std::min(chunks.size(), channels_.size()))) end(chunk);
}

void TwoLevelMethod::count(const StepReport& between) {
  report().traffic += between.traffic;
  report().select_seconds += between.select_seconds;
  report().bits = between.bits;
  report().extra = between.extra;
}

}  // namespace laconic
