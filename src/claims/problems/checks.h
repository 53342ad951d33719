#pragma once

#include "claims/claims.h"

namespace laconic::claims {

ClaimOutcome regtopk_toy(const ClaimOptions& options);
ClaimOutcome regtopk_regression(const ClaimOptions& options);
ClaimOutcome topk_floor(const ClaimOptions& options);
ClaimOutcome sign_noisy_quadratic(const ClaimOptions& options);
ClaimOutcome sign_geometry(const ClaimOptions& options);
ClaimOutcome sign_vote_noise(const ClaimOptions& options);
ClaimOutcome sign_adversaries(const ClaimOptions& options);
ClaimOutcome sign_ties(const ClaimOptions& options);
ClaimOutcome def_virtual_iterate(const ClaimOptions& options);
ClaimOutcome def_sgd_ia(const ClaimOptions& options);
ClaimOutcome def_vs_ef(const ClaimOptions& options);
ClaimOutcome dqsgd_convex(const ClaimOptions& options);
ClaimOutcome grawa_convex(const ClaimOptions& options);
ClaimOutcome grawa_vincent(const ClaimOptions& options);
ClaimOutcome grawa_async(const ClaimOptions& options);

}  // namespace laconic::claims
