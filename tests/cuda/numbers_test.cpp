// Gradients in 16 bits at the kernels' front doors, on a device.

#include "cuda/fixture.h"
#include "kernels/numbers_checks.h"

namespace laconic::test {
namespace {

TEST_F(Cuda, SixteenBitsAreReadAndWrittenAsTheirFloatsAre) {
  for (const NumberType type : k16bitTypes) {
    for (const std::size_t n : kNumberSizes) {
      SCOPED_TRACE(std::string(format_name(format_of(type))) + ", n " + std::to_string(n));
      NumberChecks<DeviceArray>(*place_, type, n).run();
    }
  }
}

}  // namespace
}  // namespace laconic::test
