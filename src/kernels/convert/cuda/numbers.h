#pragma once

// Entries of a gradient on a device, in the gradient's own type. Kernels that read or write one are templates over the
// type of an entry.

#include <optional>
#include <type_traits>

#include "base/check.h"
#include "base/cuda/launch.h"
#include "base/each.h"
#include "kernels/convert/formats.h"
#include "laconic/gradient_view.h"

namespace laconic::cuda {

struct Half {
  std::uint16_t bits;
};
struct Bfloat {
  std::uint16_t bits;
};

/// Calls body with a value of the type that an entry has here.
template <class Body>
void with_number(NumberType type, Body body) {
  switch (type) {
    case NumberType::float32: return body(float{});
    case NumberType::float16: return body(Half{});
    case NumberType::bfloat16: return body(Bfloat{});
  }
}

/// Calls body(pointer to the entries).
template <class Byte, class Body>
void with_numbers(const BasicGradientView<Byte>& view, Body body) {
  with_number(view.type(), [&]<class Number>(Number) {
    using Entry = std::conditional_t<std::is_const_v<Byte>, const Number, Number>;
    body(reinterpret_cast<Entry*>(view.data()));
  });
}

/// The same for slices whose values have one type: calls body with a value of it, unless there is no slice.
template <class Slice, class Body>
void with_number_of(Each<Slice> slices, Body body) {
  std::optional<NumberType> type;
  slices([&](const Slice& slice) {
    if (!type) type = slice.values.type();
    LACONIC_CHECK(static_cast<int>(slice.values.type()) == static_cast<int>(*type));
  });
  if (type) with_number(*type, body);
}

#ifdef __CUDACC__
// By the formulas of formats.h: the device's own conversions make every NaN the same.

inline __device__ float widened(float value) { return value; }
inline __device__ float widened(Half value) { return formats::float_of_half(value.bits); }
inline __device__ float widened(Bfloat value) { return formats::float_of_bfloat(value.bits); }

template <class Number>
__device__ Number narrowed(float value) {
  if constexpr (std::is_same_v<Number, Half>) return {formats::half_of(value)};
  else if constexpr (std::is_same_v<Number, Bfloat>) return {formats::bfloat_of(value)};
  else return value;
}

/// Four neighbouring entries, in one load if they lie at a multiple of its size.
template <bool kAligned, class Number>
__device__ float4 load_four(const Number* from) {
  if constexpr (kAligned && std::is_same_v<Number, float>) {
    return *reinterpret_cast<const float4*>(from);  // __ldcs is a tenth slower
  } else if constexpr (kAligned) {
    const uint2 words = *reinterpret_cast<const uint2*>(from);
    const auto at = [](std::uint32_t word, unsigned half) {
      return widened(Number{static_cast<std::uint16_t>(word >> 16 * half)});
    };
    return make_float4(at(words.x, 0), at(words.x, 1), at(words.y, 0), at(words.y, 1));
  } else {
    return make_float4(widened(from[0]), widened(from[1]), widened(from[2]), widened(from[3]));
  }
}

/// Whether load_four can take them in one load.
template <class Number>
__device__ bool is_aligned(const Number* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % (4 * sizeof(Number)) == 0;
}
#endif

}  // namespace laconic::cuda
