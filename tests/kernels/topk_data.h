#pragma once

// Data that breaks selections, for top-k and RegTop-k alike.

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "laconic/status.h"
#include "support/support.h"

namespace laconic::test {

struct Kind {
  std::string name;
  /// Value i of n, made from a normal one.
  std::function<float(float normal, std::size_t i, std::size_t n)> value;
};

inline const std::vector<Kind>& data_kinds() {
  static const std::vector<Kind> kinds{
      {"normal", [](float x, std::size_t, std::size_t) { return x; }},
      {"heavy-tailed", [](float x, std::size_t, std::size_t) { return x * x * x * x * x; }},
      {"clustered", [](float x, std::size_t i, std::size_t) { return i / 300 % 37 == 5 ? 20.0F * x : x; }},
      {"layered",
       [](float x, std::size_t i, std::size_t n) {
         return x * (i * 10 < n ? 1e-3F : i * 9 < n ? 1e3F : 1.0F);
       }},
      {"ascending",
       [](float x, std::size_t i, std::size_t) { return static_cast<float>(i + 1) * (x < 0 ? -1.0F : 1.0F); }},
      {"constant", [](float, std::size_t, std::size_t) { return 0.5F; }},
      {"ternary", [](float x, std::size_t, std::size_t) { return x > 1    ? 1.0F
                                                                 : x < -1 ? -1.0F
                                                                          : 0.0F; }},
      {"few values", [](float x, std::size_t, std::size_t) { return std::round(x * 2.0F); }},
      {"mostly zero", [](float x, std::size_t, std::size_t) { return std::abs(x) > 2.6F ? x : 0.0F; }},
      {"all zero", [](float, std::size_t, std::size_t) { return 0.0F; }},
      {"signed zeros", [](float x, std::size_t i, std::size_t) { return i % 97 == 3 ? x
                                                                        : x < 0     ? -0.0F
                                                                                    : 0.0F; }},
      {"denormal", [](float x, std::size_t, std::size_t) { return x * 1e-40F; }},
      {"one spike", [](float x, std::size_t i, std::size_t n) { return i == n / 2 ? 1e30F : x * 1e-30F; }},
  };
  return kinds;
}

inline std::vector<float> values_of(const Kind& kind, std::size_t n, std::uint64_t seed) {
  std::vector<float> values = normal_values(n, seed);
  for (std::size_t i = 0; i < n; ++i) values[i] = kind.value(values[i], i, n);
  return values;
}

inline bool same_bits(const std::vector<float>& left, const std::vector<float>& right) {
  return left.size() == right.size() &&
         (left.empty() || std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0);
}

/// What a selection gave.
struct Selected {
  std::vector<float> rest;
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  Status status;
};

/// Empty when they are the same to the bit, else what differs.
inline std::string difference(const Selected& got, const Selected& want) {
  if (got.indices != want.indices) return "the indices differ";
  if (!same_bits(got.values, want.values)) return "the values differ";
  if (!same_bits(got.rest, want.rest)) return "the rest differs";
  if (got.status.count != want.status.count) return "the count is " + std::to_string(got.status.count);
  if (!same_bits({got.status.threshold}, {want.status.threshold})) {
    return "the threshold is " + std::to_string(got.status.threshold);
  }
  return got.status.nonfinite == want.status.nonfinite ? "" : "the flag differs";
}

/// A place of every level with 1, 2 and 3 threads, each with its name.
struct NamedPlace {
  std::string name;
  std::unique_ptr<Place> place;
};
inline std::vector<NamedPlace> all_places() {
  std::vector<NamedPlace> places;
  for (const SimdLevel level : available_levels()) {
    for (const int threads : {1, 2, 3}) {
      places.push_back({std::string(simd_name(level)) + " x " + std::to_string(threads),
                        std::make_unique<Place>(CpuOptions{.threads = threads, .simd = level})});
    }
  }
  return places;
}

/// k = 0, 1, few, 1 %, half, all but one, all.
inline std::vector<std::size_t> keeps_of(std::size_t n) {
  std::vector<std::size_t> keeps;
  for (const std::size_t k : {std::size_t{0}, std::size_t{1}, std::size_t{7}, n / 100, n / 2, n - 1, n}) {
    if (k <= n && (keeps.empty() || k > keeps.back())) keeps.push_back(k);
  }
  return keeps;
}

/// Guesses for a threshold: none, right, too high, too low, absurd. The reference does not look at them.
inline std::vector<float> guesses_of(float threshold, const Place& place) {
  if (place.simd() == SimdLevel::reference) return {0.0F};
  const float infinity = std::numeric_limits<float>::infinity();
  return {0.0F,
          threshold,
          1.25F * threshold,
          100.0F * threshold,
          0.5F * threshold,
          0.001F * threshold,
          infinity,
          -1.0F,
          std::numeric_limits<float>::quiet_NaN(),
          std::numeric_limits<float>::max()};
}

}  // namespace laconic::test
