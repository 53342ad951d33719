// cuda_timing [entries]: sign packing and quantization on a device beside a read and a copy of the same values, then
// selections beside a stream (timing_topk.cu), timed with device events, medians of interleaved repeats. Each result is
// checked before its time counts. "cuda_timing choices [entries]": see timing_choices.cu.

#include "cuda/timing.h"

#include <cstring>

#include "base/scratch_status.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/quantize/quantize.h"
#include "kernels/sign/sign.h"
#include "kernels/vote/vote.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr std::size_t kTile = std::size_t{1} << 20;  ///< the values repeat after this many
constexpr float kNorm = 6.0F;

/// The cheapest read that there is: 16 bytes a load, four under way, nothing written.
__global__ void read_kernel(const float4* values, std::uint64_t n, std::uint32_t* sink) {
  std::uint32_t seen = 0;
  const std::uint64_t first = std::uint64_t{blockIdx.x} * cuda::kThreads * 4 + threadIdx.x;
#pragma unroll
  for (unsigned step = 0; step < 4; ++step) {
    const std::uint64_t i = first + step * cuda::kThreads;
    if (i >= n) continue;
    const float4 value = values[i];
    seen |= __float_as_uint(value.x) & __float_as_uint(value.y) & __float_as_uint(value.z) & __float_as_uint(value.w);
  }
  if (seen == 0xFFFF'FFFFU) *sink = seen;  // never, for finite values
}

void read(Place& place, View<const float> values, View<std::uint32_t> sink) {
  const cuda::Launch launch(place, "read");
  const std::uint64_t n = values.size() / 4;
  read_kernel<<<cuda::blocks_for(n, 4), cuda::kThreads, 0, launch.stream()>>>(
      reinterpret_cast<const float4*>(values.data()), n, sink.data());
  launch.check();
}

struct Data {
  std::vector<float> tile = normal_values(kTile, 1);
  View<float> values, sums, norm;
  View<std::uint32_t> words;
  View<std::byte> packed;
  View<Status> status;

  explicit Data(std::size_t n)
      : values(device_view<float>(n)),
        sums(device_view<float>(n)),
        norm(device_view<float>(1)),
        words(device_view<std::uint32_t>(sign_words(n))),
        packed(device_view<std::byte>(quantized_bytes(n, 8))),
        status(device_view<Status>(1)) {
    check(cudaMemcpy(norm.data(), &kNorm, sizeof(kNorm), cudaMemcpyHostToDevice), "cudaMemcpy");
    for (std::size_t i = 0; i < n; i += kTile) {
      const std::size_t count = std::min(kTile, n - i);
      check(cudaMemcpy(values.data() + i, tile.data(), count * sizeof(float), cudaMemcpyHostToDevice), "cudaMemcpy");
    }
    check(cudaMemset(sums.data(), 0, sums.size_bytes()), "cudaMemset");
    check(cudaMemset(status.data(), 0, sizeof(Status)), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
};

Quantizer quantizer_of(int bits, std::uint64_t first = 0) {
  return {.bits = bits, .rounding = {.seed = 7, .step = 1, .rank = 0, .purpose = Purpose::rounding}, .first = first};
}

/// The first and the last whole tile of each result.
void verify(Place& place, Data& data) {
  Place host;
  std::vector<std::uint32_t> words(kTile / kSignsPerWord);
  Status status;
  pack_signs(host, data.tile, words, view_of(status));
  pack_signs(place, data.values, data.words, data.status);
  const std::size_t last = data.values.size() / kTile - 1;
  for (const std::size_t tile : {std::size_t{0}, last}) {
    require_equal(fetch(data.words.sub(tile * words.size(), words.size())) == words, "pack_signs");
  }
  for (const int bits : {4, 8}) {
    std::vector<std::byte> packed(quantized_bytes(kTile, bits));
    const auto whole = data.packed.sub(0, quantized_bytes(data.values.size(), bits));
    quantize(place, data.values, data.norm, quantizer_of(bits), whole);
    for (const std::size_t tile : {std::size_t{0}, last}) {
      quantize(host, data.tile, {&kNorm, 1}, quantizer_of(bits, tile * kTile), packed);
      require_equal(fetch(whole.sub(tile * packed.size(), packed.size())) == packed, "quantize");
      std::vector<float> sums = fetch(data.sums.sub(tile * kTile, kTile));
      dequantize_add(host, packed, {&kNorm, 1}, bits, sums);
      const auto part = whole.sub(tile * packed.size(), packed.size());
      dequantize_add(place, part, data.norm, bits, data.sums.sub(tile * kTile, kTile));
      require_equal(fetch(data.sums.sub(tile * kTile, kTile)) == sums, "dequantize_add");
    }
  }
}

/// Eight ballots over all entries, whose vote is checked in the first and in the last tile.
std::vector<View<const std::uint32_t>> verified_ballots(Place& place, Data& data, const TieRule& ties) {
  const std::size_t words = data.words.size();
  const std::size_t checked = std::min(kTile / kSignsPerWord, words);
  std::vector<View<const std::uint32_t>> ballots;
  for (unsigned worker = 0; worker < 8; ++worker) {
    const View<std::uint32_t> ballot = device_view<std::uint32_t>(words);
    check(cudaMemset(ballot.data(), static_cast<int>(0x1D * worker + 0x35), ballot.size_bytes()), "cudaMemset");
    ballots.push_back(ballot);
  }
  vote(place, ballots, ties, data.words);
  Place host;
  for (const std::size_t first : {std::size_t{0}, words - checked}) {
    std::vector<std::vector<std::uint32_t>> here;
    for (const auto& ballot : ballots) {
      std::vector<std::uint32_t>& part = here.emplace_back(checked);
      check(cudaMemcpy(part.data(), ballot.data() + first, checked * 4, cudaMemcpyDeviceToHost), "cudaMemcpy");
    }
    const std::vector<View<const std::uint32_t>> views(here.begin(), here.end());
    std::vector<std::uint32_t> expected(checked);
    vote(host, views, {ties.ties, ties.stream, first}, expected);
    require_equal(fetch(data.words.sub(first, checked)) == expected, "vote");
  }
  return ballots;
}

constexpr std::uint64_t kFieldsOffset = sizeof(float);

DequantizeSection section_of(View<float> values) { return {0, kFieldsOffset, values}; }

/// Eight payloads of all entries (the norm, then fields of 8 bits), whose sum is checked in the first and last tile.
std::vector<View<const std::byte>> verified_payloads(Place& place, Data& data) {
  const std::size_t n = data.values.size();
  std::vector<View<const std::byte>> payloads;
  for (unsigned rank = 0; rank < 8; ++rank) {
    const auto payload = device_view<std::byte>(kFieldsOffset + quantized_bytes(n, 8));
    check(cudaMemcpy(payload.data(), &kNorm, sizeof(kNorm), cudaMemcpyHostToDevice), "cudaMemcpy");
    Quantizer quantizer = quantizer_of(8);
    quantizer.rounding.rank = rank;
    quantize(place, data.values, data.norm, quantizer, payload.sub(kFieldsOffset, quantized_bytes(n, 8)));
    payloads.push_back(payload);
  }
  const ScratchStatus status(place);
  dequantize_sum(place, payloads, just(section_of(data.sums)), 8, 0, 8.0F, status.view());
  Place host;
  Status host_status;
  for (const std::size_t tile : {std::size_t{0}, n / kTile - 1}) {
    std::vector<std::vector<std::byte>> here(payloads.size(), std::vector<std::byte>(kFieldsOffset + kTile));
    for (std::size_t rank = 0; rank < payloads.size(); ++rank) {
      const std::byte* fields = payloads[rank].data() + kFieldsOffset + tile * kTile;
      std::memcpy(here[rank].data(), &kNorm, sizeof(kNorm));
      check(cudaMemcpy(here[rank].data() + kFieldsOffset, fields, kTile, cudaMemcpyDeviceToHost), "cudaMemcpy");
    }
    std::vector<float> expected(kTile);
    const std::vector<View<const std::byte>> views(here.begin(), here.end());
    dequantize_sum(host, views, just(section_of(expected)), 8, 0, 8.0F, view_of(host_status));
    require_equal(fetch(data.sums.sub(tile * kTile, kTile)) == expected, "dequantize_sum");
  }
  return payloads;
}

int run(std::size_t n) {
  const auto place = cuda_place();
  Data data(n);
  verify(*place, data);
  const auto sink = device_view<std::uint32_t>(1);
  const double size = static_cast<double>(n);
  const auto packed = [&](int bits) { return data.packed.sub(0, quantized_bytes(n, bits)); };
  std::vector<Job> jobs{
      {"read", 4 * size, [&] { read(*place, data.values, sink); }, {}},
      {"copy", 8 * size, [&] { copy(*place, data.values, data.sums); }, {}},
      {"find_nonfinite", 4 * size, [&] { find_nonfinite(*place, data.values, data.status); }, {}},
      {"axpy", 12 * size, [&] { axpy(*place, 0.5F, data.values, data.sums); }, {}},
      {"pack_signs", 4.125 * size, [&] { pack_signs(*place, data.values, data.words, data.status); }, {}},
      {"unpack_signs", 4.125 * size, [&] { unpack_signs(*place, data.words, 1.0F, data.sums); }, {}}};
  const TieRule ties{Ties::random, {.seed = 7, .step = 1, .purpose = Purpose::vote_ties}, 0};
  const std::vector<View<const std::uint32_t>> ballots = verified_ballots(*place, data, ties);
  jobs.push_back({"vote of 8 (bytes)", (8 + 1) / 8.0 * size, [&] { vote(*place, ballots, ties, data.words); }, {}});
  jobs.push_back({"read of 1 byte", size, [&] { read(*place, data.values.sub(0, n / 4), sink); }, {}});
  for (const int bits : {4, 8, 7}) {
    jobs.push_back({"quantize_" + std::to_string(bits),
                    (4 + bits / 8.0) * size,
                    [&, bits] { quantize(*place, data.values, data.norm, quantizer_of(bits), packed(bits)); },
                    {}});
    jobs.push_back({"dequantize_add_" + std::to_string(bits),
                    (8 + bits / 8.0) * size,
                    [&, bits] { dequantize_add(*place, packed(bits), data.norm, bits, data.sums); },
                    {}});
  }
  const std::vector<View<const std::byte>> payloads = verified_payloads(*place, data);
  jobs.push_back({"dequantize_sum of 8",
                  (4 + 8) * size,
                  [&] { dequantize_sum(*place, payloads, just(section_of(data.sums)), 8, 0, 8.0F, data.status); },
                  {}});
  time_all(*place, jobs);

  cudaDeviceProp device;
  check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  const float read_time = median(jobs[0].milliseconds);
  std::printf("%s, %zu floats, medians of %d\n", device.name, n, kRepeats);
  std::printf("%-20s %10s %10s %10s %10s\n", "kernel", "ms", "best ms", "GB/s", "x read");
  for (const Job& job : jobs) {
    const float time = median(job.milliseconds);
    const float best = *std::min_element(job.milliseconds.begin(), job.milliseconds.end());
    std::printf("%-20s %10.3f %10.3f %10.0f %10.2f\n", job.name.c_str(), time, best, job.bytes / time * 1e-6,
                time / read_time);
  }
  return 0;
}

constexpr std::size_t kResnet50 = 25'600'000;  ///< a usual size, small enough for launches to count

int run_all(std::size_t n) {
  const int result = run(n);
  const auto place = cuda_place();
  time_selections(*place, n);
  if (n > kResnet50) time_selections(*place, kResnet50);
  return result;
}

}  // namespace
}  // namespace laconic::test

int main(int argc, char** argv) {
  const bool choices = argc > 1 && std::strcmp(argv[1], "choices") == 0;
  const int first = choices ? 2 : 1;
  const double entries = argc > first ? std::atof(argv[first]) : 1e9;
  if (laconic::cuda_device_count() == 0) {
    std::printf("no CUDA device\n");
    return 0;
  }
  if (!(entries >= laconic::test::kTile)) {
    std::printf("cuda_timing needs at least %zu entries\n", laconic::test::kTile);
    return 2;
  }
#if LACONIC_CUDA_EMULATED
  if (choices) {
    std::printf("cuda_timing choices needs a GPU\n");
    return 2;
  }
#else
  if (choices) {
    const auto all = argc > first ? std::vector{entries} : std::vector{25.6e6, 1e8, 1e9};
    laconic::test::time_choices({all.begin(), all.end()});
    return 0;
  }
#endif
  return laconic::test::run_all(static_cast<std::size_t>(entries));
}
