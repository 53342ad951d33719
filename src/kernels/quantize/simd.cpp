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
namespace laconic::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR  // has no lanes to multiply in pairs

void quantize_groups(View<const float> values, const QuantizeScale& scale, const Quantizer& quantizer,
                     std::byte* packed) {
  reference::quantize(values, scale, quantizer, packed);
}

void dequantize_groups(const std::byte* packed, float step, int bits, View<float> values) {
  reference::dequantize_add(packed, step, bits, values);
}

void quantize_scope_groups(View<const float> values, const ScopedRun& run, const Quantizer& quantizer,
                           std::byte* packed) {
  reference::quantize_scopes(values, run, quantizer, packed);
}

void dequantize_scope_groups(const std::byte* packed, const ScopeNorms& norms, int bits, View<float> values) {
  reference::dequantize_add_scopes(packed, norms, bits, values);
}

#endif

}  // namespace
}  // namespace laconic::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::simd {

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

void quantize_scopes(SimdLevel level, View<const float> values, const ScopedRun& run, const Quantizer& quantizer,
                     std::byte* packed) {
  const std::size_t done = values.size() / kPackGroup * kPackGroup;
  LACONIC_SIMD_CALL(level, quantize_scope_groups)(values.sub(0, done), run, quantizer, packed);
  Quantizer rest = quantizer;
  rest.first += done;
  reference::quantize_scopes(values.sub(done, values.size() - done), run_from(run, done), rest,
                             packed + packed_bytes(done, quantizer.bits));
}

void dequantize_add_scopes(SimdLevel level, const std::byte* packed, const ScopeNorms& norms, int bits,
                           View<float> values) {
  const std::size_t done = values.size() / kPackGroup * kPackGroup;
  LACONIC_SIMD_CALL(level, dequantize_scope_groups)(packed, norms, bits, values.sub(0, done));
  reference::dequantize_add_scopes(packed + packed_bytes(done, bits), norms_from(norms, done), bits,
                                   values.sub(done, values.size() - done));
}

}  // namespace laconic::simd
#endif
