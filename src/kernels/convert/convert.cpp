#include "kernels/convert/convert.h"

#include <string>

#include "base/check.h"
#include "base/touch.h"
#include "kernels/convert/loops.h"
#include "kernels/cuda.h"
#include "kernels/elementwise/flagged.h"
#include "kernels/simd.h"

namespace laconic {
namespace {

constexpr std::size_t kCut = 64;  // whole cache lines of both widths

template <class From, class To>
void require_views(Place& place, ValueFormat format, View<From> from, View<To> to) {
  require_same_device("values", from.device(), place.device());
  require_same_device("out", to.device(), place.device());
  require_size("out", to.size(), from.size());
  if (format != ValueFormat::f16 && format != ValueFormat::bf16) {
    throw InvalidConfig("format must be f16 or bf16 here, got " + std::string(format_name(format)) +
                        ": 32-bit values need no conversion");
  }
}

}  // namespace

const char* format_name(ValueFormat format) {
  switch (format) {
    case ValueFormat::f32: return "f32";
    case ValueFormat::f16: return "f16";
    case ValueFormat::bf16: return "bf16";
    case ValueFormat::sign: return "sign";
    case ValueFormat::two: return "two";
  }
  return "unknown";
}

void to_16bit(Place& place, View<const float> values, ValueFormat format, View<std::uint16_t> out, StatusView status) {
  require_views(place, format, values, out);
  require_status(place, status);
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(to_16bit, place, values, format, out, status);
  parallel_flagged(place, values.size(), status, [&](Range range) {
    return LACONIC_DISPATCH(place.simd(), to_16bit, values.data() + range.begin, format, out.data() + range.begin,
                            range.size());
  });
}

void from_16bit(Place& place, View<const std::uint16_t> values, ValueFormat format, View<float> out) {
  require_views(place, format, values, out);
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(from_16bit, place, values, format, out);
  const Touch touch(place);
  parallel_ranges(place.pool(), values.size(), kCut, [&](Range range) {
    LACONIC_DISPATCH(place.simd(), from_16bit, values.data() + range.begin, format, out.data() + range.begin,
                     range.size());
  });
}

void add_from_16bit(Place& place, View<const std::uint16_t> values, ValueFormat format, View<float> out) {
  require_views(place, format, values, out);
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(add_from_16bit, place, values, format, out);
  const Touch touch(place);
  parallel_ranges(place.pool(), values.size(), kCut, [&](Range range) {
    LACONIC_DISPATCH(place.simd(), add_from_16bit, values.data() + range.begin, format, out.data() + range.begin,
                     range.size());
  });
}

void round_through_16bit(Place& place, ValueFormat format, View<float> values, View<float> errors, StatusView status) {
  require_views(place, format, values, errors);
  require_status(place, status);
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(round_through_16bit, place, format, values, errors, status);
  }
  parallel_flagged(place, values.size(), status, [&](Range range) {
    return LACONIC_DISPATCH(place.simd(), round_through_16bit, format, values.data() + range.begin,
                            errors.data() + range.begin, range.size());
  });
}

}  // namespace laconic
