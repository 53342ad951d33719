#pragma once

// Payloads on a device beside the CPU's.

#include <cstring>
#include <map>

#include "codecs/samples.h"
#include "cuda/fixture.h"
#include "support/placed.h"

namespace laconic::test {

inline ::testing::AssertionResult same_status(const Status& found, const Status& expected) {
  if (std::memcmp(&found, &expected, sizeof(Status)) == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << payload_reason(found.fault) << " at " << found.fault_offset << ", found "
                                       << found.fault_found << ", expected " << found.fault_expected << ", count "
                                       << found.count << "; but " << payload_reason(expected.fault) << " at "
                                       << expected.fault_offset << ", found " << expected.fault_found << ", expected "
                                       << expected.fault_expected << ", count " << expected.count;
}

class CudaCodecs : public Cuda {
 protected:
  /// Decodes on both places and compares everything that a caller can see.
  ::testing::AssertionResult decodes_alike(const Sample& sample, const Payload& payload) {
    const Placed<std::byte> there(*place_, payload, 4);
    const Outcome found = sample.decode(*place_, there.view());
    const Outcome expected = sample.decode(reference_, payload);
    ++outcomes_[static_cast<int>(expected.status.fault)];
    if (found.accepted != expected.accepted) return ::testing::AssertionFailure() << "accepted " << found.accepted;
    if (!found.guards_intact || !there.intact()) return ::testing::AssertionFailure() << "wrote outside";
    if (found.accepted && found.indices != expected.indices) return ::testing::AssertionFailure() << "other indices";
    const auto values = same_numbers(found.values, expected.values);  // a damaged value may be NaN
    return values ? same_status(found.status, expected.status) : values;
  }

  std::map<int, int> outcomes_;  ///< how often each fault was met
};

}  // namespace laconic::test
