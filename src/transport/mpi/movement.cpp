#include "transport/mpi/movement.h"

#include <algorithm>
#include <utility>

#include "transport/copy_bytes.h"

namespace laconic::mpi {
namespace {

/// Calls body(offset, count) for fragments of at most `largest`.
template <class Body>
void in_fragments(std::uint64_t total, std::uint64_t largest, Body&& body) {
  for (std::uint64_t offset = 0; offset < total; offset += largest) {
    body(offset, static_cast<int>(std::min(largest, total - offset)));
  }
}

MPI_Op operator_of(Reduction reduction) { return reduction == Reduction::sum ? MPI_SUM : MPI_MAX; }

std::uint64_t tags_of(MPI_Comm communicator) {
  int* largest = nullptr;
  int found = 0;
  MPI_Comm_get_attr(communicator, MPI_TAG_UB, &largest, &found);
  return found != 0 ? static_cast<std::uint64_t>(*largest) + 1 : 32768;
}

}  // namespace

Movement::Movement(const World& world, MPI_Comm communicator)
    : communicator_(communicator),
      limit_(world.options().max_message_bytes),
      entries_(limit_ / sizeof(float)) {
  std::lock_guard lock(mpi_mutex());
  require_success(MPI_Comm_rank(communicator, &rank_), "MPI_Comm_rank");
  require_success(MPI_Comm_size(communicator, &size_), "MPI_Comm_size");
  tags_ = tags_of(communicator);
}

void Movement::post(MpiOperation& operation, const Call& call) const {
  switch (call.kind) {
    case CallKind::all_reduce: return all_reduce(operation, call);
    case CallKind::reduce_scatter: return reduce_scatter(operation, call);
    case CallKind::all_gather: return all_gather(operation, call);
    case CallKind::all_gather_varying: return all_gather_varying(operation, call);
    case CallKind::all_to_all: return all_to_all(operation, call);
    case CallKind::all_to_all_varying: return all_to_all_varying(operation, call);
    case CallKind::broadcast: return broadcast(operation, call);
    case CallKind::barrier: return barrier(operation);
  }
}

bool Movement::fits(std::uint64_t bytes_per_rank) const {
  return bytes_per_rank <= limit_ / static_cast<std::uint64_t>(size_);
}

void Movement::all_reduce(MpiOperation& operation, const Call& call) const {
  if (size_ == 1) return;
  auto* values = reinterpret_cast<float*>(call.receive);
  in_fragments(call.bytes / sizeof(float), entries_, [&](std::uint64_t offset, int count) {
    operation.require(MPI_Iallreduce(MPI_IN_PLACE, values + offset, count, MPI_FLOAT, operator_of(call.reduction),
                                     communicator_, operation.add()));
  });
}

void Movement::reduce_scatter(MpiOperation& operation, const Call& call) const {
  if (size_ == 1) return copy_bytes(call.receive, call.send, call.bytes);
  const auto* values = reinterpret_cast<const float*>(call.send);
  auto* own = reinterpret_cast<float*>(call.receive);
  const std::uint64_t entries = call.bytes / sizeof(float);
  if (entries == 0) return;
  if (fits(call.bytes)) {
    operation.require(MPI_Ireduce_scatter_block(values, own, static_cast<int>(entries), MPI_FLOAT, MPI_SUM,
                                                communicator_, operation.add()));
    return;
  }
  for (int root = 0; root < size_; ++root) {
    const float* part = values + static_cast<std::uint64_t>(root) * entries;
    in_fragments(entries, entries_, [&](std::uint64_t offset, int count) {
      operation.require(
          MPI_Ireduce(part + offset, own + offset, count, MPI_FLOAT, MPI_SUM, root, communicator_, operation.add()));
    });
  }
}

void Movement::all_gather(MpiOperation& operation, const Call& call) const {
  if (size_ == 1) return copy_bytes(call.receive, call.send, call.bytes);
  if (call.bytes == 0) return;
  if (fits(call.bytes)) {
    const int count = static_cast<int>(call.bytes);
    copy_bytes(call.receive + static_cast<std::uint64_t>(rank_) * call.bytes, call.send, call.bytes);
    operation.require(
        MPI_Iallgather(MPI_IN_PLACE, count, MPI_BYTE, call.receive, count, MPI_BYTE, communicator_, operation.add()));
    return;
  }
  pairwise(
      operation, [&](std::uint64_t) { return std::pair(call.send, call.bytes); },
      [&](std::uint64_t r) { return std::pair(call.receive + r * call.bytes, call.bytes); });
}

void Movement::all_gather_varying(MpiOperation& operation, const Call& call) const {
  const std::uint64_t own = call.receive_ranges[static_cast<std::size_t>(rank_)].bytes;
  pairwise(
      operation, [&](std::uint64_t) { return std::pair(call.send, own); },
      [&](std::uint64_t r) {
        return std::pair(call.receive + call.receive_ranges[r].offset, call.receive_ranges[r].bytes);
      });
}

void Movement::all_to_all(MpiOperation& operation, const Call& call) const {
  if (size_ == 1) return copy_bytes(call.receive, call.send, call.bytes);
  if (call.bytes == 0) return;
  if (fits(call.bytes)) {
    const int count = static_cast<int>(call.bytes);
    operation.require(
        MPI_Ialltoall(call.send, count, MPI_BYTE, call.receive, count, MPI_BYTE, communicator_, operation.add()));
    return;
  }
  pairwise(
      operation, [&](std::uint64_t r) { return std::pair(call.send + r * call.bytes, call.bytes); },
      [&](std::uint64_t r) { return std::pair(call.receive + r * call.bytes, call.bytes); });
}

void Movement::all_to_all_varying(MpiOperation& operation, const Call& call) const {
  pairwise(
      operation,
      [&](std::uint64_t r) { return std::pair(call.send + call.send_ranges[r].offset, call.send_ranges[r].bytes); },
      [&](std::uint64_t r) {
        return std::pair(call.receive + call.receive_ranges[r].offset, call.receive_ranges[r].bytes);
      });
}

template <class Sent, class Received>
void Movement::pairwise(MpiOperation& operation, Sent&& sent, Received&& received) const {
  const auto ranks = static_cast<std::uint64_t>(size_);
  const auto own = static_cast<std::uint64_t>(rank_);
  const int tag = static_cast<int>(operation.sequence() % tags_);  // fragments of one pair arrive in the order sent
  for (std::uint64_t step = 1; step < ranks; ++step) {
    const std::uint64_t source = (own + ranks - step) % ranks;
    const std::pair<std::byte*, std::uint64_t> part = received(source);
    in_fragments(part.second, limit_, [&](std::uint64_t offset, int count) {
      operation.require(MPI_Irecv(part.first + offset, count, MPI_BYTE, static_cast<int>(source), tag, communicator_,
                                  operation.add_receive()));
    });
  }
  for (std::uint64_t step = 1; step < ranks; ++step) {
    const std::uint64_t target = (own + step) % ranks;
    const std::pair<const std::byte*, std::uint64_t> part = sent(target);
    in_fragments(part.second, limit_, [&](std::uint64_t offset, int count) {
      operation.require(MPI_Isend(part.first + offset, count, MPI_BYTE, static_cast<int>(target), tag, communicator_,
                                  operation.add()));
    });
  }
  const std::pair<const std::byte*, std::uint64_t> kept = sent(own);
  copy_bytes(received(own).first, kept.first, kept.second);
}

void Movement::broadcast(MpiOperation& operation, const Call& call) const {
  if (size_ == 1) return;
  in_fragments(call.bytes, limit_, [&](std::uint64_t offset, int count) {
    operation.require(MPI_Ibcast(call.receive + offset, count, MPI_BYTE, call.root, communicator_, operation.add()));
  });
}

void Movement::barrier(MpiOperation& operation) const {
  operation.require(MPI_Ibarrier(communicator_, operation.add()));
}

}  // namespace laconic::mpi
