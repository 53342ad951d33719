#pragma once

#include <span>

#include "laconic/communicator.h"

namespace laconic::test {

/// One property of the exchanges, checked by every rank of a communicator; every rank compares with the same model, so
/// that passing also means that all ranks hold the same bits. Used over threads and over MPI.
struct ExchangeCheck {
  const char* name;
  void (*run)(Communicator& communicator);
};

std::span<const ExchangeCheck> exchange_checks();

}  // namespace laconic::test
