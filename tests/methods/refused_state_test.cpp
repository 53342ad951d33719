// A state that lacks something, has too much, or has what no method can have saved, is refused before anything of the
// method changes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/harness.h"
#include "methods/saved_entries.h"
#include "support/support.h"

namespace laconic::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

OptimizerOptions some_optimizer(const MethodRow& row) {
  return {.momentum = row.name == std::string("adam") ? 0.0 : 0.9};
}

/// A worker that has made some steps, and what it remembers.
struct Remembering {
  Remembering(const MethodRow& row, Communicator& communicator, std::uint32_t steps, const MethodOptions& options)
      : worker(row, options, communicator, some_optimizer(row)) {
    for (std::uint32_t step = 0; step < steps; ++step) worker.step(step);
    memory = worker.method->save().to_bytes();
  }
  Remembering(const MethodRow& row, Communicator& communicator, std::uint32_t steps)
      : Remembering(row, communicator, steps, small_options(row)) {}

  /// Why the state is refused; "" where it is not, or where the refusal changed something.
  std::string refusal(const State& state) {
    const std::string text = message_of<InvalidConfig>([&] { worker.method->load(state); });
    EXPECT_TRUE(worker.method->save().to_bytes() == memory) << text;
    return text == "(no error)" ? "" : text;
  }

  Worker worker;
  std::vector<std::byte> memory;
};

TEST(RefusedState, ChangesNothing) {
  for (const MethodRow& row : method_table()) {
    run_ranks(2, [&](Communicator& communicator) {
      Remembering other(row, communicator, 5);
      Remembering mine(row, communicator, 3);
      const State saved = other.worker.method->save();
      const std::vector<SavedEntry> entries = entries_of(saved);
      ASSERT_EQ(bytes_of(entries), saved.to_bytes());
      for (std::size_t i = 0; i < entries.size(); ++i) {
        std::vector<SavedEntry> without = entries;
        without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
        EXPECT_NE(mine.refusal(state_of(without)), "") << row.name << " without " << entries[i].name;
        std::vector<SavedEntry> renamed = entries;
        renamed[i].name += " of old";
        EXPECT_NE(mine.refusal(state_of(renamed)), "") << row.name << " with another name for " << entries[i].name;
        if (entries[i].kind == 'd' || entries[i].kind == 't' || entries[i].values.empty()) continue;
        std::vector<SavedEntry> shorter = entries;
        shorter[i].values.resize(entries[i].values.size() - 4);
        EXPECT_NE(mine.refusal(state_of(shorter)), "") << row.name << " with a shorter " << entries[i].name;
      }
      std::vector<SavedEntry> more = entries;
      more.push_back({"something else", 'd', std::vector<std::byte>(8)});
      const std::string text = mine.refusal(state_of(more));
      EXPECT_TRUE(contains(text, "something else") && contains(text, "too many")) << row.name << ": " << text;
      mine.worker.method->load(saved);
      EXPECT_EQ(mine.worker.method->save().to_bytes(), saved.to_bytes()) << row.name;
    });
  }
}

// Every number steers something, but the losses that lsgd was given by its host.
TEST(RefusedState, HasNumbersThatAreNone) {
  const std::set<std::string> any_value{"loss sum", "last loss"};
  for (const MethodRow& row : method_table()) {
    run_ranks(1, [&](Communicator& communicator) {
      Remembering mine(row, communicator, 3);
      const std::vector<SavedEntry> entries = entries_of(mine.worker.method->save());
      for (std::size_t i = 0; i < entries.size(); ++i) {
        if (entries[i].kind != 'd' || any_value.contains(entries[i].name)) continue;
        for (const double wrong : {kNan, kInfinity, -1.0, -1e300}) {
          if (wrong < 0.0 && std::isfinite(wrong) && entries[i].name.ends_with("exponent")) continue;
          std::vector<SavedEntry> changed = entries;
          changed[i].set_number(wrong);
          EXPECT_NE(mine.refusal(state_of(changed)), "") << row.name << ": " << entries[i].name << " = " << wrong;
        }
      }
    });
  }
}

/// An entry that is changed to what has the right size and cannot have been saved.
struct Crafted {
  const char* method;
  const char* entry;
  const char* what;
  std::function<void(SavedEntry&)> change;
  const char* scope = "";  ///< the default
};

std::function<void(SavedEntry&)> number(double value) {
  return [value](SavedEntry& entry) { entry.set_number(value); };
}

std::function<void(SavedEntry&)> first_float(float value) {
  return [value](SavedEntry& entry) { entry.set_float(0, value); };
}

std::function<void(SavedEntry&)> words(const std::function<void(std::vector<std::uint32_t>&)>& change) {
  return [change](SavedEntry& entry) {
    auto all = entry.words();
    change(all);
    entry.set_words(all);
  };
}

std::vector<Crafted> crafted_states() {
  constexpr float kNanF = std::numeric_limits<float>::quiet_NaN();
  std::vector<Crafted> all;
  for (const char* method : {"topk", "regtopk"}) {
    const auto all_seven = [](std::vector<std::uint32_t>& word) { std::fill(word.begin(), word.end(), 7U); };
    all.push_back({method, "borders", "do not ascend", words(all_seven)});
    all.push_back({method, "last unions", "more than there are", words([](auto& word) { word[0] = ~0U; })});
    all.push_back({method, "thresholds", "no number", first_float(kNanF)});
    all.push_back({method, "thresholds", "negative", first_float(-1.0F)});
    all.push_back({method, "thresholds", "infinite", first_float(std::numeric_limits<float>::infinity())});
  }
  for (const char* scope : {"model", "tensor"}) {
    const auto support = [&](const char* what, const std::function<void(std::vector<std::uint32_t>&)>& change) {
      all.push_back({"regtopk", "support", what, words(change), scope});
    };
    support("unsorted", [](auto& word) { std::swap(word[0], word[1]); });
    support("descending", [](auto& word) { std::reverse(word.begin(), word.end()); });
    support("twice the same", [](auto& word) { word[1] = word[0]; });
    support("beyond the end", [](auto& word) { word.back() = 2'251; });
    support("far beyond the end", [](auto& word) { word.back() = 0x8000'0000U; });
    support("all the same", [](auto& word) { std::fill(word.begin(), word.end(), 0U); });
  }
  // Below the model's size, but not below the first tensor's 700 entries, of which 70 are kept.
  all.push_back({"regtopk", "support", "of the next tensor", words([](auto& word) { word[69] = 700; }), "tensor"});
  all.push_back({"regtopk", "support known", "neither yes nor no", number(2.0)});
  for (const char* method : {"signum", "signsgd"}) all.push_back({method, "inner/steps", "not whole", number(0.5)});
  for (const char* method : {"sgd", "adam"}) all.push_back({method, "optimizer/steps", "not whole", number(2.5)});
  all.push_back({"psync", "steps", "not whole", number(2.5)});
  all.push_back({"dqsgd", "norms known", "more than the window", number(51.0)});
  all.push_back({"dqsgd", "norms known", "not whole", number(1.5)});
  all.push_back({"dqsgd", "norms", "no number", words([](auto& word) { word[1] = 0x7FF8'0000U; })});
  all.push_back({"dqsgd", "norms", "negative", words([](auto& word) { word[1] |= 0x8000'0000U; })});
  all.push_back({"dqsgd", "rule's steps", "not whole", number(2.5)});
  all.push_back({"dqsgd", "rule's bits", "too many for the steps", number(16.0 * 3 + 1)});
  all.push_back({"dqsgd", "rule's bits", "too few for the steps", number(2.0 * 3 - 1)});
  for (const char* method : {"mgrawa", "lgrawa", "easgd", "lsgd", "localsgd"}) {
    all.push_back({method, "rounds", "not whole", number(0.5)});
    all.push_back({method, "rounds", "more than can be counted", number(3e15)});
    all.push_back({method, "steps", "a whole period", number(4.0)});
    all.push_back({method, "steps", "beyond a period", number(5.0)});
  }
  for (const char* method : {"mgrawa", "lgrawa"}) {
    all.push_back({method, "rounds scored", "not whole", number(0.5)});
    all.push_back({method, "local steps", "not whole", number(0.5)});
    all.push_back({method, "scores", "negative", first_float(-1.0F)});
    all.push_back({method, "local norms", "no number", first_float(kNanF)});
  }
  all.push_back({"lsgd", "loss count", "not whole", number(0.5)});
  return all;
}

TEST(RefusedState, HasValuesThatNoMethodSaved) {
  for (const Crafted& crafted : crafted_states()) {
    run_ranks(1, [&](Communicator& communicator) {
      const MethodRow& row = method_row(crafted.method);
      MethodOptions options = small_options(row);
      if (*crafted.scope != '\0') options.scope = crafted.scope;
      Remembering mine(row, communicator, 3, options);
      const State state = with_entry(mine.worker.method->save(), crafted.entry, crafted.change);
      EXPECT_NE(mine.refusal(state), "") << crafted.method << " " << crafted.scope << ": " << crafted.entry << ", "
                                         << crafted.what;
    });
  }
}

// A schedule with an end has no rounds after it, and a last period that may be shorter.
TEST(RefusedState, GoesBeyondTheEndOfTheRun) {
  run_ranks(1, [](Communicator& communicator) {
    const auto with_end = [](double end) { return MethodOptions{.total_steps = end, .period = 4}; };
    Remembering six_of_ten(method_row("localsgd"), communicator, 6, with_end(10));
    const State saved = six_of_ten.worker.method->save();
    Remembering twenty(method_row("localsgd"), communicator, 0, with_end(20));
    twenty.worker.method->load(saved);  // a run may go on for longer
    for (const double end : {3.0, 4.0, 5.0, 6.0}) {
      Remembering shorter(method_row("localsgd"), communicator, 0, with_end(end));
      EXPECT_TRUE(contains(shorter.refusal(saved), "total_steps")) << end << shorter.refusal(saved);
    }
    Remembering seven(method_row("localsgd"), communicator, 0, with_end(7));
    seven.worker.method->load(saved);
    seven.worker.method->start(seven.worker.model);
    EXPECT_TRUE(seven.worker.step(6).finished);
    Remembering after(method_row("localsgd"), communicator, 0, with_end(7));
    after.worker.method->load(seven.worker.method->save());  // a run that has ended, too
    EXPECT_TRUE(after.worker.method->start(after.worker.model).finished);
    EXPECT_THROW(after.worker.step(7), InvalidConfig);
  });
}

TEST(RefusedState, IsGivenInTheMiddleOfAStep) {
  for (const MethodRow& row : method_table()) {
    run_ranks(1, [&](Communicator& communicator) {
      Remembering other(row, communicator, 5);
      const State saved = other.worker.method->save();
      Remembering straight(row, communicator, 3);
      Remembering mine(row, communicator, 3);
      auto& [worker, memory] = mine;
      auto gradient = pull_gradient(worker.model, 0, 3);
      worker.method->begin_step({.key = {42, 3, 0}, .learning_rate = 0.05F, .loss = 1.0F}, worker.model);
      const std::string text = message_of<InvalidConfig>([&] { worker.method->load(saved); });
      EXPECT_TRUE(contains(text, "in the middle of a step")) << row.name << ": " << text;
      std::uint64_t offset = 0;
      for (std::uint32_t i = 0; i < small_model().size(); ++i) {
        const std::uint64_t size = small_model()[i].size;
        const TensorPart part{i, View<float>(gradient).sub(offset, size)};
        worker.method->add({&part, 1});
        offset += size;
      }
      worker.method->finish_step();
      straight.worker.step(3);
      EXPECT_EQ(worker.model, straight.worker.model) << row.name;
      worker.method->load(saved);
    });
  }
}

}  // namespace
}  // namespace laconic::test
