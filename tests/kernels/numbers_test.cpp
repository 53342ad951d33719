// Gradients in 16 bits at the kernels' front doors, on the CPU.

#include "kernels/numbers_checks.h"

namespace laconic::test {
namespace {

TEST(Numbers, SixteenBitsAreReadAndWrittenAsTheirFloatsAre) {
  for (const SimdLevel level : available_levels()) {
    for (const int threads : {1, 3}) {
      Place place({.threads = threads, .simd = level});
      for (const NumberType type : k16bitTypes) {
        for (const std::size_t n : kNumberSizes) {
          SCOPED_TRACE(std::string(simd_name(level)) + ", " + format_name(format_of(type)) + ", n " +
                       std::to_string(n) + ", threads " + std::to_string(threads));
          NumberChecks<Guarded>(place, type, n).run();
        }
      }
    }
  }
}

}  // namespace
}  // namespace laconic::test
