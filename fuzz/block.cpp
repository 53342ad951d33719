#include "codecs/block.h"

#include "harness.h"

namespace laconic::fuzz {
namespace {

void decode_one(const std::uint8_t* input, std::size_t size) {
  const std::uint8_t choice = size > 1 ? input[1] : 0;
  const std::size_t n = size_of_case(choice);
  const auto format = static_cast<ValueFormat>(choice / 16 % 3);
  std::vector<Block> blocks;
  if (n > 1) blocks = {{0, n / 2, n / 2 - 1, (n / 2 + 1) / 2}, {n / 2, n - n / 2, 0, n - n / 2}};
  const std::uint64_t begin = blocks_size(blocks) / 3;
  const std::uint64_t count = blocks_size(blocks) / 2;
  std::vector<std::byte> sound(block::max_payload_bytes(count, format));
  Status sender;
  block::encode(place(), some_values(n), blocks, begin, count, format, sound, view_of(sender));
  const auto payload = payload_of(input, size, Codec::block, sound);

  Guarded<float> flat(n);
  Status status;
  const bool accepted = block::decode(place(), payload, blocks, begin, count, format, flat.view(), view_of(status));
  check_outcome(accepted, status);
  require(flat.intact());
  require(accepted || flat.untouched());

  ConstGradientView found;
  Status again;
  const ReceivedRange range{payload, begin, begin + count};
  const auto take = [&](std::size_t, ConstGradientView values) { found = values; };
  require(block::open(place(), {&range, 1}, blocks, format, take, view_of(again)) == accepted);
  require(found.size() == (accepted ? count : 0));
}

}  // namespace
}  // namespace laconic::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  laconic::fuzz::decode_one(input, size);
  return 0;
}
