#pragma once

#include "methods/harness.h"

namespace laconic::test {

/// Nine steps in one go, and the same run saved before step `cut` and taken up by a new method: model and memory must
/// end with the same bits. Collective.
void check_resume(Communicator& communicator, const MethodRow& row, const MethodOptions& options, std::uint32_t cut);

/// A row's options with one choice of one of its words, for every choice that is not the default and that lockstep
/// runs of the small model can have.
struct WordChoice {
  const MethodRow* row;
  std::string description;
  MethodOptions options;
};
std::vector<WordChoice> every_word_choice();

}  // namespace laconic::test
