// Ranks come and go in every method of the table: afterwards all ranks count alike and share the same bits.

#include <gtest/gtest.h>

#include "methods/resize_checks.h"

namespace laconic::test {
namespace {

class EveryResize : public testing::TestWithParam<ResizedMethod> {
 protected:
  static void check(int before, int after) {
    run_changing_ranks(before, after, [](const ChangingRank& rank) {
      Place place({.threads = 1});
      Trace trace;
      check_resize(GetParam(), rank, place, trace);
    });
  }
};

INSTANTIATE_TEST_SUITE_P(Table, EveryResize, testing::ValuesIn(resized_methods()),
                         [](const testing::TestParamInfo<ResizedMethod>& test) { return test.param.name; });

TEST_P(EveryResize, SharesTheSameBitsWithANewcomer) { check(2, 3); }
TEST_P(EveryResize, SharesTheSameBitsWhenOneLeaves) { check(3, 2); }

}  // namespace
}  // namespace laconic::test
