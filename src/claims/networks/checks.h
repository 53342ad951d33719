#pragma once

#include "claims/claims.h"
#include "claims/networks/figures.h"

namespace laconic::claims {

ClaimOutcome def_divergence(const Figures& figures);
ClaimOutcome def_a_early(const Figures& figures);
ClaimOutcome grawa_rounds(const Figures& figures);
ClaimOutcome grawa_flatness(const Figures& figures);
ClaimOutcome grawa_crowded(const Figures& figures);
ClaimOutcome dqsgd_bits(const Figures& figures);
ClaimOutcome signum_adam(const Figures& figures);
ClaimOutcome sign_adversaries(const Figures& figures);
ClaimOutcome sign_ties(const Figures& figures);
ClaimOutcome regtopk(const Figures& figures);
ClaimOutcome signum_gpt(const Figures& figures);
ClaimOutcome signum_turns_gpt(const Figures& figures);
ClaimOutcome topk_adam_fails(const Figures& figures);
ClaimOutcome chunk_quant_gpt(const Figures& figures);
ClaimOutcome def_topk_gpt(const Figures& figures);
ClaimOutcome diloco_gpt(const Figures& figures);

}  // namespace laconic::claims
