#include "claims/papers.h"
#include "claims/problems/checks.h"
#include "claims/tables.h"

namespace laconic::claims {

std::vector<Claim> problem_claims() {
  return {
      {"regtopk-toy",
       kRegTopK,
       "two workers whose large entries cancel: Top-1 stands still for 100 steps, RegTop-1 follows the dense run",
       "step 150: dense .00736, RegTop-1 .00726; Top-1 .3133 until ~0 after one huge step at 100",
       "dense and RegTop-1 within 0.6 % of the page at steps 1, 2, 10, 50, 100, 150 (it prints three digits); Top-1 at "
       ".3133 after 99 steps (the entries tie in the 100th) and below 1e-6 after 150",
       ProblemCheck{1, regtopk_toy}},
      {"regtopk-regression",
       kRegTopK,
       "linear regression, 20 workers: from S = .55 on RegTop-k reaches the optimum that Top-k never does",
       "log10 of the squared distance in float32, S = .3 .5 .55 .6 .7 .8 .9: Top-k -1.5 -2.0 -2.0 -2.2 -2.4 -2.9 -3.5; "
       "previous -1.5 -3.8 -8.8 -7.0 -6.8 -6.5 -6.9; current -1.5 -2.2 -2.0 -2.0 -2.0 -2.3 -2.8; dense -9.2",
       "medians: for S >= .55 previous < -6, Top-k and current > -4.6; for S <= .5 all > -5; dense < -8.5",
       ProblemCheck{7, regtopk_regression}},
      {"topk-floor",
       kRegTopK,
       "the same regression: Top-k comes to a floor that more rounds do not lower",
       "log10 of the squared distance after 2,500 rounds in float32, S = .3 .6 .9: -1.5 -2.2 -3.5; dense -9.2",
       "medians at S = .3 .6 .9: above -4.6, less than half a decade below those of 1,250 rounds, and more than four "
       "decades above dense",
       ProblemCheck{7, topk_floor}},
      {"sign-noisy-quadratic",
       kSign,
       "half the squares in 100 dimensions, noise N(0, 100^2) on one of them: signSGD wins",
       "signSGD wins (figure)",
       "median loss of the last 1,000 of 2,000 steps: signSGD (lr .01) below SGD (lr .001)",
       ProblemCheck{7, sign_noisy_quadratic}},
      {"sign-geometry",
       kSign,
       "dense gradients with sparse noise favour signSGD, sparse gradients with dense noise SGD",
       "densities decide: gradient 2/pi, noise 1/d: signSGD; gradient 1/d, noise 1: SGD",
       "median loss after 1,000 steps, each method at its best of 8 learning rates: signSGD below SGD on the first "
       "problem, SGD below signSGD on the second",
       ProblemCheck{7, sign_geometry}},
      {"sign-vote-noise",
       kSign,
       "the vote divides the noise term by the square root of the workers' number",
       "error goes as W to the power -0.5 (the limit of many workers)",
       "settled loss for W = 1 3 9 27, as a share of that for one: within 5 % of the exact figure for small signals, "
       "2^(W-1) / (W C(W-1, (W-1)/2)) = 1, .667, .406, .239, which goes as W to the power -0.5 for large W",
       ProblemCheck{3, sign_vote_noise}},
      {"sign-adversaries",
       kVote,
       "the vote learns with up to 3 of 7 workers inverting their signs",
       "learns with 3 of 7 (43 %), at a lower learning rate",
       "share of the first loss that is left: under 5 % with 0 to 3 of 7 inverting; with 4 of 7 the loss grows",
       ProblemCheck{7, sign_adversaries}},
      {"sign-ties",
       kVote,
       "with an even number of workers ties must be broken by chance, not by +1",
       "Fashion-MNIST, independent model: W = 4 88.2 % (plus) against 91.9 % (random), W = 8 89.9 against 91.5",
       "settled loss on a quadratic, W = 4 and 8: random below half of plus; W = 7: the same to the last bit",
       ProblemCheck{7, sign_ties}},
      {"def-virtual-iterate",
       kDef,
       "y = x - mean error moves by the learning rate times the mean momentum, whatever C",
       "y_{t+1} = y_t - lr * mean of m_k (identity)",
       "furthest from a float64 model over 300 steps, ratios 1 4 16 32: below 1e-5 of the largest entry of the start",
       ProblemCheck{3, def_virtual_iterate}},
      {"def-sgd-ia",
       kDef,
       "lambda = 1, one worker: y runs plain SGD and x interpolates between x and y",
       "x_{t+1} = (1 - delta) x_t + delta y_{t+1} (identity)",
       "y within 1e-5 of plain SGD in float64; every entry of x exactly y's or its old one; each entry y's "
       "with frequency delta = 1/ratio within six deviations of 1,000 draws",
       ProblemCheck{1, def_sgd_ia}},
      {"def-vs-ef",
       kDef,
       "a quadratic where error feedback with momentum diverges and DEF does not",
       "VGG-16, ratio 256: EF diverges, DEF 93.45 %",
       "sweep of lr * L * ratio / (1 - momentum): the least value where EF ends more than 1e3 times as far from the "
       "optimum as it began is below that of DEF with lambda .3, which converges (below 0.1) wherever EF does "
       "(medians)",
       ProblemCheck{7, def_vs_ef}},
      {"dqsgd-convex",
       kDq,
       "strongly convex rule: fewer bits for the same error than a fixed width",
       "21 to 25 % less traffic than QSGD with 6 bits, accuracy within .001 (three networks)",
       "500 steps of logistic regression: for the error that B = 3 to 8 fixed bits end with, DQ-SGD (best of 13 error "
       "budgets, the norm from the payloads) needs fewer bits, all norms counted (medians); B = 2, the quantizer's "
       "least, is not judged. The count was fixed after six had been looked at; with 32 bits more a step for the norm "
       "the claim fails at some widths",
       ProblemCheck{5, dqsgd_convex}},
      {"grawa-convex",
       kGrawa,
       "weights 1/||gradient|| beat plain averaging and EASGD where workers differ in quality",
       "none on a convex problem or for unequal workers; equal ones, CIFAR-10 ResNet-20, test error: EASGD 9.22, "
       "MGRAWA "
       "8.99",
       "quadratic, workers' noise .3 1 1 3: median settled loss of MGRAWA below averaging and EASGD, each at the best "
       "of "
       "its small grid of periods and pulls; equal workers are shown and not judged",
       ProblemCheck{7, grawa_convex}},
      {"grawa-vincent",
       kGrawa,
       "Vincent's function from four corners: GRAWA ends in a flat minimum",
       "ends in a wide valley (figure); Hessian trace of ResNet-20: MGRAWA 84, LGRAWA 78, LSGD 318",
       "all methods end in a minimum (loss below -1.999); the Hessian's trace there is for MGRAWA and LGRAWA below 0.9 "
       "of that of averaging and of EASGD (LSGD, which moves to the best worker, is shown and not judged)",
       ProblemCheck{1, grawa_vincent}},
      {"grawa-async",
       kGrawa,
       "one of four workers 4 times slower does not hold the others back between rounds",
       "in theory 4 / 3.25 step times a step instead of 4: 0.31 of the wall time",
       "the same number of steps in all, rounds within 1, wall time under half of lockstep's",
       ProblemCheck{1, grawa_async}},
  };
}

}  // namespace laconic::claims
