#include "base/cuda/launch.h"
#include "kernels/bitpack/fields.h"
#include "kernels/bitpack/loops.h"

// Twins of kernels/bitpack: a thread packs one word of the groups or one byte of the stream behind them, and unpacks
// one field. Neighbouring threads work on neighbouring lanes, so they read and write neighbouring words.

namespace laconic::cuda {
namespace {

__global__ void pack_kernel(const std::uint32_t* fields, std::uint64_t n, unsigned bits, std::byte* packed) {
  const std::uint64_t words_a_group = kPackLanes * bits;
  const std::uint64_t words = n / kPackGroup * words_a_group;
  const std::uint64_t at = thread_index();
  if (at < words) {
    const std::uint32_t* group = fields + at / words_a_group * kPackGroup;
    store_word(packed + at * sizeof(std::uint32_t),
               packed_word([=](unsigned i) { return group[i]; }, bits, static_cast<unsigned>(at % words_a_group)));
    return;
  }
  const auto rest = static_cast<unsigned>(n % kPackGroup);
  const std::uint64_t byte = at - words;
  if (byte >= (std::uint64_t{rest} * bits + 7) / 8) return;
  const std::uint32_t* stream = fields + (n - rest);
  packed[words * sizeof(std::uint32_t) + byte] =
      packed_byte([=](unsigned i) { return stream[i]; }, rest, bits, static_cast<unsigned>(byte));
}

__global__ void unpack_kernel(const std::byte* packed, unsigned bits, std::uint32_t* fields, std::uint64_t n) {
  const std::uint64_t whole = n - n % kPackGroup;
  for_each_entry(n, [=](std::uint64_t i) {
    const std::byte* group = packed + i / kPackGroup * (kPackGroup / 8 * bits);
    const auto in_group = static_cast<unsigned>(i % kPackGroup);
    fields[i] = i < whole ? field_of_group(group, bits, in_group) : field_of_stream(group, bits, in_group);
  });
}

}  // namespace

void pack_fields(Place& place, View<const std::uint32_t> fields, int bits, View<std::byte> packed) {
  if (packed.empty()) return;
  const Launch launch(place, "pack_fields");
  const std::uint64_t words = fields.size() / kPackGroup * kPackLanes * static_cast<unsigned>(bits);
  const std::uint64_t bytes = packed_bytes(fields.size() % kPackGroup, bits);
  pack_kernel<<<blocks_for(words + bytes, 1), kThreads, 0, launch.stream()>>>(
      fields.data(), fields.size(), static_cast<unsigned>(bits), packed.data());
  launch.check();
}

void unpack_fields(Place& place, View<const std::byte> packed, int bits, View<std::uint32_t> fields) {
  launch_over(place, "unpack_fields", fields.size(), unpack_kernel, packed.data(), static_cast<unsigned>(bits),
              fields.data(), fields.size());
}

}  // namespace laconic::cuda
