#include "support/rehearsal.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "base/device_queue.h"

namespace laconic::test {
namespace {

/// Addresses that one place has, of which only what is used takes memory.
constexpr std::size_t kArena = std::size_t{1} << 30;
constexpr std::size_t kPage = 4096;

/// The arenas of all rehearsed places, where a signal's handler can look.
std::array<std::atomic<std::byte*>, 64> arenas{};
std::array<char, 160> rehearsed{};

void on_forbidden_access(int signal, siginfo_t* info, void* /*context*/) {
  const auto* address = static_cast<const std::byte*>(info->si_addr);
  for (const auto& arena : arenas) {
    const std::byte* begin = arena.load();
    if (begin == nullptr || address < begin || address >= begin + kArena) continue;
    constexpr char kMessage[] = "\nmemory of a rehearsed place was touched outside a front door, by: ";
    const bool written = write(STDERR_FILENO, kMessage, sizeof kMessage - 1) > 0 &&
                         write(STDERR_FILENO, rehearsed.data(), std::strlen(rehearsed.data())) > 0 &&
                         write(STDERR_FILENO, "\n", 1) > 0;
    if (!written) break;
  }
  std::signal(signal, SIG_DFL);  // the access is tried again on return and ends the program
}

void install_handler() {
  struct sigaction action {};
  action.sa_sigaction = on_forbidden_access;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

/// Memory that is closed unless somebody has opened it. Released memory is not handed out again. A place serves one
/// caller at a time, whose thread opens and closes; the pool's threads work in between.
class RehearsedMemory final : public DeviceQueue {
 public:
  RehearsedMemory() {
    static std::once_flag installed;
    std::call_once(installed, install_handler);
    void* arena = mmap(nullptr, kArena, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED) throw std::bad_alloc();
    arena_ = static_cast<std::byte*>(arena);
    for (auto& each : arenas) {
      std::byte* empty = nullptr;
      if (each.compare_exchange_strong(empty, arena_)) break;
    }
  }
  ~RehearsedMemory() override {
    for (auto& each : arenas) {
      std::byte* own = arena_;
      each.compare_exchange_strong(own, nullptr);
    }
    munmap(arena_, kArena);
  }
  RehearsedMemory(const RehearsedMemory&) = delete;
  RehearsedMemory& operator=(const RehearsedMemory&) = delete;

  void* allocate(std::size_t bytes) override {
    const std::size_t pages = (bytes + kPage - 1) / kPage * kPage;
    if (pages > kArena - used_) throw std::bad_alloc();
    std::byte* memory = arena_ + used_;
    used_ += pages;
    if (opened_ > 0) protect(PROT_READ | PROT_WRITE);
    return memory;
  }
  void release(void* /*memory*/) noexcept override {}

  void read(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void write(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  std::shared_ptr<std::byte> share_memory(std::size_t bytes) override { return share_pinned_memory(bytes); }
  std::shared_ptr<std::byte> share_pinned_memory(std::size_t bytes) override {
    return {new std::byte[bytes], std::default_delete<std::byte[]>()};
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    open_memory();
    std::memcpy(to, from, bytes);
    close_memory();
  }
  void clear(void* memory, std::size_t bytes) override {
    open_memory();
    std::memset(memory, 0, bytes);
    close_memory();
  }
  void wait() override {}

  void open_memory() override {
    if (opened_++ == 0) protect(PROT_READ | PROT_WRITE);
  }
  void close_memory() noexcept override {
    if (--opened_ == 0) protect(PROT_NONE);
  }

 private:
  void protect(int rights) const noexcept {
    if (used_ > 0 && mprotect(arena_, used_, rights) != 0) std::abort();
  }

  std::byte* arena_ = nullptr;
  std::size_t used_ = 0;
  int opened_ = 0;
};

}  // namespace

std::unique_ptr<Place> rehearsed_place(CpuOptions options) {
  return std::make_unique<Place>(options, std::make_unique<RehearsedMemory>());
}

void rehearse_as(const std::string& what) { std::snprintf(rehearsed.data(), rehearsed.size(), "%s", what.c_str()); }

}  // namespace laconic::test
