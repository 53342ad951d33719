#include <gtest/gtest.h>

#include <functional>

#include "exchange/abstaining_vote.h"
#include "exchange/checks_list.h"
#include "exchange/damaging_communicator.h"
#include "exchange/dense_sum.h"
#include "exchange/host_ranges.h"
#include "exchange/model.h"
#include "exchange/packed_vote.h"
#include "exchange/quantized_sum.h"
#include "exchange/sparse_sum.h"
#include "exchange/worker.h"
#include "laconic/error.h"
#include "support/placed_values.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr std::size_t kSize = 1009;
constexpr std::uint64_t kCount = 50;

/// An exchange that is made, started on this rank's data and handed to `then` while it is in flight.
using Then = std::function<void(Exchange&)>;
using Job = void (*)(Communicator&, Place&, const Then&);

template <class Start>
void with_status(Place& place, const Start& start) {
  const PlacedStatus status(place);
  start(status.view());
}

void dense_job(Communicator& communicator, Place& place, const Then& then) {
  const PlacedValues values(place, values_of(communicator.rank(), kSize, 3));
  DenseSum sum(communicator, place, kSize);
  with_status(place, [&](StatusView status) { sum.start(values.view(), status), then(sum); });
}

void sparse_job(Communicator& communicator, Place& place, const Then& then, SparseSumOptions options) {
  const PlacedEntries entries(place, entries_of(communicator.rank(), kSize, kCount, 0.5, 3));
  const PlacedValues mean(place, std::vector<float>(kSize));
  SparseSum sum(communicator, place, kSize, kCount, std::move(options));
  with_status(place, [&](StatusView status) { sum.start(entries.view(), mean.view(), status), then(sum); });
}
void gather_job(Communicator& communicator, Place& place, const Then& then) {
  sparse_job(communicator, place, then, {.route = SparseRoute::gather});
}
void range_job(Communicator& communicator, Place& place, const Then& then) {
  sparse_job(communicator, place, then, {.route = SparseRoute::range});
}
void coded_job(Communicator& communicator, Place& place, const Then& then) {
  sparse_job(communicator, place, then, {.coded_return = true});
}

void leader_job(Communicator& communicator, Place& place, const Then& then) {
  const PlacedEntries entries(place, entries_of(communicator.rank(), kSize, kCount, 0.5, 3));
  const PlacedValues sent(place, std::vector<float>(kSize));
  const int leader = communicator.size() - 1;
  SparseSum sum(communicator, place, kSize, kCount);
  with_status(place,
              [&](StatusView status) { sum.start_from(leader, entries.view(), sent.view(), status), then(sum); });
}

void vote_job(Communicator& communicator, Place& place, const Then& then) {
  const PlacedValues values(place, values_of(communicator.rank(), kSize, 3));
  PackedVote vote(communicator, place, Layout(kSize));
  with_status(place, [&](StatusView status) { vote.start(values.view(), {}, values.view(), status), then(vote); });
}
void abstaining_job(Communicator& communicator, Place& place, const Then& then) {
  const PlacedValues values(place, values_of(communicator.rank(), kSize, 3));
  AbstainingVote vote(communicator, place, Layout(kSize), Ties::random);
  with_status(place,
              [&](StatusView status) { vote.start(values.view(), 0.5F, {}, values.view(), status), then(vote); });
}

void quantized_job(Communicator& communicator, Place& place, const Then& then, QuantizedRoute route) {
  const PlacedValues values(place, values_of(communicator.rank(), 4 * kSize, 3));
  QuantizedSum sum(communicator, place, Layout(4 * kSize), {.route = route});
  with_status(place, [&](StatusView status) { sum.start(values.view(), 4, {}, values.view(), status), then(sum); });
}
void quantized_gather_job(Communicator& communicator, Place& place, const Then& then) {
  quantized_job(communicator, place, then, QuantizedRoute::gather);
}
void quantized_scatter_job(Communicator& communicator, Place& place, const Then& then) {
  quantized_job(communicator, place, then, QuantizedRoute::scatter);
}

void scattered_job(Communicator& communicator, Place& place, const Then& then) {
  const PlacedValues values(place, values_of(communicator.rank(), kSize, 3));
  const auto borders = even_borders(kSize, communicator.size());
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const PlacedValues own(place, std::vector<float>(borders[rank + 1] - borders[rank]));
  ScatteredMean mean(communicator, place);
  with_status(place, [&](StatusView status) { mean.start(values.view(), own.view(), status), then(mean); });
}

void gathered_job(Communicator& communicator, Place& place, const Then& then) {
  const PlacedValues values(place, values_of(communicator.rank(), kSize, 3));
  const auto borders = even_borders(kSize, communicator.size());
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const PlacedValues own(place, std::vector<float>(borders[rank + 1] - borders[rank], 1.0F));
  GatheredRanges ranges(communicator, place);
  with_status(place, [&](StatusView status) { ranges.start(own.view(), values.view(), status), then(ranges); });
}

/// Bytes of a payload: in its header, and in its body, of which only the checksum tells.
const std::vector<std::uint64_t> kPayloadBytes{20, 36};
/// Bytes of a list's notice, from its end: the highest and the lowest of its load and of its entries, and the highest
/// of its length. With a wrong low one of the length an engine refuses the message itself.
const std::vector<std::uint64_t> kNoticeBytes{0, 7, 8, 15, 16};
/// With a coded return the load is another number than the entries, of which only the range can be checked.
const std::vector<std::uint64_t> kCodedNoticeBytes{0, 8, 15, 16};

struct FaultCase {
  const char* name;
  Job job;
  std::vector<Damage> damages;
  std::vector<std::uint64_t> notice_bytes = kNoticeBytes;
};

const std::vector<FaultCase>& fault_cases() {
  static const std::vector<FaultCase> cases{
      {"dense", dense_job, {Damage::sent, Damage::returned}},
      {"scattered mean", scattered_job, {Damage::sent}},
      {"gathered ranges", gathered_job, {Damage::returned}},
      {"sparse gather", gather_job, {Damage::returned, Damage::announced}},
      {"sparse range", range_job, {Damage::sent, Damage::returned, Damage::announced, Damage::return_announced}},
      {"sparse coded return",
       coded_job,
       {Damage::sent, Damage::returned, Damage::announced, Damage::return_announced},
       kCodedNoticeBytes},
      {"sparse leader", leader_job, {Damage::broadcast, Damage::broadcast_length}},
      {"vote", vote_job, {Damage::sent, Damage::returned}},
      {"abstaining vote", abstaining_job, {Damage::sent, Damage::returned}},
      {"quantized gather", quantized_gather_job, {Damage::returned}},
      {"quantized scatter", quantized_scatter_job, {Damage::sent, Damage::returned}},
  };
  return cases;
}

void check_damage(Worker& worker, const FaultCase& fault, Damage damage, std::uint64_t byte) {
  const auto what = std::string(fault.name) + ", damage " + std::to_string(static_cast<int>(damage)) + " at byte " +
                    std::to_string(byte);
  const auto finish = [](Exchange& exchange) { exchange.finish(); };
  if (worker.rank() == 0) {
    DamagingCommunicator damaged(worker.communicator(), worker.place(), damage, byte);
    const auto text = message_of<CorruptPayload>([&] { fault.job(damaged, worker.place(), finish); });
    EXPECT_TRUE(contains(text, "payload is")) << what << ": " << text;
    return;
  }
  // The others hear of it, unless they were through already.
  const auto text = message_of<TransportError>([&] { fault.job(worker.communicator(), worker.place(), finish); });
  EXPECT_TRUE(text == "(no error)" || contains(text, "rank 0")) << what << ": " << text;
}

}  // namespace

void check_damage_is_refused(int ranks, const PlaceMaker& make_place) {
  for (const FaultCase& fault : fault_cases()) {
    for (const Damage damage : fault.damages) {
      const bool in_notice = damage == Damage::announced || damage == Damage::return_announced;
      for (const std::uint64_t byte : in_notice ? fault.notice_bytes : kPayloadBytes) {
        run_workers(ranks, make_place, [&](Worker& worker) { check_damage(worker, fault, damage, byte); });
      }
    }
  }
}

void check_dropping_in_flight(int ranks, const PlaceMaker& make_place) {
  for (const FaultCase& fault : fault_cases()) {
    for (int advances = 0; advances < 3; ++advances) {
      run_workers(ranks, make_place, [&](Worker& worker) {
        worker.communicator().set_timeout(Milliseconds(5'000));
        // Rank 0 leaves in the middle; nobody may touch its buffers after that, and the others must not hang.
        const auto leave = [&](Exchange& exchange) {
          for (int i = 0; i < advances; ++i) exchange.advance();
        };
        const auto finish = [](Exchange& exchange) { exchange.finish(); };
        try {
          fault.job(worker.communicator(), worker.place(), worker.rank() == 0 ? Then(leave) : Then(finish));
        } catch (const TransportError&) {
          // told, as they should be
        }
      });
    }
  }
}

void check_failure_stays(int ranks, const PlaceMaker& make_place) {
  run_workers(ranks, make_place, [](Worker& worker) {
    if (worker.rank() == 0) return;  // never comes
    worker.communicator().set_timeout(Milliseconds(50));
    const PlacedValues values(worker.place(), values_of(worker.rank(), kSize, 3));
    DenseSum sum(worker.communicator(), worker.place(), kSize);
    const PlacedStatus status(worker.place());
    EXPECT_THROW(
        {
          sum.start(values.view(), status.view());
          sum.finish();
        },
        TransportError);
    EXPECT_THROW(sum.advance(), TransportError);
    EXPECT_THROW(sum.finish(), TransportError);
    EXPECT_THROW(sum.start(values.view(), status.view()), TransportError);
  });
}

}  // namespace laconic::test
