// A state that lacks something, or has it in another size, is refused before anything of the method changes.

#include <gtest/gtest.h>

#include <cstring>

#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/harness.h"
#include "support/support.h"

namespace laconic::test {
namespace {

struct Entry {
  std::string name;
  char kind = 'f';
  std::vector<std::byte> values;
};

template <class T>
T take(const std::vector<std::byte>& bytes, std::size_t& at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  at += sizeof value;
  return value;
}

/// A saved state's entries; the format is that of src/methods/state.cpp.
std::vector<Entry> entries_of(const State& state) {
  const std::vector<std::byte> bytes = state.to_bytes();
  std::size_t at = 4;
  std::vector<Entry> entries(take<std::uint32_t>(bytes, at));
  for (Entry& entry : entries) {
    const auto length = take<std::uint32_t>(bytes, at);
    entry.name.assign(reinterpret_cast<const char*>(bytes.data() + at), length);
    at += length;
    entry.kind = take<char>(bytes, at);
    const auto size = take<std::uint64_t>(bytes, at);
    entry.values.assign(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                        bytes.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
  }
  return entries;
}

State state_of(const std::vector<Entry>& entries) {
  State state;
  for (const Entry& entry : entries) {
    std::vector<std::uint32_t> words(entry.values.size() / 4);
    if (!words.empty()) std::memcpy(words.data(), entry.values.data(), words.size() * 4);
    if (entry.kind == 'd') {
      double value = 0.0;
      std::memcpy(&value, entry.values.data(), sizeof value);
      state.put(entry.name, value);
    } else if (entry.kind == 'u') {
      state.put(entry.name, View<const std::uint32_t>(words));
    } else {
      state.put(entry.name, View<const float>(reinterpret_cast<const float*>(words.data()), words.size()));
    }
  }
  return state;
}

TEST(RefusedState, ChangesNothing) {
  for (const MethodRow& row : method_table()) {
    run_ranks(2, [&](Communicator& communicator) {
      const OptimizerOptions optimizer{.momentum = row.name == std::string("adam") ? 0.0 : 0.9};
      Worker other(row, small_options(row), communicator, optimizer);
      Worker worker(row, small_options(row), communicator, optimizer);
      for (std::uint32_t step = 0; step < 5; ++step) other.step(step);
      for (std::uint32_t step = 0; step < 3; ++step) worker.step(step);
      const auto memory = worker.method->save().to_bytes();
      const std::vector<Entry> entries = entries_of(other.method->save());
      ASSERT_EQ(state_of(entries).to_bytes(), other.method->save().to_bytes());
      for (std::size_t i = 0; i < entries.size(); ++i) {
        std::vector<Entry> without = entries;
        without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
        EXPECT_THROW(worker.method->load(state_of(without)), InvalidConfig) << row.name << ": " << entries[i].name;
        EXPECT_EQ(worker.method->save().to_bytes(), memory) << row.name << " without " << entries[i].name;
        if (entries[i].kind == 'd' || entries[i].values.empty()) continue;
        std::vector<Entry> shorter = entries;
        shorter[i].values.resize(entries[i].values.size() - 4);
        EXPECT_THROW(worker.method->load(state_of(shorter)), InvalidConfig) << row.name << ": " << entries[i].name;
        EXPECT_EQ(worker.method->save().to_bytes(), memory) << row.name << " with a shorter " << entries[i].name;
      }
      worker.method->load(state_of(entries));
      EXPECT_EQ(worker.method->save().to_bytes(), other.method->save().to_bytes()) << row.name;
    });
  }
}

// What has the right size and cannot have been saved: borders of index ranges that do not ascend.
TEST(RefusedState, ChangesNothingWhereValuesMakeNoSense) {
  for (const char* name : {"topk", "regtopk"}) {
    run_ranks(2, [&](Communicator& communicator) {
      Worker worker(method_row(name), small_options(method_row(name)), communicator);
      for (std::uint32_t step = 0; step < 3; ++step) worker.step(step);
      const auto memory = worker.method->save().to_bytes();
      std::vector<Entry> entries = entries_of(worker.method->save());
      for (Entry& entry : entries) {
        if (entry.name.ends_with("borders")) std::fill(entry.values.begin(), entry.values.end(), std::byte{7});
        if (entry.name.ends_with("residual")) std::fill(entry.values.begin(), entry.values.end(), std::byte{0});
      }
      EXPECT_THROW(worker.method->load(state_of(entries)), InvalidConfig) << name;
      EXPECT_EQ(worker.method->save().to_bytes(), memory) << name;
    });
  }
}

}  // namespace
}  // namespace laconic::test
