#include "support/support.h"

#include <random>

namespace laconic::test {

std::vector<SimdLevel> available_levels() {
  std::vector<SimdLevel> levels;
  for (const SimdLevel level : kSimdLevels) {
    if (simd_available(level)) levels.push_back(level);
  }
  return levels;
}

std::vector<std::size_t> awkward_sizes() {
  return {0,   1,   2,   3,   7,   8,   9,    15,   16,   17,   31,   32,   33,    63,    64,    65,
          127, 128, 129, 511, 512, 513, 1023, 1025, 4099, 8191, 8192, 8193, 65536, 65537, 99991, 1000000};
}

std::vector<float> normal_values(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(engine);
  return values;
}

}  // namespace laconic::test
