#include "codecs/uniform.h"

#include <algorithm>
#include <cmath>

#include "harness.h"

namespace laconic::fuzz {
namespace {

void decode_one(const std::uint8_t* input, std::size_t size) {
  const std::uint8_t choice = size > 1 ? input[1] : 0;
  const std::size_t n = size_of_case(choice);
  const int bits = 2 + choice / 16 % 15;
  const std::vector<std::uint64_t> sizes{n / 3, 0, n - n / 3};
  const Layout layout = choice % 4 == 0   ? Layout(n)
                        : choice % 4 == 1 ? Layout::in_scopes(n, std::uint64_t{64} << choice / 4 % 6)
                                          : Layout(sizes);
  const std::uint64_t begin = layout.cut(n / 2, std::max<std::uint64_t>(512, layout.scope()));
  const auto flat = some_values(n);
  std::vector<float> norms(layout.scopes());
  Status sender;
  uniform::scope_norms(place(), flat, layout, Norm::max, norms, view_of(sender));
  std::vector<std::byte> sound(uniform::max_payload_bytes(layout, begin, n, bits));
  const RandomStream stream{.seed = 1, .step = 2, .rank = 3, .tensor = 0, .purpose = Purpose::rounding};
  uniform::encode(place(), View<const float>(flat).sub(begin, n - begin), layout, begin, n, norms, bits, stream, sound,
                  view_of(sender));
  const auto payload = payload_of(input, size, Codec::uniform, sound);

  Guarded<float> values(n - begin);
  Status status;
  const View<const std::byte> view(payload);
  float norm = 0.0F;
  const bool accepted = uniform::decode_sum(place(), {&view, 1}, layout, begin, n, bits, 1.0F, values.view(),
                                            view_of(status), {&norm, 1});
  check_outcome(accepted, status);
  require(values.intact());
  if (!accepted) return require(values.untouched());
  for (const float value : values.view()) require(!std::isnan(value));
}

}  // namespace
}  // namespace laconic::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  laconic::fuzz::decode_one(input, size);
  return 0;
}
