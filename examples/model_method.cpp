#include <cstdio>
#include <vector>

#include <laconic/laconic.h>
#include <laconic/methods.h>

// Four workers minimise the mean of |x - target|^2 / 2, each with a target of its own, by DEF-A: a method that decides
// where the next gradient is taken. Half way the run is saved and goes on in a new method.
int main() {
  laconic::run_ranks(4, [](laconic::Communicator& communicator) {
    constexpr std::size_t kSize = 1000;
    constexpr std::uint32_t kSteps = 400;
    const float target = static_cast<float>(communicator.rank());  // the mean of all targets is 1.5
    laconic::Place place({.threads = 1});
    const auto make = [&] {
      auto made = laconic::make_model_method("def-a", {.ratio = 8}, {}, communicator, place);
      const laconic::Tensor weights{"weights", kSize};
      made->register_tensors({&weights, 1});
      return made;
    };

    std::vector<float> model(kSize, 0.0F);
    std::vector<float> gradient(kSize);
    auto method = make();
    method->start(model);  // every rank, with the same model
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      if (step == kSteps / 2) {
        const auto saved = method->save().to_bytes();  // one per rank: residuals differ from rank to rank
        method = make();
        method->load(laconic::State::from_bytes(saved));
        method->start(model);
      }
      for (std::size_t i = 0; i < kSize; ++i) gradient[i] = model[i] - target;
      const auto rank = static_cast<std::uint32_t>(communicator.rank());
      method->step({.key = {.seed = 1, .step = step, .rank = rank}, .learning_rate = 0.1F}, model, gradient);
    }
    std::vector<float> tested(kSize);
    method->read_out(model, tested);  // the point to test and save, the same on all ranks
    if (communicator.rank() == 0) std::printf("after %u steps: %.2f\n", kSteps, static_cast<double>(tested[0]));
  });
}
