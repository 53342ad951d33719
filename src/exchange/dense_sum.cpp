#include "exchange/dense_sum.h"

#include <string>

#include "base/check.h"
#include "base/scratch_status.h"
#include "base/transfer.h"
#include "base/workspace.h"
#include "codecs/block.h"
#include "codecs/dense.h"
#include "kernels/elementwise/elementwise.h"
#include "laconic/error.h"

namespace laconic {

DenseSum::DenseSum(Communicator& communicator, Place& place, DenseSumOptions options)
    : OwnerExchange(communicator, place), options_(std::move(options)) {
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
  lay_out([&](int owner) { return range_bytes(count_of(owner)); });
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
  for (int owner = 0; owner < size(); ++owner) encode_mine(begin_of(owner), end_of(owner), send_.slot(owner));
}

/// A sum is made in place, unless that would round it to 16 bits on its way.
void DenseSum::make_own_range() {
  const Workspace::Scope scope(place().workspace());
  const GradientView range = range_of(values_, rank());
  const View<float> sum = range.is_float32() ? range.floats() : place().workspace().take<float>(range.size());
  add_in_rank_order(sum);
  if (options_.divide) divide(place(), static_cast<float>(size()), sum);
  encode_sum(sum, begin_of(rank()), returned_.slot(rank()));
}

void DenseSum::add_in_rank_order(View<float> sum) {
  const std::uint64_t begin = begin_of(rank());
  for (int from = 0; from < size(); ++from) {
    const auto payload = receive_.payload(from);
    if (from == 0) {
      decode(payload, begin, sum);
    } else {
      decode_add(payload, begin, sum);
    }
  }
  require_payloads_sound();
  note_nonfinite(receive_);
}

bool DenseSum::read_range(int owner) {
  return decode(returned_.payload(owner), begin_of(owner), range_of(values_, owner));
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

std::uint64_t DenseSum::range_bytes(std::uint64_t count) const { return dense::max_payload_bytes(count, format()); }

void DenseSum::encode_mine(std::uint64_t begin, std::uint64_t end, View<std::byte> payload) {
  dense::encode(place(), values_.sub(begin, end - begin), format(), payload, status(), signature_);
}

void DenseSum::encode_sum(View<const float> range, std::uint64_t /*begin*/, View<std::byte> payload) {
  dense::encode(place(), range, format(), payload, status(), signature_);
}

bool DenseSum::decode(View<const std::byte> payload, std::uint64_t /*begin*/, GradientView range) {
  return dense::decode(place(), payload, format(), range, status(), signature_);
}

bool DenseSum::decode_add(View<const std::byte> payload, std::uint64_t /*begin*/, View<float> range) {
  return dense::decode_add(place(), payload, format(), range, status(), signature_);
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

std::uint64_t BlockSum::range_bytes(std::uint64_t count) const { return block::max_payload_bytes(count, format()); }

void BlockSum::encode_mine(std::uint64_t begin, std::uint64_t end, View<std::byte> payload) {
  block::encode(place(), flat_, blocks_, begin, end - begin, format(), payload, status());
}

void BlockSum::encode_sum(View<const float> range, std::uint64_t begin, View<std::byte> payload) {
  block::encode_values(place(), range, blocks_, begin, format(), payload, status());
}

bool BlockSum::decode(View<const std::byte> payload, std::uint64_t begin, GradientView range) {
  fill(place(), -0.0F, range.floats());  // -0 + x is x, bit for bit
  return decode_add(payload, begin, range.floats());
}

bool BlockSum::decode_add(View<const std::byte> payload, std::uint64_t begin, View<float> range) {
  return block::decode_add(place(), payload, blocks_, begin, format(), range, status());
}

void average_over_ranks(Communicator& communicator, Place& place, View<float> values) {
  DenseSum mean(communicator, place, values.size());
  const ScratchStatus status(place);
  mean.start(values, status.view());
  mean.finish();
}

}  // namespace laconic
