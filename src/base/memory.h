#pragma once

#include <cstddef>

namespace laconic {

/// Uninitialised memory, aligned to 64 bytes. Where the system has huge pages on request, pieces of 4 MiB and more ask
/// for them: a step streams through all of its memory, and with small pages waits for addresses a fifth of its time.
void* allocate_memory(std::size_t bytes);
void free_memory(void* memory, std::size_t bytes) noexcept;

}  // namespace laconic
