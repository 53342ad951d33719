#include "kernels/elementwise/elementwise.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <string>

#include "base/check.h"
#include "base/scratch_status.h"
#include "base/touch.h"
#include "base/workspace.h"
#include "kernels/convert/blocks.h"
#include "kernels/cuda.h"
#include "kernels/elementwise/flagged.h"
#include "kernels/elementwise/loops.h"
#include "kernels/simd.h"

namespace laconic {
namespace {

// Ranges begin at whole cache lines of the first view, so that threads do not share one.
constexpr std::size_t kCut = 64;

template <class Parts, class Out>
void require_parts(Place& place, const Parts& parts, const Out& out) {
  require_same_device("out", out.device(), place.device());
  if (parts.empty()) throw InvalidConfig("a sum needs at least 1 part, got 0: pass one view per worker");
  for (const auto& part : parts) {
    require_same_device("part", part.device(), place.device());
    require_size("part", part.size(), out.size());
  }
}

}  // namespace

void require_status(Place& place, StatusView status) {
  require_at_least("status", status.size(), 1);
  require_same_device("status", status.device(), place.device());
}

void parallel_flagged(Place& place, std::size_t size, StatusView status, FunctionRef<bool(Range)> body) {
  require_status(place, status);
  const Touch touch(place);
  std::atomic<bool> nonfinite{false};
  parallel_ranges(place.pool(), size, kCut, [&](Range range) {
    if (body(range)) nonfinite.store(true, std::memory_order_relaxed);
  });
  if (nonfinite.load(std::memory_order_relaxed)) status[0].nonfinite = 1;
}

void fill(Place& place, float value, View<float> values) {
  require_same_device("values", values.device(), place.device());
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(fill, place, value, values);
  const Touch touch(place);
  parallel_ranges(place.pool(), values.size(), kCut,
                  [&](Range range) { std::fill_n(values.data() + range.begin, range.size(), value); });
}

void copy(Place& place, View<const float> from, View<float> to) {
  require_same_device("from", from.device(), place.device());
  require_same_device("to", to.device(), place.device());
  require_size("to", to.size(), from.size());
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(copy, place, from, to);
  const Touch touch(place);
  parallel_ranges(place.pool(), from.size(), kCut, [&](Range range) {
    std::memcpy(to.data() + range.begin, from.data() + range.begin, range.size() * sizeof(float));
  });
}

void clear(Place& place, GradientView values) {
  require_same_device("values", values.device(), place.device());
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(clear, place, values);
  const Touch touch(place);
  parallel_ranges(place.pool(), values.size(), kCut, [&](Range range) {
    const GradientView part = values.sub(range.begin, range.size());
    std::memset(part.data(), 0, part.size_bytes());
  });
}

void axpy(Place& place, float alpha, View<const float> x, View<float> y) {
  require_same_device("x", x.device(), place.device());
  require_same_device("y", y.device(), place.device());
  require_size("x", x.size(), y.size());
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(axpy, place, alpha, x, y);
  const Touch touch(place);
  parallel_ranges(place.pool(), y.size(), kCut, [&](Range range) {
    LACONIC_DISPATCH(place.simd(), axpy, alpha, x.data() + range.begin, y.data() + range.begin, range.size());
  });
}

void divide(Place& place, float divisor, View<float> values) {
  require_same_device("values", values.device(), place.device());
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(divide, place, divisor, values);
  const Touch touch(place);
  parallel_ranges(place.pool(), values.size(), kCut, [&](Range range) {
    LACONIC_DISPATCH(place.simd(), divide, divisor, values.data() + range.begin, range.size());
  });
}

void sum_in_rank_order(Place& place, RankViews parts, float divisor, View<float> out, StatusView status) {
  require_parts(place, parts, out);
  require_status(place, status);
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(sum_in_rank_order, place, parts, divisor, out, status);
  }
  parallel_flagged(place, out.size(), status, [&](Range range) {
    const EntryRange entries{range.begin, range.end};
    return LACONIC_DISPATCH(place.simd(), sum_in_rank_order, parts, divisor, out.data(), entries);
  });
}

namespace {

/// The sum of a range of parts of 16 bits, block by block: it stays in the first cache while parts are added.
bool sum_range(SimdLevel level, std::span<const ConstGradientView> parts, float divisor, GradientView out,
               Range range) {
  bool nonfinite = false;
  std::array<float, kFloatBlock> sums;
  FloatBlock<> widened;
  for (std::size_t begin = range.begin; begin < range.end; begin += kFloatBlock) {
    const std::size_t count = std::min(kFloatBlock, range.end - begin);
    const auto block_of = [&](const ConstGradientView& part) { return widened.read(level, part.sub(begin, count)); };
    std::memcpy(sums.data(), block_of(parts[0]).data(), count * sizeof(float));
    for (const ConstGradientView& part : parts.subspan(1)) {
      LACONIC_DISPATCH(level, axpy, 1.0F, block_of(part).data(), sums.data(), count);
    }
    if (divisor != 1.0F) LACONIC_DISPATCH(level, divide, divisor, sums.data(), count);
    nonfinite |=
        LACONIC_DISPATCH(level, to_16bit, sums.data(), format_of(out.type()), out.words().data() + begin, count);
  }
  return nonfinite;
}

}  // namespace

void sum_in_rank_order(Place& place, std::span<const ConstGradientView> parts, float divisor, GradientView out,
                       StatusView status) {
  require_parts(place, parts, out);
  require_status(place, status);
  for (const ConstGradientView& part : parts) {
    LACONIC_CHECK(static_cast<int>(part.type()) == static_cast<int>(out.type()));
  }
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(sum_in_rank_order, place, parts, divisor, out, status);
  }
  if (out.is_float32()) {
    const Workspace::Scope scope(place.workspace());
    const View<View<const float>> floats = place.workspace().take<View<const float>>(parts.size());
    const Touch touch(place);
    for (std::size_t i = 0; i < parts.size(); ++i) floats[i] = parts[i].floats();
    return sum_in_rank_order(place, RankViews(floats.data(), floats.size()), divisor, out.floats(), status);
  }
  parallel_flagged(place, out.size(), status,
                   [&](Range range) { return sum_range(place.simd(), parts, divisor, out, range); });
}

void weighted_sum(Place& place, RankViews parts, std::span<const float> weights, View<float> out, StatusView status) {
  require_parts(place, parts, out);
  require_size("weights", weights.size(), parts.size());
  require_status(place, status);
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(weighted_sum, place, parts, weights, out, status);
  }
  parallel_flagged(place, out.size(), status, [&](Range range) {
    const EntryRange entries{range.begin, range.end};
    return LACONIC_DISPATCH(place.simd(), weighted_sum, parts, weights, out.data(), entries);
  });
}

void spoil_if_nonfinite(Place& place, View<float> values, StatusView status) {
  require_same_device("values", values.device(), place.device());
  require_status(place, status);
  require_at_least("values", values.size(), 1);
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(spoil_if_nonfinite, place, values, status);
  const Touch touch(place);
  if (status[0].nonfinite != 0) values[0] = std::numeric_limits<float>::quiet_NaN();
}

void find_nonfinite(Place& place, ConstGradientView values, StatusView status) {
  require_same_device("values", values.device(), place.device());
  require_status(place, status);
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(find_nonfinite, place, values, status);
  parallel_flagged(place, values.size(), status, [&](Range range) {
    bool found = false;
    for_each_float_block(place.simd(), values, range, [&](View<const float> block, std::size_t) {
      found |= LACONIC_DISPATCH(place.simd(), find_nonfinite, block.data(), block.size());
    });
    return found;
  });
}

bool is_finite(Place& place, ConstGradientView values) {
  const ScratchStatus status(place);
  find_nonfinite(place, values, status.view());
  return status.read().nonfinite == 0;
}

}  // namespace laconic
