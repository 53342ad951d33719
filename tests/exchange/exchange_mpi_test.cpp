#include <gtest/gtest.h>

#include "exchange/checks.h"
#include "laconic/mpi.h"

namespace laconic::test {
namespace {

class MpiExchanges : public testing::TestWithParam<ExchangeCheck> {};

TEST_P(MpiExchanges, Hold) {
  const auto communicator = mpi_communicator(MPI_COMM_WORLD);
  GetParam().run(*communicator);
}

INSTANTIATE_TEST_SUITE_P(Ranks, MpiExchanges, testing::ValuesIn(exchange_checks().begin(), exchange_checks().end()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace laconic::test
