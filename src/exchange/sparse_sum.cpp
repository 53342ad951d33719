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
      firsts_(borders_.size()),
      lengths_sent_(std::max<std::size_t>(static_cast<std::size_t>(size()), 2)),
      lengths_(static_cast<std::size_t>(size())),
      notices_(static_cast<std::size_t>(size())),
      loads_(static_cast<std::size_t>(size())),
      parts_(static_cast<std::size_t>(size())) {
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
  const std::uint64_t all = ranks * most;
  // Cutting a payload costs each piece a header, and the magnitudes of a scope that it shares with another piece.
  const std::uint64_t piece = sparse::max_payload_bytes(0, n, options_.format) + 2 * sizeof(float);
  const std::uint64_t payload = std::max(sparse::max_payload_bytes(most, {0, n}, sent_),
                                         sparse::max_payload_bytes(most, {0, n}, returned_));
  send_.reserve(payload + ranks * piece);
  receive_.reserve(ranks * payload);
  for (EntryBuffer* buffer : {&decoded_, &summed_, &union_}) buffer->reserve(place, all);
  left_.reserve(place, options_.coded_return ? all : 0);
}

void SparseSum::start(ConstSparseView mine, GradientView mean, StatusView status) {
  start(mine, mean, status, choose_route());
}

void SparseSum::start_from(int leader, ConstSparseView mine, GradientView sent, StatusView status) {
  if (leader < 0 || leader >= size()) {
    throw InvalidConfig("leader must be in 0.." + std::to_string(size() - 1) + ", got " + std::to_string(leader));
  }
  leader_ = leader;
  start(mine, sent, status, SparseRoute::leader);
}

void SparseSum::start(ConstSparseView mine, GradientView dense, StatusView status, SparseRoute route) {
  require_idle();
  require_size("mean", dense.size(), n_);
  require_size("mine.values", mine.values.size(), mine.indices.size());
  if (mine.size() > most_) {
    throw InvalidConfig("a rank sends at most " + std::to_string(most_) + " entries, got " +
                        std::to_string(mine.size()) + ": make the exchange with the largest count that will occur");
  }
  mine_ = mine;
  mean_ = dense;
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

void SparseSum::require_sound(std::span<const std::uint64_t> borders, std::uint64_t last_union) const {
  require_size("borders", borders.size(), borders_.size());
  const bool sound = borders.front() == 0 && borders.back() == n_ && std::is_sorted(borders.begin(), borders.end());
  if (last_union != kNoUnion && last_union > n_) {
    throw InvalidConfig("last_union must be in 0.." + std::to_string(n_) + ", got " + std::to_string(last_union));
  }
  if (!sound) throw InvalidConfig("borders must ascend from 0 to " + std::to_string(n_) + ": pass what borders() gave");
}

void SparseSum::go_on_from(std::span<const std::uint64_t> borders, std::uint64_t last_union) {
  require_idle();
  require_sound(borders, last_union);
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
    if (index == 0) return gather_lengths();
    if (index == 1) return gather_payloads();
    sum_gathered();
  } else {
    if (index == 0) return send_lengths();
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

/// The whole list as one payload, and its length for the others.
void SparseSum::encode_mine() {
  {
    const Stopwatch watch(cost().encode_seconds);
    send_.lay_out(
        [&](int to) { return to == rank() ? sparse::max_payload_bytes(mine_.size(), {0, n_}, sent_) : 0; });
    sparse::encode(place(), mine_, {0, n_}, sent_, send_.slot(rank()), status());
    send_.set_length(rank(), require_own_sound().payload_bytes);
  }
  cost().payload_bytes = send_.length(rank());
  lengths_sent_[0] = send_.length(rank());
}

Handle SparseSum::gather_lengths() {
  encode_mine();
  count_gathered(sizeof(std::uint64_t), sizeof(std::uint64_t) * lengths_.size());
  return communicator().all_gather(as_bytes(View<const std::uint64_t>(lengths_sent_).sub(0, 1)),
                                   as_writable_bytes(View<std::uint64_t>(lengths_)));
}

Handle SparseSum::gather_payloads() {
  bool sound = true;
  for (int from = 0; from < size(); ++from) {
    sound &= expect(lengths_[static_cast<std::size_t>(from)], most_, {0, n_}, sent_);
  }
  require_payloads_sound(sound);
  receive_.lay_out([&](int from) { return lengths_[static_cast<std::size_t>(from)]; });
  count_gathered(send_.length(rank()), receive_.payload_bytes());
  return communicator().all_gather_varying(send_.payload(rank()), receive_.bytes(), receive_.ranges());
}

void SparseSum::sum_gathered() {
  const Stopwatch watch(cost().decode_seconds);
  decode_parts({0, n_});
  union_count_ = merge_sum(place(), parts_, union_.sub(0, union_.indices.capacity()));
  divide(place(), static_cast<float>(size()), union_.sub(0, union_count_).values);
  round_as_returned(union_.sub(0, union_count_).values);
  find_nonfinite(place(), union_.sub(0, union_count_).values,
                 status());  // a sum may overflow; by range the return's encoder looks
  loads_.assign(loads_.size(), {});
  loads_[0] = {union_count_, union_count_};
  follow_aggregate(place(), entries().indices, loads_, n_, borders_);
  write_dense(entries());
}

// ---- by index range

sparse::IndexRange SparseSum::range_of(int owner) const {
  const auto i = static_cast<std::size_t>(owner);
  return {borders_[i], borders_[i + 1] - borders_[i]};
}

Handle SparseSum::send_lengths() {
  {
    const Stopwatch watch(cost().encode_seconds);
    // Entries are ascending, so the owners' entries follow each other.
    count_below(place(), mine_.indices, borders_, firsts_);
    const auto piece_of = [&](int owner) {
      const auto i = static_cast<std::size_t>(owner);
      return mine_.sub(firsts_[i], firsts_[i + 1] - firsts_[i]);
    };
    send_.lay_out([&](int owner) {
      return sparse::max_payload_bytes(piece_of(owner).size(), range_of(owner), sent_);
    });
    for (int owner = 0; owner < size(); ++owner) {
      sparse::encode(place(), piece_of(owner), range_of(owner), sent_, send_.slot(owner), status());
      send_.set_length(owner, require_own_sound().payload_bytes);
      lengths_sent_[static_cast<std::size_t>(owner)] = send_.length(owner);
    }
    flag_nonfinite(send_);
  }
  cost().payload_bytes = send_.payload_bytes();
  cost().sent_bytes += sizeof(std::uint64_t) * static_cast<std::uint64_t>(size() - 1);
  cost().received_bytes += sizeof(std::uint64_t) * static_cast<std::uint64_t>(size() - 1);
  cost().sent_messages += static_cast<std::uint64_t>(size() - 1);
  return communicator().all_to_all(as_bytes(View<const std::uint64_t>(lengths_sent_).sub(0, lengths_.size())),
                                   as_writable_bytes(View<std::uint64_t>(lengths_)));
}

Handle SparseSum::send_entries() {
  bool sound = true;
  for (int from = 0; from < size(); ++from) {
    sound &= expect(lengths_[static_cast<std::size_t>(from)], most_, range_of(rank()), sent_);
  }
  require_payloads_sound(sound);
  receive_.lay_out([&](int from) { return lengths_[static_cast<std::size_t>(from)]; });
  count_sent(send_);
  count_received(receive_);
  return communicator().all_to_all_varying(send_.bytes(), send_.ranges(), receive_.bytes(), receive_.ranges());
}

Handle SparseSum::sum_own_range() {
  std::uint64_t load = 0;
  {
    const Stopwatch watch(cost().decode_seconds);
    load = decode_parts(range_of(rank()));
    const std::uint64_t summed = merge_sum(place(), parts_, summed_.sub(0, summed_.indices.capacity()));
    const std::uint64_t kept = options_.coded_return ? keep_largest(summed) : summed;
    const EntryBuffer& sums = options_.coded_return ? union_ : summed_;
    divide(place(), static_cast<float>(size()), sums.sub(0, kept).values);
    if (options_.coded_return) keep_coding_error(kept);
    send_.lay_out([&](int to) {
      return to == rank() ? sparse::max_payload_bytes(kept, range_of(rank()), returned_) : 0;
    });
    sparse::encode(place(), sums.sub(0, kept), range_of(rank()), returned_, send_.slot(rank()), status());
    send_.set_length(rank(), require_payloads_sound().payload_bytes);
  }
  lengths_sent_[0] = send_.length(rank());
  lengths_sent_[1] = load;
  count_gathered(sizeof(ReturnNotice), sizeof(ReturnNotice) * notices_.size());
  return communicator().all_gather(as_bytes(View<const std::uint64_t>(lengths_sent_).sub(0, 2)),
                                   as_writable_bytes(View<ReturnNotice>(notices_)));
}

/// Splits the sums of this rank's range: its share of k into union_, the rest into left_ in the residual's unit.
std::uint64_t SparseSum::keep_largest(std::uint64_t summed) {
  const auto ranks = static_cast<std::uint64_t>(size());
  const auto mine = static_cast<std::uint64_t>(rank());
  const std::uint64_t share = most_ / ranks + (mine < most_ % ranks ? 1 : 0);
  const std::uint64_t kept = std::min(share, summed);
  left_count_ = summed - kept;
  split_largest(place(), summed_.sub(0, summed), union_.sub(0, kept), left_.sub(0, left_count_));
  return kept;
}

/// Sums that are not returned as f32 are rounded on their way: the rounding stays with the owner too.
void SparseSum::keep_coding_error(std::uint64_t kept) {
  if (returned_.format == ValueFormat::f32) return;
  Workspace::Scope scope(place().workspace());
  const SparseView returned = union_.sub(0, kept);
  const View<float> errors = place().workspace().take<float>(kept);
  if (is_coded(returned_.format)) {
    code_values(place(), returned_.format, returned_.cuts, returned_.scopes_of(range_of(rank())), returned, errors,
                status());
  } else {
    round_through_16bit(place(), returned_.format, returned.values, errors, status());
  }
  divide(place(), 1.0F / static_cast<float>(size()), errors);
  const std::array<ConstSparseView, 2> parts{left_.sub(0, left_count_), ConstSparseView{returned.indices, errors}};
  left_count_ = merge_sum(place(), parts, decoded_.sub(0, left_count_ + kept));
  std::swap(left_, decoded_);
}

Handle SparseSum::gather_sums() {
  const auto ranks = static_cast<std::uint64_t>(size());
  bool sound = true;
  for (int owner = 0; owner < size(); ++owner) {
    const sparse::IndexRange range = range_of(owner);
    const std::uint64_t bytes = notices_[static_cast<std::size_t>(owner)].bytes;
    sound &= expect(bytes, std::min(most_ * ranks, range.size), range, returned_);
  }
  require_payloads_sound(sound);
  receive_.lay_out([&](int owner) { return notices_[static_cast<std::size_t>(owner)].bytes; });
  count_gathered(send_.length(rank()), receive_.payload_bytes());
  return communicator().all_gather_varying(send_.payload(rank()), receive_.bytes(), receive_.ranges());
}

void SparseSum::read_sums() {
  const Stopwatch watch(cost().decode_seconds);
  union_count_ = 0;
  for (int owner = 0; owner < size(); ++owner) {
    const auto room = union_.sub(union_count_, union_.indices.capacity() - union_count_);
    const auto payload = receive_.payload(owner);
    std::uint64_t count = 0;
    if (!sparse::decode(place(), payload, range_of(owner), returned_, room, status(), &count)) break;
    const std::uint64_t load = options_.coded_return ? notices_[static_cast<std::size_t>(owner)].load : count;
    loads_[static_cast<std::size_t>(owner)] = {count, load};
    union_count_ += count;
  }
  if (require_payloads_sound().nonfinite_rank == 0) note_nonfinite(receive_);
  follow_aggregate(place(), entries().indices, loads_, n_, borders_);
  write_dense(entries());
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
  if (rank() == leader_) encode_mine();
  count_forwarded(sizeof(std::uint64_t));
  return communicator().broadcast(as_writable_bytes(View<std::uint64_t>(lengths_sent_).sub(0, 1)), leader_);
}

Handle SparseSum::broadcast_payload() {
  require_payloads_sound(expect(lengths_sent_[0], most_, {0, n_}, sent_));
  if (rank() != leader_) send_.lay_out([&](int to) { return to == leader_ ? lengths_sent_[0] : 0; });
  count_forwarded(lengths_sent_[0]);
  return communicator().broadcast(send_.slot(leader_).sub(0, lengths_sent_[0]), leader_);
}

void SparseSum::read_payload() {
  const Stopwatch watch(cost().decode_seconds);
  const View<const std::byte> payload = send_.slot(leader_).sub(0, lengths_sent_[0]);
  const SparseView room = union_.sub(0, most_);
  std::uint64_t count = 0;
  require_payloads_sound(sparse::decode(place(), payload, {0, n_}, sent_, room, status(), &count));
  note_nonfinite(payload, leader_);
  write_dense(room.sub(0, count));
}

// ---- both

/// A length that another rank announced must be possible before memory is laid out for it.
bool SparseSum::expect(std::uint64_t bytes, std::uint64_t most_entries, sparse::IndexRange range,
                       const sparse::ValueCoding& coding) {
  const std::uint64_t most_bytes = sparse::max_payload_bytes(std::min(most_entries, range.size), range, coding);
  if (bytes < sizeof(PayloadHeader)) {
    return note_fault(place(), status(), PayloadFault::too_short, 0, bytes, sizeof(PayloadHeader));
  }
  if (bytes > most_bytes) return note_fault(place(), status(), PayloadFault::wrong_length, 0, bytes, most_bytes);
  return true;
}

/// Decodes every rank's payload into parts_ and returns how many entries they have together.
std::uint64_t SparseSum::decode_parts(sparse::IndexRange range) {
  std::uint64_t total = 0;
  bool sound = true;
  for (int from = 0; from < size() && sound; ++from) {
    const auto payload = receive_.payload(from);
    const auto room = decoded_.sub(total, std::min(most_, decoded_.indices.capacity() - total));
    std::uint64_t count = 0;
    sound = sparse::decode(place(), payload, range, sent_, room, status(), &count);
    const SparseView part = room.sub(0, count);
    parts_[static_cast<std::size_t>(from)] = part;
    total += part.size();
  }
  require_payloads_sound(sound);
  note_nonfinite(receive_);
  return total;
}

/// By range the sums come back in the wire's format; gathered ones are rounded to the same bits.
void SparseSum::round_as_returned(View<float> sums) {
  if (returned_.format == ValueFormat::f32) return;
  Workspace::Scope scope(place().workspace());
  round_through_16bit(place(), returned_.format, sums, place().workspace().take<float>(sums.size()), status());
}

void SparseSum::write_dense(ConstSparseView entries) {
  clear(place(), mean_);
  scatter(place(), entries, mean_);
}

}  // namespace laconic
