// Top-k with error feedback.
//   1. a = g + e
//   2. s = the k entries of a that are largest by magnitude, equals by lowest index
//   3. send s ⊙ a
//   4. e = a − what was sent
//   5. everyone: g = mean of what the workers sent
// 1, 2 and 4 are one pass (kernels/topk); 3 and 5 are the sparse sum (sparse_method.cpp). union = keep: owners return their k/W largest sums, the rest stays in e.

#include "methods/makers.h"
#include "methods/sparse_method.h"

namespace laconic {
namespace {

class Topk : public SparseMethod {
 public:
  Topk(const Settings& settings, Communicator& communicator, Place& place)
      : SparseMethod(settings, communicator, place) {}

 private:
  void select(const Scope&, View<const float> gradient, View<const float> residual, View<float> rest,
              SparseView selected, StatusView status) override {
    error_feedback_topk(place(), gradient, residual, rest, selected, status);  // 1, 2, 4
  }
};

}  // namespace

std::unique_ptr<GradientBase> make_topk(const Settings& settings, Communicator& communicator, Place& place) {
  return std::make_unique<Topk>(settings, communicator, place);
}

}  // namespace laconic
