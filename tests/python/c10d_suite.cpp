// A module for the tests alone: what every transport must do (tests/transport), over c10d with real processes, and the
// calls that a Python test needs to see how a communicator fails.

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <pybind11/stl.h>

#include "base/buffer.h"
#include "base/transfer.h"
#include "exchange/slots.h"
#include "laconic/cuda.h"
#include "laconic/error.h"
#include "torch/python/handover.h"
#include "transport/communicator_suite.h"
#include "transport/staged/communicator.h"

namespace laconic::test {

// torch allocates, so nobody asks; without this the suite would bring a counting operator new into Python's process.
std::uint64_t allocation_count() { return 0; }

namespace {

namespace py = pybind11;

/// A communicator of this module's own: message memory of one module is not known in another.
plugin::C10dCommunicator communicator_of_ours(const py::object& group, const py::object& store,
                                              plugin::StagingDevice device = {}) {
  return {python::shared_with<c10d::ProcessGroup>(group), python::shared_with<c10d::Store>(store), {}, device};
}

/// On the device, or on the CPU if none is given.
std::unique_ptr<Place> place_on(const plugin::StagingDevice& device) {
  if (!device) return std::make_unique<Place>(CpuOptions{.threads = 1});
  return cuda_place({.device = device->index()});
}

std::vector<std::byte> read_back(Place& place, View<const std::byte> from) {
  std::vector<std::byte> here(from.size());
  copy_to_cpu(place, from, here.data());
  return here;
}

/// Payloads in Slots, whose memory the engine may use: their sizes vary, and some slots are not filled to the end. How
/// many came out wrong. With a device, the slots lie there.
int wrong_slots(const py::object& group, const py::object& store, plugin::StagingDevice device) {
  plugin::C10dCommunicator engine = communicator_of_ours(group, store, device);
  const py::gil_scoped_release unlocked;
  const auto place = place_on(device);
  std::optional<staged::StagedCommunicator> staged;
  if (device) staged.emplace(engine, *place);
  Communicator& communicator = device ? static_cast<Communicator&>(*staged) : engine;
  int wrong = 0;
  const int ranks = communicator.size();
  const auto mark = [](int from, int to, std::uint64_t i) {
    return static_cast<std::byte>(31 * from + 7 * to + static_cast<int>(i % 251));
  };
  const auto filled = [&](View<const std::byte> payload, int from, int to) {
    const std::vector<std::byte> here = read_back(*place, payload);
    for (std::uint64_t i = 0; i < here.size(); ++i) {
      if (here[i] != mark(from, to, i)) return false;
    }
    return true;
  };
  const auto fill_slot = [&](View<std::byte> slot, int from, int to) {
    std::vector<std::byte> here(slot.size());
    for (std::uint64_t i = 0; i < here.size(); ++i) here[i] = mark(from, to, i);
    copy_from_cpu(*place, here.data(), slot);
  };
  for (const std::uint64_t scale : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{64}, std::uint64_t{10'007}}) {
    for (const std::uint64_t spare : {0, 200}) {
      const auto length = [&](int from, int to) { return scale * static_cast<std::uint64_t>((from + 2 * to) % 4); };
      Slots send(*place, ranks);
      Slots receive(*place, ranks);
      Slots all(*place, ranks);
      send.lay_out([&](int to) { return length(communicator.rank(), to) + spare; });
      receive.lay_out([&](int from) { return length(from, communicator.rank()) + spare; });
      all.lay_out([&](int from) { return length(from, 1) + spare; });
      for (int r = 0; r < ranks; ++r) {
        send.set_length(r, length(communicator.rank(), r));
        receive.set_length(r, length(r, communicator.rank()));
        all.set_length(r, length(r, 1));
        fill_slot(send.slot(r), communicator.rank(), r);
      }
      fill_slot(all.slot(communicator.rank()), communicator.rank(), 1);
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

/// Floats on a place's device.
class Placed {
 public:
  Placed(Place& place, std::size_t size, const std::function<float(std::size_t)>& value) : place_(place), size_(size) {
    memory_.reserve(place, size);
    std::vector<float> here(size);
    for (std::size_t i = 0; i < size; ++i) here[i] = value(i);
    copy_from_cpu(place, here.data(), view());
  }
  View<float> view() const { return memory_.view(size_); }
  View<std::byte> bytes() const { return as_writable_bytes(view()); }
  int wrong(const std::function<float(std::size_t)>& expected) const {
    std::vector<float> here(size_);
    copy_to_cpu<float>(place_, view(), here.data());
    int count = 0;
    for (std::size_t i = 0; i < size_; ++i) count += here[i] == expected(i) ? 0 : 1;
    return count;
  }

 private:
  Place& place_;
  std::size_t size_;
  Buffer<float> memory_;
};

/// The calls of equal sizes on memory of a device that has no other owner. How many values came out wrong.
int wrong_values_on_device(const py::object& group, const py::object& store, at::Device device) {
  plugin::C10dCommunicator engine = communicator_of_ours(group, store, device);
  const py::gil_scoped_release unlocked;
  const auto place = place_on(device);
  staged::StagedCommunicator communicator(engine, *place);
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto me = static_cast<std::size_t>(communicator.rank());
  // Small enough for sums to be exact in any order.
  const auto of_rank = [](std::size_t rank, std::size_t i) { return static_cast<float>(1000 * rank + i % 997); };
  const auto mine = [&](std::size_t i) { return of_rank(me, i); };
  const auto none = [](std::size_t) { return -1.0F; };
  const auto sum = [&](std::size_t i) {
    float all = 0.0F;
    for (std::size_t r = 0; r < ranks; ++r) all += of_rank(r, i);
    return all;
  };
  int wrong = 0;
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{1009}, std::size_t{100'000}}) {
    const Placed reduced(*place, n, mine);
    const Placed cast(*place, n, mine);
    const Placed sent(*place, n, mine);
    const Placed gathered(*place, n * ranks, none);
    const Placed parts(*place, n * ranks, mine);
    const Placed swapped(*place, n * ranks, none);
    const Placed scattered(*place, n, none);
    communicator.all_reduce(reduced.view(), Reduction::sum).wait();
    communicator.broadcast(cast.bytes(), communicator.size() - 1).wait();
    communicator.all_gather(sent.bytes(), gathered.bytes()).wait();
    communicator.all_to_all(parts.bytes(), swapped.bytes()).wait();
    communicator.reduce_scatter(parts.view(), scattered.view()).wait();
    wrong += reduced.wrong(sum);
    wrong += cast.wrong([&](std::size_t i) { return of_rank(ranks - 1, i); });
    wrong += gathered.wrong([&](std::size_t i) { return of_rank(i / n, i % n); });
    wrong += swapped.wrong([&](std::size_t i) { return of_rank(i / n, me * n + i % n); });
    wrong += scattered.wrong([&](std::size_t i) { return sum(me * n + i); });
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
      {"split", check_split},
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
  const auto place = place_on({});
  View<std::byte> sent;
  View<std::byte> received;
  try {
    Slots send(*place, communicator.size());
    Slots receive(*place, communicator.size());
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
  module.def("wrong_slots", &test::wrong_slots, py::arg("group"), py::arg("store"), py::arg("device") = py::none());
  module.def("wrong_values_on_device", &test::wrong_values_on_device);
  module.attr("has_cuda") = LACONIC_CUDA != 0;  // counting devices would spoil CUDA for forks
}
