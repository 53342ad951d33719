#include "claims/networks/checks.h"
#include "claims/papers.h"
#include "claims/tables.h"

namespace laconic::claims {

std::vector<Claim> network_claims() {
  return {
      {"def-divergence",
       kDef,
       "where error feedback on random blocks diverges, detached error feedback learns",
       "VGG-16 on CIFAR-10, SGD 93.76: EF at ratio 16, 64, 256: 93.04, 92.16, diverges; DEF at 64, 256, 1024: 93.75, "
       "93.45, 93.03",
       "EF ends below 20 % at 16, 64 and 256; DEF at 64, 256 and 1024 at most 2, 3 and 8 points below SGD",
       NetworkCheck{{"sgd", "ef-16", "ef-64", "ef-256", "def-64", "def-256", "def-1024", "def-a-256"}, def_divergence},
       "SGD 91.9; EF at 16, 64, 256: 10.0, 10.0, 10.0; DEF at 64, 256, 1024: 91.1, 90.3, 86.3"},
      {"def-a-early",
       kDef,
       "DEF-A leads DEF before the first drop of the learning rate",
       "about 15 points (figure)",
       "its lead after 1/6, 1/3 and 1/2 of the steps is 0.5 points or more in the mean; at the end both lie within 1",
       NetworkCheck{{"def-64", "def-a-64"}, def_a_early},
       "DEF 83.6, 86.4, 88.4, 91.1 after 1/6, 1/3, 1/2 and all of the steps; DEF-A 85.6, 88.9, 89.8, 90.9"},
      {"grawa-rounds",
       kGrawa,
       "GRAWA is ahead of EASGD and LSGD with fewer rounds",
       "CIFAR-10, ResNet-20, test error: EASGD 9.22 in 2,539 rounds, LSGD 9.23 in 1,319, MGRAWA 8.99 in 167, LGRAWA "
       "8.93 in 328",
       "MGRAWA and LGRAWA at period 16 end above EASGD and LSGD at 8, and at 32 above theirs at 16, with half the "
       "rounds",
       NetworkCheck{{"mgrawa-16", "lgrawa-16", "mgrawa-32", "lgrawa-32", "easgd-8", "easgd-16", "lsgd-8", "lsgd-16"},
                     grawa_rounds},
       "MGRAWA, LGRAWA at period 16: 90.5, 90.4 in 187 rounds, EASGD, LSGD at 8: 89.1, 89.9 in 375; at 32: 90.2, 90.3 "
       "in 93, at 16: 88.8, 89.3 in 187"},
      {"grawa-flatness",
       kGrawa,
       "GRAWA ends in flatter valleys",
       "Hessian trace, ResNet-20: EASGD 84, LSGD 318, MGRAWA 84, LGRAWA 78, SGD 325; VGG-16: 258, 253, 199, 227, 865",
       "the trace at MGRAWA's and LGRAWA's point lies below SGD's and below the larger of EASGD's and LSGD's",
       NetworkCheck{{"sgd", "easgd-8", "lsgd-8", "mgrawa-16", "lgrawa-16"}, grawa_flatness, true},
       "none"},
      {"grawa-crowded",
       kGrawa,
       "MGRAWA stays ahead as workers are added",
       "ahead with 4, 8, 12 and more (figure)",
       "with 4, 8 and 16 workers MGRAWA at period 16 ends above EASGD and LSGD at 8",
       NetworkCheck{{"mgrawa-16", "easgd-8", "lsgd-8", "mgrawa-16-4-workers", "easgd-8-4-workers",
                     "lsgd-8-4-workers", "mgrawa-16-16-workers", "easgd-8-16-workers", "lsgd-8-16-workers"},
                     grawa_crowded},
       "8 workers: MGRAWA 90.5, EASGD 89.1, LSGD 89.9"},
      {"dqsgd-bits",
       kDq,
       "bits that follow the gradient's norm are worth more than fixed ones",
       "ResNet-18 on CIFAR-10: QSGD .8545 at 4 bits, .8803 at 6; DQ-SGD .8793 at 4.5; SGD .8815",
       "DQ-SGD by the workers' norms, tau = 3 and 6, lies 0.3 points or more above the line through QSGD's, in the "
       "mean",
       NetworkCheck{{"qsgd-4", "qsgd-5", "qsgd-6", "dqsgd-workers-3", "dqsgd-workers-6", "dqsgd-aggregate-6",
                     "dqsgd-aggregate-12"}, dqsgd_bits},
       "QSGD at 4, 5, 6 bits: 87.0, 90.0, 91.3; DQ-SGD by the workers' norms: 89.8 at 4.75, 91.0 at 5.24; by the "
       "aggregate's: 90.2 at 5.05, 91.3 at 6.01"},
      {"signum-adam",
       kSign,
       "Signum learns as well as Adam",
       "ResNet-50 on ImageNet: about equal (figure)",
       "Signum with 7 workers ends within 1 point of Adam",
       NetworkCheck{{"signum-7", "signum-8", "adam", "sgd"}, signum_adam},
       "Adam 91.7; Signum with 7 workers 91.3, with 8 91.5"},
      {"sign-adversaries-deep",
       kVote,
       "the vote learns although 3 of 7 workers invert their signs",
       "learns with 3 of 7 (43 %), at a lower learning rate",
       "with 2 inverting it ends at 85 % or more, with 3 at 80 % or more",
       NetworkCheck{{"signum-7", "signum-7-2-inverting", "signum-7-3-inverting"}, sign_adversaries},
       "2 inverting 89.2 (learning rate 5e-4), 3 inverting 85.0 (2e-4); none 91.3"},
      {"sign-ties-deep",
       kVote,
       "with an even number of workers ties must be broken by chance, not by +1",
       "none: the public code counts a tie as +1",
       "W = 4 and 8: random ends 0.5 points or more above plus",
       NetworkCheck{{"signum-4", "signum-4-plus", "signum-8", "signum-8-plus"}, sign_ties},
       "W = 4: plus 88.2, random 91.9; W = 8: 89.9, 91.5"},
      {"regtopk-deep",
       kRegTopK,
       "RegTop-k is ahead of Top-k where very little is sent",
       "ResNet-18 on CIFAR-10: about 8 points at S = 0.1 % (its Top-k keeps no memory of errors)",
       "at S = 0.1 % RegTop-k ends 1 point or more above Top-k, both with memory",
       NetworkCheck{{"topk-1", "topk-0.1", "topk-0.02", "regtopk-1", "regtopk-0.1", "regtopk-0.02"}, regtopk},
       "with memory no difference beyond 0.5 points at S = 1 % and 0.1 %, up to 1 point behind at 0.02 %"},
  };
}

}  // namespace laconic::claims
