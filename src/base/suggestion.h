#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/error.h"

namespace laconic {

/// The name that was probably meant, or empty where none is near: at most a third of the letters wrong (one in a word
/// of up to five; two that changed places are one), upper and lower case, '-' and '_' alike; or, for three letters and
/// more, a name that contains it.
std::string nearest_name(std::string_view name, std::span<const std::string> names);

/// "; did you mean topk?", or, where none is near, what there is: "; there are adam, def, ...".
std::string did_you_mean(std::string_view name, std::span<const std::string> names);

/// The row of a table that has this name; InvalidConfig "there is no <kind> <name>", with what was probably meant and
/// then `hint`, where there is none.
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
