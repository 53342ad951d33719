// The twins of kernels/descent against the processor's loops.

#include "cuda/fixture.h"
#include "kernels/descent/descent.h"

namespace laconic::test {
namespace {

/// A view's values on both places.
struct Both {
  std::vector<float> here;
  DeviceArray<float> there;

  explicit Both(std::vector<float> values, std::size_t shift = 0) : here(std::move(values)), there(here, shift) {}
  ::testing::AssertionResult agree() const {
    if (!there.intact()) return ::testing::AssertionFailure() << "the guard zones were written to";
    return same_numbers(there.values(), here);
  }
};

const std::vector<Coefficients> kCoefficients{
    {.learning_rate = 0.1F},
    {.learning_rate = 0.1F, .weight_decay = 0.01F},
    {.learning_rate = 0.1F, .momentum = 0.9F},
    {.learning_rate = 0.1F, .momentum = 0.9F, .weight_decay = 0.01F},
    {.learning_rate = 1e-30F, .momentum = 0.9F, .nesterov = true},
    {.learning_rate = 0.1F, .momentum = 0.9F, .weight_decay = 0.01F, .nesterov = true},
};

class CudaDescent : public Cuda {
 protected:
  /// Calls body(n, extra) for every size without Inf and NaN, and for one size with each.
  template <class Body>
  void for_each_case(Body body) {
    for (const std::size_t n : kSizes) body(n, 0.0F);
    for (const float extra : kExtras) body(3001, extra);
  }
};

TEST_F(CudaDescent, Sgd) {
  for_each_case([&](std::size_t n, float extra) {
    for (const Coefficients& step : kCoefficients) {
      const Both gradient(awkward_values(n, 1, extra), 1);
      Both momentum(step.momentum != 0.0F ? normal_values(n, 2) : std::vector<float>(), 2);
      Both model(awkward_values(n, 3), n % 5);
      sgd_step(reference_, step, gradient.here, momentum.here, model.here);
      sgd_step(*place_, step, gradient.there.view(), momentum.there.view(), model.there.view());
      EXPECT_TRUE(model.agree()) << n;
      EXPECT_TRUE(momentum.agree()) << n;
    }
  });
}

TEST_F(CudaDescent, Adam) {
  AdamCoefficients step{.learning_rate = 0.001F,
                        .beta1 = 0.9F,
                        .beta2 = 0.999F,
                        .fresh1 = 0.1F,
                        .fresh2 = 0.001F,
                        .correction1 = 0.271F,
                        .correction2 = 0.002997F,
                        .epsilon = 1e-8F};
  for_each_case([&](std::size_t n, float extra) {
    for (const auto& [weight_decay, shrink] : {std::pair{0.0F, 1.0F}, {0.01F, 1.0F}, {0.0F, 0.9995F}}) {
      step.weight_decay = weight_decay;
      step.shrink = shrink;
      const Both gradient(awkward_values(n, 1, extra), 1);
      Both first(awkward_values(n, 2), 2);
      auto squares = awkward_values(n, 3);
      for (float& square : squares) square = std::fabs(square);
      Both second(squares, 3);
      Both model(awkward_values(n, 4), n % 5);
      adam_step(reference_, step, gradient.here, first.here, second.here, model.here);
      adam_step(*place_, step, gradient.there.view(), first.there.view(), second.there.view(), model.there.view());
      EXPECT_TRUE(first.agree()) << n;
      EXPECT_TRUE(second.agree()) << n;
      EXPECT_TRUE(model.agree()) << n;
    }
  });
}

TEST_F(CudaDescent, TriedSteps) {
  const AdamCoefficients adam{.learning_rate = 0.001F, .weight_decay = 0.01F, .beta1 = 0.9F, .beta2 = 0.999F,
                              .fresh1 = 0.1F, .fresh2 = 0.001F, .correction1 = 0.271F, .correction2 = 0.002997F,
                              .epsilon = 1e-8F};
  for_each_case([&](std::size_t n, float extra) {
    const Both gradient(awkward_values(n, 1, extra), 1);
    const Both first(awkward_values(n, 2), 2);
    auto squares = awkward_values(n, 3);
    for (float& square : squares) square = std::fabs(square);
    const Both second(squares, 3);
    const Both model(awkward_values(n, 4), n % 5);
    Both next_first(std::vector<float>(n), 1);
    Both next_second(std::vector<float>(n), 2);
    Both next_model(std::vector<float>(n), 3);
    try_adam_step(reference_, adam, gradient.here, {first.here, second.here, model.here},
                  {next_first.here, next_second.here, next_model.here});
    try_adam_step(*place_, adam, gradient.there.view(), {first.there.view(), second.there.view(), model.there.view()},
                  {next_first.there.view(), next_second.there.view(), next_model.there.view()});
    EXPECT_TRUE(next_first.agree() && next_second.agree() && next_model.agree()) << n;
    EXPECT_TRUE(first.agree() && second.agree() && model.agree()) << n;
    const Coefficients sgd{.learning_rate = 0.1F, .momentum = 0.9F, .nesterov = true};
    try_sgd_step(reference_, sgd, gradient.here, {first.here, {}, model.here}, {next_first.here, {}, next_model.here});
    try_sgd_step(*place_, sgd, gradient.there.view(), {first.there.view(), {}, model.there.view()},
                 {next_first.there.view(), {}, next_model.there.view()});
    EXPECT_TRUE(next_first.agree() && next_model.agree()) << n;
  });
}

TEST_F(CudaDescent, BlendsAndDifferences) {
  for_each_case([&](std::size_t n, float extra) {
    const Both x(awkward_values(n, 1, extra), 1);
    const Both y(awkward_values(n, 2), 2);
    Both out(awkward_values(n, 3), n % 5);
    blend(reference_, 0.3F, x.here, out.here);
    blend(*place_, 0.3F, x.there.view(), out.there.view());
    EXPECT_TRUE(out.agree()) << "blend of " << n;
    subtract_difference(reference_, x.here, y.here, out.here);
    subtract_difference(*place_, x.there.view(), y.there.view(), out.there.view());
    EXPECT_TRUE(out.agree()) << "subtract_difference of " << n;
    scale(reference_, 0.7F, out.here);
    scale(*place_, 0.7F, out.there.view());
    EXPECT_TRUE(out.agree()) << "scale of " << n;
    Status status;
    const DeviceStatus device_status;
    scaled_difference(reference_, 0.7F, x.here, out.here, out.here, view_of(status));  // `out` may be y
    scaled_difference(*place_, 0.7F, x.there.view(), out.there.view(), out.there.view(), device_status.view());
    EXPECT_TRUE(out.agree()) << "scaled_difference of " << n;
    EXPECT_EQ(device_status.read().nonfinite, status.nonfinite) << n;
    running_mean(reference_, 0.9F, out.here, y.here, out.here);  // `out` may be `before`
    running_mean(*place_, 0.9F, out.there.view(), y.there.view(), out.there.view());
    EXPECT_TRUE(out.agree()) << "running_mean of " << n;
    subtract_scaled(reference_, x.here, 0.7F, out.here, out.here);  // `out` may be y
    subtract_scaled(*place_, x.there.view(), 0.7F, out.there.view(), out.there.view());
    EXPECT_TRUE(out.agree()) << "subtract_scaled of " << n;
  });
}

TEST_F(CudaDescent, AddResidual) {
  for_each_case([&](std::size_t n, float extra) {
    const Both values(awkward_values(n, 1, extra), 1);
    auto owed = awkward_values(n, 2);
    for (std::size_t i = 0; i < n; i += 3) owed[i] = i % 2 == 0 ? 0.0F : -0.0F;  // must leave -0 as it is
    const Both residual(owed, 2);
    Both out(std::vector<float>(n), n % 5);
    Status status;
    const DeviceStatus device_status;
    add_residual(reference_, values.here, residual.here, out.here, view_of(status));
    add_residual(*place_, values.there.view(), residual.there.view(), out.there.view(), device_status.view());
    EXPECT_TRUE(out.agree()) << n;
    EXPECT_EQ(device_status.read().nonfinite, status.nonfinite) << n;
  });
}

TEST_F(CudaDescent, ErrorInParameterUnits) {
  for_each_case([&](std::size_t n, float extra) {
    for (const Coefficients& step : kCoefficients) {
      Both gradient(awkward_values(n, 1, extra), 1);
      Both momentum(step.momentum != 0.0F ? normal_values(n, 2) : std::vector<float>(), 2);
      Both model(normal_values(n, 3), 3);
      auto owed = awkward_values(n, 4);
      for (std::size_t i = 0; i < n; i += 3) owed[i] = 0.0F;
      const Both error(owed, 4);
      Both next(std::vector<float>(n), n % 5);
      Status status;
      const DeviceStatus device_status;
      add_step_to_error(reference_, step, gradient.here, {model.here, error.here, next.here, momentum.here},
                        view_of(status));
      add_step_to_error(*place_, step, gradient.there.view(),
                        {model.there.view(), error.there.view(), next.there.view(), momentum.there.view()},
                        device_status.view());
      EXPECT_TRUE(next.agree()) << n;
      EXPECT_TRUE(momentum.agree()) << n;
      EXPECT_TRUE(gradient.agree()) << n;
      EXPECT_EQ(device_status.read().nonfinite, status.nonfinite) << n;
      follow_step(reference_, step, gradient.here, momentum.here, model.here);
      follow_step(*place_, step, gradient.there.view(), momentum.there.view(), model.there.view());
      EXPECT_TRUE(model.agree()) << n;
    }
  });
}

}  // namespace
}  // namespace laconic::test
