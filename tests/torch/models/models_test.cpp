// The networks: sizes that are known, where their numbers come from, and that torch's own generator is never asked.

#include "torch/models/models.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "laconic/error.h"
#include "support/support.h"
#include "torch/networks.h"

namespace laconic::nets {
namespace {

using test::characters;
using test::images;
using test::message_of;
using test::texts;

struct Known {
  const char* name;
  InputShape input;
  int classes;
  std::uint64_t parameters;
};

// The counts of torchvision's models for ImageNet, and those that are published for CIFAR's forms.
TEST(Models, HaveAsManyParametersAsIsKnown) {
  const std::vector<Known> table{
      {"mlp", images(1, 28), 10, 269'322},           {"cnn", images(1, 28), 10, 390'410},
      {"resnet18", images(3, 32), 10, 11'173'962},   {"resnet18", images(3, 64), 1000, 11'689'512},
      {"resnet20", images(3, 32), 10, 269'722},      {"resnet34", images(3, 32), 10, 21'282'122},
      {"resnet34", images(3, 64), 1000, 21'797'672}, {"resnet50", images(3, 32), 10, 23'520'842},
      {"resnet50", images(3, 64), 1000, 25'557'032}, {"wrn28-10", images(3, 32), 10, 36'479'194},
      {"wrn28-10", images(3, 32), 100, 36'536'884},  {"vgg16", images(3, 32), 10, 14'728'266},
      {"bilstm", texts(32, 1000), 4, 393'220},       {"gpt", characters(256, 65), 65, 10'745'088},
      {"gpt-small", characters(64, 65), 65, 607'232},
  };
  for (const Known& known : table) {
    EXPECT_EQ(parameter_count(*make_network(known.name, known.input, known.classes, 1)), known.parameters)
        << known.name << " for " << known.classes << " classes";
  }
}

TEST(Models, GiveALogitAClass) {
  const std::vector<Known> table{
      {"mlp", images(1, 28), 10, 0},     {"cnn", images(1, 28), 10, 0},     {"cnn", images(3, 9), 7, 0},
      {"resnet18", images(3, 16), 5, 0}, {"resnet18", images(3, 64), 5, 0}, {"resnet20", images(3, 32), 10, 0},
      {"resnet20", images(1, 7), 3, 0},  {"resnet34", images(1, 9), 3, 0},  {"resnet50", images(3, 8), 3, 0},
      {"wrn28-10", images(3, 4), 3, 0},  {"vgg16", images(1, 28), 10, 0},   {"vgg16", images(3, 32), 10, 0},
      {"bilstm", texts(6, 20), 4, 0},    {"gpt", characters(6, 20), 20, 0}, {"gpt-small", characters(64, 5), 5, 0},
  };
  for (const Known& known : table) {
    const auto network = make_network(known.name, known.input, known.classes, 1);
    const torch::Tensor input = test::some_input(known.input, 3);
    for (const bool training : {true, false}) {
      network->train(training);
      const torch::NoGradGuard no_gradients;
      const torch::Tensor logits = network->forward(input);
      const int targets = known.input.kind == InputKind::characters ? known.input.length : 1;
      EXPECT_EQ(logits.sizes(), at::IntArrayRef({3 * targets, known.classes})) << known.name;
      EXPECT_TRUE(torch::isfinite(logits).all().item<bool>()) << known.name;
      EXPECT_GT((logits[0] - logits[1]).abs().max().item<float>(), 0.0F) << known.name << " does not look at its input";
    }
  }
}

TEST(Models, StartFromAStreamATensor) {
  const auto network = make_network("resnet20", images(3, 32), 10, 77);
  std::uint32_t tensor = 0;
  for (const auto& entry : network->named_parameters()) {
    const bool norm = entry.key().find("bn") != std::string::npos;
    const torch::Tensor values = entry.value().detach().flatten();
    if (norm) {
      const float all = entry.key().ends_with("weight") ? 1.0F : 0.0F;
      EXPECT_TRUE(values.eq(all).all().item<bool>()) << entry.key();
    } else {
      const std::int64_t fan_in = entry.key() == "fc.bias" ? 64 : entry.value()[0].numel();
      const double bound = 1.0 / std::sqrt(static_cast<double>(fan_in));
      std::vector<float> expected(static_cast<std::size_t>(values.numel()));
      fill_uniform({.seed = 77, .tensor = tensor, .purpose = Purpose::model_start}, bound, expected);
      const torch::Tensor drawn = torch::from_blob(expected.data(), {values.numel()});
      EXPECT_TRUE(values.equal(drawn)) << entry.key() << " is not stream " << tensor;
    }
    ++tensor;
  }
  EXPECT_EQ(tensor, 59U);
}

TEST(Models, StartFromTheSeedAlone) {
  const auto start = [](std::uint64_t seed) {
    return test::flattened(make_network("cnn", images(1, 28), 10, seed)->parameters());
  };
  EXPECT_TRUE(start(5).equal(start(5)));
  EXPECT_EQ(start(5).eq(start(6)).sum().item<std::int64_t>(), 0) << "two seeds share values";
}

// Uniform on ±1/√fan_in: mean 0, variance 1/(3·fan_in), fourth moment 1/(5·fan_in²). Six standard errors for each of
// three moments: a false alarm once in 10^8, and the streams are fixed.
TEST(Models, StartUniformAsPyTorchDoes) {
  const auto network = make_network("cnn", images(1, 28), 10, 3);
  const auto parameters = network->named_parameters();
  const std::vector<std::pair<std::string, double>> fans{{"conv2.weight", 32 * 9},
                                                         {"conv3.weight", 64 * 9},
                                                         {"conv3.bias", 64 * 9},
                                                         {"fc1.weight", 1152},
                                                         {"fc1.bias", 1152}};
  for (const auto& [name, fan_in] : fans) {
    const torch::Tensor scaled = parameters[name].detach().to(torch::kDouble).flatten() * std::sqrt(fan_in);
    const double error = 6.0 / std::sqrt(static_cast<double>(scaled.numel()));
    EXPECT_LE(scaled.abs().max().item<double>(), 1.0 + 1e-7) << name;
    EXPECT_NEAR(scaled.mean().item<double>(), 0.0, error * std::sqrt(1.0 / 3)) << name;
    EXPECT_NEAR(scaled.pow(2).mean().item<double>(), 1.0 / 3, error * std::sqrt(1.0 / 5 - 1.0 / 9)) << name;
    EXPECT_NEAR(scaled.pow(4).mean().item<double>(), 1.0 / 5, error * std::sqrt(1.0 / 9 - 1.0 / 25)) << name;
  }
}

TEST(Models, StartTextsAsPyTorchDoes) {
  const auto network = make_network("bilstm", texts(8, 501), 4, 3);
  const auto parameters = network->named_parameters();
  const torch::Tensor words = parameters["embedding.weight"].detach().to(torch::kDouble);
  EXPECT_TRUE(words[0].eq(0).all().item<bool>()) << "the padding's row";
  const torch::Tensor normal = words.slice(0, 1).flatten();  // 64,000: six standard errors
  const double error = 6.0 / std::sqrt(static_cast<double>(normal.numel()));
  EXPECT_NEAR(normal.mean().item<double>(), 0.0, error);
  EXPECT_NEAR(normal.pow(2).mean().item<double>(), 1.0, error * std::sqrt(2.0));
  EXPECT_NEAR(normal.pow(4).mean().item<double>(), 3.0, error * std::sqrt(96.0));
  const torch::Tensor weight = parameters["lstm.weight_hh_l0_reverse"].detach().to(torch::kDouble) * std::sqrt(128.0);
  EXPECT_LE(weight.abs().max().item<double>(), 1.0 + 1e-7);
  EXPECT_NEAR(weight.pow(2).mean().item<double>(), 1.0 / 3, 6.0 / 256 * std::sqrt(1.0 / 5 - 1.0 / 9));
}

// Matrices are normal(0, 0.02²), those that add to the residual smaller by √(2·layers); norms are 1. Six standard errors.
TEST(Models, StartTransformersAsPublicTrainersDo) {
  const auto network = make_network("gpt-small", characters(64, 65), 65, 3);
  for (const auto& entry : network->named_parameters()) {
    const torch::Tensor values = entry.value().detach().to(torch::kDouble).flatten();
    if (entry.key().find("ln_") != std::string::npos) {
      EXPECT_TRUE(values.eq(1.0).all().item<bool>()) << entry.key();
      continue;
    }
    const bool residual = entry.key().find("c_proj") != std::string::npos;
    const torch::Tensor scaled = values / (residual ? 0.02 / std::sqrt(6.0) : 0.02);
    const double error = 6.0 / std::sqrt(static_cast<double>(scaled.numel()));
    EXPECT_NEAR(scaled.mean().item<double>(), 0.0, error) << entry.key();
    EXPECT_NEAR(scaled.pow(2).mean().item<double>(), 1.0, error * std::sqrt(2.0)) << entry.key();
  }
}

// What is predicted behind a character depends on it and on all before it, and on nothing after it.
TEST(Models, OfCharactersDoNotLookAhead) {
  const auto network = make_network("gpt-small", characters(10, 20), 20, 4);
  network->eval();
  const torch::NoGradGuard no_gradients;
  const torch::Tensor text = test::some_input(characters(10, 20), 1);
  const torch::Tensor logits = network->forward(text);
  for (int changed = 0; changed < 10; ++changed) {
    torch::Tensor other = text.clone();
    other[0][changed] = (text[0][changed] + 1).remainder(20);
    const torch::Tensor difference = (network->forward(other) - logits).abs().amax(1);
    for (int place = 0; place < 10; ++place) {
      EXPECT_EQ(difference[place].item<float>() > 0.0F, place >= changed) << changed << ' ' << place;
    }
  }
  const torch::Tensor beginning = network->forward(text.narrow(1, 0, 4));
  EXPECT_LT((beginning - logits.narrow(0, 0, 4)).abs().max().item<float>(), 1e-5F) << "of fewer characters";
}

// The derivative along a random direction of each tensor, in double precision: backward against two forward passes.
void expect_right_gradients(const char* name, const InputShape& shape, const ModelOptions& options = {}) {
  const int classes = shape.kind == InputKind::characters ? shape.vocabulary : 3;
  const auto network = make_network(name, shape, classes, 9, options);
  network->set_draws({.seed = 4, .epoch = 2, .samples = {}});
  network->to(torch::kDouble);
  torch::Tensor input = test::some_input(shape, 4);
  if (shape.kind == InputKind::image) input = input.to(torch::kDouble);
  test::loss_of(*network, input).backward();
  const torch::NoGradGuard no_gradients;
  std::uint32_t tensor = 0;
  for (auto& entry : network->named_parameters()) {
    torch::Tensor direction = torch::empty(entry.value().sizes());
    fill_normal({.seed = 8, .tensor = tensor++},
                {direction.data_ptr<float>(), static_cast<std::size_t>(direction.numel())});
    direction = direction.to(torch::kDouble);
    if (entry.key() == "embedding.weight") direction[0].zero_();  // the padding has no gradient by design
    direction.div_(direction.norm());
    constexpr double kStep = 1e-7;  // so short that hardly a ReLU bends on it
    const auto loss_at = [&](double step) {
      entry.value().add_(direction, step);
      const double loss = test::loss_of(*network, input).item<double>();
      entry.value().sub_(direction, step);
      return loss;
    };
    const double measured = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
    const double computed = (entry.value().grad() * direction).sum().item<double>();
    EXPECT_NEAR(computed, measured, 1e-6 * (1.0 + std::abs(measured))) << name << ' ' << entry.key();
  }
}

TEST(Models, HaveTheGradientsOfTheirLoss) {
  expect_right_gradients("cnn", images(2, 8));
  expect_right_gradients("resnet20", images(3, 8));
  expect_right_gradients("bilstm", texts(5, 11), {.dropout = 0.3});
  expect_right_gradients("bilstm", texts(5, 11), {.dropout = 0.3, .pooling = Pooling::last});
  expect_right_gradients("gpt-small", characters(7, 11), {.dropout = 0.3});
}

TEST(Models, ComputeTheSameBitsInTwoThreadsAtOnce) {
  const auto work = [](const char* name, const InputShape& shape, torch::Tensor& result) {
    at::set_num_threads(1);
    const auto network = make_network(name, shape, shape.kind == InputKind::characters ? shape.vocabulary : 10, 12);
    for (std::uint32_t pass = 0; pass < 3; ++pass) {
      network->set_draws({.seed = 1, .epoch = pass, .samples = {}});
      test::loss_of(*network, test::some_input(shape, 8, pass)).backward();
    }
    result = torch::cat({test::gradients_of(*network), test::flattened(network->buffers())});
  };
  for (const auto& [name, shape] :
       {std::pair{"cnn", images(1, 28)}, {"resnet20", images(3, 16)}, {"bilstm", texts(9, 30)},
        {"gpt", characters(12, 30)}}) {
    std::array<torch::Tensor, 2> results;
    std::thread other([&, name = name, shape = shape] { work(name, shape, results[1]); });
    work(name, shape, results[0]);
    other.join();
    EXPECT_TRUE(results[0].equal(results[1])) << name;
  }
}

TEST(Models, NeverAskTorchsGenerator) {
  torch::Generator generator = at::detail::getDefaultCPUGenerator();
  const torch::Tensor before = generator.get_state();
  const auto network = make_network("bilstm", texts(5, 11), 4, 1, {.dropout = 0.5});
  test::loss_of(*network, test::some_input(texts(5, 11), 4)).backward();
  test::loss_of(*make_network("resnet20", images(3, 8), 10, 1), test::some_input(images(3, 8), 4)).backward();
  const auto gpt = make_network("gpt-small", characters(5, 11), 11, 1, {.dropout = 0.5});
  test::loss_of(*gpt, test::some_input(characters(5, 11), 4)).backward();
  EXPECT_TRUE(generator.get_state().equal(before));
}

TEST(Models, ReadNoPadding) {
  for (const Pooling pooling : {Pooling::mean, Pooling::last}) {
    const auto network = make_network("bilstm", texts(9, 30), 4, 5, {.pooling = pooling});
    network->eval();
    const torch::Tensor words = test::some_input(texts(6, 30), 4);
    const torch::Tensor padded = torch::constant_pad_nd(words, {0, 3});
    const torch::Tensor difference = network->forward(words) - network->forward(padded);
    EXPECT_LT(difference.abs().max().item<float>(), 1e-6F);
    EXPECT_TRUE(torch::isfinite(network->forward(torch::zeros({2, 6}, torch::kLong))).all().item<bool>())
        << "a text without words";
  }
}

TEST(Models, RefuseWhatTheyDoNotTake) {
  const auto refusal = [](const char* name, const InputShape& shape, int classes, const ModelOptions& options = {}) {
    return message_of<InvalidConfig>([&] { make_network(name, shape, classes, 1, options); });
  };
  EXPECT_PRED2(test::contains, refusal("resnet19", images(3, 32), 10), "there is no model resnet19; did you mean resnet18?");
  EXPECT_PRED2(test::contains, refusal("perceptron", images(3, 32), 10), "there are mlp, cnn, resnet18");
  EXPECT_PRED2(test::contains, refusal("cnn", images(1, 7), 10), "at least 8 pixels high and wide, got 7 by 7");
  EXPECT_PRED2(test::contains, refusal("cnn", images(0, 28), 10), "channels must be at least 1, got 0");
  EXPECT_PRED2(test::contains, refusal("cnn", texts(9, 30), 10), "use bilstm");
  EXPECT_PRED2(test::contains, refusal("bilstm", images(1, 28), 10), "takes texts");
  EXPECT_PRED2(test::contains, refusal("bilstm", texts(9, 1), 10), "got 1");
  EXPECT_PRED2(test::contains, refusal("cnn", characters(9, 30), 30), "use gpt or gpt-small");
  EXPECT_PRED2(test::contains, refusal("gpt", images(1, 28), 10), "takes characters and the task has images");
  EXPECT_PRED2(test::contains, refusal("gpt-small", characters(65, 30), 30), "1 to 64 characters, got 65");
  EXPECT_PRED2(test::contains, refusal("cnn", images(1, 28), 1), "classes must be at least 2, got 1");
  EXPECT_PRED2(test::contains, refusal("cnn", images(1, 28), 10, {.dropout = 0.1}), "has no dropout");
  EXPECT_PRED2(test::contains, refusal("wrn28-10", images(3, 32), 10, {.dropout = 1.0}), "in [0, 1), got 1");
}

}  // namespace
}  // namespace laconic::nets
