#include "transport/mpi/poster.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "laconic/mpi.h"

namespace laconic::mpi {
namespace {

/// Calls body(offset, count) for pieces of at most `largest`.
template <class Body>
void in_pieces(std::uint64_t total, std::uint64_t largest, Body&& body) {
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

Poster::Poster(const Link& link, MPI_Comm communicator, std::uint64_t limit)
    : link_(link), communicator_(communicator), limit_(limit), entries_(limit / sizeof(float)) {
  std::lock_guard lock(mpi_mutex());
  tags_ = tags_of(communicator);
}

bool Poster::fits(std::uint64_t part_bytes) const {
  return part_bytes <= limit_ / static_cast<std::uint64_t>(link_.size());
}

void Poster::all_reduce(MpiOperation& operation, const Call& call) const {
  auto* values = reinterpret_cast<float*>(call.receive);
  in_pieces(call.bytes / sizeof(float), entries_, [&](std::uint64_t offset, int count) {
    operation.require(MPI_Iallreduce(MPI_IN_PLACE, values + offset, count, MPI_FLOAT, operator_of(call.reduction),
                                     communicator_, operation.add()));
  });
}

void Poster::reduce_scatter(MpiOperation& operation, const Call& call) const {
  const auto* values = reinterpret_cast<const float*>(call.send);
  auto* chunk = reinterpret_cast<float*>(call.receive);
  const std::uint64_t entries = call.bytes / sizeof(float);
  if (entries == 0) return;
  if (fits(call.bytes)) {
    operation.require(MPI_Ireduce_scatter_block(values, chunk, static_cast<int>(entries), MPI_FLOAT, MPI_SUM,
                                                communicator_, operation.add()));
    return;
  }
  for (int root = 0; root < link_.size(); ++root) {
    const float* part = values + static_cast<std::uint64_t>(root) * entries;
    in_pieces(entries, entries_, [&](std::uint64_t offset, int count) {
      operation.require(
          MPI_Ireduce(part + offset, chunk + offset, count, MPI_FLOAT, MPI_SUM, root, communicator_, operation.add()));
    });
  }
}

void Poster::all_gather(MpiOperation& operation, const Call& call) const {
  if (call.bytes == 0) return;
  if (fits(call.bytes)) {
    const int count = static_cast<int>(call.bytes);
    std::byte* place = call.receive + static_cast<std::uint64_t>(link_.rank()) * call.bytes;
    if (place != call.send) std::memcpy(place, call.send, call.bytes);
    operation.require(
        MPI_Iallgather(MPI_IN_PLACE, count, MPI_BYTE, call.receive, count, MPI_BYTE, communicator_, operation.add()));
    return;
  }
  pairwise(
      operation, [&](std::uint64_t) { return std::pair(call.send, call.bytes); },
      [&](std::uint64_t r) { return std::pair(call.receive + r * call.bytes, call.bytes); });
}

void Poster::all_gather_varying(MpiOperation& operation, const Call& call) const {
  const std::uint64_t own = call.receive_parts[static_cast<std::size_t>(link_.rank())].bytes;
  pairwise(
      operation, [&](std::uint64_t) { return std::pair(call.send, own); },
      [&](std::uint64_t r) {
        return std::pair(call.receive + call.receive_parts[r].offset, call.receive_parts[r].bytes);
      });
}

void Poster::all_to_all(MpiOperation& operation, const Call& call) const {
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

void Poster::all_to_all_varying(MpiOperation& operation, const Call& call) const {
  pairwise(
      operation,
      [&](std::uint64_t r) { return std::pair(call.send + call.send_parts[r].offset, call.send_parts[r].bytes); },
      [&](std::uint64_t r) {
        return std::pair(call.receive + call.receive_parts[r].offset, call.receive_parts[r].bytes);
      });
}

template <class Sent, class Received>
void Poster::pairwise(MpiOperation& operation, Sent&& sent, Received&& received) const {
  const auto ranks = static_cast<std::uint64_t>(link_.size());
  const auto own = static_cast<std::uint64_t>(link_.rank());
  const int tag = static_cast<int>(operation.sequence() % tags_);  // pieces of one pair arrive in the order sent
  for (std::uint64_t step = 1; step < ranks; ++step) {
    const std::uint64_t source = (own + ranks - step) % ranks;
    const std::pair<std::byte*, std::uint64_t> part = received(source);
    in_pieces(part.second, limit_, [&](std::uint64_t offset, int count) {
      operation.require(MPI_Irecv(part.first + offset, count, MPI_BYTE, static_cast<int>(source), tag, communicator_,
                                  operation.add_receive()));
    });
  }
  for (std::uint64_t step = 1; step < ranks; ++step) {
    const std::uint64_t target = (own + step) % ranks;
    const std::pair<const std::byte*, std::uint64_t> part = sent(target);
    in_pieces(part.second, limit_, [&](std::uint64_t offset, int count) {
      operation.require(MPI_Isend(part.first + offset, count, MPI_BYTE, static_cast<int>(target), tag, communicator_,
                                  operation.add()));
    });
  }
  const std::pair<const std::byte*, std::uint64_t> kept = sent(own);
  std::byte* place = received(own).first;
  if (kept.second != 0 && place != kept.first) std::memcpy(place, kept.first, kept.second);
}

void Poster::broadcast(MpiOperation& operation, const Call& call) const {
  in_pieces(call.bytes, limit_, [&](std::uint64_t offset, int count) {
    operation.require(MPI_Ibcast(call.receive + offset, count, MPI_BYTE, call.root, communicator_, operation.add()));
  });
}

void Poster::barrier(MpiOperation& operation) const { operation.require(MPI_Ibarrier(communicator_, operation.add())); }

}  // namespace laconic::mpi
