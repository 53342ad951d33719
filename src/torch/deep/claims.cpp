#include "torch/deep/claims.h"

#include <algorithm>
#include <cmath>

#include "base/suggestion.h"
#include "laconic/error.h"
#include "torch/deep/checks.h"

namespace laconic::deep {
namespace {

constexpr const char* kRegTopK = "Bereyhi et al. 2025, Regularized Top-k";
constexpr const char* kSign = "Bernstein et al. 2018, signSGD";
constexpr const char* kVote = "Bernstein et al. 2019, signSGD with majority vote";
constexpr const char* kDef = "Xu, Huang 2022, Detached error feedback";
constexpr const char* kDq = "Yan et al. 2021, DQ-SGD";
constexpr const char* kGrawa = "Dimlioglu, Choromanska 2024, GRAWA";

const std::vector<DeepClaim>& rows() {
  static const std::vector<DeepClaim> table{
      {"def-divergence",
       kDef,
       "where error feedback on random blocks diverges, detached error feedback learns",
       "VGG-16 on CIFAR-10, SGD 93.76: EF at ratio 16, 64, 256: 93.04, 92.16, diverges; DEF at 64, 256, 1024: 93.75, "
       "93.45, 93.03",
       "SGD 91.9; EF at 16, 64, 256: 10.0, 10.0, 10.0; DEF at 64, 256, 1024: 91.1, 90.3, 86.3",
       "EF ends below 20 % at 16, 64 and 256; DEF at 64, 256 and 1024 at most 2, 3 and 8 points below SGD",
       {"sgd", "ef-16", "ef-64", "ef-256", "def-64", "def-256", "def-1024", "def-a-256"},
       def_divergence},
      {"def-a-early",
       kDef,
       "DEF-A leads DEF before the first drop of the learning rate",
       "about 15 points (figure)",
       "DEF 83.6, 86.4, 88.4, 91.1 after 1/6, 1/3, 1/2 and all of the steps; DEF-A 85.6, 88.9, 89.8, 90.9",
       "its lead after 1/6, 1/3 and 1/2 of the steps is 0.5 points or more in the mean; at the end both lie within 1",
       {"def-64", "def-a-64"},
       def_a_early},
      {"grawa-rounds",
       kGrawa,
       "GRAWA is ahead of EASGD and LSGD with fewer rounds",
       "CIFAR-10, ResNet-20, test error: EASGD 9.22 in 2,539 rounds, LSGD 9.23 in 1,319, MGRAWA 8.99 in 167, LGRAWA "
       "8.93 in 328",
       "MGRAWA, LGRAWA at period 16: 90.5, 90.4 in 187 rounds, EASGD, LSGD at 8: 89.1, 89.9 in 375; at 32: 90.2, 90.3 "
       "in 93, at 16: 88.8, 89.3 in 187",
       "MGRAWA and LGRAWA at period 16 end above EASGD and LSGD at 8, and at 32 above theirs at 16, with half the "
       "rounds",
       {"mgrawa-16", "lgrawa-16", "mgrawa-32", "lgrawa-32", "easgd-8", "easgd-16", "lsgd-8", "lsgd-16"},
       grawa_rounds},
      {"grawa-flatness",
       kGrawa,
       "GRAWA ends in flatter valleys",
       "Hessian trace, ResNet-20: EASGD 84, LSGD 318, MGRAWA 84, LGRAWA 78, SGD 325; VGG-16: 258, 253, 199, 227, 865",
       "none",
       "the trace at MGRAWA's and LGRAWA's point lies below SGD's and below the larger of EASGD's and LSGD's",
       {"sgd", "easgd-8", "lsgd-8", "mgrawa-16", "lgrawa-16"},
       grawa_flatness,
       true},
      {"grawa-crowded",
       kGrawa,
       "MGRAWA stays ahead as workers are added",
       "ahead with 4, 8, 12 and more (figure)",
       "8 workers: MGRAWA 90.5, EASGD 89.1, LSGD 89.9",
       "with 4, 8 and 16 workers MGRAWA at period 16 ends above EASGD and LSGD at 8",
       {"mgrawa-16", "easgd-8", "lsgd-8", "mgrawa-16-4-workers", "easgd-8-4-workers", "lsgd-8-4-workers",
        "mgrawa-16-16-workers", "easgd-8-16-workers", "lsgd-8-16-workers"},
       grawa_crowded},
      {"dqsgd-bits",
       kDq,
       "bits that follow the gradient's norm are worth more than fixed ones",
       "ResNet-18 on CIFAR-10: QSGD .8545 at 4 bits, .8803 at 6; DQ-SGD .8793 at 4.5; SGD .8815",
       "QSGD at 4, 5, 6 bits: 87.0, 90.0, 91.3; DQ-SGD by the workers' norms: 89.8 at 4.75, 91.0 at 5.24; by the "
       "aggregate's: 90.2 at 5.05, 91.3 at 6.01",
       "DQ-SGD by the workers' norms, tau = 3 and 6, lies 0.3 points or more above the line through QSGD's, in the "
       "mean",
       {"qsgd-4", "qsgd-5", "qsgd-6", "dqsgd-workers-3", "dqsgd-workers-6", "dqsgd-aggregate-6", "dqsgd-aggregate-12"},
       dqsgd_bits},
      {"signum-adam",
       kSign,
       "Signum learns as well as Adam",
       "ResNet-50 on ImageNet: about equal (figure)",
       "Adam 91.7; Signum with 7 workers 91.3, with 8 91.5",
       "Signum with 7 workers ends within 1 point of Adam",
       {"signum-7", "signum-8", "adam", "sgd"},
       signum_adam},
      {"sign-adversaries-deep",
       kVote,
       "the vote learns although 3 of 7 workers invert their signs",
       "learns with 3 of 7 (43 %), at a lower learning rate",
       "2 inverting 89.2 (learning rate 5e-4), 3 inverting 85.0 (2e-4); none 91.3",
       "with 2 inverting it ends at 85 % or more, with 3 at 80 % or more",
       {"signum-7", "signum-7-2-inverting", "signum-7-3-inverting"},
       sign_adversaries},
      {"sign-ties-deep",
       kVote,
       "with an even number of workers ties must be broken by chance, not by +1",
       "none: the public code counts a tie as +1",
       "W = 4: plus 88.2, random 91.9; W = 8: 89.9, 91.5",
       "W = 4 and 8: random ends 0.5 points or more above plus",
       {"signum-4", "signum-4-plus", "signum-8", "signum-8-plus"},
       sign_ties},
      {"regtopk-deep",
       kRegTopK,
       "RegTop-k is ahead of Top-k where very little is sent",
       "ResNet-18 on CIFAR-10: about 8 points at S = 0.1 % (its Top-k keeps no memory of errors)",
       "with memory no difference beyond 0.5 points at S = 1 % and 0.1 %, up to 1 point behind at 0.02 %",
       "at S = 0.1 % RegTop-k ends 1 point or more above Top-k, both with memory",
       {"topk-1", "topk-0.1", "topk-0.02", "regtopk-1", "regtopk-0.1", "regtopk-0.02"},
       regtopk},
  };
  return table;
}

}  // namespace

std::span<const DeepClaim> claim_table() { return rows(); }

const DeepClaim& claim_named(std::string_view name) { return row_named(claim_table(), name, "deep claim"); }

std::vector<std::string> runs_of(std::span<const DeepClaim* const> claims) {
  std::vector<std::string> names;
  for (const DeepRun& run : run_table()) {
    const bool needed = std::any_of(claims.begin(), claims.end(), [&](const DeepClaim* claim) {
      return std::any_of(claim->runs.begin(), claim->runs.end(),
                         [&](std::string_view name) { return name == run.name; });
    });
    if (needed) names.emplace_back(run.name);
  }
  return names;
}

std::vector<std::string> missing(const DeepClaim& claim, const Figures& figures) {
  std::vector<std::string> names;
  for (const char* name : claim.runs) {
    if (figures.of(name).empty()) {
      names.emplace_back(name);
    } else if (claim.needs_flatness && std::isnan(figures.trace(name))) {
      names.push_back(std::string(name) + "'s flatness");
    }
  }
  return names;
}

}  // namespace laconic::deep
