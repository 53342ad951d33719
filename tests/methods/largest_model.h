#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "methods/def_model.h"

namespace laconic::test {

/// The largest entries of the small model in float64, coded, for trajectories. Which entries were selected and, of
/// magnitudes near their mean, which counted as above it, is read from what arrived in fact: float32 may decide near-ties
/// otherwise. They must be the largest but for rounding.
struct LargestModel {
  double keep = 1.0;
  std::string values = "f32";
  std::string scope = "model";
  std::size_t chunk = 4096;
  /// Rounding of float32 in the values.
  double close = 4e-5;

  LargestModel() = default;
  /// As a method of the table has them with these options.
  LargestModel(const MethodRow& row, const MethodOptions& options);

  /// c of p. `arrived` is c as float32 had it, but for rounding.
  Vector sent(const Vector& p, const Vector& arrived) const;
  /// A mean as it comes back: rounded, if values have 16 bits. `arrived` is what float32 had.
  Vector returned(const Vector& mean, const Vector& arrived) const;

  // With return = coded, what an owner left of the sums is in its residual too. In its own range `borders[k]` to
  // `borders[k + 1]` the residual is therefore the same whether or not it selected an entry.

  /// Fills `arrived` of owner k in its range: the largest entries there, as many as are missing outside it.
  void fill_own_range(const Vector& p, const std::vector<std::uint32_t>& borders, std::size_t k, Vector& arrived) const;
  /// The mean as it comes back: of each owner's sums its share of the largest, coded. `sent` are the workers' c.
  Vector coded_return(const std::vector<Vector>& sent, const std::vector<std::uint32_t>& borders,
                      const Vector& arrived) const;

 private:
  std::vector<std::pair<std::size_t, std::size_t>> scopes() const;
  static std::size_t count_of(double keep, std::size_t size);
  double rounding() const { return values == "f16" ? 1.0 / 2048 : values == "bf16" ? 1.0 / 256 : 0.0; }
  Vector coded(const Vector& p, const std::vector<std::size_t>& selected, const Vector& arrived) const;
};

}  // namespace laconic::test
