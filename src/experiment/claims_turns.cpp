#include "experiment/claims_turns.h"

#include "laconic/threads.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LACONIC_TURNS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LACONIC_TURNS 0
#endif
#endif
#ifndef LACONIC_TURNS
#define LACONIC_TURNS 1
#endif

#if LACONIC_TURNS
#include <ucontext.h>

#include <exception>
#include <memory>

#include "transport/threads/communicator.h"
#endif

namespace laconic::claims {

#if LACONIC_TURNS
namespace {

constexpr std::size_t kStackBytes = 512 * 1024;  // untouched pages cost nothing

/// Stacks that take turns on one thread.
class Turns {
 public:
  explicit Turns(std::size_t count) : fibers_(count) {}

  void run(const std::function<void(std::size_t)>& body) {
    body_ = &body;
    running_ = this;
    for (std::size_t i = 0; i < fibers_.size(); ++i) prepare(fibers_[i]);
    current_ = 0;
    alive_ = fibers_.size();
    swapcontext(&home_, &fibers_[0].context);
    running_ = nullptr;
  }

  /// The next one that has not ended goes on; returns when it is this one's turn again.
  void next() {
    const std::size_t from = current_;
    current_ = following(from);
    if (current_ != from) swapcontext(&fibers_[from].context, &fibers_[current_].context);
  }

 private:
  struct Fiber {
    ucontext_t context{};
    std::unique_ptr<std::byte[]> stack;
    bool ended = false;
  };

  void prepare(Fiber& fiber) {
    fiber.stack.reset(new std::byte[kStackBytes]);  // not zeroed
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, enter, 0);
  }

  static void enter() {
    Turns& turns = *running_;
    const std::size_t self = turns.current_;
    (*turns.body_)(self);
    turns.fibers_[self].ended = true;
    if (--turns.alive_ == 0) setcontext(&turns.home_);
    turns.current_ = turns.following(self);
    setcontext(&turns.fibers_[turns.current_].context);
  }

  std::size_t following(std::size_t from) const {
    std::size_t candidate = (from + 1) % fibers_.size();
    while (fibers_[candidate].ended && candidate != from) candidate = (candidate + 1) % fibers_.size();
    return candidate;
  }

  static thread_local Turns* running_;
  const std::function<void(std::size_t)>* body_ = nullptr;
  std::vector<Fiber> fibers_;
  ucontext_t home_{};
  std::size_t current_ = 0;
  std::size_t alive_ = 0;
};

thread_local Turns* Turns::running_ = nullptr;

/// A call of the thread engine whose wait lets the other ranks run.
class TurnOperation final : public Operation {
 public:
  explicit TurnOperation(Turns& turns) : turns_(turns) {}

  void begin(Handle handle) {
    handle_ = std::move(handle);
    busy_ = true;
  }
  bool busy() const { return busy_; }

  bool test() override { return handle_.test(); }
  void wait(Milliseconds /*timeout*/) override {
    while (!handle_.test()) turns_.next();
  }
  void release() noexcept override {
    handle_ = Handle();
    busy_ = false;
  }

 private:
  Turns& turns_;
  Handle handle_;
  bool busy_ = false;
};

/// The thread engine's communicator with waits in turn.
class TurnCommunicator final : public Communicator {
 public:
  TurnCommunicator(Turns& turns, std::shared_ptr<threads::World> world, threads::Lane& lane, std::size_t rank)
      : turns_(turns), world_(std::move(world)), lane_(lane), inner_(world_, lane, rank) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }

  Handle all_reduce(View<float> values, Reduction reduction) override {
    return start(inner_.all_reduce(values, reduction));
  }
  Handle reduce_scatter(View<const float> values, View<float> chunk) override {
    return start(inner_.reduce_scatter(values, chunk));
  }
  Handle all_gather(View<const std::byte> mine, View<std::byte> all) override {
    return start(inner_.all_gather(mine, all));
  }
  Handle all_gather_varying(View<const std::byte> mine, View<std::byte> all, std::span<const Part> parts) override {
    return start(inner_.all_gather_varying(mine, all, parts));
  }
  Handle all_to_all(View<const std::byte> send, View<std::byte> receive) override {
    return start(inner_.all_to_all(send, receive));
  }
  Handle all_to_all_varying(View<const std::byte> send, std::span<const Part> send_parts, View<std::byte> receive,
                            std::span<const Part> receive_parts) override {
    return start(inner_.all_to_all_varying(send, send_parts, receive, receive_parts));
  }
  Handle broadcast(View<std::byte> bytes, int root) override { return start(inner_.broadcast(bytes, root)); }
  Handle barrier() override { return start(inner_.barrier()); }

  std::unique_ptr<Communicator> duplicate() override {
    threads::Lane& beside = world_->lane_beside(lane_, duplicates_made_++);
    auto made = std::make_unique<TurnCommunicator>(turns_, world_, beside, static_cast<std::size_t>(rank()));
    made->barrier().wait();
    return made;
  }

  std::unique_ptr<SharedCounter> make_counter() override {
    auto made = std::make_unique<TurnCounter>(world_->counter(lane_, counters_made_++));
    barrier().wait();
    return made;
  }

  void fail(std::string_view reason) noexcept override { inner_.fail(reason); }
  std::string description() const override { return "in turn, " + std::to_string(size()) + " ranks"; }

 private:
  class TurnCounter final : public SharedCounter {
   public:
    explicit TurnCounter(threads::Counter value) : value_(std::move(value)) {}
    std::int64_t fetch_add(std::int64_t amount) override { return value_->fetch_add(amount); }

   private:
    threads::Counter value_;
  };

  Handle start(Handle handle) {
    for (const auto& operation : operations_) {
      if (!operation->busy()) return begin(*operation, std::move(handle));
    }
    operations_.push_back(std::make_unique<TurnOperation>(turns_));
    return begin(*operations_.back(), std::move(handle));
  }
  Handle begin(TurnOperation& operation, Handle handle) {
    operation.begin(std::move(handle));
    return {&operation, timeout()};
  }

  Turns& turns_;
  std::shared_ptr<threads::World> world_;
  threads::Lane& lane_;
  threads::ThreadCommunicator inner_;
  std::vector<std::unique_ptr<TurnOperation>> operations_;
  std::size_t duplicates_made_ = 0;
  std::size_t counters_made_ = 0;
};

}  // namespace

void run_ranks_in_turn(int ranks, const std::function<void(Communicator&)>& body) {
  Turns turns(static_cast<std::size_t>(ranks));
  const auto world = std::make_shared<threads::World>(static_cast<std::size_t>(ranks));
  std::exception_ptr first;
  turns.run([&](std::size_t rank) {
    TurnCommunicator communicator(turns, world, world->first_lane(), rank);
    try {
      body(communicator);
    } catch (const std::exception& error) {
      if (!first) first = std::current_exception();
      communicator.fail(error.what());
    }
  });
  if (first) std::rethrow_exception(first);
}

#else

void run_ranks_in_turn(int ranks, const std::function<void(Communicator&)>& body) { run_ranks(ranks, body); }

#endif

std::vector<RunResult> run_in_turn(const RunConfig& config, const Problem& problem, Observer* observer) {
  require_valid(config);
  std::vector<RunResult> results(static_cast<std::size_t>(config.workers));
  run_ranks_in_turn(config.workers, [&](Communicator& communicator) {
    Observer silent;
    Observer& chosen = observer != nullptr && communicator.rank() == 0 ? *observer : silent;
    results[static_cast<std::size_t>(communicator.rank())] = run_worker(config, problem, communicator, chosen);
  });
  return results;
}

}  // namespace laconic::claims
