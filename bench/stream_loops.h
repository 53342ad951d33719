#pragma once

#include <cstddef>
#include <cstdint>

/// The inner loops of the streams, on one thread, as the compiler vectorises them for the best instructions of the machine.
namespace laconic::bench::loops {

std::uint32_t read(const std::uint32_t* words, std::size_t count);
void add(const float* x, float* y, std::size_t count);
void update(float* y, std::size_t count);
void write(float* y, std::size_t count);
void narrow(const float* x, std::uint16_t* y, std::size_t count);
void widen(const std::uint16_t* x, float* y, std::size_t count);
void merge(const float* a, const float* b, float* out, std::size_t count);

}  // namespace laconic::bench::loops
