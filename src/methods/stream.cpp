#include "methods/stream.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "kernels/elementwise/elementwise.h"
#include "laconic/error.h"

namespace laconic {
namespace {

/// Exchanges in flight at a time: enough that a rank which waits for one finds others to go on with.
constexpr std::size_t kMostLanes = 8;

}  // namespace

void Arrivals::reset(std::size_t tensors) {
  arrived_.assign(tensors, false);
  parts_.assign(tensors, {});
}

void Arrivals::take(const std::string& method, std::span<const Tensor> tensors, std::span<const TensorPart> parts) {
  std::size_t taken = 0;
  try {
    for (; taken < parts.size(); ++taken) take_one(method, tensors, parts[taken]);
  } catch (...) {
    for (const TensorPart& part : parts.first(taken)) arrived_[part.tensor] = false;
    throw;
  }
}

void Arrivals::take_one(const std::string& method, std::span<const Tensor> tensors, const TensorPart& part) {
  if (part.tensor >= tensors.size()) {
    throw InvalidConfig(method + ": tensor " + std::to_string(part.tensor) + " was added, there are " +
                        std::to_string(tensors.size()) + ": tensors count from 0 in registration order");
  }
  const Tensor& tensor = tensors[part.tensor];
  require_size(tensor.name, part.values.size(), tensor.size);
  if (arrived_[part.tensor]) throw InvalidConfig(method + ": tensor " + tensor.name + " was added twice in a step");
  arrived_[part.tensor] = true;
  parts_[part.tensor] = part.values;
}

void Arrivals::require_all(const std::string& method, std::span<const Tensor> tensors) const {
  const auto missing = std::find(arrived_.begin(), arrived_.end(), false);
  if (missing == arrived_.end()) return;
  const auto tensor = static_cast<std::size_t>(missing - arrived_.begin());
  throw InvalidConfig(method + ": tensor " + tensors[tensor].name + " did not arrive in this step: add it");
}

JoinedParts::JoinedParts(const Method& method, std::span<const Tensor> tensors)
    : method_(method), tensors_(tensors), offsets_{0} {
  for (const Tensor& tensor : tensors) offsets_.push_back(offsets_.back() + tensor.size);
}

void JoinedParts::begin() {
  arrivals_.reset(tensors_.size());
  copied_.assign(tensors_.size(), false);
  any_copied_ = false;
  origin_ = 0;
}

std::span<const TensorPart> JoinedParts::add(Place& place, std::span<const TensorPart> parts) {
  arrivals_.take(method_.name(), tensors_, parts);
  placed_.clear();
  for (const TensorPart& part : parts) {
    const std::uint64_t offset = offsets_[part.tensor];
    const std::uintptr_t origin = reinterpret_cast<std::uintptr_t>(part.values.data()) - offset * sizeof(float);
    placed_.push_back(part);
    if (part.values.empty()) continue;
    if (origin_ == 0) origin_ = origin;
    if (origin == origin_) continue;
    copies_.reserve(place, offsets_.back());
    placed_.back().values = copies_.view().sub(offset, part.values.size());
    copy(place, part.values, placed_.back().values);
    copied_[part.tensor] = true;
    any_copied_ = true;
  }
  return placed_;
}

void JoinedParts::require_all() const { arrivals_.require_all(method_.name(), tensors_); }

View<float> JoinedParts::flat(Place& place) {
  if (!any_copied_) return {reinterpret_cast<float*>(origin_), offsets_.back(), place.device()};
  const View<float> flat = copies_.view(offsets_.back());
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (!copied_[i]) copy(place, arrivals_.of(i), flat.sub(offsets_[i], tensors_[i].size));
  }
  return flat;
}

ChunkStream::ChunkStream(Method& method, std::uint64_t full) : method_(method), chunk_of_(method.tensors().size()) {
  const auto& tensors = method.tensors();
  auto end = static_cast<std::uint32_t>(tensors.size());
  std::uint64_t offset = method.parameters();
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
  statuses_.resize(chunks_.size());
}

void ChunkStream::join(Communicator& communicator) {
  communicator_ = &communicator;
  if (chunks_.size() == 1) return;
  while (lanes_.size() < std::min(chunks_.size(), kMostLanes)) lanes_.push_back(communicator.duplicate());
}

void ChunkStream::leave() {
  lanes_.clear();
  communicator_ = nullptr;
}

Communicator& ChunkStream::lane(const Chunk& chunk) const {
  return lanes_.empty() ? *communicator_ : *lanes_[chunk.number % lanes_.size()];
}

Layout ChunkStream::layout(const Chunk& chunk) const {
  std::vector<std::uint64_t> sizes;
  for (std::uint32_t i = 0; i < chunk.tensor_count; ++i) {
    sizes.push_back(method_.tensors()[chunk.first_tensor + i].size);
  }
  return Layout(std::span<const std::uint64_t>(sizes), chunk.first_tensor);
}

void ChunkStream::begin(bool hold, StepReport& report) {
  hold_ = hold || chunks_.size() == 1;
  report_ = &report;
  arrivals_.reset(method_.tensors().size());
  for (const Chunk& chunk : chunks_) {
    flights_[chunk.number] = {};
    flights_[chunk.number].missing = chunk.tensor_count;
    statuses_[chunk.number] = {};
  }
  read_ = started_ = first_open_ = 0;
  entries_done_ = 0;
  method_.bad_tensor_ = Method::kNoTensor;
  for (const auto& lane : lanes_) lane->set_timeout(communicator_->timeout());
}

void ChunkStream::add(std::span<const TensorPart> parts) {
  arrivals_.take(method_.name(), method_.tensors(), parts);
  for (const TensorPart& part : parts) --flights_[chunk_of_[part.tensor]].missing;
  poll();
}

std::uint64_t ChunkStream::poll() {
  for (std::size_t i = first_open_; i < started_; ++i) {
    if (!flights_[i].done && flights_[i].exchange->advance()) complete(chunks_[i]);
  }
  if (!hold_) start_ready();
  return entries_done_;
}

void ChunkStream::start_ready() {
  while (started_ < chunks_.size() && flights_[started_].missing == 0) {
    if (started_ >= lane_count() && !flights_[started_ - lane_count()].done) return;
    if (read_ == started_) read(chunks_[started_]);
    start(chunks_[started_]);
  }
}

void ChunkStream::require_all() const { arrivals_.require_all(method_.name(), method_.tensors()); }

void ChunkStream::finish() {
  if (hold_) {
    hold_ = false;
    for (const Chunk& chunk : chunks_) read(chunk);
  }
  poll();
  while (first_open_ < chunks_.size()) {
    const Chunk& oldest = chunks_[first_open_];
    if (flights_[oldest.number].exchange->wait_for_stage()) complete(oldest);
    poll();
  }
}

/// Tensors that lie one after another, as in a flat view, are worked on where they are.
void ChunkStream::read(const Chunk& chunk) {
  LACONIC_CHECK(read_ == chunk.number);
  Flight& flight = flights_[chunk.number];
  const auto part = [&](std::uint32_t i) { return arrivals_.of(chunk.first_tensor + i); };
  for (std::uint32_t i = 1; i < chunk.tensor_count; ++i) {
    flight.copied = flight.copied || part(i).data() != part(i - 1).data() + part(i - 1).size();
  }
  if (flight.copied) {
    copies_.reserve(method_.place(), method_.parameters());
    flight.gradient = copies_.view(method_.parameters()).sub(chunk.offset, chunk.size);
    std::uint64_t offset = 0;
    for (std::uint32_t i = 0; i < chunk.tensor_count; ++i) {
      copy(method_.place(), part(i), flight.gradient.sub(offset, part(i).size()));
      offset += part(i).size();
    }
  } else if (chunk.tensor_count > 0) {
    flight.gradient = View<float>(part(0).data(), chunk.size, part(0).device());
  }
  ++read_;
  method_.read_chunk(chunk, flight.gradient, view_of(statuses_[chunk.number]), *report_);
}

void ChunkStream::start(const Chunk& chunk) {
  LACONIC_CHECK(started_ == chunk.number);
  Flight& flight = flights_[chunk.number];
  Status& status = statuses_[chunk.number];
  flight.exchange = &method_.start_chunk(chunk, flight.gradient, view_of(status), *report_);
  ++started_;
  method_.note_nonfinite(chunk, flight.gradient, status);
}

void ChunkStream::complete(const Chunk& chunk) {
  Flight& flight = flights_[chunk.number];
  method_.finish_chunk(chunk, flight.gradient, view_of(statuses_[chunk.number]), *report_);
  report_->traffic += flight.exchange->traffic();
  if (flight.copied) {
    std::uint64_t offset = 0;
    for (std::uint32_t i = 0; i < chunk.tensor_count; ++i) {
      const View<float> part = arrivals_.of(chunk.first_tensor + i);
      copy(method_.place(), flight.gradient.sub(offset, part.size()), part);
      offset += part.size();
    }
  }
  flight.done = true;
  entries_done_ += chunk.size;
  while (first_open_ < started_ && flights_[first_open_].done) ++first_open_;
}

Status ChunkStream::status() const {
  Status all;
  for (const Status& status : statuses_) {
    all.nonfinite |= status.nonfinite;
    if (status.nonfinite_rank == 0) continue;
    if (all.nonfinite_rank == 0 || status.nonfinite_rank < all.nonfinite_rank) {
      all.nonfinite_rank = status.nonfinite_rank;
    }
  }
  return all;
}

void ChunkStream::clear_parts() {
  for (std::size_t i = 0; i < method_.tensors().size(); ++i) fill(method_.place(), 0.0F, arrivals_.of(i));
}

}  // namespace laconic
