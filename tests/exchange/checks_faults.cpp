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
#include "laconic/error.h"
#include "laconic/threads.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr std::size_t kSize = 1009;
constexpr std::uint64_t kCount = 50;

/// An exchange that is made, started on this rank's data and handed to `then` while it is in flight.
using Then = std::function<void(Exchange&)>;
using Job = void (*)(Communicator&, const Then&);

template <class Start>
void with_status(const Start& start) {
  Status status;
  start(view_of(status));
}

void dense_job(Communicator& communicator, const Then& then) {
  auto values = values_of(communicator.rank(), kSize, 3);
  DenseSum sum(communicator, place_of(communicator), kSize);
  with_status([&](StatusView status) { sum.start(values, status), then(sum); });
}

void sparse_job(Communicator& communicator, const Then& then, SparseSumOptions options) {
  const auto entries = entries_of(communicator.rank(), kSize, kCount, 0.5, 3);
  std::vector<float> mean(kSize);
  SparseSum sum(communicator, place_of(communicator), kSize, kCount, std::move(options));
  with_status([&](StatusView status) { sum.start(entries.view(), mean, status), then(sum); });
}
void gather_job(Communicator& communicator, const Then& then) {
  sparse_job(communicator, then, {.route = SparseRoute::gather});
}
void range_job(Communicator& communicator, const Then& then) {
  sparse_job(communicator, then, {.route = SparseRoute::range});
}
void coded_job(Communicator& communicator, const Then& then) { sparse_job(communicator, then, {.coded_return = true}); }

void leader_job(Communicator& communicator, const Then& then) {
  const auto entries = entries_of(communicator.rank(), kSize, kCount, 0.5, 3);
  std::vector<float> sent(kSize);
  SparseSum sum(communicator, place_of(communicator), kSize, kCount);
  with_status([&](StatusView status) { sum.start_from(communicator.size() - 1, entries.view(), sent, status), then(sum); });
}

void vote_job(Communicator& communicator, const Then& then) {
  auto values = values_of(communicator.rank(), kSize, 3);
  PackedVote vote(communicator, place_of(communicator), Layout(kSize));
  with_status([&](StatusView status) { vote.start(values, {}, values, status), then(vote); });
}
void abstaining_job(Communicator& communicator, const Then& then) {
  auto values = values_of(communicator.rank(), kSize, 3);
  AbstainingVote vote(communicator, place_of(communicator), Layout(kSize), Ties::random);
  with_status([&](StatusView status) { vote.start(values, 0.5F, {}, values, status), then(vote); });
}

void quantized_job(Communicator& communicator, const Then& then, QuantizedRoute route) {
  auto values = values_of(communicator.rank(), 4 * kSize, 3);
  QuantizedSum sum(communicator, place_of(communicator), Layout(4 * kSize), {.route = route});
  with_status([&](StatusView status) { sum.start(values, 4, {}, values, status), then(sum); });
}
void quantized_gather_job(Communicator& communicator, const Then& then) {
  quantized_job(communicator, then, QuantizedRoute::gather);
}
void quantized_scatter_job(Communicator& communicator, const Then& then) {
  quantized_job(communicator, then, QuantizedRoute::scatter);
}

void scattered_job(Communicator& communicator, const Then& then) {
  const auto values = values_of(communicator.rank(), kSize, 3);
  const auto borders = even_borders(kSize, communicator.size());
  const auto rank = static_cast<std::size_t>(communicator.rank());
  std::vector<float> own(borders[rank + 1] - borders[rank]);
  ScatteredMean mean(communicator, place_of(communicator));
  with_status([&](StatusView status) { mean.start(values, own, status), then(mean); });
}

void gathered_job(Communicator& communicator, const Then& then) {
  auto values = values_of(communicator.rank(), kSize, 3);
  const auto borders = even_borders(kSize, communicator.size());
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const std::vector<float> own(borders[rank + 1] - borders[rank], 1.0F);
  GatheredRanges ranges(communicator, place_of(communicator));
  with_status([&](StatusView status) { ranges.start(own, values, status), then(ranges); });
}

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

void check_damage(Communicator& communicator, const FaultCase& fault, Damage damage, std::uint64_t byte) {
  const auto what = std::string(fault.name) + ", damage " + std::to_string(static_cast<int>(damage)) + " at byte " +
                    std::to_string(byte);
  const auto finish = [](Exchange& exchange) { exchange.finish(); };
  if (communicator.rank() == 0) {
    DamagingCommunicator damaged(communicator, damage, byte);
    const auto text = message_of<CorruptPayload>([&] { fault.job(damaged, finish); });
    EXPECT_TRUE(contains(text, "payload is")) << what << ": " << text;
    return;
  }
  // The others hear of it, unless they were through already.
  const auto text = message_of<TransportError>([&] { fault.job(communicator, finish); });
  EXPECT_TRUE(text == "(no error)" || contains(text, "rank 0")) << what << ": " << text;
}

}  // namespace

void check_damage_is_refused(int ranks) {
  for (const FaultCase& fault : fault_cases()) {
    for (const Damage damage : fault.damages) {
      const bool in_notice = damage == Damage::announced || damage == Damage::return_announced;
      for (const std::uint64_t byte : in_notice ? fault.notice_bytes : std::vector<std::uint64_t>{20}) {
        run_ranks(ranks, [&](Communicator& communicator) { check_damage(communicator, fault, damage, byte); });
      }
    }
  }
}

void check_dropping_in_flight(int ranks) {
  for (const FaultCase& fault : fault_cases()) {
    for (int advances = 0; advances < 3; ++advances) {
      run_ranks(ranks, [&](Communicator& communicator) {
        communicator.set_timeout(Milliseconds(5'000));
        // Rank 0 leaves in the middle; nobody may touch its buffers after that, and the others must not hang.
        const auto leave = [&](Exchange& exchange) {
          for (int i = 0; i < advances; ++i) exchange.advance();
        };
        const auto finish = [](Exchange& exchange) { exchange.finish(); };
        try {
          fault.job(communicator, communicator.rank() == 0 ? Then(leave) : Then(finish));
        } catch (const TransportError&) {
          // told, as they should be
        }
      });
    }
  }
}

void check_failure_stays(int ranks) {
  run_ranks(ranks, [](Communicator& communicator) {
    if (communicator.rank() == 0) return;  // never comes
    communicator.set_timeout(Milliseconds(50));
    auto values = values_of(communicator.rank(), kSize, 3);
    DenseSum sum(communicator, place_of(communicator), kSize);
    Status status;
    EXPECT_THROW(
        {
          sum.start(values, view_of(status));
          sum.finish();
        },
        TransportError);
    EXPECT_THROW(sum.advance(), TransportError);
    EXPECT_THROW(sum.finish(), TransportError);
    EXPECT_THROW(sum.start(values, view_of(status)), TransportError);
  });
}

}  // namespace laconic::test
