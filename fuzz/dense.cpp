#include "codecs/dense.h"

#include "harness.h"

namespace laconic::fuzz {
namespace {

void decode_one(const std::uint8_t* input, std::size_t size) {
  const std::uint8_t choice = size > 1 ? input[1] : 0;
  const std::size_t n = size_of_case(choice);
  const auto format = static_cast<ValueFormat>(choice / 16 % 3);
  std::vector<std::byte> sound(dense::max_payload_bytes(n, format));
  Status sender;
  dense::encode(place(), some_values(n), format, sound, view_of(sender));
  const auto payload = payload_of(input, size, Codec::dense, sound);

  Guarded<float> values(n);
  Status status;
  const bool accepted = dense::decode(place(), payload, format, values.view(), view_of(status));
  check_outcome(accepted, status);
  require(values.intact());
  require(accepted || values.untouched());

  ConstGradientView found;
  Status again;
  require(dense::open(place(), payload, n, format, found, view_of(again)) == accepted);
  require(found.size() == (accepted ? n : 0));
}

}  // namespace
}  // namespace laconic::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  laconic::fuzz::decode_one(input, size);
  return 0;
}
