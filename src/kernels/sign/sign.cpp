#include "kernels/sign/sign.h"

#include <atomic>

#include "base/check.h"
#include "base/thread_pool.h"
#include "base/touch.h"
#include "kernels/cuda.h"
#include "kernels/sign/loops.h"
#include "kernels/simd.h"

namespace laconic {
namespace {

/// Threads meet at values whose words begin a cache line.
constexpr std::size_t kCut = 16 * kSignsPerWord;

void require(Place& place, View<const float> values, View<const std::uint32_t> words) {
  require_same_device("values", values.device(), place.device());
  require_same_device("words", words.device(), place.device());
  require_size("words", words.size(), sign_words(values.size()));
}

}  // namespace

void pack_signs(Place& place, View<const float> values, View<std::uint32_t> words, StatusView status) {
  require(place, values, words);
  require_same_device("status", status.device(), place.device());
  require_size("status", status.size(), 1);
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(pack_signs, place, values, words, status);
  const Touch touch(place);
  std::atomic<bool> nonfinite{false};
  parallel_ranges(place.pool(), values.size(), kCut, [&](Range range) {
    if (LACONIC_DISPATCH(place.simd(), pack_signs, values.sub(range.begin, range.size()),
                         words.data() + range.begin / kSignsPerWord)) {
      nonfinite.store(true, std::memory_order_relaxed);
    }
  });
  if (nonfinite.load(std::memory_order_relaxed)) status[0].nonfinite = 1;
}

void unpack_signs(Place& place, View<const std::uint32_t> words, float magnitude, View<float> values) {
  require(place, values, words);
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(unpack_signs, place, words, magnitude, values);
  const Touch touch(place);
  parallel_ranges(place.pool(), values.size(), kCut, [&](Range range) {
    LACONIC_DISPATCH(place.simd(), unpack_signs, words.data() + range.begin / kSignsPerWord, magnitude,
                     values.sub(range.begin, range.size()));
  });
}

}  // namespace laconic
