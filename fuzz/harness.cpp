#include "harness.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/checksum/checksum.h"

namespace laconic::fuzz {
namespace {

void mend(std::vector<std::byte>& payload, Codec codec, bool fit_length) {
  if (payload.size() < sizeof(PayloadHeader)) return;
  PayloadHeader header;
  std::memcpy(&header, payload.data(), sizeof(header));
  header.magic = kPayloadMagic;
  header.version = kWireVersion;
  header.codec = static_cast<std::uint8_t>(codec);
  if (fit_length) {
    payload.resize(payload.size() / kPayloadAlignment * kPayloadAlignment);
    header.payload_bytes = payload.size();
  }
  std::memcpy(payload.data(), &header, sizeof(header));
  const std::uint64_t length = header.payload_bytes;
  if (length < sizeof(header) || length > payload.size()) return;  // the decoder's own business
  header.checksum =
      checksum_with_hole(place(), View<const std::byte>(payload.data(), length), offsetof(PayloadHeader, checksum));
  std::memcpy(payload.data(), &header, sizeof(header));
}

}  // namespace

void require(bool promise) {
  if (!promise) __builtin_trap();
}

Place& place() {
  static Place one({.threads = 1});
  return one;
}

std::vector<std::byte> payload_of(const std::uint8_t* input, std::size_t size, Codec codec,
                                  const std::vector<std::byte>& sound) {
  const std::uint8_t mode = size > 0 ? input[0] : 0;
  const std::size_t skipped = std::min<std::size_t>(size, 2);
  input += skipped;
  size -= skipped;
  std::vector<std::byte> payload;
  if ((mode & 2) != 0) {
    payload = sound;
    for (std::size_t i = 0; i < std::min(size, payload.size()); ++i) payload[i] ^= static_cast<std::byte>(input[i]);
  } else {
    payload.assign(reinterpret_cast<const std::byte*>(input), reinterpret_cast<const std::byte*>(input) + size);
  }
  if ((mode & 1) != 0) mend(payload, codec, (mode & 4) != 0);
  return payload;
}

void check_outcome(bool accepted, const Status& status) { require(accepted == (status.fault == PayloadFault::none)); }

std::size_t size_of_case(std::uint8_t choice) {
  constexpr std::size_t kSizes[] = {0, 1, 2, 5, 31, 32, 33, 64, 100, 511, 512, 513, 600, 1024, 1025, kMostEntries};
  return kSizes[choice % std::size(kSizes)];
}

std::vector<float> some_values(std::size_t n) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    values[i] = std::ldexp(static_cast<float>(i % 7) - 3.0F, static_cast<int>(i % 29) - 14);
  }
  return values;
}

}  // namespace laconic::fuzz
