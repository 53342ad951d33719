#include "transport/communicator_suite.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>

#include "laconic/error.h"
#include "support/support.h"
#include "transport/agreement.h"

namespace laconic::test {
namespace {

std::vector<std::size_t> sizes(std::size_t largest) {
  std::vector<std::size_t> all{0, 1, 2, 3, 7, 97, 4099, 99991, 1000000};
  std::erase_if(all, [&](std::size_t n) { return n > largest; });
  return all;
}

std::size_t ranks_of(const Communicator& communicator) { return static_cast<std::size_t>(communicator.size()); }
std::size_t rank_of(const Communicator& communicator) { return static_cast<std::size_t>(communicator.rank()); }

/// A byte that only this sender, receiver and place have.
std::byte pattern(std::size_t sender, std::size_t receiver, std::size_t i) {
  return static_cast<std::byte>(sender * 37 + receiver * 11 + i * 7 + i / 251);
}

std::vector<std::byte> message(std::size_t sender, std::size_t receiver, std::size_t bytes) {
  std::vector<std::byte> all(bytes);
  for (std::size_t i = 0; i < bytes; ++i) all[i] = pattern(sender, receiver, i);
  return all;
}

/// The first wrong place, or -1: a million EXPECTs would be slow.
template <class Right>
std::ptrdiff_t first_wrong(std::size_t n, Right&& right) {
  for (std::size_t i = 0; i < n; ++i) {
    if (!right(i)) return static_cast<std::ptrdiff_t>(i);
  }
  return -1;
}

void expect_message(const std::byte* found, std::size_t sender, std::size_t receiver, std::size_t bytes) {
  EXPECT_EQ(-1, first_wrong(bytes, [&](std::size_t i) { return found[i] == pattern(sender, receiver, i); }))
      << "message of " << bytes << " bytes from rank " << sender << " to rank " << receiver;
}

/// Small whole numbers: their sums are exact in any order.
float value(std::size_t rank, std::size_t i) { return static_cast<float>((i * 3 + rank * 5) % 101); }

std::vector<float> values(std::size_t rank, std::size_t n) {
  std::vector<float> all(n);
  for (std::size_t i = 0; i < n; ++i) all[i] = value(rank, i);
  return all;
}

float reduced(std::size_t ranks, std::size_t i, Reduction reduction) {
  float result = value(0, i);
  for (std::size_t r = 1; r < ranks; ++r) {
    result = reduction == Reduction::sum ? result + value(r, i) : std::max(result, value(r, i));
  }
  return result;
}

/// Sizes that differ by pair, some of them zero.
std::size_t pair_bytes(std::size_t sender, std::size_t receiver, std::size_t scale) {
  return (sender + 2 * receiver) % 3 == 0 ? 0 : scale * (sender + 1) + receiver;
}

struct Layout {
  std::vector<ByteRange> ranges;
  std::size_t bytes = 0;
  void add(std::size_t part_bytes) {
    bytes += 3;  // a gap that must stay untouched
    ranges.push_back({bytes, part_bytes});
    bytes += part_bytes;
  }
};

constexpr std::byte kUntouched{0xEE};

}  // namespace

void check_all_reduce(Communicator& communicator, std::size_t largest) {
  const std::size_t ranks = ranks_of(communicator);
  for (const std::size_t n : sizes(largest)) {
    for (const Reduction reduction : {Reduction::sum, Reduction::max}) {
      Guarded<float> data(values(rank_of(communicator), n), n % 5);
      communicator.all_reduce(data.view(), reduction).wait();
      const auto found = data.values();
      EXPECT_EQ(-1, first_wrong(n, [&](std::size_t i) { return found[i] == reduced(ranks, i, reduction); })) << n;
      EXPECT_TRUE(data.intact()) << n;
    }
  }
}

void check_reduce_scatter(Communicator& communicator, std::size_t largest) {
  const std::size_t ranks = ranks_of(communicator);
  for (const std::size_t n : sizes(largest)) {
    const std::size_t count = (n + ranks - 1) / ranks;
    const auto data = values(rank_of(communicator), count * ranks);
    Guarded<float> mine(count, 1);
    communicator.reduce_scatter(data, mine.view()).wait();
    const auto found = mine.values();
    const std::size_t first = rank_of(communicator) * count;
    EXPECT_EQ(-1, first_wrong(count, [&](std::size_t i) {
      return found[i] == reduced(ranks, first + i, Reduction::sum);
    })) << n;
    EXPECT_TRUE(mine.intact()) << n;
  }
}

void check_all_gather(Communicator& communicator, std::size_t largest) {
  const std::size_t ranks = ranks_of(communicator);
  const std::size_t rank = rank_of(communicator);
  for (const std::size_t n : sizes(largest)) {
    const auto mine = message(rank, 0, n);
    Guarded<std::byte> all(n * ranks, n % 3);
    communicator.all_gather(mine, all.view()).wait();
    for (std::size_t r = 0; r < ranks; ++r) expect_message(all.view().data() + r * n, r, 0, n);
    EXPECT_TRUE(all.intact()) << n;
    std::vector<std::byte> in_place(n * ranks);  // `mine` already lies where it belongs
    std::copy(mine.begin(), mine.end(), in_place.begin() + static_cast<std::ptrdiff_t>(rank * n));
    const View<std::byte> whole(in_place);
    communicator.all_gather(whole.sub(rank * n, n), whole).wait();
    for (std::size_t r = 0; r < ranks; ++r) expect_message(in_place.data() + r * n, r, 0, n);
    std::vector<std::byte> mixed(n * ranks);  // and on some ranks only
    const View<std::byte> target(mixed);
    const bool lies_there = rank % 2 == 0;
    if (lies_there) std::copy(mine.begin(), mine.end(), mixed.begin() + static_cast<std::ptrdiff_t>(rank * n));
    communicator.all_gather(lies_there ? View<const std::byte>(target.sub(rank * n, n)) : mine, target).wait();
    for (std::size_t r = 0; r < ranks; ++r) expect_message(mixed.data() + r * n, r, 0, n);
  }
}

void check_all_gather_varying(Communicator& communicator) {
  const std::size_t ranks = ranks_of(communicator);
  const std::size_t rank = rank_of(communicator);
  for (const std::size_t scale : {std::size_t{0}, std::size_t{1}, std::size_t{997}, std::size_t{50021}}) {
    Layout layout;
    for (std::size_t r = 0; r < ranks; ++r) layout.add(pair_bytes(r, 1, scale));
    const auto mine = message(rank, 1, pair_bytes(rank, 1, scale));
    Guarded<std::byte> all(layout.bytes, 1, kUntouched);
    Handle handle = communicator.all_gather_varying(mine, all.view(), std::vector<ByteRange>(layout.ranges));
    handle.wait();
    for (std::size_t r = 0; r < ranks; ++r) {
      expect_message(all.view().data() + layout.ranges[r].offset, r, 1, layout.ranges[r].bytes);
      EXPECT_EQ(kUntouched, all.view()[layout.ranges[r].offset - 1]);
    }
    EXPECT_TRUE(all.intact());
  }
}

void check_all_to_all(Communicator& communicator, std::size_t largest) {
  const std::size_t ranks = ranks_of(communicator);
  const std::size_t rank = rank_of(communicator);
  for (const std::size_t n : sizes(largest)) {
    std::vector<std::byte> send;
    for (std::size_t r = 0; r < ranks; ++r) {
      const auto part = message(rank, r, n);
      send.insert(send.end(), part.begin(), part.end());
    }
    Guarded<std::byte> receive(n * ranks, 2);
    communicator.all_to_all(send, receive.view()).wait();
    for (std::size_t r = 0; r < ranks; ++r) expect_message(receive.view().data() + r * n, r, rank, n);
    EXPECT_TRUE(receive.intact()) << n;
  }
}

void check_all_to_all_varying(Communicator& communicator) {
  const std::size_t ranks = ranks_of(communicator);
  const std::size_t rank = rank_of(communicator);
  for (const std::size_t scale : {std::size_t{0}, std::size_t{1}, std::size_t{997}, std::size_t{50021}}) {
    Layout outgoing;
    Layout incoming;
    for (std::size_t r = 0; r < ranks; ++r) outgoing.add(pair_bytes(rank, r, scale));
    for (std::size_t r = 0; r < ranks; ++r) incoming.add(pair_bytes(r, rank, scale));
    std::vector<std::byte> send(outgoing.bytes);
    for (std::size_t r = 0; r < ranks; ++r) {
      const auto part = message(rank, r, outgoing.ranges[r].bytes);
      std::copy(part.begin(), part.end(), send.begin() + static_cast<std::ptrdiff_t>(outgoing.ranges[r].offset));
    }
    Guarded<std::byte> receive(incoming.bytes, 3, kUntouched);
    communicator.all_to_all_varying(send, outgoing.ranges, receive.view(), incoming.ranges).wait();
    for (std::size_t r = 0; r < ranks; ++r) {
      expect_message(receive.view().data() + incoming.ranges[r].offset, r, rank, incoming.ranges[r].bytes);
      EXPECT_EQ(kUntouched, receive.view()[incoming.ranges[r].offset - 1]);
    }
    EXPECT_TRUE(receive.intact());
  }
}

void check_broadcast(Communicator& communicator, std::size_t largest) {
  for (int root = 0; root < communicator.size(); ++root) {
    const auto sender = static_cast<std::size_t>(root);
    for (const std::size_t n : sizes(largest)) {
      Guarded<std::byte> bytes(communicator.rank() == root ? message(sender, 5, n) : std::vector<std::byte>(n), 1);
      communicator.broadcast(bytes.view(), root).wait();
      expect_message(bytes.view().data(), sender, 5, n);
      EXPECT_TRUE(bytes.intact()) << n;
    }
  }
}

void check_barrier(Communicator& communicator) {
  // Whoever has passed the second barrier sees what every rank added before it.
  auto counter = communicator.make_counter();
  for (int round = 1; round <= 20; ++round) {
    counter->fetch_add(1);
    communicator.barrier().wait();
    EXPECT_EQ(round * communicator.size(), counter->fetch_add(0));
    communicator.barrier().wait();
  }
}

void check_several_in_flight(Communicator& communicator) {
  const std::size_t ranks = ranks_of(communicator);
  const std::size_t rank = rank_of(communicator);
  constexpr std::size_t kBytes = 5003;
  for (int repeat = 0; repeat < 5; ++repeat) {
    std::array<std::vector<float>, 3> sums{values(rank, 1009), values(rank, 7), values(rank, 20011)};
    const auto mine = message(rank, 2, kBytes);
    std::vector<std::byte> all(kBytes * ranks);
    std::vector<std::byte> text = rank == 0 ? message(0, 3, kBytes) : std::vector<std::byte>(kBytes);
    std::vector<Handle> handles;
    handles.push_back(communicator.all_reduce(sums[0], Reduction::sum));
    handles.push_back(communicator.all_gather(mine, all));
    handles.push_back(communicator.barrier());
    handles.push_back(communicator.all_reduce(sums[1], Reduction::max));
    handles.push_back(communicator.broadcast(text, 0));
    handles.push_back(communicator.all_reduce(sums[2], Reduction::sum));
    for (const std::size_t turn : {5, 1, 3}) handles[(turn + rank) % handles.size()].wait();
    for (Handle& handle : handles) {
      while (!handle.test()) std::this_thread::yield();
    }
    for (const std::size_t s : {0, 1, 2}) {
      const Reduction reduction = s == 1 ? Reduction::max : Reduction::sum;
      EXPECT_EQ(-1,
                first_wrong(sums[s].size(), [&](std::size_t i) { return sums[s][i] == reduced(ranks, i, reduction); }));
    }
    for (std::size_t r = 0; r < ranks; ++r) expect_message(all.data() + r * kBytes, r, 2, kBytes);
    expect_message(text.data(), 0, 3, kBytes);
  }
}

void check_many_in_a_row(Communicator& communicator) {
  const std::size_t ranks = ranks_of(communicator);
  std::vector<float> sum(3);
  std::vector<std::uint32_t> mine(1);
  std::vector<std::uint32_t> all(ranks);
  for (std::uint32_t i = 0; i < 300; ++i) {
    sum.assign(3, static_cast<float>(i));
    mine[0] = i * 100 + static_cast<std::uint32_t>(communicator.rank());
    Handle gather =
        communicator.all_gather(as_bytes(View<std::uint32_t>(mine)), as_writable_bytes(View<std::uint32_t>(all)));
    communicator.all_reduce(sum, Reduction::sum).wait();
    gather.wait();
    ASSERT_EQ(static_cast<float>(i * ranks), sum[2]);
    for (std::uint32_t r = 0; r < ranks; ++r) ASSERT_EQ(i * 100 + r, all[r]);
  }
}

void check_duplicates(Communicator& communicator) {
  const auto ranks = static_cast<float>(communicator.size());
  for (int repeat = 0; repeat < 3; ++repeat) {
    auto twin = communicator.duplicate();
    auto grandchild = twin->duplicate();
    EXPECT_EQ(communicator.rank(), twin->rank());
    EXPECT_EQ(communicator.size(), grandchild->size());
    EXPECT_EQ(communicator.timeout(), grandchild->timeout());
    std::array<Communicator*, 3> all{&communicator, twin.get(), grandchild.get()};
    std::array<std::vector<float>, 3> sums{std::vector<float>(10, 1.0F), std::vector<float>(20, 2.0F),
                                           std::vector<float>(30, 3.0F)};
    std::array<Handle, 3> handles;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t turn = (i + rank_of(communicator)) % 3;
      handles[turn] = all[turn]->all_reduce(sums[turn], Reduction::sum);
    }
    for (Handle& handle : handles) handle.wait();
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(static_cast<float>(i + 1) * ranks, sums[i].back());
    auto counter = twin->make_counter();
    counter->fetch_add(2);
    twin->barrier().wait();
    EXPECT_EQ(2 * communicator.size(), counter->fetch_add(0));
  }
}

void check_split(Communicator& communicator) {
  for (int repeat = 0; repeat < 2; ++repeat) {
    const int color = communicator.rank() % 2;
    auto subgroup = communicator.split(color);
    auto alone = subgroup->split(subgroup->rank());
    EXPECT_EQ(communicator.rank() / 2, subgroup->rank());
    EXPECT_EQ((communicator.size() + 1 - color) / 2, subgroup->size());
    EXPECT_EQ(1, alone->size());
    EXPECT_EQ(communicator.timeout(), subgroup->timeout());
    std::vector<float> whole(10, 1.0F);
    Handle beside = communicator.all_reduce(whole, Reduction::sum);
    for (int call = 0; call < 3 + color; ++call) {  // the subgroups need not keep in step
      std::vector<int> members(static_cast<std::size_t>(subgroup->size()));
      const int mine = communicator.rank();
      subgroup->all_gather(as_bytes(View<const int>(&mine, 1)), as_writable_bytes(View<int>(members))).wait();
      for (std::size_t i = 0; i < members.size(); ++i) EXPECT_EQ(static_cast<int>(2 * i) + color, members[i]);
    }
    beside.wait();
    EXPECT_EQ(static_cast<float>(communicator.size()), whole.back());
    auto twin = subgroup->duplicate();
    check_all_to_all_varying(*twin);
  }
}

void check_dropped_handles(Communicator& communicator) {
  std::vector<float> data(1000, 1.0F);
  Handle handle = communicator.all_reduce(data, Reduction::sum);
  communicator.barrier().wait();  // every rank has started the reduction
  handle = Handle();
  EXPECT_EQ(static_cast<float>(communicator.size()), data[999]);
}

void check_counter(Communicator& communicator) {
  const auto ranks = static_cast<std::int64_t>(communicator.size());
  constexpr std::int64_t kDraws = 200;
  auto tickets = communicator.make_counter();
  auto other = communicator.make_counter();
  std::vector<std::uint8_t> mine(static_cast<std::size_t>(kDraws * ranks));
  for (std::int64_t i = 0; i < kDraws; ++i) {
    const std::int64_t ticket = tickets->fetch_add(1);
    ASSERT_GE(ticket, 0);
    ASSERT_LT(ticket, kDraws * ranks);
    ++mine[static_cast<std::size_t>(ticket)];
    if (i % 50 == 0) other->fetch_add(-3);
  }
  std::vector<std::uint8_t> all(mine.size() * ranks_of(communicator));
  communicator.all_gather(as_bytes(View<std::uint8_t>(mine)), as_writable_bytes(View<std::uint8_t>(all))).wait();
  for (std::size_t ticket = 0; ticket < mine.size(); ++ticket) {
    int drawn = 0;
    for (std::size_t r = 0; r < ranks_of(communicator); ++r) drawn += all[r * mine.size() + ticket];
    ASSERT_EQ(1, drawn) << "ticket " << ticket;
  }
  EXPECT_EQ(kDraws * ranks, tickets->fetch_add(0));
  EXPECT_EQ(-3 * (kDraws / 50) * ranks, other->fetch_add(0));
}

void check_agreement(Communicator& communicator) {
  const int last = communicator.size() - 1;
  const bool odd_one = communicator.rank() == last && last > 0;
  std::vector<AgreedField> fields;
  for (int i = 0; i < 3000; ++i) fields.push_back({"tensor " + std::to_string(i), std::to_string(i * 17)});
  require_agreement(communicator, fields);
  require_agreement(communicator, {});
  if (last == 0) return;
  const std::string who = "rank " + std::to_string(last);

  const auto said = [&](const std::vector<AgreedField>& own) {
    return message_of<InvalidConfig>([&] { require_agreement(communicator, own); });
  };
  EXPECT_EQ(who + " has keep = 0.02, rank 0 has keep = 0.01: start all ranks with the same settings",
            said({{"method", "topk"}, {"keep", odd_one ? "0.02" : "0.01"}}));
  auto longer = fields;
  if (odd_one) longer.push_back({"tensor 3000", "5"});
  EXPECT_TRUE(
      contains(said(longer), who + " has tensor 3000 = 5, rank 0 has no tensor 3000 (3001 entries against 3000)"));
  auto shorter = fields;
  if (odd_one) shorter.pop_back();
  EXPECT_TRUE(contains(said(shorter), who + " has no tensor 2999, rank 0 has tensor 2999 = 50983"));
  auto without = fields;
  if (odd_one) without.erase(without.begin() + 1500);
  EXPECT_TRUE(contains(said(without), who + " has no tensor 1500, rank 0 has tensor 1500 = 25500"));
  auto swapped = fields;
  if (odd_one) std::swap(swapped[1], swapped[2]);
  EXPECT_TRUE(contains(said(swapped), who + " has tensor 2 = 34 as number 2, rank 0 has tensor 1 = 17"));
  EXPECT_TRUE(
      contains(said(odd_one ? fields : std::vector<AgreedField>{}), who + " has tensor 0 = 0, rank 0 has no tensor 0"));
  require_agreement(communicator, fields);  // a mismatch leaves the communicator whole
}

void check_bad_views(Communicator& communicator) {
  const std::size_t ranks = ranks_of(communicator);
  std::vector<float> floats(5 * ranks);
  std::vector<std::byte> bytes(10 * ranks + 1);
  const View<std::byte> view(bytes);
  const auto said = [](auto&& call) { return message_of<InvalidConfig>([&] { call().wait(); }); };

  const View<float> device(floats.data(), floats.size(), Device::cuda);
  if (!communicator.takes(Device::cuda)) {
    EXPECT_TRUE(contains(said([&] { return communicator.all_reduce(device, Reduction::sum); }), "lies on cuda"));
    EXPECT_TRUE(contains(said([&] { return communicator.broadcast(as_writable_bytes(device), 0); }), "lies on cuda"));
  }
  EXPECT_TRUE(contains(said([&] { return communicator.broadcast(view, communicator.size()); }), "root must be in 0.."));
  EXPECT_TRUE(contains(said([&] { return communicator.broadcast(view, -1); }), "got -1"));
  EXPECT_TRUE(contains(said([&] { return communicator.all_gather(view.sub(0, 10), view); }), "expected"));
  EXPECT_TRUE(
      contains(said([&] { return communicator.reduce_scatter(floats, View<float>(floats).sub(0, 4)); }), "expected"));
  EXPECT_TRUE(contains(said([&] { return communicator.all_to_all(view.sub(0, 10), view); }), "expected"));
  if (ranks > 1) {
    std::vector<std::byte> other(bytes.size());
    EXPECT_TRUE(contains(said([&] { return communicator.all_to_all(view, other); }), "multiple of"));
  }
  std::vector<ByteRange> ranges(ranks, ByteRange{0, 1});
  ranges.back() = {bytes.size(), 1};
  const auto gather = [&] { return communicator.all_gather_varying(view.sub(0, 1), view, ranges); };
  const auto beyond = said(gather);
  EXPECT_TRUE(contains(beyond, "ranges[" + std::to_string(ranks - 1) + "] is 1 bytes from byte")) << beyond;
  ranges.back() = {1, ~std::uint64_t{0}};  // the sum of offset and size wraps
  EXPECT_TRUE(contains(said(gather), "inside"));
  ranges.pop_back();
  EXPECT_TRUE(contains(said(gather), "expected"));
  communicator.barrier().wait();  // none of these has taken a turn
}

namespace {

struct Buffers {
  explicit Buffers(std::size_t ranks)
      : sum(100), values(10 * ranks), own(10), mine(100), all(100 * ranks), other(100 * ranks), ranges(ranks) {
    for (std::size_t r = 0; r < ranks; ++r) ranges[r] = {r * 100, 100};
  }
  std::vector<float> sum, values, own;
  std::vector<std::byte> mine, all, other;
  std::vector<ByteRange> ranges;
};

void one_of_each(Communicator& communicator, Buffers& b, SharedCounter& counter) {
  Handle sum = communicator.all_reduce(b.sum, Reduction::sum);
  Handle scatter = communicator.reduce_scatter(b.values, b.own);
  Handle gather = communicator.all_gather(b.mine, b.all);
  gather.wait();
  Handle varying = communicator.all_gather_varying(b.mine, b.all, b.ranges);
  varying.wait();
  communicator.all_to_all(b.all, b.other).wait();
  communicator.all_to_all_varying(b.all, b.ranges, b.other, b.ranges).wait();
  communicator.broadcast(b.mine, 0).wait();
  counter.fetch_add(1);
  scatter.wait();
  sum.wait();
  communicator.barrier().wait();
}

}  // namespace

void check_no_allocation(Communicator& communicator) {
  Buffers buffers(ranks_of(communicator));
  auto counter = communicator.make_counter();
  // Ranks that are threads share the count: it is read between barriers, when none of them is elsewhere.
  for (int i = 0; i < 20; ++i) one_of_each(communicator, buffers, *counter);
  communicator.barrier().wait();
  const std::uint64_t before = allocation_count();
  communicator.barrier().wait();
  for (int i = 0; i < 20; ++i) one_of_each(communicator, buffers, *counter);
  communicator.barrier().wait();
  EXPECT_EQ(before, allocation_count());
  communicator.barrier().wait();
}

void check_everything(Communicator& communicator, std::size_t largest) {
  check_all_reduce(communicator, largest);
  check_reduce_scatter(communicator, largest);
  check_all_gather(communicator, largest);
  check_all_gather_varying(communicator);
  check_all_to_all(communicator, largest);
  check_all_to_all_varying(communicator);
  check_broadcast(communicator, largest);
  check_barrier(communicator);
  check_several_in_flight(communicator);
  check_many_in_a_row(communicator);
  check_duplicates(communicator);
  check_split(communicator);
  check_dropped_handles(communicator);
  check_counter(communicator);
  check_agreement(communicator);
  check_bad_views(communicator);
  check_no_allocation(communicator);
}

}  // namespace laconic::test
