#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "support/support.h"

// Counts every allocation of the test program that links this file. Sanitizers replace operator new themselves, and
// their own replacement must stay: there the count stays zero and the tests that compare it hold trivially.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LACONIC_COUNT_ALLOCATIONS 1
#endif

namespace {
std::atomic<std::uint64_t> allocations{0};
std::atomic<std::uint64_t> live_bytes{0};
}

namespace laconic::test {
std::uint64_t allocation_count() { return allocations.load(); }
std::uint64_t allocated_bytes() { return live_bytes.load(); }
}  // namespace laconic::test

#if LACONIC_COUNT_ALLOCATIONS
namespace {

void* counted(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  void* memory =
      std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment + (bytes == 0 ? alignment : 0));
  if (memory == nullptr) throw std::bad_alloc();
  live_bytes += malloc_usable_size(memory);
  return memory;
}

void release(void* memory) noexcept {
  live_bytes -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new[](std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
#endif
