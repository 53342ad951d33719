#include "kernels/norm/norm.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/layout.h"
#include "base/thread_pool.h"
#include "base/touch.h"
#include "base/transfer.h"
#include "base/workspace.h"
#include "kernels/convert/blocks.h"
#include "kernels/cuda.h"
#include "kernels/norm/loops.h"
#include "kernels/simd.h"

namespace laconic {
namespace {

void require(Place& place, ConstGradientView values, std::size_t results, Device result_device, StatusView status) {
  require_same_device("values", values.device(), place.device());
  require_same_device("result", result_device, place.device());
  require_same_device("status", status.device(), place.device());
  require_size("result", results, 1);
  require_size("status", status.size(), 1);
}

/// A result that is not a number has one bit pattern, whatever the values' own were and the order that they met in.
template <class T>
T canonical(T value) {
  return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
}

double square_sum(Place& place, ConstGradientView values) {
  Workspace::Scope scope(place.workspace());
  const auto sums = place.workspace().take<double>((values.size() + kNormBlock - 1) / kNormBlock);
  parallel_ranges(place.pool(), values.size(), kNormBlock, [&](Range range) {
    for_each_float_block<kNormBlock>(place.simd(), values, range, [&](View<const float> block, std::size_t begin) {
      LACONIC_DISPATCH(place.simd(), block_squares, block, sums.data() + begin / kNormBlock);
    });
  });
  double total = 0.0;
  for (const double sum : sums) total += sum;
  return canonical(total);
}

float largest_magnitude(Place& place, ConstGradientView values) {
  Workspace::Scope scope(place.workspace());
  const auto largest = place.workspace().take<std::uint32_t>((values.size() + kNormBlock - 1) / kNormBlock);
  parallel_ranges(place.pool(), values.size(), kNormBlock, [&](Range range) {
    for_each_float_block<kNormBlock>(place.simd(), values, range, [&](View<const float> block, std::size_t begin) {
      LACONIC_DISPATCH(place.simd(), block_largest, block, largest.data() + begin / kNormBlock);
    });
  });
  std::uint32_t most = 0;
  for (const std::uint32_t bits : largest) most = std::max(most, bits);
  return canonical(std::bit_cast<float>(most));
}

/// One scope, on the caller's thread.
float scope_norm(SimdLevel level, ConstGradientView values, Norm kind) {
  constexpr std::size_t kMostBlocks = kMostScope / kNormBlock;
  const std::size_t blocks = (values.size() + kNormBlock - 1) / kNormBlock;
  if (kind == Norm::max) {
    std::array<std::uint32_t, kMostBlocks> largest;
    for_each_float_block<kNormBlock>(level, values, {0, values.size()}, [&](View<const float> block, std::size_t begin) {
      LACONIC_DISPATCH(level, block_largest, block, largest.data() + begin / kNormBlock);
    });
    return canonical(std::bit_cast<float>(*std::max_element(largest.data(), largest.data() + blocks)));
  }
  std::array<double, kMostBlocks> sums;
  for_each_float_block<kNormBlock>(level, values, {0, values.size()}, [&](View<const float> block, std::size_t begin) {
    LACONIC_DISPATCH(level, block_squares, block, sums.data() + begin / kNormBlock);
  });
  double total = 0.0;
  for (std::size_t i = 0; i < blocks; ++i) total += sums[i];
  return canonical(static_cast<float>(std::sqrt(total)));
}

}  // namespace

void scope_norms(Place& place, ConstGradientView values, std::uint64_t scope, Norm kind, View<float> norms,
                 StatusView status) {
  require_same_device("values", values.device(), place.device());
  require_same_device("norms", norms.device(), place.device());
  require_same_device("status", status.device(), place.device());
  require_size("status", status.size(), 1);
  require_fixed_scope(scope);
  require_size("norms", norms.size(), (values.size() + scope - 1) / scope);
  if (place.device() == Device::cuda) return LACONIC_CUDA_CALL(scope_norms, place, values, scope, kind, norms, status);
  const Touch touch(place);
  parallel_ranges(place.pool(), values.size(), scope, [&](Range range) {
    for (std::size_t begin = range.begin; begin < range.end; begin += scope) {
      const std::size_t count = std::min<std::size_t>(scope, range.end - begin);
      norms[begin / scope] = scope_norm(place.simd(), values.sub(begin, count), kind);
    }
  });
  for (const float each : norms) {
    if (!std::isfinite(each)) status[0].nonfinite = 1;
  }
}

void norm(Place& place, ConstGradientView values, Norm kind, View<float> result, StatusView status) {
  require(place, values, result.size(), result.device(), status);
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(norms, place, just(NormPart{values, result}), kind, status);
  }
  const Touch touch(place);
  const float value =
      kind == Norm::l2 ? static_cast<float>(std::sqrt(square_sum(place, values))) : largest_magnitude(place, values);
  result[0] = value;
  status[0].norm = value;
  if (!std::isfinite(value)) status[0].nonfinite = 1;
}

void norms(Place& place, Each<NormPart> parts, Norm kind, StatusView status) {
  if (place.device() != Device::cuda) {
    return parts([&](const NormPart& part) { norm(place, part.values, kind, part.result, status); });
  }
  [[maybe_unused]] const auto checked = [&](const auto& body) {
    parts([&](const NormPart& part) {
      require(place, part.values, part.result.size(), part.result.device(), status);
      body(part);
    });
  };
  LACONIC_CUDA_CALL(norms, place, checked, kind, status);
}

void sum_of_squares(Place& place, ConstGradientView values, View<double> result, StatusView status) {
  require(place, values, result.size(), result.device(), status);
  if (place.device() == Device::cuda) {
    return LACONIC_CUDA_CALL(sums_of_squares, place, just(SquaresPart{values, result}), status);
  }
  const Touch touch(place);
  result[0] = square_sum(place, values);
  if (!std::isfinite(result[0])) status[0].nonfinite = 1;
}

void read_sums_of_squares(Place& place, ConstGradientView values, std::span<const std::uint64_t> sizes,
                          std::span<double> sums, StatusView status) {
  require_size("sums", sums.size(), sizes.size());
  const Workspace::Scope scope(place.workspace());
  const View<double> results = place.workspace().take<double>(sizes.size());
  const auto parts = [&](const auto& body) {
    std::uint64_t offset = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      body(SquaresPart{values.sub(offset, sizes[i]), results.sub(i, 1)});
      offset += sizes[i];
    }
  };
  if (place.device() == Device::cuda) {
    require_same_device("values", values.device(), place.device());
    require_same_device("status", status.device(), place.device());
    require_size("status", status.size(), 1);
    LACONIC_CUDA_CALL(sums_of_squares, place, parts, status);
  } else {
    parts([&](const SquaresPart& part) { sum_of_squares(place, part.values, part.result, status); });
  }
  copy_to_cpu<double>(place, results, sums.data());
}

double read_sum_of_squares(Place& place, ConstGradientView values, StatusView status) {
  const std::uint64_t size = values.size();
  double sum = 0.0;
  read_sums_of_squares(place, values, {&size, 1}, {&sum, 1}, status);
  return sum;
}

double squared_distance(Place& place, View<const float> x, View<const float> y) {
  require_same_device("x", x.device(), place.device());
  require_same_device("y", y.device(), place.device());
  require_size("y", y.size(), x.size());
  if (place.device() == Device::cuda) {
    const Workspace::Scope scope(place.workspace());
    const View<double> result = place.workspace().take<double>(1);
    LACONIC_CUDA_CALL(squared_distance, place, x, y, result);
    return read_one<double>(place, result);
  }
  const Touch touch(place);
  double squares = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double difference = static_cast<double>(x[i]) - static_cast<double>(y[i]);
    squares += difference * difference;
  }
  return squares;
}

float mean_magnitude(Place& place, View<const float> values) {
  require_same_device("values", values.device(), place.device());
  if (values.empty()) return 0.0F;
  const Workspace::Scope scope(place.workspace());
  if (place.device() == Device::cuda) {
    const View<float> result = place.workspace().take<float>(1);
    LACONIC_CUDA_CALL(mean_magnitude, place, values, result);
    return read_one<float>(place, result);
  }
  const Touch touch(place);
  const View<double> sums = place.workspace().take<double>((values.size() + kNormBlock - 1) / kNormBlock);
  parallel_ranges(place.pool(), values.size(), kNormBlock, [&](Range range) {
    for (std::size_t begin = range.begin; begin < range.end; begin += kNormBlock) {
      double sum = 0.0;
      const std::size_t end = std::min(begin + kNormBlock, range.end);
      for (std::size_t i = begin; i < end; ++i) sum += static_cast<double>(std::fabs(values[i]));
      sums[begin / kNormBlock] = sum;
    }
  });
  double total = 0.0;
  for (const double sum : sums) total += sum;
  return static_cast<float>(total / static_cast<double>(values.size()));
}

}  // namespace laconic
