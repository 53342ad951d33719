#include "exchange/host_ranges.h"

#include "base/check.h"
#include "codecs/dense.h"
#include "kernels/elementwise/elementwise.h"

namespace laconic {
namespace {

template <class Values>
Values range_of_rank(const Values& values, std::span<const std::uint64_t> borders, int rank) {
  const auto index = static_cast<std::size_t>(rank);
  return values.sub(borders[index], borders[index + 1] - borders[index]);
}

std::uint64_t range_payload_bytes(std::span<const std::uint64_t> borders, int rank) {
  const auto index = static_cast<std::size_t>(rank);
  return dense::max_payload_bytes(borders[index + 1] - borders[index], ValueFormat::f32);
}

}  // namespace

/// Bytes of a range from each rank, for views of up to that many entries. The longest range is rounded up.
std::uint64_t RangeExchange::most_bytes(std::uint64_t entries) const {
  const auto ranks = static_cast<std::uint64_t>(size());
  return ranks * dense::max_payload_bytes((entries + ranks - 1) / ranks, ValueFormat::f32);
}

void RangeExchange::cut(ConstGradientView values, View<const float> own) {
  require_idle();
  set_even_borders(values.size(), borders_);
  require_size("own", own.size(), range_of_rank(values, borders_, rank()).size());
  require_same_device("values", values.device(), place().device());
}

Handle RangeExchange::stage(int index) {
  if (index == 0) return send();
  receive();
  done();
  return {};
}

ScatteredMean::ScatteredMean(Communicator& communicator, Place& place)
    : RangeExchange(communicator, place),
      send_(place, size()),
      receive_(place, size()),
      parts_(static_cast<std::size_t>(size())) {}

void ScatteredMean::reserve(std::uint64_t entries) {
  send_.reserve(most_bytes(entries));
  receive_.reserve(most_bytes(entries));
}

void ScatteredMean::start(ConstGradientView values, View<float> own, StatusView status) {
  cut(values, own);
  values_ = values;
  own_ = own;
  send_.lay_out([&](int to) { return range_payload_bytes(borders(), to); });
  receive_.lay_out([&](int) { return range_payload_bytes(borders(), rank()); });
  begin(status);
}

Handle ScatteredMean::send() {
  {
    const Stopwatch watch(cost().encode_seconds);
    for (int to = 0; to < size(); ++to) {
      dense::encode(place(), range_of_rank(values_, borders(), to), ValueFormat::f32, send_.slot(to), status());
    }
    flag_nonfinite(send_);
  }
  cost().payload_bytes = send_.payload_bytes();
  count_sent(send_);
  count_received(receive_);
  return communicator().all_to_all_varying(send_.bytes(), send_.ranges(), receive_.bytes(), receive_.ranges());
}

void ScatteredMean::receive() {
  const Stopwatch watch(cost().decode_seconds);
  const auto arrived = receive_.arrived([&](int) { return borders_of(rank()); });
  const auto take = [&](std::size_t from, ConstGradientView values) { parts_[from] = values; };
  require_payloads_sound(dense::open(place(), arrived, ValueFormat::f32, take, status()));
  note_nonfinite(receive_);
  sum_in_rank_order(place(), parts_, static_cast<float>(size()), own_, status());
}

GatheredRanges::GatheredRanges(Communicator& communicator, Place& place)
    : RangeExchange(communicator, place), slots_(place, size()) {}

void GatheredRanges::start(View<const float> own, GradientView values, StatusView status) {
  cut(values, own);
  own_ = own;
  values_ = values;
  slots_.lay_out([&](int from) { return range_payload_bytes(borders(), from); });
  begin(status);
}

Handle GatheredRanges::send() {
  {
    const Stopwatch watch(cost().encode_seconds);
    dense::encode(place(), own_, ValueFormat::f32, slots_.slot(rank()), status());
  }
  cost().payload_bytes = slots_.length(rank());
  count_gathered(slots_.length(rank()), slots_.payload_bytes());
  return communicator().all_gather_varying(slots_.payload(rank()), slots_.bytes(), slots_.ranges());
}

void GatheredRanges::receive() {
  const Stopwatch watch(cost().decode_seconds);
  const auto arrived = slots_.arrived([&](int from) { return borders_of(from); });
  require_payloads_sound(dense::decode(place(), arrived, ValueFormat::f32, values_, status()));
}

}  // namespace laconic
