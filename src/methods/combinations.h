#pragma once

#include <string>
#include <utility>
#include <vector>

namespace laconic {

/// An option with some of its choices, as a user writes them: {"values", {"f32", "f16"}}.
using Choices = std::pair<std::string, std::vector<std::string>>;

/// An option that some methods have with the same choices.
struct OfferedOption {
  Choices option;
  std::vector<std::string> methods;
};

/// Choices that some methods refuse together: each choice of one option with each of the others.
struct RefusedCombination {
  std::vector<Choices> options;
  std::vector<std::string> methods;
  std::string reason;  ///< as the library states it, without what was given
};

/// What can be combined with what, found by making every method of the table with every combination of the choices of
/// its words, and with `keep` of 1 and below, on one rank; and each choice with every optimizer and as a DDP hook. What
/// is not listed as refused works. Sets of choices that are refused are listed only if no part of them is.
struct Combinations {
  std::vector<OfferedOption> offered;
  std::vector<RefusedCombination> refused;
  std::size_t tried = 0;
};

Combinations find_combinations();

}  // namespace laconic
