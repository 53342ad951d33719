#pragma once

// What the tests of the twins share: a place on a device beside one with the reference's loops, awkward sizes and
// values. They are skipped, and say so, where there is no CUDA device.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "cuda/device_array.h"
#include "laconic/cuda.h"
#include "laconic/laconic.h"
#include "support/support.h"

namespace laconic::test {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

/// Around words, groups of packed fields, and the 2,048 entries that a block of threads handles; and many blocks.
inline const std::vector<std::size_t> kSizes{0,   1,   31,   32,   33,   511,   512,
                                             513, 997, 2047, 2048, 2049, 1'000'003};

/// Normal values among which are the awkward ones: both zeros, subnormals, the largest, equal ones; and `extra`, which
/// may be Inf or NaN, with either sign.
inline std::vector<float> awkward_values(std::size_t n, std::uint64_t seed, float extra = 0.0F) {
  auto values = normal_values(n, seed);
  const std::vector<float> awkward{0.0F, -0.0F, 1e-45F, -1e-40F, 1e-38F, -3e38F, 1.0F, -1.0F, extra, -extra};
  for (std::size_t i = 0; i < n; i += 7) values[i] = awkward[i / 7 % awkward.size()];
  return values;
}

inline std::uint64_t number_in_environment(const char* name, std::uint64_t fallback) {
  const char* const given = std::getenv(name);
  return given == nullptr ? fallback : std::strtoull(given, nullptr, 10);
}

/// LACONIC_TEST_EVERY=n runs every n-th case only, of the loops that ask for it: for sanitizers, under which a kernel
/// takes a hundred times as long. LACONIC_TEST_FIRST says which ones.
inline std::uint64_t run_every() {
  static const std::uint64_t every = std::max<std::uint64_t>(1, number_in_environment("LACONIC_TEST_EVERY", 1));
  return every;
}
/// Whether to leave this case of a test out. The first case always runs. With `many` = 8, the loop runs an eighth as
/// many of its cases as a loop with 1.
inline bool left_out(std::uint64_t many = 1) {
  static const std::uint64_t first = number_in_environment("LACONIC_TEST_FIRST", 0);
  static const ::testing::TestInfo* last_test = nullptr;
  static std::uint64_t asked = 0;
  const ::testing::TestInfo* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  if (test != last_test) asked = 0;
  last_test = test;
  const std::uint64_t every = run_every() * many;
  const std::uint64_t number = asked++;
  return run_every() > 1 && number > 0 && number % every != first % every;
}

/// The values that tests add to the awkward ones, each in a run of its own.
inline constexpr float kExtras[] = {0.0F, kInfinity, kNotANumber};

template <class T>
::testing::AssertionResult same_bits(const std::vector<T>& found, const std::vector<T>& expected) {
  if (found.size() != expected.size()) return ::testing::AssertionFailure() << "sizes differ";
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::memcmp(&found[i], &expected[i], sizeof(T)) == 0) continue;
    return ::testing::AssertionFailure() << "entry " << i << " of " << found.size() << " differs";
  }
  return ::testing::AssertionSuccess();
}

/// The same bits, but for NaN: which bits the result of an operation has then is the processor's choice.
template <class T>
::testing::AssertionResult same_numbers(const std::vector<T>& found, const std::vector<T>& expected) {
  if (found.size() != expected.size()) return ::testing::AssertionFailure() << "sizes differ";
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::memcmp(&found[i], &expected[i], sizeof(T)) == 0) continue;
    if (std::isnan(found[i]) && std::isnan(expected[i])) continue;
    return ::testing::AssertionFailure() << "entry " << i << " of " << found.size() << " is " << found[i]
                                         << ", expected " << expected[i];
  }
  return ::testing::AssertionSuccess();
}

class Cuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
    place_ = cuda_place();
  }

  std::unique_ptr<Place> place_;
  Place reference_{{.threads = 1, .simd = SimdLevel::reference}};
};

/// A status on the device.
class DeviceStatus {
 public:
  StatusView view() const { return memory_.view(); }
  Status read() const { return memory_.values()[0]; }
  bool intact() const { return memory_.intact(); }

 private:
  DeviceArray<Status> memory_{std::vector<Status>(1)};
};

}  // namespace laconic::test
