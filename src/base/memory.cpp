#include "base/memory.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <new>

namespace laconic {
namespace {

constexpr std::size_t kHugePage = std::size_t{1} << 21;
constexpr std::size_t kLine = 64;

std::align_val_t alignment_of(std::size_t bytes) {
  return std::align_val_t{bytes >= 2 * kHugePage ? kHugePage : kLine};
}

}  // namespace

void* allocate_memory(std::size_t bytes) {
  void* memory = ::operator new(bytes, alignment_of(bytes));
#if defined(MADV_HUGEPAGE)
  // Whole pages only: what follows the last belongs to somebody else. A refusal changes nothing but speed.
  if (bytes >= 2 * kHugePage) madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  return memory;
}

void free_memory(void* memory, std::size_t bytes) noexcept { ::operator delete(memory, alignment_of(bytes)); }

}  // namespace laconic
