#pragma once

// Data that breaks selections, for top-k and RegTop-k alike.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/scope.h"
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

/// A view with scopes that each have data of their own kind, and what is selected from them.
struct ScopedData {
  std::string name;
  std::vector<Scope> scopes;
  std::vector<float> gradient;
  std::vector<float> residual;
  std::size_t selected = 0;
};

/// Scopes of these sizes, `gap` entries apart. Most select about the share `keep`, at least one; some select nothing.
inline ScopedData scoped_data(std::string name, const std::vector<std::size_t>& sizes, double keep, std::size_t gap) {
  ScopedData data{std::move(name), {}, {}, {}, 0};
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    offset += gap;
    auto count = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(keep * static_cast<double>(sizes[i])));
    if (i % 11 == 8 || sizes[i] == 0) count = 0;
    data.scopes.push_back({static_cast<std::uint32_t>(i), offset, sizes[i], data.selected, count});
    data.selected += count;
    offset += sizes[i];
  }
  data.gradient = normal_values(offset + gap, 41);
  data.residual = normal_values(offset + gap, 42);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto at = static_cast<std::ptrdiff_t>(data.scopes[i].offset);
    const auto gradient = values_of(data_kinds()[i % data_kinds().size()], sizes[i], 2 * i);
    const auto residual = values_of(data_kinds()[i % data_kinds().size()], sizes[i], 2 * i + 1);
    std::copy(gradient.begin(), gradient.end(), data.gradient.begin() + at);
    std::copy(residual.begin(), residual.end(), data.residual.begin() + at);
  }
  return data;
}

/// Short and long scopes, more of each than a launch on a device takes, and long ones whose candidates have no room.
inline std::vector<ScopedData> data_in_scopes() {
  std::vector<std::size_t> many_short, many_long;
  for (std::size_t i = 0; i < 110; ++i) many_short.push_back(1 + 37 * i);
  for (std::size_t i = 0; i < 65; ++i) many_long.push_back(8'193 + 3 * i);  // one more than a launch takes
  const std::vector<std::size_t> mixed{1, 5, 8'192, 8'193, 3, 20'000, 12'288, 9'001, 9'500, 8'191, 10'007, 0, 30'000};
  const std::vector<std::size_t> crowded{9'000, 9'000, 9'000, 9'000, 9'000, 150'001, 70'001, 80'003, 9'000, 150'001};
  std::vector<ScopedData> all;
  for (const double keep : {1e-9, 0.01, 0.4, 1.0}) {
    all.push_back(scoped_data("mixed, keep " + std::to_string(keep), mixed, keep, 0));
  }
  all.push_back(scoped_data("apart", mixed, 0.02, 3));
  all.push_back(scoped_data("one", {20'000}, 0.01, 5));
  all.push_back(scoped_data("many short", many_short, 0.01, 0));
  all.push_back(scoped_data("many long", many_long, 0.01, 1));
  all.push_back(scoped_data("crowded", crowded, 0.01, 0));
  return all;
}

/// A guess for each scope: right, none, too high, too low, or absurd.
inline std::vector<float> guesses_in_scopes(const std::vector<float>& thresholds) {
  constexpr float kScales[]{1.0F, 0.0F, 1.25F, 0.5F, -1.0F, 1.02F, 1e30F};
  std::vector<float> guesses = thresholds;
  for (std::size_t i = 0; i < guesses.size(); ++i) guesses[i] *= kScales[i % std::size(kScales)];
  return guesses;
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
