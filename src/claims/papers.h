#pragma once

namespace laconic::claims {

inline constexpr const char* kRegTopK = "Bereyhi et al. 2025, Regularized Top-k";
inline constexpr const char* kTopK = "Stich et al. 2018, Sparsified SGD with memory";
inline constexpr const char* kBlocks = "Dettmers et al. 2022, 8-bit optimizers via block-wise quantization";
inline constexpr const char* kDiLoCo = "Douillard et al. 2023, DiLoCo";
inline constexpr const char* kSign = "Bernstein et al. 2018, signSGD";
inline constexpr const char* kVote = "Bernstein et al. 2019, signSGD with majority vote";
inline constexpr const char* kDef = "Xu, Huang 2022, Detached error feedback";
inline constexpr const char* kDq = "Yan et al. 2021, DQ-SGD";
inline constexpr const char* kGrawa = "Dimlioglu, Choromanska 2024, GRAWA";

}  // namespace laconic::claims
