// Threads of a block as fibers of the thread that launches. A fiber runs threads of the block one after another until
// one of them must wait; only then another fiber is needed. So a kernel that never waits needs no switch at all.

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>

#include "calls.h"
#include "launch.h"
#include "memory.h"

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

constinit thread_local uint3 threadIdx{};
constinit thread_local uint3 blockIdx{};
constinit thread_local dim3 blockDim{};
constinit thread_local dim3 gridDim{};

namespace laconic::emulation {
namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kMostThreads = 1024;
constexpr std::size_t kStackBytes = std::size_t{128} << 10;
constexpr std::size_t kGuardBytes = std::size_t{64} << 10;  ///< below each stack, a multiple of every page size
constexpr std::size_t kMostShared = std::size_t{227} << 10;
constexpr const char* kDidNotWait =
    "has a thread that returned without having waited for the launch before, which the kernel may overlap: call "
    "cudaGridDependencySynchronize in each thread";

// A context is a stack, and what must be known to go on there.
#if defined(__x86_64__)
struct Context {
  void* stack_pointer = nullptr;
};

extern "C" void laconic_emulation_switch(void** save, void* to);
// The registers that a function must leave as they were, on the stack of who goes; then the stack of who comes.
asm(R"(
.text
.type laconic_emulation_switch, @function
laconic_emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size laconic_emulation_switch, .-laconic_emulation_switch
)");

void switch_context(Context& from, Context& to) { laconic_emulation_switch(&from.stack_pointer, to.stack_pointer); }

void prepare(Context& context, char* stack, void (*main)()) {
  auto* top = reinterpret_cast<void**>(stack + kStackBytes);
  *--top = nullptr;  // as if main had been called: the stack is 8 off a multiple of 16 when it begins
  *--top = reinterpret_cast<void*>(main);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  context.stack_pointer = top;
}
#else
struct Context {
  ucontext_t state;
};

void switch_context(Context& from, Context& to) { swapcontext(&from.state, &to.state); }

void prepare(Context& context, char* stack, void (*main)()) {
  getcontext(&context.state);
  context.state.uc_stack.ss_sp = stack;
  context.state.uc_stack.ss_size = kStackBytes;
  context.state.uc_link = nullptr;
  makecontext(&context.state, main, 0);
}
#endif

struct Fiber {
  Context context{};
  char* stack = nullptr;
  unsigned thread = 0;
};

enum class State : std::uint8_t { absent, running, at_block, at_warp, returned };

struct Thread {
  State state = State::absent;
  Together together = Together::nothing;
  WarpCall call = WarpCall::sync;
  unsigned mask = 0;
  int lane = 0;   ///< whom a shuffle asks
  int width = 0;
  std::uint64_t value = 0;
  std::uint64_t result = 0;
  bool has_waited = false;  ///< for the launch before
  Location at;
  Fiber* fiber = nullptr;
};

const char* name_of(WarpCall call) {
  constexpr std::array<const char*, 15> kNames{
      "__syncwarp",        "__shfl_sync",       "__shfl_up_sync",    "__shfl_down_sync",  "__shfl_xor_sync",
      "__ballot_sync",     "__match_any_sync",  "__reduce_add_sync", "__reduce_min_sync", "__reduce_max_sync",
      "__reduce_min_sync", "__reduce_max_sync", "__reduce_and_sync", "__reduce_or_sync",  "__reduce_xor_sync"};
  return kNames[static_cast<std::size_t>(call)];
}

bool same_place(const Location& a, const Location& b) {
  return a.line() == b.line() && a.column() == b.column() && std::strcmp(a.file_name(), b.file_name()) == 0;
}

std::uint64_t garbage() {
  std::uint64_t word;
  std::memset(&word, kPoison, sizeof(word));
  return word;
}

/// The warp's threads, all of whom wait in the same call with the same mask; sets their results.
class Meeting {
 public:
  Meeting(Thread* warp, unsigned mask) : warp_(warp), mask_(mask) {}

  void settle(WarpCall call) {
    if (call >= WarpCall::shuffle && call <= WarpCall::shuffle_xor) {
      for_each([&](unsigned lane) { warp_[lane].result = shuffled(call, static_cast<int>(lane)); });
    } else if (call == WarpCall::match_any) {
      for_each([&](unsigned lane) {
        std::uint64_t equal = 0;
        for_each([&](unsigned other) { equal |= std::uint64_t{warp_[other].value == warp_[lane].value} << other; });
        warp_[lane].result = equal;
      });
    } else {
      const std::uint64_t result = call == WarpCall::ballot ? ballot() : reduced(call);
      for_each([&](unsigned lane) { warp_[lane].result = result; });
    }
  }

 private:
  template <class Body>
  void for_each(Body body) const {
    for (unsigned lane = 0; lane < kWarp; ++lane) {
      if ((mask_ >> lane & 1U) != 0) body(lane);
    }
  }

  /// As PTX defines shfl.sync: who asks beyond the group gets its own, who asks a lane that is not there gets garbage.
  std::uint64_t shuffled(WarpCall call, int lane) const {
    const Thread& asking = warp_[lane];
    const int first = lane & ~(asking.width - 1);
    const int last = first + asking.width - 1;
    int from = lane;
    if (call == WarpCall::shuffle) from = first | (asking.lane & (asking.width - 1));
    if (call == WarpCall::shuffle_up) from = lane - asking.lane >= first ? lane - asking.lane : lane;
    if (call == WarpCall::shuffle_down) from = lane + asking.lane <= last ? lane + asking.lane : lane;
    if (call == WarpCall::shuffle_xor) from = (lane ^ asking.lane) <= last ? lane ^ asking.lane : lane;
    return from >= 0 && from < 32 && (mask_ >> from & 1U) != 0 ? warp_[from].value : garbage();
  }

  std::uint64_t ballot() const {
    std::uint64_t bits = 0;
    for_each([&](unsigned lane) { bits |= warp_[lane].value << lane; });
    return bits;
  }

  std::uint32_t reduced(WarpCall call) const {
    bool first = true;
    std::uint32_t so_far = 0;
    for_each([&](unsigned lane) {
      const auto value = static_cast<std::uint32_t>(warp_[lane].value);
      so_far = first ? value : both(call, so_far, value);
      first = false;
    });
    return so_far;
  }

  static std::uint32_t both(WarpCall call, std::uint32_t a, std::uint32_t b) {
    switch (call) {
      case WarpCall::add: return a + b;
      case WarpCall::min_unsigned: return b < a ? b : a;
      case WarpCall::max_unsigned: return a < b ? b : a;
      case WarpCall::min_signed: return static_cast<std::int32_t>(b) < static_cast<std::int32_t>(a) ? b : a;
      case WarpCall::max_signed: return static_cast<std::int32_t>(a) < static_cast<std::int32_t>(b) ? b : a;
      case WarpCall::bits_and: return a & b;
      case WarpCall::bits_or: return a | b;
      case WarpCall::bits_xor: return a ^ b;
      default: return 0;
    }
  }

  Thread* warp_;
  unsigned mask_;
};

/// The block that the launching thread runs at present.
class Block {
 public:
  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() {
    for (unsigned i = 0; i < made_; ++i) munmap(fibers_[i].stack - kGuardBytes, kStackBytes + kGuardBytes);
  }

  /// The block of the launch that runs; a block that is not in a launch can do nothing.
  static Block& current() {
    static thread_local const std::unique_ptr<Block> block = std::make_unique<Block>();
    return *block;
  }

  /// If it overlaps the launch before, each of its threads must wait for that one.
  void begin_launch(const char* kernel, const Location& at, std::size_t shared, bool overlaps) {
    if (kernel_ != nullptr) fail("is launched from a kernel");
    kernel_ = kernel;
    launched_at_ = at;
    shared_bytes_ = shared;
    overlaps_ = overlaps;
  }
  void end_launch() { kernel_ = nullptr; }

  void run(unsigned threads, void (*body)(const void*), const void* data) {
    body_ = body;
    data_ = data;
    count_ = threads;
    next_ = 0;
    returned_ = 0;
    at_block_ = 0;
    ++serial_;
    std::memset(shared_, kPoison, shared_bytes_);
    for (unsigned i = 0; i < (threads + kWarp - 1) / kWarp * kWarp; ++i) threads_[i].state = State::absent;
    go_to(scheduler_, free_fiber());
  }

  int meet_block(Together what, int value, const Location& at) {
    Thread& mine = thread();
    mine.state = State::at_block;
    mine.together = what;
    mine.value = static_cast<std::uint64_t>(value != 0);
    mine.at = at;
    if (++at_block_ < count_) {
      wait();
      return static_cast<int>(mine.result);
    }
    std::uint64_t count = 0;
    for (unsigned i = 0; i < count_; ++i) {
      if (threads_[i].together != what || !same_place(threads_[i].at, at)) fail("has threads in different barriers");
      count += threads_[i].value;
    }
    const std::uint64_t result = what == Together::count ? count : what == Together::all ? count == count_ : count > 0;
    at_block_ = 0;
    for (unsigned i = 0; i < count_; ++i) let_go(threads_[i], &threads_[i] == &mine, result);
    return static_cast<int>(result);
  }

  std::uint64_t meet_warp(WarpCall call, unsigned mask, std::uint64_t value, int lane, int width, const Location& at) {
    Thread& mine = thread();
    Thread* const warp = &threads_[current_->thread / kWarp * kWarp];
    mine.state = State::at_warp;
    mine.call = call;
    mine.mask = mask;
    mine.value = value;
    mine.lane = lane;
    mine.width = width;
    mine.at = at;
    if ((mask >> current_->thread % kWarp & 1U) == 0) fail("has a thread that is not in its own mask");
    for (unsigned other = 0; other < kWarp; ++other) {
      if ((mask >> other & 1U) == 0) continue;
      const Thread& its = warp[other];
      if (its.state == State::at_warp && its.call == call && its.mask == mask) continue;
      wait();
      return mine.result;
    }
    Meeting(warp, mask).settle(call);
    for (unsigned other = 0; other < kWarp; ++other) {
      if ((mask >> other & 1U) != 0) let_go(warp[other], &warp[other] == &mine, warp[other].result);
    }
    return mine.result;
  }

  void wait_for_last_launch() { thread().has_waited = true; }

  void yield() {
    if (ready_count_ == 0 && next_ == count_) return;
    Fiber& next = next_ < count_ ? free_fiber() : take_ready();
    push_ready(*current_);
    suspend(next);
  }

  unsigned lane() const { return current_->thread % kWarp; }
  void* shared() { return shared_; }
  std::uint64_t serial() const { return serial_; }

  [[noreturn]] void fail(const char* what) {
    std::fflush(stdout);
    std::fprintf(stderr, "CUDA emulation: kernel %s, launched at %s:%u, block (%u, %u, %u), %s\n", kernel_,
                 launched_at_.file_name(), static_cast<unsigned>(launched_at_.line()), blockIdx.x, blockIdx.y,
                 blockIdx.z, what);
    // Threads in a row that do the same are one line.
    for (unsigned begin = 0; begin < count_;) {
      unsigned end = begin + 1;
      while (end < count_ && alike(threads_[begin], threads_[end])) ++end;
      tell(begin, end);
      begin = end;
    }
    std::abort();
  }

 private:
  Thread& thread() {
    if (kernel_ == nullptr) {
      std::fprintf(stderr, "CUDA emulation: a barrier or a call of a warp outside of a kernel\n");
      std::abort();
    }
    return threads_[current_->thread];
  }

  static bool alike(const Thread& a, const Thread& b) {
    if (a.state != b.state) return false;
    if (a.state == State::at_block) return a.together == b.together && same_place(a.at, b.at);
    return a.state != State::at_warp || (a.call == b.call && a.mask == b.mask && same_place(a.at, b.at));
  }

  void tell(unsigned begin, unsigned end) const {
    const Thread& first = threads_[begin];
    std::fprintf(stderr, "  threads %u to %u ", begin, end - 1);
    if (first.state == State::absent) std::fprintf(stderr, "have not begun\n");
    if (first.state == State::running) std::fprintf(stderr, "run\n");
    if (first.state == State::returned) std::fprintf(stderr, "have returned\n");
    if (first.state == State::at_block) std::fprintf(stderr, "wait in __syncthreads at ");
    if (first.state == State::at_warp)
      std::fprintf(stderr, "wait in %s with mask %08X at ", name_of(first.call), first.mask);
    if (first.state == State::at_block || first.state == State::at_warp)
      std::fprintf(stderr, "%s:%u, in %s\n", first.at.file_name(), static_cast<unsigned>(first.at.line()),
                   first.at.function_name());
  }

  void let_go(Thread& thread, bool runs, std::uint64_t result) {
    thread.state = State::running;
    thread.result = result;
    if (!runs) push_ready(*thread.fiber);
  }

  void push_ready(Fiber& fiber) { ready_[(ready_first_ + ready_count_++) % kMostThreads] = &fiber; }
  Fiber& take_ready() {
    Fiber& fiber = *ready_[ready_first_];
    ready_first_ = (ready_first_ + 1) % kMostThreads;
    --ready_count_;
    return fiber;
  }

  /// The present thread waits until someone lets it go.
  void wait() {
    if (ready_count_ == 0 && next_ == count_) fail("has threads that wait for others for ever");
    suspend(ready_count_ > 0 ? take_ready() : free_fiber());
  }

  void suspend(Fiber& next) {
    Fiber& mine = *current_;
    const uint3 index = threadIdx;
    go_to(mine.context, next);
    current_ = &mine;
    threadIdx = index;
  }

  void go_to(Context& from, Fiber& to) {
    current_ = &to;
    switch_context(from, to.context);
  }

  Fiber& free_fiber() {
    if (free_count_ > 0) return *free_[--free_count_];
    Fiber& fiber = fibers_[made_++];
    void* const memory = mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, kGuardBytes, PROT_NONE) != 0) {
      std::perror("CUDA emulation: a stack for a thread of a block");
      std::abort();
    }
    fiber.stack = static_cast<char*>(memory) + kGuardBytes;
    prepare(fiber.context, fiber.stack, [] { current().run_threads(); });
    return fiber;
  }

  /// What every fiber does: threads that have not begun, until another fiber may go on; then it waits to be used again.
  [[noreturn]] void run_threads() {
    for (;;) {
      Fiber& mine = *current_;
      while (next_ < count_ && ready_count_ == 0) run_thread(mine, in_turn(next_++));
      if (ready_count_ == 0 && next_ == count_ && returned_ < count_) fail("has threads that wait for others for ever");
      free_[free_count_++] = &mine;
      if (ready_count_ > 0) {
        go_to(mine.context, take_ready());
      } else {
        switch_context(mine.context, scheduler_);
      }
    }
  }

  /// Every other block begins with its last thread: who reads what another wrote needs a barrier in between.
  unsigned in_turn(unsigned number) const { return serial_ % 2 == 0 ? count_ - 1 - number : number; }

  void run_thread(Fiber& fiber, unsigned number) {
    fiber.thread = number;
    threads_[number].state = State::running;
    threads_[number].has_waited = false;
    threads_[number].fiber = &fiber;
    threadIdx = {number % blockDim.x, number / blockDim.x % blockDim.y, number / blockDim.x / blockDim.y};
    body_(data_);
    threads_[number].state = State::returned;
    if (overlaps_ && !threads_[number].has_waited) fail(kDidNotWait);
    ++returned_;
  }

  const char* kernel_ = nullptr;
  Location launched_at_;
  std::size_t shared_bytes_ = 0;
  bool overlaps_ = false;
  void (*body_)(const void*) = nullptr;
  const void* data_ = nullptr;
  unsigned count_ = 0;     ///< threads of the block
  unsigned next_ = 0;      ///< how many of them have begun
  unsigned returned_ = 0;  ///< how many have
  unsigned at_block_ = 0;  ///< how many wait for the whole block
  std::uint64_t serial_ = 0;

  Context scheduler_;
  Fiber* current_ = nullptr;
  std::array<Fiber, kMostThreads> fibers_;
  unsigned made_ = 0;
  std::array<Fiber*, kMostThreads> free_;
  unsigned free_count_ = 0;
  std::array<Fiber*, kMostThreads> ready_;
  unsigned ready_first_ = 0;
  unsigned ready_count_ = 0;
  std::array<Thread, kMostThreads> threads_;
  alignas(256) std::byte shared_[kMostShared];
};

}  // namespace

bool Launch::possible() const {
  constexpr unsigned kMostRows = 65'535;
  const std::uint64_t threads = std::uint64_t{block_.x} * block_.y * block_.z;
  const bool grid = grid_.x > 0 && grid_.x <= std::numeric_limits<int>::max() && grid_.y > 0 && grid_.y <= kMostRows &&
                    grid_.z > 0 && grid_.z <= kMostRows;
  if (grid && threads > 0 && threads <= kMostThreads && block_.z <= 64 && shared_ <= dynamic_shared_limit())
    return true;
  noted(shared_ > dynamic_shared_limit() ? cudaErrorInvalidValue : cudaErrorInvalidConfiguration);
  return false;
}

Calls& calls_of_thread() {
  static thread_local Calls calls;
  return calls;
}

void Launch::count() { ++calls_of_thread().launches; }

void Launch::run(void (*body)(const void*), const void* data) const {
  const OpenMemory open;
  Block& block = Block::current();
  block.begin_launch(kernel_, at_, shared_, overlaps_);
  blockDim = block_;
  gridDim = grid_;
  for (unsigned z = 0; z < grid_.z; ++z) {
    for (unsigned y = 0; y < grid_.y; ++y) {
      for (unsigned x = 0; x < grid_.x; ++x) {
        blockIdx = {x, y, z};
        block.run(block_.x * block_.y * block_.z, body, data);
      }
    }
  }
  block.end_launch();
}

int with_block(Together what, int value, Location at) { return Block::current().meet_block(what, value, at); }

std::uint64_t with_warp(WarpCall call, unsigned mask, std::uint64_t value, int lane, int width, Location at) {
  return Block::current().meet_warp(call, mask, value, lane, width, at);
}

void wait_for_last_launch() { Block::current().wait_for_last_launch(); }

void yield_thread() { Block::current().yield(); }

unsigned lane_of_thread() { return Block::current().lane(); }

void* dynamic_shared() { return Block::current().shared(); }

void spoil_shared(void* memory, std::size_t bytes, std::uint64_t& filled) {
  const std::uint64_t serial = Block::current().serial();
  if (filled == serial) return;
  std::memset(memory, kPoison, bytes);
  filled = serial;
}

}  // namespace laconic::emulation
