#include "kernels/convert/convert.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/touch.h"
#include "kernels/convert/blocks.h"
#include "kernels/convert/loops.h"
#include "kernels/cuda.h"
#include "kernels/elementwise/flagged.h"
#include "kernels/elementwise/loops.h"
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

/// Returns whether a result is NaN or Inf, if that is asked for.
bool convert_block(SimdLevel level, ConstGradientView from, GradientView to, bool watch) {
  const std::size_t n = from.size();
  if (!to.is_float32()) {
    FloatBlock<> floats;
    const float* values = floats.read(level, from).data();
    return LACONIC_DISPATCH(level, to_16bit, values, format_of(to.type()), to.words().data(), n);
  }
  float* out = to.floats().data();
  if (from.is_float32()) {
    std::memcpy(out, from.data(), from.size_bytes());
  } else {
    LACONIC_DISPATCH(level, from_16bit, from.words().data(), format_of(from.type()), out, n);
  }
  return watch && LACONIC_DISPATCH(level, find_nonfinite, out, n);
}

/// Block by block, so that what is looked at twice is in the first cache.
bool convert_range(SimdLevel level, ConstGradientView from, GradientView to, Range range, bool watch) {
  bool nonfinite = false;
  for (std::size_t begin = range.begin; begin < range.end; begin += kFloatBlock) {
    const std::size_t count = std::min(kFloatBlock, range.end - begin);
    nonfinite |= convert_block(level, from.sub(begin, count), to.sub(begin, count), watch);
  }
  return nonfinite;
}

}  // namespace

void convert(Place& place, ConstGradientView from, GradientView to, StatusView status) {
  require_same_device("from", from.device(), place.device());
  require_same_device("to", to.device(), place.device());
  require_size("to", to.size(), from.size());
  if (!status.empty()) require_status(place, status);
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(convert, place, from, to, status);
  if (!status.empty()) {
    return parallel_flagged(place, from.size(), status,
                            [&](Range range) { return convert_range(place.simd(), from, to, range, true); });
  }
  const Touch touch(place);
  parallel_ranges(place.pool(), from.size(), kCut,
                  [&](Range range) { convert_range(place.simd(), from, to, range, false); });
}

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
