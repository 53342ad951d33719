#include "kernels/quantize/quantize.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/keep.h"
#include "base/thread_pool.h"
#include "base/touch.h"
#include "kernels/bitpack/bitpack.h"
#include "kernels/cuda.h"
#include "kernels/quantize/loops.h"
#include "kernels/simd.h"

namespace laconic {
namespace {

void require(Place& place, View<const float> values, View<const float> norms, int bits, std::uint64_t scope,
             View<const std::byte> packed) {
  require_same_device("values", values.device(), place.device());
  require_same_device("norms", norms.device(), place.device());
  require_same_device("packed", packed.device(), place.device());
  if (scope != 0) require_fixed_scope(scope);
  require_size("norms", norms.size(), norms_of(values.size(), scope));
  require_size("packed", packed.size(), quantized_bytes(values.size(), bits));
}

/// Values, fields and rest of one quantizer.
void require(Place& place, const QuantizeSlice& slice, const Quantizer& quantizer) {
  require(place, slice.values, slice.norms, quantizer.bits, quantizer.scope,
          slice.packed.sub(0, quantized_bytes(slice.values.size(), quantizer.bits)));
  if (!slice.rest.empty()) {
    require_same_device("rest", slice.rest.device(), place.device());
    require_size("rest", slice.rest.size(), slice.values.size());
  }
  const std::uint64_t unit = std::max(kPackGroup, quantizer.scope);
  if (slice.first % unit == 0) return;
  throw InvalidConfig("first must be a multiple of " + std::to_string(unit) + ", got " + std::to_string(slice.first) +
                      ": cut tensors where a group of fields and a scope begin");
}

/// A norm for all values, drawn rounding and no rest.
void quantize_simple(Place& place, View<const float> values, float norm, const Quantizer& quantizer,
                     View<std::byte> packed) {
  if (!(norm > 0.0F)) {
    if (!packed.empty()) std::memset(packed.data(), 0, packed.size());
    return;
  }
  const QuantizeScale scale = quantize_scale(norm, quantizer.bits);
  parallel_ranges(place.pool(), values.size(), kPackGroup, [&](Range range) {
    Quantizer part = quantizer;
    part.first += range.begin;
    LACONIC_DISPATCH(place.simd(), quantize, values.sub(range.begin, range.size()), scale, part,
                     packed.data() + packed_bytes(range.begin, quantizer.bits));
  });
}

void quantize_scopes(Place& place, View<const float> values, View<const float> norms, const Quantizer& quantizer,
                     View<std::byte> packed, View<float> rest) {
  const int shift = scope_shift(quantizer.scope);
  parallel_ranges(place.pool(), values.size(), std::max(kPackGroup, quantizer.scope), [&](Range range) {
    Quantizer part = quantizer;
    part.first += range.begin;
    const ScopedRun run{{norms.data() + (range.begin >> shift), shift},
                        rest.empty() ? nullptr : rest.data() + range.begin};
    LACONIC_DISPATCH(place.simd(), quantize_scopes, values.sub(range.begin, range.size()), run, part,
                     packed.data() + packed_bytes(range.begin, quantizer.bits));
  });
}

}  // namespace

std::uint64_t quantized_bytes(std::uint64_t n, int bits) {
  levels_of(bits);  // refuses bits out of range
  return packed_bytes(n, bits);
}

void quantize(Place& place, View<const float> values, View<const float> norms, const Quantizer& quantizer,
              View<std::byte> packed, View<float> rest) {
  const QuantizeSlice slice{values, norms, packed, quantizer.rounding.tensor, quantizer.first, rest};
  require_size("packed", packed.size(), quantized_bytes(values.size(), quantizer.bits));
  require(place, slice, quantizer);
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(quantize, place, just(slice), quantizer);
  const Touch touch(place);
  if (quantizer.scope == 0 && quantizer.kind == Rounding::stochastic && rest.empty()) {
    quantize_simple(place, values, norms[0], quantizer, packed);
  } else {
    quantize_scopes(place, values, norms, quantizer, packed, rest);
  }
}

void quantize(Place& place, Each<QuantizeSlice> slices, const Quantizer& quantizer) {
  if (place.device() != Device::cuda) {
    return slices([&](const QuantizeSlice& slice) {
      const View<std::byte> fields = slice.packed.sub(0, quantized_bytes(slice.values.size(), quantizer.bits));
      Quantizer own = quantizer;
      own.rounding.tensor = slice.tensor;
      own.first = slice.first;
      quantize(place, slice.values, slice.norms, own, fields, slice.rest);
      const Touch touch(place);
      std::fill(slice.packed.begin() + fields.size(), slice.packed.end(), std::byte{0});
    });
  }
  [[maybe_unused]] const auto checked = [&](const auto& body) {
    slices([&](const QuantizeSlice& slice) {
      require(place, slice, quantizer);
      body(slice);
    });
  };
  LACONIC_CUDA_CALL(quantize, place, checked, quantizer);
}

void dequantize_add(Place& place, View<const std::byte> packed, View<const float> norms, int bits, View<float> values,
                    std::uint64_t scope) {
  require(place, values, norms, bits, scope, packed);
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(dequantize_add, place, just(DequantizeSlice{packed, norms, values}), bits, scope);
  }
  const Touch touch(place);
  const int shift = scope_shift(scope);
  parallel_ranges(place.pool(), values.size(), std::max(kPackGroup, scope), [&](Range range) {
    const std::byte* fields = packed.data() + packed_bytes(range.begin, bits);
    const View<float> sums = values.sub(range.begin, range.size());
    if (scope == 0) {
      LACONIC_DISPATCH(place.simd(), dequantize_add, fields, quantize_step(norms[0], bits), bits, sums);
    } else {
      const ScopeNorms own{norms.data() + (range.begin >> shift), shift};
      LACONIC_DISPATCH(place.simd(), dequantize_add_scopes, fields, own, bits, sums);
    }
  });
}

void dequantize_add(Place& place, Each<DequantizeSlice> slices, int bits, std::uint64_t scope) {
  if (place.device() != Device::cuda) {
    return slices([&](const DequantizeSlice& slice) {
      dequantize_add(place, slice.packed, slice.norms, bits, slice.values, scope);
    });
  }
  [[maybe_unused]] const auto checked = [&](const auto& body) {
    slices([&](const DequantizeSlice& slice) {
      require(place, slice.values, slice.norms, bits, scope, slice.packed);
      body(slice);
    });
  };
  LACONIC_CUDA_CALL(dequantize_add, place, checked, bits, scope);
}

}  // namespace laconic
