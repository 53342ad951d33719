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

void require(Place& place, View<const float> values, View<const float> norm, int bits, View<const std::byte> packed) {
  require_same_device("values", values.device(), place.device());
  require_same_device("norm", norm.device(), place.device());
  require_same_device("packed", packed.device(), place.device());
  require_size("norm", norm.size(), 1);
  require_size("packed", packed.size(), quantized_bytes(values.size(), bits));
}

void require_group_start(std::uint64_t first) {
  if (first % kPackGroup == 0) return;
  throw InvalidConfig("first must be a multiple of " + std::to_string(kPackGroup) + ", got " + std::to_string(first) +
                      ": cut tensors where a group of fields begins");
}

}  // namespace

std::uint64_t quantized_bytes(std::uint64_t n, int bits) {
  levels_of(bits);  // refuses bits out of range
  return packed_bytes(n, bits);
}

void quantize(Place& place, View<const float> values, View<const float> norm, const Quantizer& quantizer,
              View<std::byte> packed) {
  require(place, values, norm, quantizer.bits, packed);
  require_group_start(quantizer.first);
  if (place.device() == Device::cuda) {
    [[maybe_unused]] const QuantizeSlice slice{values, norm, packed, quantizer.rounding.tensor, quantizer.first};
    return LACONIC_CUDA_CALL(quantize, place, just(slice), quantizer.bits, quantizer.rounding);
  }
  const Touch touch(place);
  if (!(norm[0] > 0.0F)) {
    if (!packed.empty()) std::memset(packed.data(), 0, packed.size());
    return;
  }
  const QuantizeScale scale = quantize_scale(norm[0], quantizer.bits);
  parallel_ranges(place.pool(), values.size(), kPackGroup, [&](Range range) {
    Quantizer part = quantizer;
    part.first += range.begin;
    LACONIC_DISPATCH(place.simd(), quantize, values.sub(range.begin, range.size()), scale, part,
                     packed.data() + packed_bytes(range.begin, quantizer.bits));
  });
}

void quantize(Place& place, Each<QuantizeSlice> slices, int bits, const RandomStream& rounding) {
  const auto fields_of = [&](const QuantizeSlice& slice) {
    return slice.packed.sub(0, quantized_bytes(slice.values.size(), bits));
  };
  if (place.device() != Device::cuda) {
    return slices([&](const QuantizeSlice& slice) {
      const View<std::byte> fields = fields_of(slice);
      quantize(place, slice.values, slice.norm, {bits, rounding.of_tensor(slice.tensor), slice.first}, fields);
      const Touch touch(place);
      std::fill(slice.packed.begin() + fields.size(), slice.packed.end(), std::byte{0});
    });
  }
  [[maybe_unused]] const auto checked = [&](const auto& body) {
    slices([&](const QuantizeSlice& slice) {
      require(place, slice.values, slice.norm, bits, fields_of(slice));
      require_group_start(slice.first);
      body(slice);
    });
  };
  LACONIC_CUDA_CALL(quantize, place, checked, bits, rounding);
}

void dequantize_add(Place& place, View<const std::byte> packed, View<const float> norm, int bits, View<float> values) {
  require(place, values, norm, bits, packed);
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(dequantize_add, place, just(DequantizeSlice{packed, norm, values}), bits);
  }
  const Touch touch(place);
  const float step = quantize_step(norm[0], bits);
  parallel_ranges(place.pool(), values.size(), kPackGroup, [&](Range range) {
    LACONIC_DISPATCH(place.simd(), dequantize_add, packed.data() + packed_bytes(range.begin, bits), step, bits,
                     values.sub(range.begin, range.size()));
  });
}

void dequantize_add(Place& place, Each<DequantizeSlice> slices, int bits) {
  if (place.device() != Device::cuda) {
    return slices([&](const DequantizeSlice& slice) {
      dequantize_add(place, slice.packed, slice.norm, bits, slice.values);
    });
  }
  [[maybe_unused]] const auto checked = [&](const auto& body) {
    slices([&](const DequantizeSlice& slice) {
      require(place, slice.values, slice.norm, bits, slice.packed);
      body(slice);
    });
  };
  LACONIC_CUDA_CALL(dequantize_add, place, checked, bits);
}

}  // namespace laconic
