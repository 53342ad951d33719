// A module for the tests alone: what every transport must do (tests/transport), over c10d with real processes, and the
// calls that a Python test needs to see how a communicator fails.

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <pybind11/stl.h>

#include "exchange/slots.h"
#include "laconic/error.h"
#include "torch/python/handover.h"
#include "transport/communicator_suite.h"

namespace laconic::test {

// torch allocates, so nobody asks; without this the suite would bring a counting operator new into Python's process.
std::uint64_t allocation_count() { return 0; }

namespace {

namespace py = pybind11;

/// A communicator of this module's own: message memory of one module is not known in another.
plugin::C10dCommunicator communicator_of_ours(const py::object& group, const py::object& store) {
  return {python::shared_with<c10d::ProcessGroup>(group), python::shared_with<c10d::Store>(store), {}};
}

/// Payloads in Slots, whose memory the engine may use: their sizes vary, and some slots are not filled to the end. How
/// many came out wrong.
int wrong_slots(const py::object& group, const py::object& store) {
  plugin::C10dCommunicator communicator = communicator_of_ours(group, store);
  const py::gil_scoped_release unlocked;
  int wrong = 0;
  const int ranks = communicator.size();
  const auto mark = [](int from, int to, std::uint64_t i) {
    return static_cast<std::byte>(31 * from + 7 * to + static_cast<int>(i % 251));
  };
  const auto filled = [&](View<const std::byte> payload, int from, int to) {
    for (std::uint64_t i = 0; i < payload.size(); ++i) {
      if (payload[i] != mark(from, to, i)) return false;
    }
    return true;
  };
  Place place({.threads = 1});
  for (const std::uint64_t scale : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{64}, std::uint64_t{10'007}}) {
    for (const std::uint64_t spare : {0, 200}) {
      const auto length = [&](int from, int to) { return scale * static_cast<std::uint64_t>((from + 2 * to) % 4); };
      Slots send(place, ranks);
      Slots receive(place, ranks);
      Slots all(place, ranks);
      send.lay_out([&](int to) { return length(communicator.rank(), to) + spare; });
      receive.lay_out([&](int from) { return length(from, communicator.rank()) + spare; });
      all.lay_out([&](int from) { return length(from, 1) + spare; });
      for (int r = 0; r < ranks; ++r) {
        send.set_length(r, length(communicator.rank(), r));
        receive.set_length(r, length(r, communicator.rank()));
        all.set_length(r, length(r, 1));
        for (std::uint64_t i = 0; i < send.length(r); ++i) send.slot(r)[i] = mark(communicator.rank(), r, i);
      }
      const auto mine = all.slot(communicator.rank());
      for (std::uint64_t i = 0; i < mine.size(); ++i) mine[i] = mark(communicator.rank(), 1, i);
      Handle gathered = communicator.all_gather_varying(all.payload(communicator.rank()), all.bytes(), all.ranges());
      communicator.all_to_all_varying(send.bytes(), send.ranges(), receive.bytes(), receive.ranges()).wait();
      gathered.wait();
      for (int r = 0; r < ranks; ++r) {
        wrong += filled(receive.payload(r), r, communicator.rank()) ? 0 : 1;
        wrong += filled(all.payload(r), r, 1) ? 0 : 1;
      }
    }
  }
  return wrong;
}

using Check = void (*)(Communicator&);

const std::map<std::string, Check>& checks() {
  static constexpr std::size_t kLargest = 1'000'000;
  static const std::map<std::string, Check> table{
      {"all_reduce", [](Communicator& c) { check_all_reduce(c, kLargest); }},
      {"reduce_scatter", [](Communicator& c) { check_reduce_scatter(c, kLargest); }},
      {"all_gather", [](Communicator& c) { check_all_gather(c, kLargest); }},
      {"all_gather_varying", check_all_gather_varying},
      {"all_to_all", [](Communicator& c) { check_all_to_all(c, kLargest); }},
      {"all_to_all_varying", check_all_to_all_varying},
      {"broadcast", [](Communicator& c) { check_broadcast(c, kLargest); }},
      {"barrier", check_barrier},
      {"several_in_flight", check_several_in_flight},
      {"many_in_a_row", check_many_in_a_row},
      {"duplicates", check_duplicates},
      {"dropped_handles", check_dropped_handles},
      {"counter", check_counter},
      {"agreement", check_agreement},
      {"bad_views", check_bad_views},
  };
  return table;
}

/// What was found wrong, in words.
std::vector<std::string> run_check(Communicator& communicator, const std::string& name) {
  ::testing::TestPartResultArray found;
  {
    ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &found);
    checks().at(name)(communicator);
  }
  std::vector<std::string> texts;
  for (int i = 0; i < found.size(); ++i) texts.emplace_back(found.GetTestPartResult(i).message());
  return texts;
}

/// Sums `rounds` times and gives back the first sum that is not `expected`, or `expected`.
float sum_often(Communicator& communicator, int rounds, float mine, float expected) {
  std::vector<float> values(1000);
  for (int i = 0; i < rounds; ++i) {
    std::fill(values.begin(), values.end(), mine);
    communicator.all_reduce(values, Reduction::sum).wait();
    for (const float value : values) {
      if (value != expected) return value;
    }
  }
  return expected;
}

/// A wait with a timeout of its own; the memory is given back right after, whatever became of it.
void barrier_within(Communicator& communicator, int milliseconds) {
  std::vector<float> values(100'000, 1.0F);
  Handle handle = communicator.all_reduce(values, Reduction::sum);
  handle.wait(Milliseconds(milliseconds));
}

/// Starts an exchange of slots, goes away when the time is up, and looks whether their memory outlives them. Null: the
/// exchange came to its end.
std::optional<bool> is_kept_after_leaving(const py::object& group, const py::object& store, int milliseconds) {
  plugin::C10dCommunicator communicator = communicator_of_ours(group, store);
  const py::gil_scoped_release unlocked;
  View<std::byte> sent;
  View<std::byte> received;
  try {
    Place place({.threads = 1});
    Slots send(place, communicator.size());
    Slots receive(place, communicator.size());
    send.lay_out([](int) { return 4096; });
    receive.lay_out([](int) { return 4096; });
    sent = send.bytes();
    received = receive.bytes();
    Handle handle = communicator.all_to_all_varying(sent, send.ranges(), received, receive.ranges());
    handle.wait(Milliseconds(milliseconds));
    return {};
  } catch (const TransportError&) {
    return message_owner(sent.data(), sent.size()) != nullptr &&
           message_owner(received.data(), received.size()) != nullptr;
  }
}

}  // namespace
}  // namespace laconic::test

PYBIND11_MODULE(c10d_suite, module) {
  using namespace laconic;
  const py::call_guard<py::gil_scoped_release> unlocked;
  module.def("checks", [] {
    std::vector<std::string> names;
    for (const auto& [name, check] : test::checks()) names.push_back(name);
    return names;
  });
  module.def("run_check", &test::run_check, unlocked);
  module.def("sum_often", &test::sum_often, unlocked);
  module.def("barrier_within", &test::barrier_within, unlocked);
  module.def("is_kept_after_leaving", &test::is_kept_after_leaving);
  module.def("wrong_slots", &test::wrong_slots);
}
