#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <string_view>

namespace laconic {

/// Uninitialised memory, aligned to 64 bytes. Where the system has huge pages on request, pieces of 4 MiB and more ask
/// for them: a step streams through all of its memory, and with small pages waits for addresses a fifth of its time.
/// Throws Error that says how much was asked for and what for, if there is not as much.
void* allocate_memory(std::size_t bytes, std::string_view purpose);
void free_memory(void* memory, std::size_t bytes) noexcept;

/// What an error says, in words also where it is a std::bad_alloc, which names only itself.
std::string error_text(const std::exception& error);

}  // namespace laconic
