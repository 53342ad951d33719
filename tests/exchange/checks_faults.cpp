#include <gtest/gtest.h>

#include "exchange/checks_list.h"
#include "exchange/damaging_communicator.h"
#include "exchange/dense_sum.h"
#include "exchange/model.h"
#include "laconic/error.h"
#include "support/support.h"

namespace laconic::test {

void check_damage_is_refused(Communicator& communicator) {
  Place& place = place_of(communicator);
  const std::size_t n = 1009;
  auto values = values_of(communicator.rank(), n, 3);
  Status status;
  if (communicator.rank() == 0) {
    DamagingCommunicator damaged(communicator, 40);
    DenseSum sum(damaged, place, n);
    const auto text = message_of<CorruptPayload>([&] {
      sum.start(values, view_of(status));
      sum.finish();
    });
    EXPECT_TRUE(contains(text, "checksum does not match")) << text;
  } else {
    DenseSum sum(communicator, place, n);
    const auto text = message_of<TransportError>([&] {
      sum.start(values, view_of(status));
      sum.finish();
    });
    EXPECT_TRUE(contains(text, "rank 0") && contains(text, "checksum does not match")) << text;
  }
}

}  // namespace laconic::test
