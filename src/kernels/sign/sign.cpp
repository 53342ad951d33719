#include "kernels/sign/sign.h"

#include <atomic>

#include "base/check.h"
#include "base/thread_pool.h"
#include "base/touch.h"
#include "kernels/convert/blocks.h"
#include "kernels/cuda.h"
#include "kernels/sign/loops.h"
#include "kernels/simd.h"

namespace laconic {
namespace {

/// Threads meet at values whose words begin a cache line.
constexpr std::size_t kCut = 16 * kSignsPerWord;

void require(Place& place, ConstGradientView values, View<const std::uint32_t> words) {
  require_same_device("values", values.device(), place.device());
  require_same_device("words", words.device(), place.device());
  require_size("words", words.size(), sign_words(values.size()));
}

void require_status(Place& place, StatusView status) {
  require_same_device("status", status.device(), place.device());
  require_size("status", status.size(), 1);
}

}  // namespace

void pack_signs(Place& place, ConstGradientView values, View<std::uint32_t> words, StatusView status) {
  require(place, values, words);
  require_status(place, status);
  if (place.device() == Device::cuda) return pack_signs(place, just(SignsToPack{values, words}), status);
  const Touch touch(place);
  std::atomic<bool> nonfinite{false};
  parallel_ranges(place.pool(), values.size(), kCut, [&](Range range) {
    for_each_float_block(place.simd(), values, range, [&](View<const float> block, std::size_t begin) {
      if (LACONIC_DISPATCH(place.simd(), pack_signs, block, words.data() + begin / kSignsPerWord)) {
        nonfinite.store(true, std::memory_order_relaxed);
      }
    });
  });
  if (nonfinite.load(std::memory_order_relaxed)) status[0].nonfinite = 1;
}

void pack_signs(Place& place, Each<SignsToPack> slices, StatusView status) {
  if (place.device() != Device::cuda) {
    return slices([&](const SignsToPack& slice) { pack_signs(place, slice.values, slice.words, status); });
  }
  require_status(place, status);
  [[maybe_unused]] const auto checked = [&](const auto& body) {
    slices([&](const SignsToPack& slice) {
      require(place, slice.values, slice.words);
      body(slice);
    });
  };
  LACONIC_CUDA_CALL(pack_signs, place, checked, status);
}

void unpack_signs(Place& place, View<const std::uint32_t> words, float magnitude, GradientView values) {
  require(place, values, words);
  if (place.device() == Device::cuda) return unpack_signs(place, just(SignsToUnpack{words, values}), magnitude);
  const Touch touch(place);
  parallel_ranges(place.pool(), values.size(), kCut, [&](Range range) {
    for_each_written_block(place.simd(), values, range, [&](View<float> block, std::size_t begin) {
      LACONIC_DISPATCH(place.simd(), unpack_signs, words.data() + begin / kSignsPerWord, magnitude, block);
    });
  });
}

void unpack_signs(Place& place, Each<SignsToUnpack> slices, float magnitude) {
  if (place.device() != Device::cuda) {
    return slices([&](const SignsToUnpack& slice) { unpack_signs(place, slice.words, magnitude, slice.values); });
  }
  [[maybe_unused]] const auto checked = [&](const auto& body) {
    slices([&](const SignsToUnpack& slice) {
      require(place, slice.values, slice.words);
      body(slice);
    });
  };
  LACONIC_CUDA_CALL(unpack_signs, place, checked, magnitude);
}

}  // namespace laconic
