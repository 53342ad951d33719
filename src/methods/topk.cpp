// Top-k with error feedback.
//   1. a = g + e
//   2. s = the k entries of a that are largest by magnitude, equals by lowest index
//   3. send s ⊙ a
//   4. e = a − what was sent
//   5. everyone: g = mean of what the workers sent
// 1, 2 and 4 are one pass (kernels/topk); 3 and 5 are the sparse sum (sparse_compression.h). return = coded: owners return
// their k/W largest sums, the rest stays in e.

#include "methods/makers.h"
#include "methods/sparse_method.h"

namespace laconic {
namespace {

class Topk : public SparseMethod {
 public:
  Topk(const Settings& settings, Communicator& communicator, Place& place)
      : SparseMethod(settings, Selection::largest, communicator, place) {}

 private:
  Exchange& compress(const Chunk& chunk, const ChunkFeedback& feedback, StatusView status,
                     StepReport& report) override {
    return compression().start(chunk, feedback, status, report);  // 1 to 5
  }
};

}  // namespace

std::unique_ptr<GradientBase> make_topk(const Settings& settings, Communicator& communicator, Place& place) {
  return std::make_unique<Topk>(settings, communicator, place);
}

}  // namespace laconic
