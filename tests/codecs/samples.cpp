#include "codecs/samples.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/keep.h"
#include "codecs/block.h"
#include "codecs/dense.h"
#include "codecs/sign.h"
#include "codecs/sparse.h"
#include "codecs/uniform.h"
#include "kernels/checksum/checksum.h"
#include "kernels/coded/coded.h"
#include "support/placed.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr float kFill = 0.5F;  // what views hold before a decoder comes

/// What a receiver of that format sees, by the conversion kernel, whose own test has an independent model.
std::vector<float> seen_as(std::vector<float> values, ValueFormat format) {
  if (format == ValueFormat::f32 || is_coded(format)) return values;
  Place place({.threads = 1, .simd = SimdLevel::reference});
  std::vector<float> errors(values.size());
  Status status;
  round_through_16bit(place, format, values, errors, view_of(status));
  return values;
}

void expect_accepted(const Outcome& outcome) {
  EXPECT_TRUE(outcome.accepted) << payload_reason(outcome.status.fault);
  EXPECT_EQ(outcome.status.fault, PayloadFault::none);
  EXPECT_TRUE(outcome.guards_intact);
}

Outcome outcome_of(bool accepted, const Placed<Status>& status, const Placed<float>& out) {
  Outcome outcome{.accepted = accepted, .status = status.values()[0], .values = out.values(), .indices = {}};
  outcome.guards_intact = out.intact() && status.intact();
  outcome.untouched = outcome.values == std::vector<float>(outcome.values.size(), kFill);
  return outcome;
}

class DenseSample : public Sample {
 public:
  DenseSample(std::size_t n, ValueFormat format, bool open)
      : values_(normal_values(n, n + 1)), format_(format), open_(open) {}
  std::string name() const override {
    return std::string("dense ") + format_name(format_) + (open_ ? " in place " : " ") + std::to_string(values_.size());
  }
  std::uint64_t max_payload_bytes() const override { return dense::max_payload_bytes(values_.size(), format_); }
  void encode_into(Place& place, View<std::byte> payload, StatusView status) const override {
    const Given<float> values(place, values_, 1);
    dense::encode(place, values.view(), format_, payload, status);
  }
  Outcome decode(Place& place, View<const std::byte> payload) const override {
    const Placed<float> out(place, std::vector<float>(values_.size(), kFill), 5);
    const Placed<Status> status(place, {{}});
    if (!open_) {
      return outcome_of(dense::decode(place, payload, format_, out.view(), status.view()), status, out);
    }
    ConstGradientView found;
    const bool accepted = dense::open(place, payload, values_.size(), format_, found, status.view());
    if (accepted) convert(place, found, out.view());
    return outcome_of(accepted, status, out);
  }
  void expect_sound(const Outcome& outcome) const override {
    expect_accepted(outcome);
    EXPECT_EQ(outcome.values, seen_as(values_, format_));
  }

 private:
  std::vector<float> values_;
  ValueFormat format_;
  bool open_;
};

/// What shares magnitudes.
enum class Scopes { one, fixed, tensors };

class SparseSample : public Sample {
 public:
  /// One entry in `stride`, a little irregular.
  SparseSample(std::size_t n, std::uint32_t stride, ValueFormat format, Scopes scopes = Scopes::one)
      : range_{77, n}, stride_(stride), format_(format), scopes_(scopes) {
    if (scopes == Scopes::tensors) starts_ = {0, 10, 78, 100, 500, 501, 20'000};
    for (std::uint64_t i = 0; i < n; i += 1 + (i * 2'654'435'761U >> 7) % (2 * stride - 1)) {
      indices_.push_back(static_cast<std::uint32_t>(range_.first + i));
    }
    values_ = normal_values(indices_.size(), n);
    if (is_coded(format)) code();
  }
  std::string name() const override {
    const std::string in = scopes_ == Scopes::one ? " " : scopes_ == Scopes::fixed ? " by 200 " : " by tensor ";
    return "sparse 1/" + std::to_string(stride_) + " " + format_name(format_) + in + std::to_string(range_.size);
  }
  std::uint64_t max_payload_bytes() const override {
    return sparse::max_payload_bytes(indices_.size(), range_, coding({}));
  }
  bool exact() const override { return false; }
  void encode_into(Place& place, View<std::byte> payload, StatusView status) const override {
    const Given<std::uint32_t> indices(place, indices_, 1);
    const Given<float> values(place, values_, 2);
    const Given<std::uint32_t> starts(place, starts_, 1);
    sparse::encode(place, ConstSparseView{indices.view(), values.view()}, range_, coding(starts.view()), payload,
                   status);
  }
  Outcome decode(Place& place, View<const std::byte> payload) const override {
    const Placed<std::uint32_t> indices(place, std::vector<std::uint32_t>(indices_.size()), 3);
    const Placed<float> values(place, std::vector<float>(indices_.size(), kFill), 5);
    const Placed<Status> status(place, {{}});
    const Given<std::uint32_t> starts(place, starts_, 1);
    const bool accepted =
        sparse::decode(place, payload, range_, coding(starts.view()), {indices.view(), values.view()}, status.view());
    Outcome outcome = outcome_of(accepted, status, values);
    outcome.guards_intact = outcome.guards_intact && indices.intact();
    outcome.untouched = outcome.status.count == 0;  // entries may hold a prefix, but nothing counts
    outcome.indices = indices.values();
    return outcome;
  }
  void expect_sound(const Outcome& outcome) const override {
    expect_accepted(outcome);
    EXPECT_EQ(outcome.status.count, indices_.size());
    EXPECT_EQ(outcome.indices, indices_);
    EXPECT_EQ(outcome.values, seen_as(values_, format_));
  }

 private:
  sparse::ValueCoding coding(View<const std::uint32_t> device_starts) const {
    ScopeCuts cuts{.starts = starts_, .device_starts = device_starts};
    if (scopes_ == Scopes::fixed) cuts.each = 200;
    return {format_, cuts};
  }

  /// What a method does before it sends: the kernel's own test has an independent model.
  void code() {
    Place place({.threads = 1, .simd = SimdLevel::reference});
    std::vector<float> errors(values_.size());
    Status status;
    const sparse::ValueCoding own = coding({});
    code_values(place, format_, own.cuts, own.scopes_of(range_), {indices_, values_}, errors, view_of(status));
  }

  sparse::IndexRange range_;
  std::uint32_t stride_;
  ValueFormat format_;
  Scopes scopes_;
  std::vector<std::uint32_t> starts_;
  std::vector<std::uint32_t> indices_;
  std::vector<float> values_;
};

class BlockSample : public Sample {
 public:
  /// Three tensors, each with a block that wraps; the middle half of their entries travels.
  BlockSample(std::size_t n, ValueFormat format, bool open)
      : flat_(normal_values(n, 2 * n)), format_(format), open_(open) {
    std::uint64_t offset = 0;
    for (const std::uint64_t size : {n / 2, n / 3, n - n / 2 - n / 3}) {
      if (size > 0) blocks_.push_back({offset, size, size - 1, (size + 1) / 2});
      offset += size;
    }
    begin_ = blocks_size(blocks_) / 4;
    count_ = blocks_size(blocks_) / 2;
  }
  std::string name() const override {
    return std::string("block ") + format_name(format_) + (open_ ? " in place " : " ") + std::to_string(flat_.size());
  }
  std::uint64_t max_payload_bytes() const override { return block::max_payload_bytes(count_, format_); }
  void encode_into(Place& place, View<std::byte> payload, StatusView status) const override {
    const Given<float> flat(place, flat_, 1);
    if (!open_) return block::encode(place, flat.view(), blocks_, begin_, count_, format_, payload, status);
    const Placed<float> values(place, std::vector<float>(count_), 3);
    gather_blocks(place, flat.view(), blocks_, begin_, values.view());
    block::encode_values(place, values.view(), blocks_, begin_, format_, payload, status);
  }
  Outcome decode(Place& place, View<const std::byte> payload) const override {
    const Placed<float> out(place, std::vector<float>(open_ ? count_ : flat_.size(), kFill), 5);
    const Placed<Status> status(place, {{}});
    ConstGradientView found;
    const ReceivedRange range{payload, begin_, begin_ + count_};
    const auto take = [&](std::size_t, ConstGradientView values) { found = values; };
    const bool accepted =
        open_ ? block::open(place, {&range, 1}, blocks_, format_, take, status.view())
              : block::decode(place, payload, blocks_, begin_, count_, format_, out.view(), status.view());
    if (open_ && accepted) convert(place, found, out.view());
    return outcome_of(accepted, status, out);
  }
  void expect_sound(const Outcome& outcome) const override {
    expect_accepted(outcome);
    std::vector<std::uint64_t> positions;
    for (const Block& each : blocks_) {
      for (std::uint64_t i = 0; i < each.count; ++i) positions.push_back(each.offset + (each.start + i) % each.size);
    }
    const auto seen = seen_as(flat_, format_);
    std::vector<float> expected(open_ ? count_ : flat_.size(), kFill);
    for (std::uint64_t i = 0; i < count_; ++i) {
      const float value = seen[positions[begin_ + i]];
      expected[open_ ? i : positions[begin_ + i]] = value;
    }
    EXPECT_EQ(outcome.values, expected);
  }

 private:
  std::vector<float> flat_;
  std::vector<Block> blocks_;
  std::uint64_t begin_ = 0;
  std::uint64_t count_ = 0;
  ValueFormat format_;
  bool open_;
};

/// Four tensors, one of them empty, together n entries.
Layout four_tensors(std::size_t n) {
  const std::vector<std::uint64_t> sizes{n / 2, 0, n / 5, n - n / 2 - n / 5};
  return Layout(sizes);
}

class SignSample : public Sample {
 public:
  explicit SignSample(std::size_t n)
      : layout_(four_tensors(n)), begin_(layout_.cut(n / 4, 32)), values_(normal_values(n - begin_, n)) {
    if (!values_.empty()) values_[0] = -0.0F;
  }
  std::string name() const override { return "sign " + std::to_string(values_.size()); }
  std::uint64_t max_payload_bytes() const override { return sign::max_payload_bytes(layout_, begin_, layout_.size()); }
  void encode_into(Place& place, View<std::byte> payload, StatusView status) const override {
    const Given<float> values(place, values_, 1);
    sign::encode(place, values.view(), layout_, begin_, layout_.size(), payload, status);
  }
  Outcome decode(Place& place, View<const std::byte> payload) const override {
    const Placed<float> out(place, std::vector<float>(values_.size(), kFill), 5);
    const Placed<Status> status(place, {{}});
    const bool accepted = sign::decode(place, payload, layout_, begin_, layout_.size(), out.view(), status.view());
    return outcome_of(accepted, status, out);
  }
  void expect_sound(const Outcome& outcome) const override {
    expect_accepted(outcome);
    std::vector<float> expected;
    for (const float value : values_) expected.push_back(value < 0.0F ? -1.0F : 1.0F);
    EXPECT_EQ(outcome.values, expected);
  }

 private:
  Layout layout_;
  std::uint64_t begin_;
  std::vector<float> values_;
};

class UniformSample : public Sample {
 public:
  UniformSample(std::size_t n, int bits, Layout layout, Rounding rounding = Rounding::stochastic)
      : layout_(std::move(layout)),
        bits_(bits),
        rounding_(rounding),
        begin_(layout_.cut(n / 4, std::max<std::uint64_t>(512, layout_.scope()))),
        values_(normal_values(n, n)),
        norms_(layout_.scopes()) {
    Place place({.threads = 1});
    Status status;
    uniform::scope_norms(place, values_, layout_, Norm::max, norms_, view_of(status));
  }
  std::string name() const override {
    const std::string scopes = layout_.scope() == 0 ? "" : " by " + std::to_string(layout_.scope());
    return "uniform " + std::to_string(bits_) + " bits" + scopes + " " + std::to_string(values_.size());
  }
  std::uint64_t max_payload_bytes() const override {
    return uniform::max_payload_bytes(layout_, begin_, layout_.size(), bits_);
  }
  void encode_into(Place& place, View<std::byte> payload, StatusView status) const override {
    const RandomStream stream{.seed = 5, .step = 3, .rank = 1, .tensor = 0, .purpose = Purpose::rounding};
    const Given<float> values(place, values_, 1);
    const Given<float> norms(place, norms_, 2);
    uniform::encode(place, values.view().sub(begin_, values_.size() - begin_), layout_, begin_, layout_.size(),
                    norms.view(), bits_, stream, payload, status, 2.5F, {rounding_, {}});
  }
  Outcome decode(Place& place, View<const std::byte> payload) const override {
    const Placed<float> out(place, std::vector<float>(layout_.size() - begin_, kFill), 5);
    const Placed<Status> status(place, {{}});
    const bool accepted =
        uniform::decode_add(place, payload, layout_, begin_, layout_.size(), bits_, out.view(), status.view());
    return outcome_of(accepted, status, out);
  }
  void expect_sound(const Outcome& outcome) const override {
    expect_accepted(outcome);
    const auto levels = static_cast<double>(levels_of(bits_));
    layout_.for_each_slice(begin_, layout_.size(), [&](const Slice& slice) {
      for (std::uint64_t i = 0; i < slice.count; ++i) {
        const std::uint64_t scope = layout_.scope() == 0 ? slice.tensor : (slice.first + i) / layout_.scope();
        const double step = norms_[scope] / levels;
        const double decoded = outcome.values[slice.offset - begin_ + i] - static_cast<double>(kFill);
        ASSERT_LE(std::fabs(decoded - values_[slice.offset + i]), step * 1.001 + 1e-6) << slice.offset + i;
      }
    });
  }

 private:
  Layout layout_;
  int bits_;
  Rounding rounding_;
  std::uint64_t begin_;
  std::vector<float> values_;
  std::vector<float> norms_;
};

}  // namespace

void Sample::encode(Place& place, View<std::byte> payload, Status& status) const {
  if (place.queue() == nullptr) return encode_into(place, payload, view_of(status));
  const Placed<Status> placed(place, {status});
  encode_into(place, payload, placed.view());
  EXPECT_TRUE(placed.intact());
  status = placed.values()[0];
}

Payload Sample::encoded(Place& place) const {
  const Placed<std::byte> room(place, Payload(max_payload_bytes()), 4);
  Status status;
  encode(place, room.view(), status);
  EXPECT_TRUE(room.intact());
  Payload payload = room.values();
  payload.resize(status.payload_bytes);
  return payload;
}

Samples samples_of(std::size_t n) {
  Samples samples;
  for (const auto format : {ValueFormat::f32, ValueFormat::f16, ValueFormat::bf16}) {
    samples.push_back(std::make_unique<DenseSample>(n, format, false));
    samples.push_back(std::make_unique<DenseSample>(n, format, true));
    samples.push_back(std::make_unique<BlockSample>(n, format, false));
    samples.push_back(std::make_unique<BlockSample>(n, format, true));
    for (const std::uint32_t stride : {1U, 3U, 30U, 500U}) {
      samples.push_back(std::make_unique<SparseSample>(n, stride, format));
    }
  }
  for (const auto format : {ValueFormat::sign, ValueFormat::two}) {
    for (const std::uint32_t stride : {1U, 3U, 30U, 500U}) {
      for (const Scopes scopes : {Scopes::one, Scopes::fixed, Scopes::tensors}) {
        samples.push_back(std::make_unique<SparseSample>(n, stride, format, scopes));
      }
    }
  }
  samples.push_back(std::make_unique<SignSample>(n));
  for (const int bits : {2, 3, 4, 7, 8, 16})
    samples.push_back(std::make_unique<UniformSample>(n, bits, four_tensors(n)));
  for (const std::uint64_t scope : {64U, 256U, 4096U}) {
    for (const int bits : {2, 4}) {
      samples.push_back(std::make_unique<UniformSample>(n, bits, Layout::in_scopes(n, scope), Rounding::nearest));
    }
  }
  return samples;
}

void reseal(Place& place, Payload& payload) {
  const std::uint32_t sum = checksum_with_hole(place, payload, offsetof(PayloadHeader, checksum));
  overwrite(payload, offsetof(PayloadHeader, checksum), sum);
}

}  // namespace laconic::test
