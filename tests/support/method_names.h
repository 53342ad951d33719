#pragma once

#include <string>
#include <vector>

#include "methods/table.h"

namespace laconic::test {

/// Every row of the table of methods, for tests that loop over it.
inline std::vector<std::string> method_names() {
  std::vector<std::string> names;
  for (const MethodRow& row : method_table()) names.emplace_back(row.name);
  return names;
}

}  // namespace laconic::test
