#include "codecs/sparse.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "harness.h"
#include "kernels/coded/coded.h"

namespace laconic::fuzz {
namespace {

/// Ascending indices of the range, one in `stride`: few give raw or gaps, many a bitmap.
std::vector<std::uint32_t> some_indices(sparse::IndexRange range, std::uint64_t stride) {
  std::vector<std::uint32_t> indices;
  for (std::uint64_t i = 0; i < range.size; i += 1 + i * 7919 % (2 * stride - 1)) {
    indices.push_back(static_cast<std::uint32_t>(range.first + i));
  }
  return indices;
}

/// The case byte names the format, and bits 3 and 4 of byte 0 what shares magnitudes: everything, each hundred entries,
/// or tensors; of the formats without magnitudes, which of the two with 16 bits.
sparse::ValueCoding coding_of_case(unsigned format, unsigned scopes) {
  constexpr ValueFormat kFormats[] = {ValueFormat::f32, ValueFormat::f16, ValueFormat::sign, ValueFormat::two};
  static constexpr std::uint32_t kStarts[] = {0, 3, 600, 0xFFFF'FFFF - 1990, 0xFFFF'FFFF - 1000};
  if (format == 1 && scopes != 0) return ValueFormat::bf16;
  ScopeCuts cuts;
  if (scopes == 1) cuts.each = 100;
  if (scopes == 2) cuts.starts = kStarts;
  return {kFormats[format], cuts};
}

void check_entries(sparse::IndexRange range, View<const std::uint32_t> indices) {
  std::uint64_t least = range.first;
  for (const std::uint32_t index : indices) {
    require(index >= least && index - range.first < range.size);
    least = std::uint64_t{index} + 1;
  }
}

void decode_one(const std::uint8_t* input, std::size_t size) {
  const std::uint8_t choice = size > 1 ? input[1] : 0;
  const std::uint64_t first = choice % 2 == 0 ? 0 : (std::uint64_t{1} << 32) - kMostEntries;
  const sparse::IndexRange range{first, size_of_case(choice)};
  const sparse::ValueCoding coding = coding_of_case(choice / 16 % 4, size > 0 ? input[0] / 8 % 3 : 0);
  constexpr std::uint64_t kStrides[] = {1, 3, 9, 100};
  auto indices = some_indices(range, kStrides[choice / 64]);
  auto values = some_values(indices.size());
  Status sender;
  if (is_coded(coding.format)) {
    std::vector<float> errors(values.size());
    code_values(place(), coding.format, coding.cuts, coding.scopes_of(range), {indices, values}, errors,
                view_of(sender));
  }
  std::vector<std::byte> sound(sparse::max_payload_bytes(indices.size(), range, coding));
  sparse::encode(place(), {indices, values}, range, coding, sound, view_of(sender));
  sound.resize(sender.payload_bytes);
  const auto payload = payload_of(input, size, Codec::sparse, sound);

  // Sometimes room for one entry less than the sound payload has.
  const std::size_t capacity = std::max<std::size_t>(indices.size(), choice % 3) - choice % 3 / 2;
  Guarded<std::uint32_t> found(capacity);
  Guarded<float> decoded(capacity);
  Status status;
  const bool accepted =
      sparse::decode(place(), payload, range, coding, {found.view(), decoded.view()}, view_of(status));
  check_outcome(accepted, status);
  require(found.intact() && decoded.intact());
  require(status.count <= capacity);
  if (!accepted) return require(status.count == 0 && decoded.untouched());
  PayloadHeader header{};
  std::memcpy(&header, payload.data(), sizeof(header));
  require(status.count == header.count);
  check_entries(range, found.view().sub(0, status.count));
  if (!is_coded(coding.format)) return;
  for (std::size_t i = 0; i < status.count; ++i) require(std::isfinite(decoded.view()[i]));
}

}  // namespace
}  // namespace laconic::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  laconic::fuzz::decode_one(input, size);
  return 0;
}
