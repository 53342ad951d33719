#include "methods/pipeline.h"

#include <algorithm>

#include "base/check.h"
#include "base/transfer.h"
#include "kernels/convert/convert.h"
#include "kernels/elementwise/elementwise.h"
#include "methods/core.h"

namespace laconic {
namespace {

/// Exchanges in flight at a time: enough that a rank which waits for one finds others to go on with.
constexpr std::size_t kMostChannels = 8;

}  // namespace

ChunkPipeline::ChunkPipeline(MethodCore& core, ChunkedStep& step, std::uint64_t full)
    : core_(core), step_(step), chunk_of_(core.tensors().size()) {
  const auto& tensors = core.tensors();
  auto end = static_cast<std::uint32_t>(tensors.size());
  std::uint64_t offset = core.parameters();
  do {
    Chunk chunk{.number = chunks_.size(), .first_tensor = end, .offset = offset};
    while (chunk.first_tensor > 0 && (full == 0 || chunk.size < full || tensors[chunk.first_tensor - 1].size == 0)) {
      chunk.size += tensors[--chunk.first_tensor].size;
      chunk_of_[chunk.first_tensor] = static_cast<std::uint32_t>(chunk.number);
    }
    chunk.tensor_count = end - chunk.first_tensor;
    chunk.offset -= chunk.size;
    end = chunk.first_tensor;
    offset = chunk.offset;
    chunks_.push_back(chunk);
  } while (end > 0);
  flights_.resize(chunks_.size());
  statuses_.reserve(core.place(), chunks_.size());
  read_statuses_.resize(chunks_.size());
}

void ChunkPipeline::join(Communicator& communicator) {
  communicator_ = &communicator;
  scheduled_ = chunks_.size() > 1 && !communicator.duplicates_overlap();
  if (chunks_.size() == 1) return;
  const std::size_t count = scheduled_ ? 1 : std::min(chunks_.size(), kMostChannels);
  while (channels_.size() < count) channels_.push_back(communicator.duplicate());
}

void ChunkPipeline::leave() {
  channels_.clear();
  communicator_ = nullptr;
}

Communicator& ChunkPipeline::channel(const Chunk& chunk) const {
  return channels_.empty() ? *communicator_ : *channels_[chunk.number % channels_.size()];
}

Layout ChunkPipeline::layout(const Chunk& chunk) const {
  std::vector<std::uint64_t> sizes;
  for (std::uint32_t i = 0; i < chunk.tensor_count; ++i) {
    sizes.push_back(core_.tensors()[chunk.first_tensor + i].size);
  }
  return Layout(std::span<const std::uint64_t>(sizes), chunk.first_tensor);
}

void ChunkPipeline::begin(bool hold, StepReport& report) {
  hold_ = hold || chunks_.size() == 1;
  report_ = &report;
  flat_ = {};
  gradients_.assign(core_.tensors().size(), {});
  for (const Chunk& chunk : chunks_) {
    flights_[chunk.number] = {};
    flights_[chunk.number].missing = chunk.tensor_count;
  }
  clear_status(core_.place(), statuses_.view(chunks_.size()));
  status_ = {};
  read_ = started_ = first_open_ = next_ = 0;
  entries_done_ = 0;
  core_.forget_nonfinite();
  for (const auto& channel : channels_) channel->set_timeout(communicator_->timeout());
}

void ChunkPipeline::add(GradientView gradient) {
  flat_ = gradient;
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    gradients_[i] = gradient.sub(offset, core_.tensors()[i].size);
    offset += gradients_[i].size();
  }
  for (Flight& flight : flights_) flight.missing = 0;
  poll();
}

void ChunkPipeline::add(std::span<const TensorPart> parts) {
  for (const TensorPart& part : parts) {
    gradients_[part.tensor] = part.values;
    --flights_[chunk_of_[part.tensor]].missing;
  }
  poll();
}

std::uint64_t ChunkPipeline::poll() {
  if (scheduled_) {
    while (!hold_ && follow_schedule(false)) continue;
    // The rest have no turn yet, but their messages move on, and a failure is seen.
    for (std::size_t i = first_open_; i < started_; ++i) {
      if (!flights_[i].done) flights_[i].exchange->is_ready();
    }
    return entries_done_;
  }
  for (std::size_t i = first_open_; i < started_; ++i) {
    if (!flights_[i].done && flights_[i].exchange->advance()) complete(chunks_[i]);
  }
  if (!hold_) start_ready();
  return entries_done_;
}

void ChunkPipeline::start_ready() {
  while (started_ < chunks_.size() && flights_[started_].missing == 0) {
    if (started_ >= channel_count() && !flights_[started_ - channel_count()].done) return;
    if (read_ == started_) read(chunks_[started_]);
    start(chunks_[started_]);
  }
}

/// Does what comes next in the schedule. False if that is not ready, or if nothing is left.
bool ChunkPipeline::follow_schedule(bool wait) {
  while (next_ < started_ && flights_[next_].done) ++next_;
  if (next_ < started_) {
    Exchange& exchange = *flights_[next_].exchange;
    if (!wait && !exchange.is_ready()) return false;
    if (exchange.wait_for_stage()) complete(chunks_[next_]);
    ++next_;
    return true;
  }
  if (first_open_ == chunks_.size()) return false;
  if (started_ < chunks_.size()) {
    if (flights_[started_].missing > 0) return false;
    if (read_ == started_) read(chunks_[started_]);
    start(chunks_[started_]);
  }
  next_ = first_open_;
  return true;
}

void ChunkPipeline::finish() {
  if (hold_) {
    hold_ = false;
    for (const Chunk& chunk : chunks_) read(chunk);
  }
  while (scheduled_ && follow_schedule(true)) continue;
  poll();
  while (first_open_ < chunks_.size()) {
    const Chunk& oldest = chunks_[first_open_];
    if (flights_[oldest.number].exchange->wait_for_stage()) complete(oldest);
    poll();
  }
  read_statuses();
  if (!step_.has_second_level()) return;
  step_.second_level(status_, *report_);
  for (const Chunk& chunk : chunks_) hand_back(chunk);
}

void ChunkPipeline::read(const Chunk& chunk) {
  LACONIC_CHECK(read_ == chunk.number);
  Flight& flight = flights_[chunk.number];
  join_tensors(chunk, flight);
  ++read_;
  step_.read_chunk(chunk, flight.gradient, status_of(chunk), *report_);
}

/// Whether the method can work on the tensors where they are: they lie one after another and have one type, which it
/// takes.
bool ChunkPipeline::can_use_in_place(std::span<const GradientView> tensors) const {
  if (!tensors[0].is_float32() && !step_.takes_16bit()) return false;
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    const GradientView& before = tensors[i - 1];
    if (tensors[i].type() != before.type() || tensors[i].data() != before.data() + before.size_bytes()) return false;
  }
  return true;
}

void ChunkPipeline::join_tensors(const Chunk& chunk, Flight& flight) {
  if (chunk.tensor_count == 0) {
    flight.gradient = View<float>(nullptr, 0, core_.place().device());
    return;
  }
  const std::span<const GradientView> tensors(&gradients_[chunk.first_tensor], chunk.tensor_count);
  if (can_use_in_place(tensors)) {
    flight.gradient = {tensors[0].data(), tensors[0].type(), chunk.size, tensors[0].device()};
    return;
  }
  flight.copied = true;
  copies_.reserve(core_.place(), core_.parameters());
  flight.gradient = copies_.view(core_.parameters()).sub(chunk.offset, chunk.size);
  std::uint64_t offset = 0;
  for (const GradientView& tensor : tensors) {
    convert(core_.place(), tensor, flight.gradient.sub(offset, tensor.size()));
    offset += tensor.size();
  }
}

void ChunkPipeline::start(const Chunk& chunk) {
  LACONIC_CHECK(started_ == chunk.number);
  Flight& flight = flights_[chunk.number];
  flight.exchange = &step_.start_chunk(chunk, flight.gradient, status_of(chunk), *report_);
  ++started_;
  core_.note_nonfinite(chunk, flight.gradient, flight.exchange->status_after_start());
}

void ChunkPipeline::complete(const Chunk& chunk) {
  Flight& flight = flights_[chunk.number];
  step_.finish_chunk(chunk, flight.gradient, status_of(chunk), *report_);
  if (step_.has_second_level()) {
    report_->within += flight.exchange->traffic();
  } else {
    report_->traffic += flight.exchange->traffic();
    hand_back(chunk);
  }
  flight.done = true;
  entries_done_ += chunk.size;
  while (first_open_ < started_ && flights_[first_open_].done) ++first_open_;
}

/// Copies the aggregate of a chunk that was copied to where its tensors are.
void ChunkPipeline::hand_back(const Chunk& chunk) {
  const Flight& flight = flights_[chunk.number];
  if (!flight.copied) return;
  std::uint64_t offset = 0;
  for (std::uint32_t i = 0; i < chunk.tensor_count; ++i) {
    const GradientView tensor = gradients_[chunk.first_tensor + i];
    convert(core_.place(), flight.gradient.sub(offset, tensor.size()), tensor);
    offset += tensor.size();
  }
}

void ChunkPipeline::read_statuses() {
  copy_to_cpu<Status>(core_.place(), statuses_.view(chunks_.size()), read_statuses_.data());
  for (const Status& status : read_statuses_) {
    status_.nonfinite |= status.nonfinite;
    if (status.nonfinite_rank == 0) continue;
    if (status_.nonfinite_rank == 0 || status.nonfinite_rank < status_.nonfinite_rank) {
      status_.nonfinite_rank = status.nonfinite_rank;
    }
  }
}

void ChunkPipeline::clear_gradients() {
  if (!flat_.empty()) return clear(core_.place(), flat_);
  for (const GradientView& gradient : gradients_) {
    if (!gradient.empty()) clear(core_.place(), gradient);
  }
}

}  // namespace laconic
