#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/error.h"

namespace laconic {

/// The name that was probably meant, or an empty text if none is close. A name is close if at most a third of the
/// letters are wrong (one in a word of up to five letters; two swapped letters count as one), where case is ignored and
/// '-' equals '_', or if `name` has three or more letters and the other name contains it.
std::string nearest_name(std::string_view name, std::span<const std::string> names);

/// "; did you mean topk?", or, if no name is close, the list of all names: "; there are adam, def, ...".
std::string did_you_mean(std::string_view name, std::span<const std::string> names);

/// The row of a table with this name. Otherwise throws InvalidConfig "there is no <kind> <name>", followed by the name
/// that was probably meant and by `hint`.
template <class Row>
const Row& row_named(std::span<const Row> table, std::string_view name, std::string_view kind,
                     std::string_view hint = "") {
  std::vector<std::string> names;
  for (const Row& row : table) {
    if (row.name == name) return row;
    names.emplace_back(row.name);
  }
  throw InvalidConfig("there is no " + std::string(kind) + " " + std::string(name) + did_you_mean(name, names) +
                      std::string(hint));
}

}  // namespace laconic
