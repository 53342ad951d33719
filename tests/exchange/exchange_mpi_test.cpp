#include <gtest/gtest.h>

#include "exchange/checks.h"
#include "exchange/worker.h"
#include "laconic/mpi.h"

namespace laconic::test {
namespace {

class MpiExchanges : public testing::TestWithParam<ExchangeCheck> {};

TEST_P(MpiExchanges, Hold) {
  const auto communicator = mpi_communicator(MPI_COMM_WORLD);
  Worker worker(*communicator, varied_place(communicator->rank()));
  GetParam().run(worker);
}

INSTANTIATE_TEST_SUITE_P(Ranks, MpiExchanges, testing::ValuesIn(exchange_checks().begin(), exchange_checks().end()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace laconic::test
