#include "codecs/sign.h"

#include "harness.h"

namespace laconic::fuzz {
namespace {

void decode_one(const std::uint8_t* input, std::size_t size) {
  const std::uint8_t choice = size > 1 ? input[1] : 0;
  const std::size_t n = size_of_case(choice);
  const std::vector<std::uint64_t> sizes{n / 3, 0, n - n / 3};
  const Layout layout = choice < 128 ? Layout(n) : Layout(sizes);
  const std::uint64_t begin = layout.cut(n / 4, 32);
  std::vector<std::byte> sound(sign::max_payload_bytes(layout, begin, n));
  Status sender;
  sign::encode(place(), some_values(n - begin), layout, begin, n, sound, view_of(sender));
  const auto payload = payload_of(input, size, Codec::sign, sound);

  Guarded<float> values(n - begin);
  Status status;
  const bool accepted = sign::decode(place(), payload, layout, begin, n, values.view(), view_of(status));
  check_outcome(accepted, status);
  require(values.intact());
  if (!accepted) return require(values.untouched());
  for (const float value : values.view()) require(value == 1.0F || value == -1.0F);
}

}  // namespace
}  // namespace laconic::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  laconic::fuzz::decode_one(input, size);
  return 0;
}
