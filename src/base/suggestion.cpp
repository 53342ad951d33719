#include "base/suggestion.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <numeric>
#include <vector>

namespace laconic {
namespace {

/// Upper and lower case and the two dashes are no difference.
std::string plain(std::string_view name) {
  std::string result;
  for (const char c : name) {
    result += c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

/// Letters to insert, remove, replace or swap with their neighbour to come from one to the other. Three rows of the
/// table are enough: of the prefixes of `left`, this one, the one before, and the one before that.
std::uint64_t edit_distance(std::string_view left, std::string_view right) {
  std::vector<std::uint64_t> row(right.size() + 1);
  std::iota(row.begin(), row.end(), 0U);
  std::vector<std::uint64_t> before = row;
  std::vector<std::uint64_t> before_that = row;
  for (std::size_t i = 0; i < left.size(); ++i) {
    before_that.swap(before);
    before.swap(row);
    row[0] = i + 1;
    for (std::size_t j = 0; j < right.size(); ++j) {
      const std::uint64_t replaced = before[j] + (left[i] == right[j] ? 0 : 1);
      row[j + 1] = std::min({replaced, row[j] + 1, before[j + 1] + 1});
      const bool swapped = i > 0 && j > 0 && left[i] == right[j - 1] && left[i - 1] == right[j];
      if (swapped) row[j + 1] = std::min(row[j + 1], before_that[j - 1] + 1);
    }
  }
  return row.back();
}

/// Without the dashes that flags begin with, which would make any two flags alike.
std::string_view bare(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  return name;
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string> names) {
  const std::string wanted = plain(bare(name));
  std::uint64_t limit = std::max<std::uint64_t>(1, wanted.size() / 3);
  std::string nearest;
  for (const std::string& each : names) {
    const std::uint64_t distance = edit_distance(wanted, plain(bare(each)));
    if (distance > limit || (distance == limit && !nearest.empty())) continue;
    nearest = each;
    limit = distance;
  }
  if (!nearest.empty() || wanted.size() < 3) return nearest;
  const auto containing = std::find_if(names.begin(), names.end(), [&](const std::string& each) {
    return plain(each).find(wanted) != std::string::npos;
  });
  return containing == names.end() ? "" : *containing;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> names) {
  if (const std::string nearest = nearest_name(name, names); !nearest.empty()) return "; did you mean " + nearest + "?";
  std::string all;
  for (const std::string& each : names) all += (all.empty() ? "; there are " : ", ") + each;
  return all;
}

}  // namespace laconic
