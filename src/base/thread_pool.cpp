#include "base/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "base/no_thread.h"

namespace laconic {
namespace {

/// How long an idle thread looks for the next loop before it sleeps: kernels follow each other closely within a step.
constexpr auto kSpin = std::chrono::microseconds(50);

/// Below this many entries waking a thread costs more than it saves.
constexpr std::size_t kShortLoop = 32'768;

}  // namespace

ThreadPool::ThreadPool(int threads) {
  workers_.reserve(static_cast<std::size_t>(std::max(threads, 1) - 1));
  try {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
  } catch (const std::exception& reason) {
    const int started = this->threads();
    stop();
    throw no_thread(std::to_string(threads) + " threads were asked for and " + std::to_string(started) +
                        " could be had, the caller's among them",
                    "threads (--threads, threads= in Python, CpuOptions::threads)", reason);
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    ++generation_;
    published_.store(generation_, std::memory_order_release);
  }
  wake_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::run(std::size_t parts, FunctionRef<void(std::size_t)> body) {
  if (parts == 0) return;
  if (workers_.empty() || parts == 1) {
    for (std::size_t part = 0; part < parts; ++part) body(part);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    body_ = &body;
    parts_ = parts;
    next_.store(0, std::memory_order_relaxed);
    error_ = nullptr;
    busy_ = workers_.size();
    ++generation_;
    published_.store(generation_, std::memory_order_release);
  }
  wake_.notify_all();
  take_parts();
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0; });
  if (error_) std::rethrow_exception(error_);
}

void ThreadPool::take_parts() {
  for (;;) {
    const std::size_t part = next_.fetch_add(1, std::memory_order_relaxed);
    if (part >= parts_) return;
    try {
      (*body_)(part);
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }
}

void ThreadPool::work() {
  std::uint64_t seen = 0;
  for (;;) {
    const auto until = std::chrono::steady_clock::now() + kSpin;
    while (published_.load(std::memory_order_acquire) == seen && std::chrono::steady_clock::now() < until) {
    }
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return generation_ != seen; });
      seen = generation_;
      if (stopping_) return;
    }
    take_parts();
    std::lock_guard lock(mutex_);
    if (--busy_ == 0) done_.notify_one();
  }
}

Range part_of(std::size_t size, std::size_t part, std::size_t parts, std::size_t alignment) {
  const std::size_t units = (size + alignment - 1) / alignment;
  const auto border = [&](std::size_t i) {
    const std::size_t unit = units / parts * i + std::min(i, units % parts);
    return std::min(unit * alignment, size);
  };
  return {border(part), border(part + 1)};
}

void parallel_ranges(ThreadPool& pool, std::size_t size, std::size_t alignment, FunctionRef<void(Range)> body) {
  if (size == 0) return;
  const std::size_t parts = size < kShortLoop ? 1 : static_cast<std::size_t>(pool.threads());
  pool.run(parts, [&](std::size_t part) {
    const Range range = part_of(size, part, parts, alignment);
    if (!range.empty()) body(range);
  });
}

}  // namespace laconic
