#include "kernels/quantize/quantize.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/keep.h"
#include "base/thread_pool.h"
#include "base/touch.h"
#include "kernels/bitpack/bitpack.h"
#include "kernels/convert/blocks.h"
#include "kernels/cuda.h"
#include "kernels/elementwise/flagged.h"
#include "kernels/elementwise/loops.h"
#include "kernels/quantize/loops.h"
#include "kernels/simd.h"

namespace laconic {
namespace {

/// A block of entries has whole groups of fields. It has whole scopes too, or lies in one.
static_assert(kFloatBlock % kPackGroup == 0);

void require(Place& place, ConstGradientView values, View<const float> norms, int bits, std::uint64_t scope,
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
void quantize_simple(Place& place, ConstGradientView values, float norm, const Quantizer& quantizer,
                     View<std::byte> packed) {
  if (!(norm > 0.0F)) {
    if (!packed.empty()) std::memset(packed.data(), 0, packed.size());
    return;
  }
  const QuantizeScale scale = quantize_scale(norm, quantizer.bits);
  parallel_ranges(place.pool(), values.size(), kPackGroup, [&](Range range) {
    for_each_float_block(place.simd(), values, range, [&](View<const float> block, std::size_t begin) {
      Quantizer part = quantizer;
      part.first += begin;
      LACONIC_DISPATCH(place.simd(), quantize, block, scale, part, packed.data() + packed_bytes(begin, quantizer.bits));
    });
  });
}

void quantize_scopes(Place& place, ConstGradientView values, View<const float> norms, const Quantizer& quantizer,
                     View<std::byte> packed, View<float> rest) {
  const int shift = scope_shift(quantizer.scope);
  parallel_ranges(place.pool(), values.size(), std::max(kPackGroup, quantizer.scope), [&](Range range) {
    for_each_float_block(place.simd(), values, range, [&](View<const float> block, std::size_t begin) {
      Quantizer part = quantizer;
      part.first += begin;
      const ScopedRun run{norms_in(norms.data(), shift, begin, begin + block.size()),
                          rest.empty() ? nullptr : rest.data() + begin};
      LACONIC_DISPATCH(place.simd(), quantize_scopes, block, run, part,
                       packed.data() + packed_bytes(begin, quantizer.bits));
    });
  });
}

/// Adds the fields of a slice from `begin` on to the sums. `packed` and `norms` are the whole slice's.
void add_fields(Place& place, const std::byte* packed, const float* norms, int bits, std::uint64_t scope,
                std::size_t begin, View<float> sums) {
  const std::byte* fields = packed + packed_bytes(begin, bits);
  const ScopeNorms own = norms_in(norms, scope_shift(scope), begin, begin + sums.size());
  if (own.shift == kOneNorm) {
    LACONIC_DISPATCH(place.simd(), dequantize_add, fields, quantize_step(own.norms[0], bits), bits, sums);
  } else {
    LACONIC_DISPATCH(place.simd(), dequantize_add_scopes, fields, own, bits, sums);
  }
}

bool in_words(const std::byte* memory) { return reinterpret_cast<std::uintptr_t>(memory) % sizeof(std::uint32_t) == 0; }

/// The section's part of a payload.
struct PayloadSlice {
  View<const std::byte> packed;
  View<const float> norms;
};
PayloadSlice slice_of(View<const std::byte> payload, const DequantizeSection& section, int bits, std::uint64_t scope) {
  const std::uint64_t n = section.values.size();
  const auto* norms = reinterpret_cast<const float*>(payload.data() + section.norms_offset);
  return {payload.sub(section.fields_offset, quantized_bytes(n, bits)),
          View<const float>(norms, norms_of(n, scope), payload.device())};
}

}  // namespace

std::uint64_t quantized_bytes(std::uint64_t n, int bits) {
  levels_of(bits);  // refuses bits out of range
  return packed_bytes(n, bits);
}

void quantize(Place& place, ConstGradientView values, View<const float> norms, const Quantizer& quantizer,
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
    add_fields(place, packed.data(), norms.data(), bits, scope, range.begin, values.sub(range.begin, range.size()));
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
                    int bits, std::uint64_t scope, float divisor, StatusView status) {
  require_at_least("payloads", payloads.size(), 1);
  require_status(place, status);
  sections([&](const DequantizeSection& section) {
    const std::uint64_t n = section.values.size();
    for (const auto& payload : payloads) {
      LACONIC_CHECK(in_words(payload.data() + section.norms_offset));
      LACONIC_CHECK(in_words(payload.data() + section.fields_offset));
      require_at_least("payload", payload.size(), section.norms_offset + norms_of(n, scope) * sizeof(float));
      require_at_least("payload", payload.size(), section.fields_offset + quantized_bytes(n, bits));
      const PayloadSlice slice = slice_of(payload, section, bits, scope);
      require(place, section.values, slice.norms, bits, scope, slice.packed);
    }
  });
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(dequantize_sum, place, payloads, sections, bits, scope, divisor, status);
  }
  const Touch touch(place);
  std::atomic<bool> nonfinite{false};
  const auto sum_block = [&](const DequantizeSection& section, View<float> sums, std::size_t begin) {
    std::fill(sums.begin(), sums.end(), -0.0F);  // -0 + x is x, bit for bit
    for (const auto& payload : payloads) {
      const PayloadSlice slice = slice_of(payload, section, bits, scope);
      add_fields(place, slice.packed.data(), slice.norms.data(), bits, scope, begin, sums);
    }
    if (divisor != 1.0F) LACONIC_DISPATCH(place.simd(), divide, divisor, sums.data(), sums.size());
    if (LACONIC_DISPATCH(place.simd(), find_nonfinite, sums.data(), sums.size())) nonfinite = true;
  };
  sections([&](const DequantizeSection& section) {
    parallel_ranges(place.pool(), section.values.size(), std::max(kPackGroup, scope), [&](Range range) {
      // Block by block, so that the sums stay in the first cache while payloads are added to them.
      for (std::size_t begin = range.begin; begin < range.end; begin += kFloatBlock) {
        const Range block{begin, std::min(begin + kFloatBlock, range.end)};
        for_each_written_block(place.simd(), section.values, block,
                               [&](View<float> sums, std::size_t first) { sum_block(section, sums, first); });
      }
    });
  });
  if (nonfinite) status[0].nonfinite = 1;
}

}  // namespace laconic
