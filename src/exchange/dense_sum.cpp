#include "exchange/dense_sum.h"

#include <string>

#include "base/check.h"
#include "base/scratch_status.h"
#include "base/transfer.h"
#include "codecs/block.h"
#include "codecs/dense.h"
#include "kernels/elementwise/elementwise.h"
#include "laconic/error.h"

namespace laconic {

DenseSum::DenseSum(Communicator& communicator, Place& place, DenseSumOptions options)
    : OwnerExchange(communicator, place), options_(std::move(options)), parts_(static_cast<std::size_t>(size())) {
  if (options_.order == SumOrder::engine && options_.format != ValueFormat::f32) {
    throw InvalidConfig(std::string("order = engine takes values in f32 only, got ") + format_name(options_.format) +
                        ": use order = rank_order, or f32");
  }
}

DenseSum::DenseSum(Communicator& communicator, Place& place, std::uint64_t n, DenseSumOptions options)
    : DenseSum(communicator, place, std::move(options)) {
  resize(n);
}

void DenseSum::resize(std::uint64_t n) {
  set_even_borders(n, borders_);
  if (options_.order == SumOrder::engine) return;
  // A payload of blocks is as long as a dense one.
  lay_out([&](int owner) { return dense::max_payload_bytes(count_of(owner), format()); });
}

void DenseSum::start(GradientView values, StatusView status, std::uint32_t signature) {
  require_idle();
  require_size("values", values.size(), borders_.back());
  signature_ = signature;
  start_values(values, status);
}

void DenseSum::start_values(GradientView values, StatusView status) {
  require_same_device("values", values.device(), place().device());
  if (options_.order == SumOrder::engine) LACONIC_CHECK(values.is_float32() == true);
  values_ = values;
  begin(status);
}

Handle DenseSum::stage(int index) {
  return options_.order == SumOrder::engine ? engine_stage(index) : OwnerExchange::stage(index);
}

void DenseSum::write_ranges() {
  for (int owner = 0; owner < size(); ++owner) encode_mine(begin_of(owner), count_of(owner), send_.slot(owner));
}

/// One pass over the payloads, whose result goes where it travels from.
void DenseSum::make_own_range() {
  const std::uint64_t begin = begin_of(rank());
  const std::uint64_t count = count_of(rank());
  require_payloads_sound(open(received(), [&](std::size_t from, ConstGradientView values) { parts_[from] = values; }));
  note_nonfinite(receive_);
  const View<std::byte> payload = returned_.slot(rank());
  sum_in_rank_order(place(), parts_, options_.divide ? static_cast<float>(size()) : 1.0F,
                    dense::body(payload, count, format()), status());
  seal(begin, count, payload);
}

bool DenseSum::read_ranges() {
  return open(returned(), [&](std::size_t owner, ConstGradientView values) {
    convert(place(), values, range_of(values_, static_cast<int>(owner)));
  });
}

/// What the engine sums: the values where they lie, or a copy that it can reach.
View<float> DenseSum::engine_values() {
  if (engines_reach(place())) return values_.floats();
  engine_copy_.reserve(values_.size_bytes());
  return {reinterpret_cast<float*>(engine_copy_.view(values_.size_bytes()).data()), values_.size()};
}

Handle DenseSum::engine_stage(int index) {
  const View<float> values = values_.floats();
  const View<float> summed = engine_values();
  const bool copied = summed.data() != values.data();
  if (index == 0) {
    if (copied) copy_to_cpu<float>(place(), values, summed.data());
    const std::uint64_t ring =
        2 * values_.size_bytes() / static_cast<std::uint64_t>(size()) * static_cast<std::uint64_t>(size() - 1);
    cost().payload_bytes = values_.size_bytes();
    cost().sent_bytes = ring;
    cost().received_bytes = ring;
    cost().sent_messages = 2 * static_cast<std::uint64_t>(size() - 1);
    return communicator().all_reduce(summed, Reduction::sum);
  }
  const Stopwatch watch(cost().decode_seconds);
  if (copied) copy_from_cpu<float>(place(), summed.data(), values);
  if (options_.divide) divide(place(), static_cast<float>(size()), values);
  find_nonfinite(place(), values_, status());
  done();
  return {};
}

void DenseSum::encode_mine(std::uint64_t begin, std::uint64_t count, View<std::byte> payload) {
  dense::encode(place(), values_.sub(begin, count), format(), payload, status(), signature_);
}

bool DenseSum::open(std::span<const ReceivedRange> ranges, TakeValues take) {
  return dense::open(place(), ranges, format(), take, status(), signature_);
}

void DenseSum::seal(std::uint64_t /*begin*/, std::uint64_t count, View<std::byte> payload) {
  dense::seal(place(), count, format(), payload, status(), signature_);
}

BlockSum::BlockSum(Communicator& communicator, Place& place, std::uint64_t most, DenseSumOptions options)
    : DenseSum(communicator, place, std::move(options)) {
  resize(most);
}

void BlockSum::start(View<const float> flat, std::span<const Block> blocks, View<float> mean, StatusView status) {
  require_idle();
  const std::uint64_t n = blocks_size(blocks);
  require_size("mean", mean.size(), n);
  for (const Block& block : blocks) {
    require_at_least("flat", flat.size(), block.offset + block.size);
    if (block.count > block.size || (block.size > 0 && block.start >= block.size)) {
      throw InvalidConfig("a block of " + std::to_string(block.count) + " entries from " + std::to_string(block.start) +
                          " does not fit a tensor of " + std::to_string(block.size) +
                          ": draw the start below the size and at most the size in count");
    }
  }
  flat_ = flat;
  blocks_ = blocks;
  resize(n);
  if (order() == SumOrder::engine) gather_blocks(place(), flat, blocks, 0, mean);
  start_values(mean, status);
}

void BlockSum::encode_mine(std::uint64_t begin, std::uint64_t count, View<std::byte> payload) {
  block::encode(place(), flat_, blocks_, begin, count, format(), payload, status());
}

bool BlockSum::open(std::span<const ReceivedRange> ranges, TakeValues take) {
  return block::open(place(), ranges, blocks_, format(), take, status());
}

void BlockSum::seal(std::uint64_t begin, std::uint64_t count, View<std::byte> payload) {
  block::seal(place(), blocks_, begin, count, format(), payload, status());
}

void average_over_ranks(Communicator& communicator, Place& place, View<float> values) {
  DenseSum mean(communicator, place, values.size());
  const ScratchStatus status(place);
  mean.start(values, status.view());
  mean.finish();
}

}  // namespace laconic
