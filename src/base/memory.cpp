#include "base/memory.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <array>
#include <cstdio>
#include <new>
#include <string>

#include "laconic/error.h"

namespace laconic {
namespace {

constexpr std::size_t kHugePage = std::size_t{1} << 21;
constexpr std::size_t kLine = 64;

std::align_val_t alignment_of(std::size_t bytes) {
  return std::align_val_t{bytes >= 2 * kHugePage ? kHugePage : kLine};
}

constexpr const char* kRemedy =
    ": run fewer ranks on this machine, a smaller model or a method that keeps less (laconic methods lists it under "
    "MEMORY), or raise the limit (ulimit -v, the memory limit of a container)";

[[noreturn]] void throw_no_memory(std::size_t bytes, std::string_view purpose) {
  std::array<char, 32> size{};
  std::snprintf(size.data(), size.size(), "%.1f MB", static_cast<double>(bytes) / 1e6);
  throw Error("not enough memory, " + std::string(size.data()) + " for " + std::string(purpose) +
              " could not be allocated" + kRemedy);
}

}  // namespace

void* allocate_memory(std::size_t bytes, std::string_view purpose) {
  void* memory = ::operator new(bytes, alignment_of(bytes), std::nothrow);
  if (memory == nullptr) throw_no_memory(bytes, purpose);
#if defined(MADV_HUGEPAGE)
  // Whole pages only: what follows the last belongs to somebody else. A refusal changes nothing but speed.
  if (bytes >= 2 * kHugePage) madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  return memory;
}

std::string error_text(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return std::string("not enough memory") + kRemedy;
  return error.what();
}

void free_memory(void* memory, std::size_t bytes) noexcept { ::operator delete(memory, alignment_of(bytes)); }

}  // namespace laconic
