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

__global__ void words_kernel(const std::byte* payload, const __grid_constant__ InParameters<WordCheck> checks,
                             unsigned count, unsigned first, Inspection* found) {
  if (threadIdx.x >= count) return;
  const WordCheck check = checks[threadIdx.x];
  if (!check.allows(load_word(payload + check.offset))) atomicMin(&found->wrong_word, first + threadIdx.x);
}

__global__ void nonfinite_kernel(Status* status) { status->nonfinite = 1; }

__global__ void count_kernel(std::uint64_t count, Status* status) { status->count = count; }

__global__ void norms_kernel(const float* norms, const __grid_constant__ InParameters<std::uint32_t> tensors,
                             unsigned count, float* to, Status* status) {
  if (threadIdx.x >= count) return;
  const float norm = norms[tensors[threadIdx.x]];
  to[threadIdx.x] = is_nonfinite(norm) ? 0.0F : norm;
  if (is_nonfinite(norm)) status->nonfinite = 1;
}

}  // namespace

void seal(Place& place, const PayloadHeader& header, View<std::byte> payload, StatusView status) {
  put_header_and_checksum(place, header, false, payload, status);
}

void seal_written(Place& place, View<std::byte> payload, StatusView status) {
  put_header_and_checksum(place, {}, true, payload, status);
}

void inspect(Place& place, View<const std::byte> payload, Received::Words words, Inspection& found) {
  const Workspace::Scope scope(place.workspace());
  const View<Inspection> there = place.workspace().take<Inspection>(1);
  const Launch launch(place, "open_payload");
  inspect_kernel<<<1, 1, 0, launch.stream()>>>(payload.data(), there.data());
  launch.check();
  checksum(place, payload, payload.data() + offsetof(PayloadHeader, payload_bytes), kChecksumOffset,
           {&there.data()->checksum, 1, Device::cuda});
  const auto give = [&](const InParameters<WordCheck>& list, unsigned count, unsigned first) {
    words_kernel<<<1, kMostInParameters, 0, launch.stream()>>>(payload.data(), list, count, first, there.data());
    launch.check();
  };
  Batches<WordCheck, decltype(give)> batches(give);
  words([&](const WordCheck& check) {
    if (has_rule(check) && check.offset + sizeof(std::uint32_t) <= payload.size()) batches.add(check);
  });
  batches.finish();
  found = read_one<Inspection>(place, there);
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

void put_norms(Place& place, View<const float> norms, FunctionRef<void(FunctionRef<void(std::uint32_t)>)> tensors,
               View<float> to, StatusView status) {
  const Launch launch(place, "put_norms");
  const auto give = [&](const InParameters<std::uint32_t>& list, unsigned count, unsigned first) {
    norms_kernel<<<1, kMostInParameters, 0, launch.stream()>>>(norms.data(), list, count, to.data() + first,
                                                               status.data());
    launch.check();
  };
  Batches<std::uint32_t, decltype(give)> batches(give);
  tensors([&](std::uint32_t tensor) { batches.add(tensor); });
  batches.finish();
}

}  // namespace laconic::cuda
