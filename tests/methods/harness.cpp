#include "methods/harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "support/support.h"

namespace laconic::test {

std::vector<Tensor> small_model() {
  return {{"conv.weight", 700}, {"conv.bias", 13}, {"fc.weight", 1537}, {"fc.bias", 1}};
}

std::uint64_t size_of(const std::vector<Tensor>& tensors) {
  std::uint64_t n = 0;
  for (const Tensor& tensor : tensors) n += tensor.size;
  return n;
}

bool sends_all(const MethodRow& row) {
  const Parameter* keep = row.find_parameter("keep");
  return keep != nullptr && keep->fallback == "1";
}

MethodOptions small_options(const MethodRow& row) {
  MethodOptions options;
  for (const Parameter& parameter : row.parameters) {
    const std::string name = parameter.name;
    if (name == "keep" && !sends_all(row)) options.keep = 0.1;
    if (name == "ratio") options.ratio = 8;
    if (name == "period" && parameter.fallback != "1") options.period = 4;
  }
  return options;
}

std::vector<float> integer_gradient(std::uint64_t n, int rank, std::uint32_t step) {
  auto values = normal_values(n, 1'000'003ULL * step + static_cast<std::uint64_t>(rank));
  for (float& value : values) value = std::round(value * 30.0F);
  return values;
}

std::vector<float> pull_gradient(const std::vector<float>& model, int rank, std::uint32_t step) {
  const auto target = normal_values(model.size(), 17 + static_cast<std::uint64_t>(rank));
  const auto noise = normal_values(model.size(), 1'000'003ULL * (step + 1) + static_cast<std::uint64_t>(rank));
  std::vector<float> gradient(model.size());
  for (std::size_t i = 0; i < model.size(); ++i) gradient[i] = model[i] - target[i] + 0.1F * noise[i];
  return gradient;
}

Worker::Worker(const MethodRow& row, const MethodOptions& options, Communicator& the_communicator,
               OptimizerOptions optimizer)
    : communicator(the_communicator),
      place({.threads = 1}),
      model(size_of(small_model()), 0.5F),
      method(make_model_method(row.name, options, optimizer, the_communicator, place)) {
  method->register_tensors(small_model());
  // The scores of a round are gradients of the same function for all workers.
  method->set_scoring([](View<const float> point, View<float> gradient) {
    const auto made = pull_gradient({point.begin(), point.end()}, 1000, 0);
    std::memcpy(gradient.data(), made.data(), made.size() * sizeof(float));
  });
  method->start(model);
}

StepReport Worker::step(std::uint32_t number) {
  auto gradient = pull_gradient(model, communicator.rank(), number);
  const StepKey key{42, number, static_cast<std::uint32_t>(communicator.rank())};
  return method->step({key, 0.05F, 0.0F}, model, gradient);
}

std::vector<float> Worker::read_out() {
  std::vector<float> out(model.size());
  method->read_out(model, out);
  return out;
}

std::vector<std::vector<float>> all_ranks(Communicator& communicator, const std::vector<float>& values) {
  std::vector<float> all(values.size() * static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(as_bytes(View<const float>(values)), as_writable_bytes(View<float>(all))).wait();
  std::vector<std::vector<float>> each;
  for (std::size_t at = 0; at < all.size(); at += values.size()) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at);
    each.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(values.size()));
  }
  return each;
}

StepKey key_of(const Communicator& communicator, std::uint32_t step) {
  return {42, step, static_cast<std::uint32_t>(communicator.rank())};
}

std::vector<float> saved(const Method& method, const std::string& name) {
  const State state = method.save();
  std::vector<float> values(state.size(name));
  if (!values.empty()) state.get(name, View<float>(values));
  return values;
}

double distance(const std::vector<float>& values, const std::vector<double>& expected) {
  EXPECT_EQ(values.size(), expected.size());
  double largest = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(values[i]) - expected[i]));
  }
  return largest;
}

bool same_everywhere(Communicator& communicator, const std::vector<float>& values) {
  std::vector<float> all(values.size() * static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(as_bytes(View<const float>(values)), as_writable_bytes(View<float>(all))).wait();
  for (int rank = 0; rank < communicator.size(); ++rank) {
    if (std::memcmp(all.data() + static_cast<std::size_t>(rank) * values.size(), values.data(),
                    values.size() * sizeof(float)) != 0) {
      return false;
    }
  }
  return true;
}

std::vector<double> sum_everywhere(Communicator& communicator, const std::vector<float>& values) {
  std::vector<float> all(values.size() * static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(as_bytes(View<const float>(values)), as_writable_bytes(View<float>(all))).wait();
  std::vector<double> sum(values.size(), 0.0);
  for (std::size_t i = 0; i < all.size(); ++i) sum[i % values.size()] += static_cast<double>(all[i]);
  return sum;
}

}  // namespace laconic::test
