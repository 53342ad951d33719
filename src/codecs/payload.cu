#include "base/cuda/batches.h"
#include "base/cuda/words.h"
#include "base/transfer.h"
#include "codecs/body.h"
#include "codecs/header_words.h"
#include "codecs/twins.h"
#include "kernels/checksum/loops.h"

// Header and checksum of payloads on a device, and what several codecs need there.

namespace laconic::cuda {
namespace {

constexpr std::size_t kChecksumOffset = offsetof(PayloadHeader, checksum);

__global__ void header_kernel(PayloadHeader header, bool is_written, std::byte* payload, Status* status) {
  if (is_written) header = load_header(payload);
  header.magic = kPayloadMagic;
  header.version = kWireVersion;
  if (status->nonfinite != 0) header.flags |= kNonfiniteFlag;
  header.checksum = 0;
  store_header(header, payload);
  status->payload_bytes = header.payload_bytes;
}

void put_header_and_checksum(Place& place, const PayloadHeader& header, bool is_written, View<std::byte> payload,
                             StatusView status) {
  const Launch launch(place, "seal_payload");
  header_kernel<<<1, 1, 0, launch.stream()>>>(header, is_written, payload.data(), status.data());
  launch.check();
  checksum(place, payload, payload.data() + offsetof(PayloadHeader, payload_bytes), kChecksumOffset,
           body_of<std::uint32_t>(payload, kChecksumOffset, 1));
}

__global__ void inspect_kernel(const std::byte* payload, Inspection* found) {
  found->header = load_header(payload);
  found->wrong_word = kNoWord;
}

/// The words of check i are dealt out to the threads from thread i on.
__global__ void words_kernel(const std::byte* payload, const __grid_constant__ Batch<WordCheck> checks, unsigned count,
                             unsigned first, Inspection* found) {
  const std::uint64_t thread = thread_index();
  const std::uint64_t threads = std::uint64_t{gridDim.x} * kThreads;
  for (unsigned i = 0; i < count; ++i) {
    const WordCheck& check = checks[i];
    for (std::uint64_t word = thread >= i ? thread - i : thread + threads - i; word < check.words; word += threads) {
      if (!check.allows(load_word(payload + check.offset + word * sizeof(std::uint32_t)))) {
        atomicMin(&found->wrong_word, first + i);
      }
    }
  }
}

__global__ void nonfinite_kernel(Status* status) { status->nonfinite = 1; }

__global__ void count_kernel(std::uint64_t count, Status* status) { status->count = count; }

__global__ void norms_kernel(const float* norms, std::uint64_t count, float* to, Status* status) {
  const std::uint64_t i = thread_index();
  if (i >= count) return;
  const float norm = norms[i];
  to[i] = is_nonfinite(norm) ? 0.0F : norm;
  if (is_nonfinite(norm)) status->nonfinite = 1;
}

__global__ void flagged_kernel(const __grid_constant__ Batch<const std::byte*> payloads, unsigned count,
                               std::uint32_t first_rank, bool only_if_none, Status* status) {
  __shared__ std::uint32_t lowest;
  if (threadIdx.x == 0) lowest = count;
  __syncthreads();
  if (threadIdx.x < count) {
    const auto flags = static_cast<std::uint8_t>(payloads[threadIdx.x][offsetof(PayloadHeader, flags)]);
    if ((flags & kNonfiniteFlag) != 0) atomicMin(&lowest, threadIdx.x);
  }
  __syncthreads();
  if (threadIdx.x != 0 || lowest == count || (only_if_none && status->nonfinite_rank != 0)) return;
  const std::uint32_t candidate = first_rank + lowest + 1;
  status->nonfinite = 1;
  if (status->nonfinite_rank == 0 || candidate < status->nonfinite_rank) status->nonfinite_rank = candidate;
}

__global__ void lengths_kernel(const __grid_constant__ Batch<const std::byte*> payloads, unsigned count,
                               std::uint64_t* lengths) {
  if (threadIdx.x < count) lengths[threadIdx.x] = load_header(payloads[threadIdx.x]).payload_bytes;
}

/// What is found stays in the place's memory.
void inspect_one(Place& place, const ReceivedRange& range, Received::Words words, View<Inspection> found) {
  const View<const std::byte> payload = range.payload;
  if (payload.size() < sizeof(PayloadHeader)) return put_zeros(place, as_writable_bytes(found));
  const Launch launch(place, "inspect");
  inspect_kernel<<<1, 1, 0, launch.stream()>>>(payload.data(), found.data());
  launch.check();
  checksum(place, payload, payload.data() + offsetof(PayloadHeader, payload_bytes), kChecksumOffset,
           {&found.data()->checksum, 1, Device::cuda});
  std::uint64_t longest = 1;
  const auto give = [&](const Batch<WordCheck>& list, unsigned count, unsigned first) {
    const auto blocks = static_cast<unsigned>(std::min<std::uint64_t>((longest + kThreads - 1) / kThreads, 1'024));
    words_kernel<<<blocks, kThreads, 0, launch.stream()>>>(payload.data(), list, count, first, found.data());
    launch.check();
    longest = 1;
  };
  Batches<WordCheck, decltype(give)> batches(give);
  words(range, [&](const WordCheck& check) {
    if (!has_rule(check) || check.offset + check.words * sizeof(std::uint32_t) > payload.size()) return;
    longest = std::max(longest, check.words);
    batches.add(check);
  });
  batches.finish();
}

}  // namespace

void seal(Place& place, const PayloadHeader& header, View<std::byte> payload, StatusView status) {
  put_header_and_checksum(place, header, false, payload, status);
}

void seal_written(Place& place, View<std::byte> payload, StatusView status) {
  put_header_and_checksum(place, {}, true, payload, status);
}

void inspect(Place& place, RangeOf range_of, Received::Words words, std::span<Inspection> found) {
  const Workspace::Scope scope(place.workspace());
  const View<Inspection> there = place.workspace().take<Inspection>(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) inspect_one(place, range_of(i), words, there.sub(i, 1));
  copy_to_cpu<Inspection>(place, there, found.data());
}

void read_lengths(Place& place, std::span<const View<const std::byte>> payloads, std::span<std::uint64_t> lengths) {
  const Workspace::Scope scope(place.workspace());
  const View<std::uint64_t> there = place.workspace().take<std::uint64_t>(payloads.size());
  const Launch launch(place, "read_lengths");
  const auto give = [&](const Batch<const std::byte*>& list, unsigned count, unsigned first) {
    lengths_kernel<<<1, kMostInBatch<const std::byte*>, 0, launch.stream()>>>(list, count, there.data() + first);
    launch.check();
  };
  Batches<const std::byte*, decltype(give)> batches(give);
  for (const View<const std::byte> payload : payloads) batches.add(payload.data());
  batches.finish();
  copy_to_cpu<std::uint64_t>(place, there, lengths.data());
}

void put_zeros(Place& place, View<std::byte> bytes) {
  const Launch launch(place, "put_zeros");
  check(cudaMemsetAsync(bytes.data(), 0, bytes.size(), launch.stream()), "put_zeros");
}

void set_nonfinite(Place& place, StatusView status) {
  const Launch launch(place, "set_nonfinite");
  nonfinite_kernel<<<1, 1, 0, launch.stream()>>>(status.data());
  launch.check();
}

void set_count(Place& place, std::uint64_t count, StatusView status) {
  const Launch launch(place, "set_count");
  count_kernel<<<1, 1, 0, launch.stream()>>>(count, status.data());
  launch.check();
}

void note_flagged(Place& place, Each<View<const std::byte>> payloads, std::uint32_t first_rank, StatusView status,
                  bool only_if_none) {
  const Launch launch(place, "note_flagged");
  const auto give = [&](const Batch<const std::byte*>& list, unsigned count, unsigned first) {
    flagged_kernel<<<1, kMostInBatch<const std::byte*>, 0, launch.stream()>>>(list, count, first_rank + first,
                                                                              only_if_none, status.data());
    launch.check();
  };
  Batches<const std::byte*, decltype(give)> batches(give);
  payloads([&](View<const std::byte> payload) { batches.add(payload.data()); });
  batches.finish();
}

void put_norms(Place& place, View<const float> norms, View<float> to, StatusView status) {
  if (norms.empty()) return;
  const Launch launch(place, "put_norms");
  const auto blocks = static_cast<unsigned>((norms.size() + kThreads - 1) / kThreads);
  norms_kernel<<<blocks, kThreads, 0, launch.stream()>>>(norms.data(), norms.size(), to.data(), status.data());
  launch.check();
}

}  // namespace laconic::cuda
