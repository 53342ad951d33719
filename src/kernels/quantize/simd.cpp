#include "kernels/bitpack/bitpack.h"
#include "kernels/quantize/loops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quantize/simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/quantize/dequantize_simd-inl.h"
#include "kernels/quantize/quantize_simd-inl.h"
#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace laconic {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR  // has no lanes to multiply in pairs

void quantize_groups(View<const float> values, const QuantizeScale& scale, const Quantizer& quantizer,
                     std::byte* packed) {
  reference::quantize(values, scale, quantizer, packed);
}

void dequantize_groups(const std::byte* packed, float step, int bits, View<float> values) {
  reference::dequantize_add(packed, step, bits, values);
}

#else

// One loop a width, so that every shift is a constant.

void quantize_groups(View<const float> values, const QuantizeScale& scale, const Quantizer& quantizer,
                     std::byte* packed) {
  switch (quantizer.bits) {
    case 2: return quantize_width<2>(values, scale, quantizer, packed);
    case 3: return quantize_width<3>(values, scale, quantizer, packed);
    case 4: return quantize_width<4>(values, scale, quantizer, packed);
    case 5: return quantize_width<5>(values, scale, quantizer, packed);
    case 6: return quantize_width<6>(values, scale, quantizer, packed);
    case 7: return quantize_width<7>(values, scale, quantizer, packed);
    case 8: return quantize_width<8>(values, scale, quantizer, packed);
    case 9: return quantize_width<9>(values, scale, quantizer, packed);
    case 10: return quantize_width<10>(values, scale, quantizer, packed);
    case 11: return quantize_width<11>(values, scale, quantizer, packed);
    case 12: return quantize_width<12>(values, scale, quantizer, packed);
    case 13: return quantize_width<13>(values, scale, quantizer, packed);
    case 14: return quantize_width<14>(values, scale, quantizer, packed);
    case 15: return quantize_width<15>(values, scale, quantizer, packed);
    default: return quantize_width<16>(values, scale, quantizer, packed);
  }
}

void dequantize_groups(const std::byte* packed, float step, int bits, View<float> values) {
  switch (bits) {
    case 2: return dequantize_width<2>(packed, step, values);
    case 3: return dequantize_width<3>(packed, step, values);
    case 4: return dequantize_width<4>(packed, step, values);
    case 5: return dequantize_width<5>(packed, step, values);
    case 6: return dequantize_width<6>(packed, step, values);
    case 7: return dequantize_width<7>(packed, step, values);
    case 8: return dequantize_width<8>(packed, step, values);
    case 9: return dequantize_width<9>(packed, step, values);
    case 10: return dequantize_width<10>(packed, step, values);
    case 11: return dequantize_width<11>(packed, step, values);
    case 12: return dequantize_width<12>(packed, step, values);
    case 13: return dequantize_width<13>(packed, step, values);
    case 14: return dequantize_width<14>(packed, step, values);
    case 15: return dequantize_width<15>(packed, step, values);
    default: return dequantize_width<16>(packed, step, values);
  }
}

#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace laconic
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic {

HWY_EXPORT(quantize_groups);
HWY_EXPORT(dequantize_groups);

namespace simd {

// The vectors take whole groups; what follows the last is short, and the reference's loop serves every level.

void quantize(SimdLevel level, View<const float> values, const QuantizeScale& scale, const Quantizer& quantizer,
              std::byte* packed) {
  const std::size_t done = values.size() / kPackGroup * kPackGroup;
  LACONIC_SIMD_CALL(level, quantize_groups)(values.sub(0, done), scale, quantizer, packed);
  Quantizer rest = quantizer;
  rest.first += done;
  reference::quantize(values.sub(done, values.size() - done), scale, rest, packed + packed_bytes(done, quantizer.bits));
}

void dequantize_add(SimdLevel level, const std::byte* packed, float step, int bits, View<float> values) {
  const std::size_t done = values.size() / kPackGroup * kPackGroup;
  LACONIC_SIMD_CALL(level, dequantize_groups)(packed, step, bits, values.sub(0, done));
  reference::dequantize_add(packed + packed_bytes(done, bits), step, bits, values.sub(done, values.size() - done));
}

}  // namespace simd
}  // namespace laconic
#endif
