// The exchanges with views, statuses and messages on a device: the same checks, and the same faults, as on the CPU
// (tests/exchange). All ranks are on one device, or all but rank 0.

#include <gtest/gtest.h>

#include "cuda/device_places.h"
#include "exchange/checks.h"
#include "exchange/checks_list.h"
#include "exchange/worker.h"

namespace laconic::test {
namespace {

class DeviceExchanges : public testing::TestWithParam<ExchangeCheck> {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  }
};

INSTANTIATE_TEST_SUITE_P(Checks, DeviceExchanges, testing::ValuesIn(exchange_checks().begin(), exchange_checks().end()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(DeviceExchanges, HoldAlone) { run_workers(1, on_device, GetParam().run); }
TEST_P(DeviceExchanges, HoldForThree) { run_workers(3, on_device, GetParam().run); }
TEST_P(DeviceExchanges, HoldBesideARankOnTheCpu) { run_workers(3, on_device_but_rank_0, GetParam().run); }
TEST_P(DeviceExchanges, HoldWithMessagesThatStayOnTheDevice) {
  for (const auto& place : {on_device, on_device_but_rank_0}) run_workers(3, place, GetParam().run, cuda_place());
}

/// With 7 ranks the union has more entries than are read together, and an owner returns more than it had room for.
TEST(DeviceExchange, OfSevenRanksOutgrowsItsRoom) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  run_workers(7, on_device, check_sparse_borders);
}

class DeviceExchangeFaults : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_F(DeviceExchangeFaults, RanksWithOtherBlocksAreRefused) {
  for (const auto& place : {on_device, on_device_but_rank_0}) run_workers(3, place, check_block_refuses_other_blocks);
}

TEST_F(DeviceExchangeFaults, DamageIsRefusedAndTold) {
  check_damage_is_refused(1, on_device);
  for (const auto& place : {on_device, on_device_but_rank_0}) check_damage_is_refused(3, place);
}

TEST_F(DeviceExchangeFaults, OneThatIsDroppedInFlightLeavesNobodyHanging) {
  for (const auto& place : {on_device, on_device_but_rank_0}) check_dropping_in_flight(3, place);
}

TEST_F(DeviceExchangeFaults, AFailedExchangeStaysFailed) { check_failure_stays(2, on_device); }

}  // namespace
}  // namespace laconic::test
