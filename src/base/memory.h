#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <string_view>

namespace laconic {

/// Allocates uninitialised memory, aligned to 64 bytes. If the system offers huge pages on request, allocations of 4
/// MiB and more request them: a step streams through all of its memory, and with small pages it spends a fifth of its
/// time on address translation. Throws an Error that names the size and the purpose if there is not enough memory.
void* allocate_memory(std::size_t bytes, std::string_view purpose);
void free_memory(void* memory, std::size_t bytes) noexcept;

/// The message of an error. For std::bad_alloc, whose own message is only its name, it is a readable sentence.
std::string error_text(const std::exception& error);

}  // namespace laconic
