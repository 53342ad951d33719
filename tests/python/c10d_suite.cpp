// A module for the tests alone: what every transport must do (tests/transport), over c10d with real processes, and the
// calls that a Python test needs to see how a communicator fails.

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <pybind11/stl.h>

#include "laconic/error.h"
#include "torch/python/handover.h"
#include "transport/communicator_suite.h"

namespace laconic::test {

// torch allocates, so nobody asks; without this the suite would bring a counting operator new into Python's process.
std::uint64_t allocation_count() { return 0; }

namespace {

namespace py = pybind11;

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
}
