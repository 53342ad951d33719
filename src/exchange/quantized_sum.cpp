#include "exchange/quantized_sum.h"

#include <algorithm>

#include "base/check.h"
#include "base/keep.h"
#include "base/workspace.h"
#include "codecs/dense.h"
#include "codecs/uniform.h"
#include "kernels/bitpack/bitpack.h"
#include "kernels/elementwise/elementwise.h"

namespace laconic {

QuantizedSum::QuantizedSum(Communicator& communicator, Place& place, Layout layout, QuantizedSumOptions options)
    : OwnerExchange(communicator, place),
      layout_(std::move(layout)),
      options_(std::move(options)),
      own_norms_(static_cast<std::size_t>(size())) {
  cut_evenly(layout_, std::max(kPackGroup, layout_.scope()));
  norms_.reserve(place, layout_.scopes());
  const auto whole = uniform::max_payload_bytes(layout_, 0, layout_.size(), options_.most_bits);
  const auto ranks = static_cast<std::uint64_t>(size());
  if (options_.route == QuantizedRoute::gather) {
    send_.reserve(whole);
    receive_.reserve(whole * ranks);
  } else {
    const auto range_bytes = [&](int owner) {
      return uniform::max_payload_bytes(layout_, begin_of(owner), end_of(owner), options_.most_bits);
    };
    send_.lay_out(range_bytes);
    receive_.reserve(range_bytes(rank()) * ranks);
    bits_ = options_.most_bits;
    returned_.lay_out([&](int owner) { return return_bytes(owner); });
  }
}

void QuantizedSum::start(ConstGradientView values, int bits, StepKey key, GradientView mean, StatusView status,
                         float own_norm, View<float> rest) {
  require_idle();
  levels_of(bits);  // refuses bits out of range
  require_size("values", values.size(), layout_.size());
  require_size("mean", mean.size(), layout_.size());
  if (!rest.empty()) require_size("rest", rest.size(), layout_.size());
  values_ = values;
  mean_ = mean;
  rest_ = rest;
  bits_ = bits;
  key_ = key;
  own_norm_ = own_norm;
  begin(status);
}

Handle QuantizedSum::stage(int index) {
  if (options_.route == QuantizedRoute::scatter) return OwnerExchange::stage(index);
  if (index == 0) return gather_payloads();
  sum_gathered();
  done();
  return {};
}

// ---- by all-gather

Handle QuantizedSum::gather_payloads() {
  const std::uint64_t bytes = uniform::max_payload_bytes(layout_, 0, layout_.size(), bits_);
  {
    const Stopwatch watch(cost().encode_seconds);
    send_.lay_out([&](int to) { return to == rank() ? bytes : 0; });
    uniform::scope_norms(place(), values_, layout_, options_.norm, norms_.view(layout_.scopes()), status());
    quantize_mine(rank(), 0, layout_.size());
  }
  receive_.lay_out([&](int) { return bytes; });
  cost().payload_bytes = bytes;
  count_gathered(bytes, receive_.payload_bytes());
  return communicator().all_gather_varying(send_.payload(rank()), receive_.bytes(), receive_.ranges());
}

void QuantizedSum::sum_gathered() {
  const Stopwatch watch(cost().decode_seconds);
  add_in_rank_order(receive_, 0, layout_.size(), static_cast<float>(size()), mean_);
}

// ---- by ranges

void QuantizedSum::write_ranges() {
  send_.lay_out([&](int owner) { return uniform::max_payload_bytes(layout_, begin_of(owner), end_of(owner), bits_); });
  receive_.lay_out([&](int) { return send_.length(rank()); });
  uniform::scope_norms(place(), values_, layout_, options_.norm, norms_.view(layout_.scopes()), status());
  for (int owner = 0; owner < size(); ++owner) quantize_mine(owner, begin_of(owner), end_of(owner));
}

/// The sum is made in place, unless that would round it to 16 bits on its way.
void QuantizedSum::make_own_range() {
  const Workspace::Scope scope(place().workspace());
  const GradientView range = range_of(mean_, rank());
  const View<float> sum = range.is_float32() ? range.floats() : place().workspace().take<float>(range.size());
  const float divisor = divides_last() ? 1.0F : static_cast<float>(size());
  add_in_rank_order(receive_, begin_of(rank()), end_of(rank()), divisor, sum);
  returned_.lay_out([&](int owner) { return return_bytes(owner); });
  encode_return(sum);
}

std::uint64_t QuantizedSum::return_bytes(int owner) const {
  return requantizes() ? uniform::max_payload_bytes(layout_, begin_of(owner), end_of(owner), bits_)
                       : dense::max_payload_bytes(count_of(owner), ValueFormat::f32);
}

void QuantizedSum::encode_return(View<const float> sum) {
  const View<std::byte> payload = returned_.slot(rank());
  if (!requantizes()) {
    dense::encode(place(), sum, ValueFormat::f32, payload, status());
    return;
  }
  const std::uint64_t begin = begin_of(rank());
  take_return_norms(sum);
  const RandomStream draws = stream(Purpose::return_rounding, kSharedRank);
  const auto encode = [&](View<float> rest) {
    uniform::encode(place(), sum, layout_, begin, end_of(rank()), norms_.view(layout_.scopes()), bits_, draws, payload,
                    status(), 0.0F, {options_.rounding, rest});
  };
  if (!keeps_rest()) return encode({});
  const Workspace::Scope scope(place().workspace());
  const View<float> error = place().workspace().take<float>(sum.size());
  encode(error);
  axpy(place(), 1.0F, error, range_of(rest_, rank()));
}

/// Of this rank's range. A tensor that several ranks own has a norm in each part; what it rounds to is drawn by
/// coordinate all the same. A fixed scope has one owner.
void QuantizedSum::take_return_norms(View<const float> sum) {
  const std::uint64_t begin = begin_of(rank());
  const View<float> norms = norms_.view(layout_.scopes());
  if (layout_.scope() != 0) {
    const View<float> own = norms.sub(begin / layout_.scope(), sum.empty() ? 0 : layout_.scopes_in(sum.size()));
    return scope_norms(place(), sum, layout_.scope(), options_.norm, own, status());
  }
  const auto parts = [&](const auto& body) {
    layout_.for_each_slice(begin, end_of(rank()), [&](const Slice& slice) {
      body(NormPart{sum.sub(slice.offset - begin, slice.count), norms.sub(slice.tensor, 1)});
    });
  };
  laconic::norms(place(), parts, options_.norm, status());
}

bool QuantizedSum::read_ranges() {
  if (!requantizes()) return dense::decode(place(), returned(), ValueFormat::f32, mean_, status());
  const float divisor = divides_last() ? static_cast<float>(size()) : 1.0F;
  return uniform::decode(place(), returned(), layout_, bits_, divisor, mean_, status());
}

// ---- both

void QuantizedSum::quantize_mine(int slot, std::uint64_t begin, std::uint64_t end) {
  const View<float> rest = keeps_rest() ? rest_.sub(begin, end - begin) : View<float>();
  uniform::encode(place(), values_.sub(begin, end - begin), layout_, begin, end, norms_.view(layout_.scopes()), bits_,
                  stream(Purpose::rounding, key_.rank), send_.slot(slot), status(), own_norm_,
                  {options_.rounding, rest});
}

void QuantizedSum::add_in_rank_order(Slots& slots, std::uint64_t begin, std::uint64_t end, float divisor,
                                     GradientView out) {
  require_payloads_sound(
      uniform::decode_sum(place(), slots.payloads(), layout_, begin, end, bits_, divisor, out, status(), own_norms_));
  note_nonfinite(slots);
}

}  // namespace laconic
