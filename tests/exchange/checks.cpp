#include "exchange/checks.h"

#include <array>

#include "exchange/checks_list.h"

namespace laconic::test {
namespace {

constexpr auto kChecks = std::to_array<ExchangeCheck>({
    {"dense", check_dense},
    {"dense_engine", check_dense_engine},
    {"host_ranges", check_host_ranges},
    {"dense_several_in_flight", check_dense_several_in_flight},
    {"dense_plain_sum", check_dense_plain_sum},
    {"broadcast", check_broadcast},
    {"block", check_block},
    {"sparse_routes", check_sparse_routes},
    {"sparse_leader", check_sparse_leader},
    {"sparse_16bit", check_sparse_16bit},
    {"sparse_choice", check_sparse_choice},
    {"sparse_borders", check_sparse_borders},
    {"sparse_keep", check_sparse_keep},
    {"sparse_bytes", check_sparse_bytes},
    {"vote", check_vote},
    {"vote_bytes", check_vote_bytes},
    {"abstaining_vote", check_abstaining_vote},
    {"gathered_numbers", check_gathered_numbers},
    {"overflow", check_overflow},
    {"sparse_keep_16bit", check_sparse_keep_16bit},
    {"sparse_coded", check_sparse_coded},
    {"sparse_coded_return", check_sparse_coded_return},
    {"quantized_routes", check_quantized_routes},
    {"quantized_scopes", check_quantized_scopes},
    {"quantized_requantized", check_quantized_requantized},
    {"nonfinite", check_nonfinite},
    {"wrong_sizes", check_wrong_sizes},
});

}  // namespace

std::span<const ExchangeCheck> exchange_checks() { return kChecks; }

}  // namespace laconic::test
