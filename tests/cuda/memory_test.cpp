// What the table says of the memory of a method on a device, against what the device has less after some steps.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/cuda/queue.h"
#include "laconic/threads.h"
#include "methods/harness.h"
#include "support/method_names.h"
#include "support/placed_values.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr int kRanks = 8;
/// What does not grow with the model is the same for two sizes; it drops out of their difference. A GPU gives memory in
/// units of 2 MiB, the emulation byte by byte.
constexpr std::size_t kSize = std::size_t{1} << (LACONIC_CUDA_EMULATED ? 17 : 23);
constexpr double kUnit = LACONIC_CUDA_EMULATED ? 0.03 : 0.5;  ///< of a parameter's bytes

double free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<double>(free);
}

template <class Method>
void register_one(Method& method, std::size_t parameters) {
  const Tensor whole{"whole", parameters};
  method.register_tensors({&whole, 1});
}

void make_steps(const MethodRow& row, Communicator& communicator, Place& place, View<float> model, View<float> gradient,
                const std::function<void()>& when_done) {
  const auto rank = static_cast<std::uint32_t>(communicator.rank());
  MethodOptions options;
  if (row.traits.meets_in_rounds) options.period = 2;  // a round in the second step
  if (row.face == Face::gradient) {
    const auto method = make_method(row.name, options, communicator, place);
    register_one(*method, gradient.size());
    for (std::uint32_t step = 0; step < 2; ++step) method->reduce({1, step, rank}, gradient);
    return when_done();
  }
  const auto method = make_model_method(row.name, options, {.momentum = 0.9}, communicator, place);
  register_one(*method, model.size());
  method->set_scoring([&](View<const float> point, View<float> out) {
    place.queue()->copy(out.data(), point.data(), point.size_bytes());
  });
  method->start(model);
  for (std::uint32_t step = 0; step < 2; ++step) method->step({{1, step, rank}, 1e-4F, 1.0F}, model, gradient);
  when_done();
}

/// Bytes on the device that one rank holds after some steps, with messages and scratch, without gradient and model.
double held_bytes(const MethodRow& row, std::size_t parameters) {
  double bytes = 0.0;
  run_ranks(kRanks, [&](Communicator& communicator) {
    const auto place = cuda_place();
    std::vector<float> values(parameters);
    for (std::size_t i = 0; i < parameters; ++i) values[i] = 1.0F + static_cast<float>(i * 7919 % 9973);
    const PlacedValues model(*place, std::vector<float>(row.face == Face::model ? parameters : 0, 0.5F));
    const PlacedValues gradient(*place, values);
    const auto free_now = [&] {
      communicator.barrier().wait();
      const double free = free_bytes();
      communicator.barrier().wait();
      return free;
    };
    const double before = free_now();
    make_steps(row, communicator, *place, model.view(), gradient.view(), [&] {
      const double after = free_now();
      if (communicator.rank() == 0) bytes = (before - after) / kRanks;
    });
  });
  return bytes;
}

class MethodMemoryOnDevice : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  }
};
INSTANTIATE_TEST_SUITE_P(Table, MethodMemoryOnDevice, testing::ValuesIn(method_names()),
                         [](const auto& test) { return test_name(test.param); });

TEST_P(MethodMemoryOnDevice, IsWhatTheTableSays) {
  const MethodRow& row = method_row(GetParam());
  held_bytes(row, 1000);  // from the first call of a kernel on, the GPU also holds its code
  const double small = held_bytes(row, kSize);
  const double large = held_bytes(row, 2 * kSize);
  const bool own_momentum = row.face == Face::model && !row.traits.is_sgd;  // the optimizer's
  const double found = (large - small) / static_cast<double>(kSize) - (own_momentum ? sizeof(float) : 0.0);
  EXPECT_NEAR(found, row.device_bytes, 0.03 * row.device_bytes + kUnit) << "bytes per parameter";
}

}  // namespace
}  // namespace laconic::test
