#include <algorithm>

#include "kernels/coded/tally.h"
#include "kernels/coded/twins.h"

namespace laconic::reference {

bool code_values(ValueFormat format, const ScopeCuts& cuts, SparseView entries, View<float> errors) {
  bool finite = true;
  const auto [indices, values] = entries;
  for (std::size_t begin = 0, end = 0; begin < indices.size(); begin = end) {
    const std::uint64_t scope = cuts.number_of(indices[begin]);
    while (end < indices.size() && cuts.number_of(indices[end]) == scope) ++end;
    coded::Tally tally{};
    for (std::size_t i = begin; i < end; ++i) tally.highest = std::max(tally.highest, coded::key_of(values[i]));
    tally.count = end - begin;
    finite = finite && tally.finite();
    if (tally.finite()) {
      for (std::size_t i = begin; i < end; ++i) tally.sum += tally.fixed(coded::key_of(values[i]));
      tally.set_mean();
      for (std::size_t i = begin; i < end; ++i) {
        if (!tally.is_above(values[i])) continue;
        ++tally.above;
        tally.above_sum += tally.fixed(coded::key_of(values[i]));
      }
      tally.set_two();
    }
    for (std::size_t i = begin; i < end; ++i) {
      const float value = values[i];
      values[i] = tally.coded(format, value);
      errors[i] = value - values[i];
    }
  }
  return finite;
}

}  // namespace laconic::reference
