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

constexpr std::uint64_t kSumBlock = 4096;  ///< entries that stay in the first cache while payloads are added to them

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

/// Adds the fields of a range of a slice. `packed`, `norms` and `values` are the whole slice's.
void add_fields(Place& place, const std::byte* packed, const float* norms, int bits, std::uint64_t scope, Range range,
                View<float> values) {
  const std::byte* fields = packed + packed_bytes(range.begin, bits);
  const View<float> sums = values.sub(range.begin, range.size());
  if (scope == 0) {
    LACONIC_DISPATCH(place.simd(), dequantize_add, fields, quantize_step(norms[0], bits), bits, sums);
  } else {
    const int shift = scope_shift(scope);
    const ScopeNorms own{norms + (range.begin >> shift), shift};
    LACONIC_DISPATCH(place.simd(), dequantize_add_scopes, fields, own, bits, sums);
  }
}

bool in_words(const std::byte* memory) { return reinterpret_cast<std::uintptr_t>(memory) % sizeof(std::uint32_t) == 0; }

/// The section's part of a payload.
DequantizeSlice slice_of(View<const std::byte> payload, const DequantizeSection& section, int bits,
                         std::uint64_t scope) {
  const std::uint64_t n = section.values.size();
  const auto* norms = reinterpret_cast<const float*>(payload.data() + section.norms_offset);
  return {payload.sub(section.fields_offset, quantized_bytes(n, bits)),
          View<const float>(norms, norms_of(n, scope), payload.device()), section.values};
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
  parallel_ranges(place.pool(), values.size(), std::max(kPackGroup, scope), [&](Range range) {
    add_fields(place, packed.data(), norms.data(), bits, scope, range, values);
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

void dequantize_sum(Place& place, std::span<const View<const std::byte>> payloads, Each<DequantizeSection> sections,
                    int bits, std::uint64_t scope) {
  require_at_least("payloads", payloads.size(), 1);
  sections([&](const DequantizeSection& section) {
    const std::uint64_t n = section.values.size();
    for (const auto& payload : payloads) {
      LACONIC_CHECK(in_words(payload.data() + section.norms_offset));
      LACONIC_CHECK(in_words(payload.data() + section.fields_offset));
      require_at_least("payload", payload.size(), section.norms_offset + norms_of(n, scope) * sizeof(float));
      require_at_least("payload", payload.size(), section.fields_offset + quantized_bytes(n, bits));
      const DequantizeSlice slice = slice_of(payload, section, bits, scope);
      require(place, slice.values, slice.norms, bits, scope, slice.packed);
    }
  });
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(dequantize_sum, place, payloads, sections, bits, scope);
  }
  const Touch touch(place);
  const std::uint64_t unit = std::max(kPackGroup, scope);
  const std::uint64_t block = (kSumBlock + unit - 1) / unit * unit;
  sections([&](const DequantizeSection& section) {
    const View<float> values = section.values;
    parallel_ranges(place.pool(), values.size(), unit, [&](Range range) {
      for (std::uint64_t begin = range.begin; begin < range.end; begin += block) {
        const Range part{begin, std::min(begin + block, range.end)};
        std::fill_n(values.data() + part.begin, part.size(), -0.0F);  // -0 + x is x, bit for bit
        for (const auto& payload : payloads) {
          const DequantizeSlice slice = slice_of(payload, section, bits, scope);
          add_fields(place, slice.packed.data(), slice.norms.data(), bits, scope, part, values);
        }
      }
    });
  });
}

}  // namespace laconic
