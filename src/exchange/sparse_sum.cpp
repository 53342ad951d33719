#include "exchange/sparse_sum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "base/check.h"
#include "base/refusal.h"
#include "base/workspace.h"
#include "kernels/coded/coded.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/sparse/sparse.h"
#include "laconic/error.h"

namespace laconic {

SparseSum::SparseSum(Communicator& communicator, Place& place, std::uint64_t n, std::uint64_t most,
                     SparseSumOptions options)
    : Exchange(communicator, place),
      n_(n),
      most_(most),
      options_(options),
      sent_(options.format, options.cuts),
      returned_(is_coded(options.format) && !options.coded_return ? ValueFormat::f32 : options.format, options.cuts),
      send_(place, size()),
      receive_(place, size()),
      borders_(even_borders(n, size())),
      next_borders_(borders_.size()),
      firsts_(borders_.size()),
      lengths_(static_cast<std::size_t>(size())),
      notices_sent_(static_cast<std::size_t>(size())),
      notices_(static_cast<std::size_t>(size())),
      loads_(static_cast<std::size_t>(size())),
      lists_(static_cast<std::size_t>(size())),
      parts_(static_cast<std::size_t>(size())),
      received_room_(std::min(n, most * std::min<std::uint64_t>(static_cast<std::uint64_t>(size()), 2))),
      returned_room_(std::min(n, most * std::min<std::uint64_t>(static_cast<std::uint64_t>(size()), 4))) {
  if (n > kMostSparseEntries) {
    throw InvalidConfig("a sparse sum has views of at most " + std::to_string(kMostSparseEntries) + " entries, got " +
                        std::to_string(n) + ": use one method per part of the model");
  }
  if (most > n) {
    throw InvalidConfig("a sparse sum of views of " + std::to_string(n) + " entries sends at most that many, got " +
                        std::to_string(most) + ": keep must be in (0, 1]");
  }
  if (options_.coded_return && options_.route == SparseRoute::gather) {
    throw Refusal({.who = {},
                   .rule = "return = coded (union = keep) needs owners of index ranges",
                   .got = "route = gather",
                   .remedy = "use route = range"});
  }
  const auto ranks = static_cast<std::uint64_t>(size());
  // Cutting a payload costs each piece a header, and the magnitudes of a scope that it shares with another piece.
  const std::uint64_t piece = sparse::max_payload_bytes(0, n, options_.format) + 2 * sizeof(float);
  const std::uint64_t payload =
      std::max(sparse::max_payload_bytes(most, {0, n}, sent_), sparse::max_payload_bytes(most, {0, n}, returned_));
  send_.reserve(payload + ranks * piece);
  // On a device this grows with the messages. On the CPU pages that nobody touches take no memory.
  if (place.device() == Device::cpu) receive_.reserve(ranks * payload);
  left_.reserve(place, options_.coded_return ? ranks * most : 0);
}

void SparseSum::start(ConstSparseView mine, GradientView mean, StatusView status, View<float> own_means) {
  if (!own_means.empty()) {
    require_size("own_means", own_means.size(), mine.size());
    require_same_device("own_means", own_means.device(), place().device());
  }
  start(mine, mean, status, own_means, choose_route());
}

void SparseSum::start_from(int leader, ConstSparseView mine, GradientView sent, StatusView status) {
  if (leader < 0 || leader >= size()) {
    throw InvalidConfig("leader must be in 0.." + std::to_string(size() - 1) + ", got " + std::to_string(leader));
  }
  leader_ = leader;
  start(mine, sent, status, {}, SparseRoute::leader);
}

void SparseSum::start(ConstSparseView mine, GradientView dense, StatusView status, View<float> own_means,
                      SparseRoute route) {
  require_idle();
  require_size("mean", dense.size(), n_);
  require_size("mine.values", mine.values.size(), mine.indices.size());
  if (mine.size() > most_) {
    throw InvalidConfig("a rank sends at most " + std::to_string(most_) + " entries, got " +
                        std::to_string(mine.size()) + ": make the exchange with the largest count that will occur");
  }
  mine_ = mine;
  mean_ = dense;
  own_means_ = own_means;
  left_count_ = 0;
  route_ = route;
  begin(status);
}

namespace {

/// About as many as an index has on the wire: 8 if one entry in 100 is sent, none if all are.
std::uint64_t index_bits(std::uint64_t n, std::uint64_t count) {
  return count == n ? 0 : 1 + static_cast<std::uint64_t>(std::bit_width(n / std::max<std::uint64_t>(count, 1)));
}

std::uint64_t value_bits(ValueFormat format) {
  return is_coded(format) ? static_cast<std::uint64_t>(field_bits(format)) : 8 * bytes_of(format);
}

}  // namespace

SparseRoute SparseSum::choose_route() const {
  if (options_.coded_return) return SparseRoute::range;
  if (options_.route != SparseRoute::automatic) return options_.route;
  const auto ranks = static_cast<std::uint64_t>(size());
  if (ranks <= 2) return SparseRoute::gather;
  const std::uint64_t expected_union = union_known_ ? union_count_ : most_;
  const std::uint64_t sent = index_bits(n_, most_) + value_bits(sent_.format);
  const std::uint64_t returned = index_bits(n_, most_) + value_bits(returned_.format);
  return most_ * ranks * sent <= most_ * sent + expected_union * returned ? SparseRoute::gather : SparseRoute::range;
}

void SparseSum::require_sound(std::uint64_t n, std::span<const std::uint64_t> borders, std::uint64_t last_union) {
  const bool sound = borders.front() == 0 && borders.back() == n && std::is_sorted(borders.begin(), borders.end());
  if (last_union != kNoUnion && last_union > n) {
    throw InvalidConfig("last_union must be in 0.." + std::to_string(n) + ", got " + std::to_string(last_union));
  }
  if (!sound) throw InvalidConfig("borders must ascend from 0 to " + std::to_string(n) + ": pass what borders() gave");
}

void SparseSum::go_on_from(std::span<const std::uint64_t> borders, std::uint64_t last_union) {
  require_idle();
  require_size("borders", borders.size(), borders_.size());
  require_sound(n_, borders, last_union);
  std::copy(borders.begin(), borders.end(), borders_.begin());
  union_known_ = last_union != kNoUnion;
  union_count_ = union_known_ ? last_union : 0;
}

Handle SparseSum::stage(int index) {
  if (route_ == SparseRoute::leader) {
    if (index == 0) return broadcast_length();
    if (index == 1) return broadcast_payload();
    read_payload();
    done();
    return {};
  }
  if (route_ == SparseRoute::gather) {
    if (index == 0) {
      encode_mine();
      return gather_notice({send_.length(rank()), mine_.size(), mine_.size()});
    }
    if (index == 1) return gather_payloads();
    sum_gathered();
  } else {
    if (index == 0) return send_notices();
    if (index == 1) return send_entries();
    if (index == 2) return sum_own_range();
    if (index == 3) return gather_sums();
    read_sums();
  }
  union_known_ = true;
  done();
  return {};
}

// ---- by all-gather

/// The whole list as one payload.
void SparseSum::encode_mine() {
  const Stopwatch watch(cost().encode_seconds);
  send_.lay_out([&](int to) { return to == rank() ? sparse::max_payload_bytes(mine_.size(), {0, n_}, sent_) : 0; });
  sparse::encode(place(), mine_, {0, n_}, sent_, send_.slot(rank()), status());
  send_.set_length(rank(), require_own_sound().payload_bytes);
  cost().payload_bytes = send_.length(rank());
}

Handle SparseSum::gather_notice(const Notice& mine) {
  notices_sent_[0] = mine;
  count_gathered(sizeof(Notice), sizeof(Notice) * notices_.size());
  return communicator().all_gather(as_bytes(View<const Notice>(notices_sent_).sub(0, 1)),
                                   as_writable_bytes(View<Notice>(notices_)));
}

Handle SparseSum::gather_payloads() {
  bool possible = true;
  for (const Notice& notice : notices_) possible = possible && is_possible(notice, most_, {0, n_}, sent_);
  require_payloads_sound(possible);
  receive_.lay_out_varying([&](int from) { return notices_[static_cast<std::size_t>(from)].bytes; });
  count_gathered(send_.length(rank()), receive_.payload_bytes());
  return communicator().all_gather_varying(send_.payload(rank()), receive_.bytes(), receive_.ranges());
}

void SparseSum::sum_gathered() {
  const Stopwatch watch(cost().decode_seconds);
  const Workspace::Scope scope(place().workspace());
  const SparseView room = take_list(decode_parts({0, n_}), received_room_);
  union_count_ = merge_sum(place(), parts_, room);
  const SparseView aggregate = room.sub(0, union_count_);
  divide(place(), static_cast<float>(size()), aggregate.values);
  round_as_returned(aggregate.values);
  find_nonfinite(place(), aggregate.values, status());  // a sum may overflow; by range the return's encoder looks
  loads_.assign(loads_.size(), {});
  loads_[0] = {union_count_, union_count_};
  follow_aggregate(place(), aggregate.indices, loads_, n_, borders_);
  clear(place(), mean_);
  write_means(aggregate, 0, mine_.size());
}

// ---- by index range

sparse::IndexRange SparseSum::range_of(int owner) const {
  const auto i = static_cast<std::size_t>(owner);
  return {borders_[i], borders_[i + 1] - borders_[i]};
}

/// With coded_return, how many sums an owner returns at most.
std::uint64_t SparseSum::share_of(int owner) const {
  const auto ranks = static_cast<std::uint64_t>(size());
  return most_ / ranks + (static_cast<std::uint64_t>(owner) < most_ % ranks ? 1 : 0);
}

Handle SparseSum::send_notices() {
  {
    const Stopwatch watch(cost().encode_seconds);
    // Entries are ascending, so the owners' entries follow each other.
    count_below(place(), mine_.indices, borders_, firsts_);
    const auto piece_of = [&](int owner) {
      const auto i = static_cast<std::size_t>(owner);
      return mine_.sub(firsts_[i], firsts_[i + 1] - firsts_[i]);
    };
    send_.lay_out([&](int owner) { return sparse::max_payload_bytes(piece_of(owner).size(), range_of(owner), sent_); });
    for (int owner = 0; owner < size(); ++owner) {
      sparse::encode(place(), piece_of(owner), range_of(owner), sent_, send_.slot(owner), status());
    }
    require_own_sound();
    read_lengths(place(), send_.payloads(), lengths_);
    for (int owner = 0; owner < size(); ++owner) {
      const std::uint64_t bytes = lengths_[static_cast<std::size_t>(owner)];
      const std::uint64_t entries = piece_of(owner).size();
      send_.set_length(owner, bytes);
      notices_sent_[static_cast<std::size_t>(owner)] = {bytes, entries, entries};
    }
    flag_nonfinite(send_);
  }
  cost().payload_bytes = send_.payload_bytes();
  cost().sent_bytes += sizeof(Notice) * static_cast<std::uint64_t>(size() - 1);
  cost().received_bytes += sizeof(Notice) * static_cast<std::uint64_t>(size() - 1);
  cost().sent_messages += static_cast<std::uint64_t>(size() - 1);
  return communicator().all_to_all(as_bytes(View<const Notice>(notices_sent_)),
                                   as_writable_bytes(View<Notice>(notices_)));
}

Handle SparseSum::send_entries() {
  bool possible = true;
  for (const Notice& notice : notices_) possible = possible && is_possible(notice, most_, range_of(rank()), sent_);
  require_payloads_sound(possible);
  receive_.lay_out_varying([&](int from) { return notices_[static_cast<std::size_t>(from)].bytes; });
  count_sent(send_);
  count_received(receive_);
  return communicator().all_to_all_varying(send_.bytes(), send_.ranges(), receive_.bytes(), receive_.ranges());
}

Handle SparseSum::sum_own_range() {
  Notice notice{};
  {
    const Stopwatch watch(cost().decode_seconds);
    const Workspace::Scope scope(place().workspace());
    const std::uint64_t received = decode_parts(range_of(rank()));
    const SparseView room = take_list(received, received_room_);
    const SparseView summed = room.sub(0, merge_sum(place(), parts_, room));
    const SparseView sums = options_.coded_return ? split_sums(summed) : summed;
    if (!options_.coded_return) divide(place(), static_cast<float>(size()), sums.values);
    send_.lay_out_varying(
        [&](int to) { return to == rank() ? sparse::max_payload_bytes(sums.size(), range_of(rank()), returned_) : 0; });
    sparse::encode(place(), sums, range_of(rank()), returned_, send_.slot(rank()), status());
    send_.set_length(rank(), require_payloads_sound().payload_bytes);
    notice = {send_.length(rank()), sums.size(), options_.coded_return ? received : sums.size()};
  }
  return gather_notice(notice);
}

/// Splits the sums of this rank's range. Its share of k is returned, as means. The rest and what coding leaves of the
/// means go into left_, in the residual's unit.
SparseView SparseSum::split_sums(SparseView summed) {
  const std::uint64_t count = std::min<std::uint64_t>(share_of(rank()), summed.size());
  const SparseView means = take_list(share_of(rank())).sub(0, count);
  const SparseView room = left_.sub(0, summed.size());
  left_count_ = summed.size() - count;
  const bool exact = returned_.format == ValueFormat::f32;
  const SparseView rest = exact ? room.sub(0, left_count_) : take_list(left_count_, received_room_);
  split_largest(place(), summed, means, rest);
  divide(place(), static_cast<float>(size()), means.values);
  if (exact) return means;
  const View<float> errors = place().workspace().take<float>(count);
  if (is_coded(returned_.format)) {
    code_values(place(), returned_.format, returned_.cuts, returned_.scopes_of(range_of(rank())), means, errors,
                status());
  } else {
    round_through_16bit(place(), returned_.format, means.values, errors, status());
  }
  divide(place(), 1.0F / static_cast<float>(size()), errors);
  const std::array<ConstSparseView, 2> parts{rest, ConstSparseView{means.indices, errors}};
  left_count_ = merge_sum(place(), parts, room);
  return means;
}

Handle SparseSum::gather_sums() {
  const std::uint64_t all = most_ * static_cast<std::uint64_t>(size());
  bool possible = true;
  for (int owner = 0; owner < size() && possible; ++owner) {
    const Notice& notice = notices_[static_cast<std::size_t>(owner)];
    possible = options_.coded_return ? is_possible(notice, share_of(owner), range_of(owner), returned_, all)
                                     : is_possible(notice, all, range_of(owner), returned_);
  }
  require_payloads_sound(possible);
  receive_.lay_out_varying([&](int owner) { return notices_[static_cast<std::size_t>(owner)].bytes; });
  count_gathered(send_.length(rank()), receive_.payload_bytes());
  return communicator().all_gather_varying(send_.payload(rank()), receive_.bytes(), receive_.ranges());
}

/// The union is read in parts of owners' lists, so that it takes no more memory than a selection does.
void SparseSum::read_sums() {
  const Stopwatch watch(cost().decode_seconds);
  const Workspace::Scope scope(place().workspace());
  std::uint64_t largest = 0;
  union_count_ = 0;
  for (std::size_t owner = 0; owner < notices_.size(); ++owner) {
    const Notice& notice = notices_[owner];
    loads_[owner] = {notice.entries, notice.load};
    largest = std::max(largest, notice.entries);
    union_count_ += notice.entries;
  }
  if (largest > returned_room_) returned_room_ = std::min(n_, largest + largest / 4);
  const SparseView room = take_list(returned_room_);
  MovingBorders borders(loads_, n_, next_borders_);
  clear(place(), mean_);
  bool sound = true;
  for (std::size_t owner = 0; owner < lists_.size();) {
    const std::size_t first = owner;
    std::uint64_t count = 0;
    for (; owner < lists_.size() && count + notices_[owner].entries <= room.size(); ++owner) {
      const auto from = static_cast<int>(owner);
      lists_[owner] = {receive_.payload(from), range_of(from), room.sub(count, notices_[owner].entries)};
      count += notices_[owner].entries;
    }
    sound = decode(std::span(lists_).subspan(first, owner - first), static_cast<int>(first), returned_);
    if (!sound) break;
    borders.read(place(), room.sub(0, count).indices);
    write_means(room.sub(0, count), firsts_[first], firsts_[owner]);
  }
  require_payloads_sound(sound);
  std::swap(borders_, next_borders_);
  note_nonfinite_returns(receive_);
}

// ---- from a leader

/// Every rank but the last of the ring forwards what it gets.
void SparseSum::count_forwarded(std::uint64_t bytes) {
  const bool sends = (rank() + 1) % size() != leader_;
  cost().sent_bytes += sends ? bytes : 0;
  cost().sent_messages += sends ? 1 : 0;
  cost().received_bytes += rank() == leader_ ? 0 : bytes;
}

Handle SparseSum::broadcast_length() {
  if (rank() == leader_) {
    encode_mine();
    leader_bytes_ = send_.length(rank());
  }
  count_forwarded(sizeof(std::uint64_t));
  return communicator().broadcast(as_writable_bytes(View<std::uint64_t>(&leader_bytes_, 1)), leader_);
}

Handle SparseSum::broadcast_payload() {
  require_payloads_sound(is_possible({leader_bytes_, most_, most_}, most_, {0, n_}, sent_));
  if (rank() != leader_) send_.lay_out([&](int to) { return to == leader_ ? leader_bytes_ : 0; });
  count_forwarded(leader_bytes_);
  return communicator().broadcast(send_.slot(leader_).sub(0, leader_bytes_), leader_);
}

void SparseSum::read_payload() {
  const Stopwatch watch(cost().decode_seconds);
  const Workspace::Scope scope(place().workspace());
  const View<const std::byte> payload = send_.slot(leader_).sub(0, leader_bytes_);
  sparse::ReceivedList list{payload, {0, n_}, take_list(most_)};
  require_payloads_sound(sparse::decode(place(), {&list, 1}, sent_, status()));
  note_nonfinite(payload, leader_);
  clear(place(), mean_);
  scatter(place(), list.entries.sub(0, list.count), mean_);
}

// ---- both

/// What another rank announced must be possible before memory is taken for it. The load is the number of entries, or at
/// most most_load; that it is the right one cannot be checked.
bool SparseSum::is_possible(const Notice& notice, std::uint64_t most_entries, sparse::IndexRange range,
                            const sparse::ValueCoding& coding, std::uint64_t most_load) {
  const std::uint64_t most = std::min(most_entries, range.size);
  if (notice.entries > most) {
    return note_fault(place(), status(), PayloadFault::wrong_count, 0, notice.entries, most);
  }
  most_load = std::max(most_load, notice.entries);
  if (notice.load < notice.entries || notice.load > most_load) {
    return note_fault(place(), status(), PayloadFault::wrong_count, 0, notice.load, most_load);
  }
  if (notice.bytes < sizeof(PayloadHeader)) {
    return note_fault(place(), status(), PayloadFault::too_short, 0, notice.bytes, sizeof(PayloadHeader));
  }
  const std::uint64_t most_bytes = sparse::max_payload_bytes(notice.entries, range, coding);
  return notice.bytes <= most_bytes ||
         note_fault(place(), status(), PayloadFault::wrong_length, 0, notice.bytes, most_bytes);
}

/// Scratch memory, until the caller's Workspace::Scope ends.
SparseView SparseSum::take_list(std::uint64_t count) {
  return {place().workspace().take<std::uint32_t>(count), place().workspace().take<float>(count)};
}

/// The same for a list whose length differs from step to step: memory is taken for `room` entries. If there are more,
/// `room` grows by a quarter, so that the workspace seldom grows after the first steps.
SparseView SparseSum::take_list(std::uint64_t count, std::uint64_t& room) {
  const std::uint64_t most = most_ * static_cast<std::uint64_t>(size());
  if (count > room) room = std::min(count + count / 4, most);
  return take_list(room).sub(0, count);
}

/// Decodes the lists of neighbouring ranks, which must have as many entries as was announced.
bool SparseSum::decode(std::span<sparse::ReceivedList> lists, int first, const sparse::ValueCoding& coding) {
  if (!sparse::decode(place(), lists, coding, status())) return false;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const std::uint64_t announced = notices_[static_cast<std::size_t>(first) + i].entries;
    if (lists[i].count == announced) continue;
    return note_fault(place(), status(), PayloadFault::wrong_count, offsetof(PayloadHeader, count), lists[i].count,
                      announced);
  }
  return true;
}

/// Decodes every rank's payload into parts_, in scratch memory, and returns how many entries they have together.
std::uint64_t SparseSum::decode_parts(sparse::IndexRange range) {
  std::uint64_t total = 0;
  for (const Notice& notice : notices_) total += notice.entries;
  const SparseView room = take_list(total, received_room_);
  std::uint64_t begin = 0;
  for (std::size_t from = 0; from < lists_.size(); ++from) {
    const SparseView part = room.sub(begin, notices_[from].entries);
    lists_[from] = {receive_.payload(static_cast<int>(from)), range, part};
    parts_[from] = part;
    begin += part.size();
  }
  require_payloads_sound(decode(lists_, 0, sent_));
  note_nonfinite(receive_);
  return total;
}

/// By range the sums come back in the wire's format; gathered ones are rounded to the same bits.
void SparseSum::round_as_returned(View<float> sums) {
  if (returned_.format == ValueFormat::f32) return;
  Workspace::Scope scope(place().workspace());
  const View<float> room = place().workspace().take<float>(received_room_);  // as for the lists: their sum is no longer
  round_through_16bit(place(), returned_.format, sums, room.sub(0, sums.size()), status());
}

/// A part of the aggregate, which has the indices of this rank's entries from `first` to `end`.
void SparseSum::write_means(ConstSparseView means, std::uint64_t first, std::uint64_t end) {
  scatter(place(), means, mean_);
  if (own_means_.empty()) return;
  find_entries(place(), means, mine_.indices.sub(first, end - first), own_means_.sub(first, end - first));
}

}  // namespace laconic
