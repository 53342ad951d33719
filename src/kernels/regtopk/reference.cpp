#include "kernels/regtopk/regularizer.h"

namespace laconic::reference {

void score(const ScoreLoop& loop) {
  for (std::size_t i = 0; i < loop.count; ++i) {
    loop.scores[i] = regularized_score(loop.score, loop.values[i], loop.corrected[i], loop.aggregate[i]);
  }
}

}  // namespace laconic::reference
