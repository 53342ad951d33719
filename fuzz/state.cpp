// Loading of saved states. An input is
//   byte 0: bit 0, the rest of the input is the state's bytes; else it edits a sound state's;
//           bit 1, the checksum is left out, as chance would have it; else it fits
//   byte 1: which method, with which choice of its words
//   rest:   the bytes, or edits: a byte that says which, where, and what is written there
// A state that is refused changes nothing. One that is accepted has a support that a selection can go by, and the run
// goes on from it for two steps.

#include <cstring>
#include <string>

#include "base/keep.h"
#include "harness.h"
#include "laconic/error.h"
#include "laconic/threads.h"
#include "methods/table.h"

namespace laconic::fuzz {
namespace {

const std::vector<Tensor>& tensors() {
  static const std::vector<Tensor> all{{"weight", 5}, {"bias", 1}, {"head", 12}};
  return all;
}
constexpr std::size_t kParameters = 18;
constexpr double kKeep = 0.4;

/// Where the values of an entry lie in the bytes.
struct Extent {
  std::size_t begin = 0;
  std::size_t size = 0;
};

/// One rank that has made some steps, and what it saved then.
class Run {
 public:
  Run(const MethodRow& row, const MethodOptions& options)
      : communicators_(thread_communicators(1)), model_(kParameters, 0.5F) {
    const OptimizerOptions optimizer{.momentum = row.fixes_optimizer() ? 0.0 : 0.9};
    method_ = make_model_method(row.name, options, optimizer, *communicators_.front(), place());
    method_->register_tensors(tensors());
    method_->set_nonfinite_policy(NonfinitePolicy::skip);
    method_->set_scoring([](View<const float> point, View<float> gradient) {
      std::memcpy(gradient.data(), point.data(), point.size_bytes());
    });
    start();
    for (std::uint32_t step = 0; step < 3; ++step) this->step(step);
    sound_ = method_->save().to_bytes();
    sound_.resize(sound_.size() - sizeof(std::uint64_t));  // without its checksum
    find_values();
  }

  void start() { method_->start(model_); }
  void step(std::uint32_t number) {
    std::vector<float> gradient = some_values(kParameters);
    for (std::size_t i = 0; i < kParameters; ++i) gradient[i] = 0.01F * gradient[i] + model_[i];
    method_->step({.key = {7, number, 0}, .learning_rate = 0.01F, .loss = 1.0F}, model_, gradient);
  }

  ModelMethod& method() { return *method_; }
  const std::vector<std::byte>& sound() const { return sound_; }
  const std::vector<Extent>& values() const { return values_; }

 private:
  void find_values() {
    const auto word = [&](std::size_t at, auto number) {
      std::memcpy(&number, sound_.data() + at, sizeof number);
      return static_cast<std::size_t>(number);
    };
    for (std::size_t at = 8; at < sound_.size();) {
      at += 4 + word(at, std::uint32_t{}) + 1;  // the name, and the kind
      const std::size_t size = word(at, std::uint64_t{});
      at += 8;
      if (size > 0) values_.push_back({at, size});
      at += size;
    }
  }

  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<float> model_;
  std::unique_ptr<ModelMethod> method_;
  std::vector<std::byte> sound_;
  std::vector<Extent> values_;
};

MethodOptions small_options(const MethodRow& row) {
  MethodOptions options;
  for (const Parameter& parameter : row.parameters) {
    const std::string name = parameter.name;
    if (name == "keep") options.keep = kKeep;
    if (name == "ratio") options.ratio = 3;
    if (name == "period") options.period = 2;
  }
  return options;
}

/// A method by its settings; made when an input asks for it, and anew after a step that failed.
struct Case {
  const MethodRow* row;
  MethodOptions options;
  std::unique_ptr<Run> run{};
};

/// Every row with its defaults, and with each choice of each word that needs no other setting.
std::vector<Case> make_cases() {
  std::vector<Case> cases;
  for (const MethodRow& row : method_table()) {
    cases.push_back({&row, small_options(row)});
    for (const Parameter& parameter : row.parameters) {
      for (const std::string& choice : parameter.choices) {
        if (choice == parameter.fallback) continue;
        Case made{&row, small_options(row)};
        made.options.*parameter.word = choice;
        try {
          made.run = std::make_unique<Run>(row, made.options);
        } catch (const InvalidConfig&) {
          continue;
        }
        cases.push_back(std::move(made));
      }
    }
  }
  return cases;
}

/// RegTop-k's support: ascending indices in each scope.
void check_support(const State& state, bool by_tensor) {
  if (!state.has("inner/support") || state.number("inner/support known") == 0.0) return;
  std::vector<std::uint32_t> support(state.size("inner/support"));
  state.get("inner/support", View<std::uint32_t>(support));
  auto next = support.begin();
  const auto check = [&](std::uint64_t size) {
    std::uint64_t least = 0;
    for (std::uint64_t left = keep_count(kKeep, size); left > 0; --left, ++next) {
      require(*next >= least && *next < size);
      least = std::uint64_t{*next} + 1;
    }
  };
  if (!by_tensor) return check(kParameters);
  for (const Tensor& tensor : tensors()) check(tensor.size);
}

void seal(std::vector<std::byte>& bytes) {
  std::uint64_t hash = 0xCBF29CE484222325;  // as src/methods/state.cpp has it
  for (const std::byte each : bytes) hash = (hash ^ std::to_integer<std::uint64_t>(each)) * 0x100000001B3;
  bytes.resize(bytes.size() + sizeof hash);
  std::memcpy(bytes.data() + bytes.size() - sizeof hash, &hash, sizeof hash);
}

/// Takes the input apart; zeros where it has ended.
class Edits {
 public:
  Edits(const std::uint8_t* input, std::size_t size) : input_(input), left_(size) {}
  bool any() const { return left_ > 0; }
  template <class T>
  T take() {
    T value{};
    const std::size_t count = std::min(left_, sizeof value);
    if (count > 0) std::memcpy(&value, input_, count);
    input_ += count;
    left_ -= count;
    return value;
  }

 private:
  const std::uint8_t* input_;
  std::size_t left_;
};

void edit(const Run& run, Edits edits, std::vector<std::byte>& bytes) {
  const auto write = [&](auto value) {
    const Extent& extent = run.values()[edits.take<std::uint8_t>() % run.values().size()];
    if (extent.size < sizeof value) return;
    const std::size_t place = edits.take<std::uint8_t>() % (extent.size / sizeof value);
    value = edits.take<decltype(value)>();
    std::memcpy(bytes.data() + extent.begin + place * sizeof value, &value, sizeof value);
  };
  while (edits.any()) {
    switch (edits.take<std::uint8_t>() % 4) {
      case 0: write(std::uint32_t{}); break;
      case 1: write(std::uint64_t{}); break;
      case 2: {  // a number that counts
        const Extent& extent = run.values()[edits.take<std::uint8_t>() % run.values().size()];
        const auto number = static_cast<double>(edits.take<std::int16_t>());
        if (extent.size == sizeof number) std::memcpy(bytes.data() + extent.begin, &number, sizeof number);
        break;
      }
      default: bytes[edits.take<std::uint16_t>() % bytes.size()] ^= static_cast<std::byte>(edits.take<std::uint8_t>());
    }
  }
}

void load_one(const std::uint8_t* input, std::size_t size) {
  static std::vector<Case> cases = make_cases();
  if (size < 2) return;
  Case& chosen = cases[input[1] % cases.size()];
  if (!chosen.run) chosen.run = std::make_unique<Run>(*chosen.row, chosen.options);
  Run& run = *chosen.run;
  const std::uint8_t mode = input[0];
  std::vector<std::byte> bytes;
  if ((mode & 1) != 0) {
    bytes.assign(reinterpret_cast<const std::byte*>(input) + 2, reinterpret_cast<const std::byte*>(input) + size);
  } else {
    bytes = run.sound();
    edit(run, Edits(input + 2, size - 2), bytes);
  }
  if ((mode & 2) == 0) seal(bytes);

  const std::vector<std::byte> before = run.method().save().to_bytes();
  try {
    run.method().load(State::from_bytes(bytes));
  } catch (const Error&) {
    require(run.method().save().to_bytes() == before);
    require((mode & 3) != 0 || size > 2);  // what was saved is loaded
    return;
  }
  check_support(run.method().save(), chosen.options.scope == "tensor");
  try {
    run.start();
    for (std::uint32_t step = 3; step < 5; ++step) run.step(step);
  } catch (const Error&) {
    chosen.run.reset();  // such as a step after the last one
  }
}

}  // namespace
}  // namespace laconic::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  laconic::fuzz::load_one(input, size);
  return 0;
}
