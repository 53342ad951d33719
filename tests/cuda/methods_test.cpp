// Every method of the table with gradients, model and memory on the device: the same bits as on the CPU, with several
// workers on one card, and with some workers on the CPU and some on the device.

#include <algorithm>

#include "cuda/device_places.h"
#include "methods/same_bits.h"
#include "support/one_order.h"

namespace laconic::test {
namespace {

class MethodOnDevice : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  }
  const MethodRow& row() const { return method_row(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Table, MethodOnDevice, testing::ValuesIn(method_names()),
                         [](const auto& test) { return test_name(test.param); });

TEST_P(MethodOnDevice, GivesTheSameBitsWithEveryOptimizer) {
  check({&row(), small_options(row()), row().name}, kChunk, 100, on_device);
}

TEST_P(MethodOnDevice, GivesTheSameBitsWithFourRanksInOneChunk) {
  MethodRun run{&row(), small_options(row()), row().name};
  run.ranks = 4;
  check(run, 0, 1, on_device);
}

/// As with NCCL: messages stay on the device, and all ranks start all calls in one order. Each tensor is a chunk.
TEST_P(MethodOnDevice, StartsItsCallsInOneOrderOnAllRanks) {
  std::vector<MethodRun> runs{{&row(), small_options(row()), row().name}};
  const auto words = runs_with_words(row());
  const auto by_tensor = [](const MethodRun& run) { return run.options.scope == "tensor"; };
  const auto streaming = std::find_if(words.begin(), words.end(), by_tensor);
  if (streaming != words.end()) runs.push_back(*streaming);
  for (MethodRun& run : runs) {
    run.copying = cuda_place();
    run.ranks = 4;
    run.one_order = true;
    check(run, 1, 1, on_device);
  }
}

TEST_P(MethodOnDevice, GivesTheSameBitsWhenRanksJoinAndLeave) {
  check_joining_and_leaving(row(), on_device, cuda_place());
  check_joining_and_leaving(row(), on_device_but_rank_0);
}

TEST_P(MethodOnDevice, GivesTheSameBitsWithMessagesThatStayOnTheDevice) {
  for (const auto& place : {on_device, on_device_but_rank_0}) {
    check({&row(), small_options(row()), row().name, 0, cuda_place()}, kChunk, 1, place);
  }
}

TEST_P(MethodOnDevice, GivesTheSameBitsBesideARankOnTheCpu) {
  check({&row(), small_options(row()), row().name}, kChunk, 1, on_device_but_rank_0);
}

TEST_P(MethodOnDevice, GivesTheSameBitsWithEveryChoiceOfEveryWord) {
  for (MethodRun& run : runs_with_words(row())) {
    run.copying = cuda_place();
    check(run, kChunk, 1, on_device);
  }
}

TEST_P(MethodOnDevice, GivesTheSameBitsOnTwoLevels) {
  if (row().face != Face::gradient) GTEST_SKIP() << "two levels are for gradient methods";
  const MethodRun run{&row(), small_options(row()), row().name};
  for (const auto& place : {on_device, on_device_but_rank_0}) check_two_levels(run, place);
}

TEST_P(MethodOnDevice, TakesGradientsOf16Bits) {
  if (row().face != Face::gradient) GTEST_SKIP() << "a model method has a flat gradient of its own";
  const MethodRun plain{&row(), small_options(row()), row().name, 0, cuda_place()};
  check_16bit_gradients(plain, kChunk, on_device);
  check_16bit_gradients(plain, 0, on_device_but_rank_0);
  for (MethodRun& run : runs_with_words(row())) {
    run.copying = cuda_place();
    check_16bit_gradients(run, 0, on_device);
  }
  check_two_levels({&row(), small_options(row()), row().name}, on_device, NumberType::bfloat16);
}

/// Steps of a method in these tensors on the CPU, and the same bits on the device.
void check_in_tensors(const MethodRow& row, const MethodOptions& options, const std::vector<Tensor>& tensors,
                      int ranks) {
  const std::vector<float> point(size_of(tensors), 0.5F);
  const auto steps_on = [&](Place& place, Communicator& communicator) {
    const auto method = make_method(row.name, options, communicator, place);
    method->register_tensors(tensors);
    Trace trace;
    for (std::uint32_t step = 0; step < 4; ++step) {
      PlacedValues values(place, pull_gradient(point, communicator.rank(), step));
      method->reduce(key_of(communicator, step), values.view());
      trace.note(values.get());
    }
    return trace;
  };
  run_ranks(ranks, [&](Communicator& communicator) {
    Place cpu({.threads = 1});
    const auto device = cuda_place();
    const Trace expected = steps_on(cpu, communicator);
    EXPECT_EQ(Trace::difference(steps_on(*device, communicator), expected), std::nullopt);
  });
}

/// Several tensors that take more than one block of threads each are searched at once.
TEST_P(MethodOnDevice, GivesTheSameBitsInLongTensors) {
  if (row().face != Face::gradient || !row().has_parameter("scope")) GTEST_SKIP() << "it has no scopes of tensors";
  MethodOptions options = small_options(row());
  options.scope = "tensor";
  check_in_tensors(row(), options, {{"long", 9'001}, {"short", 77}, {"longer", 20'011}, {"last", 8'500}}, kRanks);
}

/// With 7 ranks the union has more entries than are read together.
TEST_P(MethodOnDevice, GivesTheSameBitsWhereTheUnionIsReadInParts) {
  if (row().face != Face::gradient || !row().has_parameter("return") || !row().has_parameter("keep")) {
    GTEST_SKIP() << "it has no sparse sum";
  }
  MethodOptions options = small_options(row());
  options.keep = 0.02;
  options.route = "range";
  check_in_tensors(row(), options, {{"one", 3'001}, {"two", 777}}, 7);
}

TEST_P(MethodOnDevice, GivesTheSameBitsWithItsNumbers) {
  for (const MethodRun& run : runs_with_numbers(row())) check(run, kChunk, 1, on_device);
}

struct ChunkSize {
  const char* method;
  MethodOptions options;
  std::size_t mebibytes;
};

/// The fewer bits of an entry travel, the larger are the chunks of a device. Results do not depend on their size.
TEST(ChunksOnDevice, AreLargerWhereFewBitsTravel) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const std::vector<ChunkSize> cases{
      {"sgd", {}, 16},
      {"bf16", {}, 16},
      {"qsgd", {}, 32},
      {"dqsgd", {}, 32},
      {"block-quant", {.return_ = "full"}, 32},
      {"signsgd", {}, 64},
      {"topk", {}, 64},
      {"topk", {.keep = 0.1}, 32},
      {"topk", {.keep = 0.5}, 16},
      {"regtopk", {}, 64},
      {"randk", {}, 64},
      {"randk", {.keep = 0.1}, 32},
      {"def", {.ratio = 4}, 32},
      {"def", {.ratio = 64}, 64},
      {"def-topk", {}, 64}};
  const std::vector<Tensor> tensors(8, {"of 16 MiB", std::uint64_t{1} << 22});
  run_ranks(1, [&](Communicator& communicator) {
    CallLog log;
    OneOrder in_one_order(communicator.duplicate(), log);
    for (auto [name, options, mebibytes] : cases) {
      SCOPED_TRACE(name);
      const MethodRow& row = method_row(name);
      if (row.has_parameter("scope")) options.scope = "tensor";
      const auto place = cuda_place();
      const auto chunks_with = [&](Communicator& engine) {
        const auto method = make_model_method(name, options, {}, engine, *place);
        method->register_tensors(tensors);
        return method->chunk_starts().size();
      };
      EXPECT_EQ(chunks_with(communicator), tensors.size() * 16 / mebibytes);
      EXPECT_EQ(chunks_with(in_one_order), tensors.size() * 16 / std::max<std::size_t>(mebibytes, 32));
    }
  });
}

}  // namespace
}  // namespace laconic::test
