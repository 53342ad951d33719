#pragma once

#include <ostream>
#include <span>

namespace laconic::test {

class Worker;

/// One property of the exchanges, checked by every rank of a communicator; every rank compares with the same model, so
/// that passing also means that all ranks hold the same bits. Used over threads and over MPI, and in every kind of
/// memory.
struct ExchangeCheck {
  const char* name;
  void (*run)(Worker& worker);
};

inline void PrintTo(const ExchangeCheck& check, std::ostream* out) { *out << check.name; }

std::span<const ExchangeCheck> exchange_checks();

}  // namespace laconic::test
