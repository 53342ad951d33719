// What a step asks of the device in a model of many small tensors: launches and waits do not grow with the number of
// tensors, and no step but the first ones allocates. Only the emulated device counts them.

#include "calls.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "base/buffer.h"
#include "base/scratch_status.h"
#include "base/transfer.h"
#include "exchange/sparse_sum.h"
#include "kernels/elementwise/elementwise.h"
#include "laconic/cuda.h"
#include "laconic/threads.h"
#include "methods/harness.h"
#include "support/placed_values.h"
#include "transport/staged/communicator.h"

namespace laconic::test {
namespace {

struct Bound {
  const char* method;
  int ranks;
  unsigned launches;  ///< of kernels, with copies and fillings of memory; what is counted today, the most of any rank
  unsigned waits;
  const char* scope = nullptr;  ///< if it is not the method's default
  const char* route = nullptr;
};
void PrintTo(const Bound& bound, std::ostream* out) {
  *out << bound.method << (bound.scope != nullptr ? " by " : "") << (bound.scope != nullptr ? bound.scope : "")
       << " with " << bound.ranks << " ranks" << (bound.route != nullptr ? ", route = " : "")
       << (bound.route != nullptr ? bound.route : "");
}

/// As many as ResNet-50 has: more than one launch takes. A selection by tensor meets long ones too.
std::vector<Tensor> many_tensors(bool with_long) {
  std::vector<Tensor> tensors;
  for (std::uint64_t i = 0; i < 161; ++i) {
    const bool is_long = with_long && i % 40 == 7;
    tensors.push_back({"tensor" + std::to_string(i), (is_long ? 8'500 : 1) + i * 37 % 900});
  }
  return tensors;
}

struct LaterStep {
  std::vector<float> result;
  emulation::Calls calls;  ///< of this rank, when the steps before have made the memory of both routes' messages
};

LaterStep third_step(const Bound& bound, Communicator& communicator, Place& place) {
  MethodOptions options = small_options(method_row(bound.method));
  if (bound.scope != nullptr) options.scope = bound.scope;
  if (bound.route != nullptr) options.route = bound.route;
  const auto method = make_method(bound.method, options, communicator, place);
  const std::vector<Tensor> tensors = many_tensors(bound.scope != nullptr);
  method->register_tensors(tensors);
  const std::vector<float> point(size_of(tensors), 0.5F);
  const auto rank = static_cast<std::uint32_t>(communicator.rank());
  LaterStep later;
  for (std::uint32_t step = 0; step < 3; ++step) {
    PlacedValues values(place, pull_gradient(point, communicator.rank(), step));
    const emulation::Calls before = emulation::calls_of_thread();
    method->reduce({42, step, rank}, values.view());
    const emulation::Calls after = emulation::calls_of_thread();
    later.calls = {after.launches - before.launches, after.copies - before.copies, after.waits - before.waits,
                   after.allocations - before.allocations};
    later.result = values.get();
  }
  return later;
}

class Calls : public testing::TestWithParam<Bound> {};

TEST_P(Calls, OfAStepAreFewAndItsBitsTheCpus) {
  const Bound bound = GetParam();
  run_ranks(bound.ranks, [&](Communicator& communicator) {
    Place cpu({.threads = 1});
    const auto expected = third_step(bound, communicator, cpu);
    const auto device = cuda_place();
    const auto found = third_step(bound, communicator, *device);
    ASSERT_EQ(found.result.size(), expected.result.size());
    EXPECT_EQ(std::memcmp(found.result.data(), expected.result.data(), expected.result.size() * sizeof(float)), 0);
    EXPECT_LE(found.calls.launches + found.calls.copies, bound.launches);
    EXPECT_LE(found.calls.waits, bound.waits);
    EXPECT_EQ(found.calls.allocations, 0U);
    if (communicator.rank() == 0) {
      testing::Test::RecordProperty("launches", static_cast<int>(found.calls.launches + found.calls.copies));
      testing::Test::RecordProperty("waits", static_cast<int>(found.calls.waits));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Methods, Calls,
    testing::Values(Bound{"signsgd", 1, 32, 4}, Bound{"signsgd", 4, 77, 6}, Bound{"signum", 1, 33, 4},
                    Bound{"signum", 4, 78, 6}, Bound{"qsgd", 1, 29, 3}, Bound{"qsgd", 4, 48, 4},
                    Bound{"terngrad", 1, 29, 3}, Bound{"terngrad", 4, 48, 4}, Bound{"dqsgd", 1, 34, 4},
                    Bound{"dqsgd", 4, 53, 5}, Bound{"block-quant", 1, 35, 4}, Bound{"block-quant", 4, 89, 6},
                    Bound{"topk", 1, 37, 4}, Bound{"topk", 4, 64, 6}, Bound{"topk", 1, 40, 4, "tensor"},
                    Bound{"topk", 4, 67, 6, "tensor"}, Bound{"regtopk", 1, 45, 4, "tensor"},
                    Bound{"regtopk", 4, 72, 6, "tensor"}, Bound{"randk", 1, 40, 4, "tensor"},
                    Bound{"randk", 4, 85, 6, "tensor"}, Bound{"topk", 4, 139, 11, nullptr, "range"}));

/// A step of the table's row, whatever its face, on a device.
class DeviceWorker {
 public:
  DeviceWorker(const MethodRow& row, const MethodOptions& options, Communicator& communicator)
      : communicator_(communicator),
        place_(cuda_place()),
        method_(make_model_method(row.name, options, {}, communicator, *place_)),
        model_(*place_, std::vector<float>(size_of(small_model()), 0.5F)) {
    method_->register_tensors(small_model());
    method_->set_scoring([this](View<const float> point, View<float> gradient) { copy(*place_, point, gradient); });
    method_->start(model_.view());
  }

  /// Allocations of this rank's thread.
  unsigned allocations_of_step(std::uint32_t number) {
    const PlacedValues gradient(*place_, integer_gradient(model_.view().size(), communicator_.rank(), number));
    const unsigned before = emulation::calls_of_thread().allocations;
    method_->step({key_of(communicator_, number), 0.01F, 0.0F}, model_.view(), gradient.view());
    return emulation::calls_of_thread().allocations - before;
  }

 private:
  Communicator& communicator_;
  std::unique_ptr<Place> place_;
  std::unique_ptr<ModelMethod> method_;
  PlacedValues model_;
};

TEST(Allocations, OfDeviceMemoryEndWithTheFirstSteps) {
  constexpr std::uint32_t kSteps = 14;
  for (const MethodRow& row : method_table()) {
    const MethodOptions options = small_options(row);
    // Messages' memory alternates between two buffers, and a round method has its first round after a period.
    const auto warm = 2 * static_cast<std::uint32_t>(options.period.value_or(options.local_steps.value_or(1.0))) + 1;
    ASSERT_LT(warm + 3, kSteps) << row.name;
    for (const int ranks : {1, 3}) {
      run_ranks(ranks, [&](Communicator& communicator) {
        DeviceWorker worker(row, options, communicator);
        for (std::uint32_t number = 0; number < kSteps; ++number) {
          const unsigned allocations = worker.allocations_of_step(number);
          if (number < warm) continue;
          EXPECT_EQ(allocations, 0U) << row.name << ", step " << number << ", " << ranks << " ranks";
        }
      });
    }
  }
}

/// Sums in 16 bits that are gathered are rounded in scratch memory, however long the union is.
TEST(Allocations, OfASumInSixteenBitsDoNotFollowTheUnion) {
  constexpr std::uint32_t kEntries = 40'000;
  run_ranks(2, [](Communicator& communicator) {
    const auto place = cuda_place();
    staged::StagedCommunicator staged(communicator, *place);
    SparseSum sum(staged, *place, 10 * kEntries, kEntries,
                  {.route = SparseRoute::gather, .format = ValueFormat::bf16});
    const PlacedValues mean(*place, std::vector<float>(10 * kEntries));
    const ScratchStatus status(*place);
    std::vector<std::uint32_t> indices(kEntries);
    Buffer<std::uint32_t> there;
    there.reserve(*place, kEntries);
    const PlacedValues values(*place, std::vector<float>(kEntries, 1.5F));
    for (std::uint32_t step = 0; step < 20; ++step) {
      std::iota(indices.begin(), indices.end(), communicator.rank() == 0 ? 0 : 25'000 + 700 * step);
      copy_from_cpu(*place, indices.data(), there.view(kEntries));
      const unsigned before = emulation::calls_of_thread().allocations;
      sum.start({there.view(kEntries), values.view()}, mean.view(), status.view());
      sum.finish();
      if (step == 0) continue;
      EXPECT_EQ(emulation::calls_of_thread().allocations, before) << "step " << step;
    }
  });
}

}  // namespace
}  // namespace laconic::test
