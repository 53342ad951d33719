#include "methods/stream_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

#include "laconic/error.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr std::uint64_t kChunk = 100;  ///< five chunks, most of several tensors
constexpr std::uint64_t kSmall = 1;    ///< a chunk a tensor, more than can be in flight
constexpr std::uint64_t kOneChunk = 1'000'000;
constexpr std::uint64_t kFirstTensor = 700;  ///< entries; the last in the order of exchange, alone in its chunk

/// A permutation that is another one for every seed.
std::vector<std::uint32_t> shuffled(std::size_t count, std::uint64_t seed) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  const auto keys = normal_values(count, seed);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t left, std::uint32_t right) { return keys[left] < keys[right]; });
  return order;
}

bool same_bits(const std::vector<float>& left, const std::vector<float>& right) {
  return left.size() == right.size() && std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0;
}

}  // namespace

std::vector<Tensor> streamed_model() {
  return {{"first", kFirstTensor}, {"a.weight", 1537}, {"a.bias", 13}, {"b.bias", 1},
          {"b.weight", 640},       {"empty", 0},       {"c.bias", 90}, {"c.weight", 333},
          {"d.bias", 99},          {"d.weight", 2'000}};
}

std::vector<StreamedRow> streamed_rows() {
  const std::vector<std::string> streaming{"sgd", "adam",  "fp16",    "bf16",   "topk", "regtopk",  "randk", "ef-rbgs",
                                           "def", "def-a", "signsgd", "signum", "qsgd", "terngrad", "dqsgd",
                                           "def-topk", "diloco", "sparseloco"};
  std::vector<StreamedRow> rows;
  for (const MethodRow& row : method_table()) {
    const bool streams = std::count(streaming.begin(), streaming.end(), row.name) > 0;
    MethodOptions options = small_options(row);
    if (row.traits.sends_updates) options.period.reset();
    if (row.traits.sends_updates && row.traits.meets_in_rounds) options.period = 1;  // the step of a meeting streams
    const std::string name = test_name(row.name);
    if (!row.has_parameter("scope") || sends_all(row)) rows.push_back({&row, options, streams, name});
    if (!row.has_parameter("scope")) continue;
    if (sends_all(row)) {
      options.values = "bf16";
      rows.push_back({&row, options, streams, name + "_in_16_bits"});
      options.values.reset();
      options.keep = 0.1;
    }
    options.scope = "tensor";
    rows.push_back({&row, options, streams, name + "_by_tensor"});
    options.scope = "model";
    rows.push_back({&row, options, false, name + "_by_model"});
    const auto& scopes = row.find_parameter("scope")->choices;
    if (std::count(scopes.begin(), scopes.end(), "chunk") > 0) {
      options.scope = "chunk";
      rows.push_back({&row, options, false, name + "_by_chunk"});
    }
    if (row.has_parameter("memory")) {
      options.scope = "tensor";
      options.memory = "error";
      rows.push_back({&row, options, streams, name + "_with_memory"});
    }
  }
  return rows;
}

StreamedWorker::StreamedWorker(const StreamedRow& row, Communicator& the_communicator, std::uint64_t chunk_entries)
    : communicator(the_communicator),
      place({.threads = 1}),
      model(size_of(streamed_model()), 0.5F),
      method(make_model_method(row.row->name, row.options,
                               {.momentum = row.row->name == std::string("adam") ? 0.0 : 0.9}, the_communicator,
                               place)) {
  method->set_chunk_entries(chunk_entries);
  method->register_tensors(streamed_model());
  method->set_scoring([](View<const float> point, View<float> gradient) {
    for (std::size_t i = 0; i < point.size(); ++i) gradient[i] = 0.5F * point[i] + 0.125F;
  });
  method->start(model);
  for (const Tensor& tensor : streamed_model()) apart.emplace_back(tensor.size);
}

std::vector<float> StreamedWorker::gradient(std::uint32_t step) const {
  return pull_gradient(model, communicator.rank(), step);
}

StepInput StreamedWorker::input(std::uint32_t step) const {
  return {{42, step, static_cast<std::uint32_t>(communicator.rank())}, 0.05F, 0.0F};
}

StepReport StreamedWorker::step(std::uint32_t number, std::vector<float> gradient, Arrival arrival) {
  if (arrival == Arrival::flat) return method->step(input(number), model, gradient);
  method->begin_step(input(number), model);
  std::vector<TensorPart> parts;
  std::uint64_t offset = 0;
  for (std::uint32_t i = 0; i < apart.size(); ++i) {
    const View<float> part = View<float>(gradient).sub(offset, apart[i].size());
    std::copy(part.begin(), part.end(), apart[i].begin());
    parts.push_back({i, arrival == Arrival::forward ? part : View<float>(apart[i])});
    offset += part.size();
  }
  if (arrival == Arrival::at_random) {
    // Another order on every rank and in every step, and parts of one to three tensors.
    const auto order = shuffled(parts.size(), 17 * number + static_cast<std::uint64_t>(communicator.rank()));
    for (std::size_t next = 0; next < order.size();) {
      std::vector<TensorPart> some;
      for (std::size_t i = 0; i <= order[next] % 3 && next + i < order.size(); ++i)
        some.push_back(parts[order[next + i]]);
      method->add(some);
      next += some.size();
    }
  } else {
    if (arrival == Arrival::backward_apart) std::reverse(parts.begin(), parts.end());
    for (const TensorPart& part : parts) method->add({&part, 1});
  }
  return method->finish_step();
}

void check_arrivals(Communicator& communicator, const StreamedRow& row) {
  constexpr Arrival kArrivals[] = {Arrival::flat, Arrival::forward, Arrival::backward_apart, Arrival::at_random};
  StreamedWorker whole(row, communicator, kOneChunk);
  EXPECT_FALSE(whole.method->streams());
  std::vector<std::unique_ptr<StreamedWorker>> workers;
  for (std::size_t i = 0; i < std::size(kArrivals); ++i) {
    workers.push_back(std::make_unique<StreamedWorker>(row, communicator, i % 2 == 0 ? kChunk : kSmall));
    EXPECT_EQ(workers.back()->method->streams(), row.streams);
  }
  for (std::uint32_t step = 0; step < 5; ++step) {
    const auto gradient = whole.gradient(step);
    const StepReport expected = whole.step(step, gradient, Arrival::flat);
    std::array<Traffic, std::size(kArrivals)> traffic;
    for (std::size_t i = 0; i < workers.size(); ++i) {
      const StepReport report = workers[i]->step(step, gradient, kArrivals[i]);
      ASSERT_TRUE(same_bits(workers[i]->model, whole.model)) << "arrival " << i << " step " << step;
      EXPECT_EQ(report.bits, expected.bits);
      EXPECT_EQ(report.extra, expected.extra);
      EXPECT_EQ(report.rounds, expected.rounds);
      traffic[i] = report.traffic;
      if (i < 2) continue;
      EXPECT_EQ(traffic[i].payload_bytes, traffic[i - 2].payload_bytes) << "arrival " << i << " step " << step;
      EXPECT_EQ(traffic[i].sent_bytes, traffic[i - 2].sent_bytes) << "arrival " << i << " step " << step;
    }
  }
}

namespace {

void check_streamed_resume(Communicator& communicator, const StreamedRow& row, std::uint64_t chunk_entries) {
  StreamedWorker straight(row, communicator, kChunk);
  StreamedWorker resumed(row, communicator, chunk_entries);
  for (std::uint32_t step = 0; step < 7; ++step) {
    if (step == 4) {
      resumed.method->load(State::from_bytes(straight.method->save().to_bytes()));
      resumed.model = straight.model;
      resumed.method->start(resumed.model);
    }
    const auto gradient = straight.gradient(step);
    straight.step(step, gradient, Arrival::backward_apart);
    if (step < 4) continue;
    resumed.step(step, gradient, step == 5 ? Arrival::flat : Arrival::at_random);
    ASSERT_TRUE(same_bits(resumed.model, straight.model)) << "step " << step << ", chunks of " << chunk_entries;
  }
  if (chunk_entries != kChunk) return;
  EXPECT_EQ(resumed.method->save().to_bytes(), straight.method->save().to_bytes());
}

}  // namespace

void check_streamed_resume(Communicator& communicator, const StreamedRow& row) {
  for (const std::uint64_t entries : {kChunk, kSmall, kOneChunk}) check_streamed_resume(communicator, row, entries);
}

void check_early_exchange(Communicator& communicator, const StreamedRow& row) {
  StreamedWorker worker(row, communicator, kSmall);
  StreamedWorker whole(row, communicator, kOneChunk);
  for (std::uint32_t step = 0; step < 2; ++step) {
    const auto gradient = whole.gradient(step);
    whole.step(step, gradient, Arrival::flat);
    auto flat = gradient;
    worker.method->begin_step(worker.input(step), worker.model);
    std::uint64_t offset = flat.size();
    for (auto tensor = static_cast<std::uint32_t>(worker.apart.size()); tensor-- > 1;) {
      offset -= worker.apart[tensor].size();
      const TensorPart part{tensor, View<float>(flat).sub(offset, worker.apart[tensor].size())};
      worker.method->add({&part, 1});
    }
    // DQ-SGD's first step needs all norms before it knows its bits.
    const bool held = step == 0 && std::string(row.row->name) == "dqsgd";
    const std::uint64_t early = row.streams && !held ? flat.size() - kFirstTensor : 0;
    while (worker.method->poll() < early) std::this_thread::yield();
    EXPECT_EQ(worker.method->poll(), early) << "step " << step;
    communicator.barrier().wait();  // every rank was done before any rank has its last tensor
    const TensorPart last{0, View<float>(flat).sub(0, kFirstTensor)};
    worker.method->add({&last, 1});
    worker.method->finish_step();
    ASSERT_TRUE(same_bits(worker.model, whole.model)) << "step " << step;
  }
}

void check_streamed_nonfinite(Communicator& communicator, const StreamedRow& row) {
  const int culprit = communicator.size() - 1;
  for (const Arrival arrival : {Arrival::backward_apart, Arrival::at_random}) {
    StreamedWorker worker(row, communicator, arrival == Arrival::at_random ? kChunk : kSmall);
    worker.method->set_nonfinite_policy(NonfinitePolicy::skip);
    for (std::uint32_t step = 0; step < 2; ++step) worker.step(step, worker.gradient(step), arrival);
    const auto before = worker.method->save().to_bytes();
    const auto model = worker.model;
    auto gradient = worker.gradient(2);
    if (communicator.rank() == culprit) gradient[1000] = gradient[2900] = std::nanf("");  // a.weight and c.bias
    EXPECT_TRUE(worker.step(2, gradient, arrival).skipped);
    EXPECT_EQ(worker.method->skipped_steps(), 1U);
    EXPECT_EQ(worker.method->save().to_bytes(), before);
    EXPECT_TRUE(same_bits(worker.model, model));
    EXPECT_FALSE(worker.step(3, worker.gradient(3), arrival).skipped);

    worker.method->set_nonfinite_policy(NonfinitePolicy::error);
    const auto text = message_of<InvalidConfig>([&] { worker.step(4, gradient, arrival); });
    EXPECT_TRUE(contains(text, "rank " + std::to_string(culprit))) << text;
    EXPECT_TRUE(contains(text, "tensor a.weight") && contains(text, "step 4")) << text;
    EXPECT_FALSE(worker.step(5, worker.gradient(5), arrival).skipped);
  }
}

}  // namespace laconic::test
