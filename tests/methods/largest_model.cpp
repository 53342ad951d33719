#include "methods/largest_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace laconic::test {
namespace {

/// What arrives of an entry that was selected is larger.
constexpr double kNothing = 5e-4;

double number_in(const MethodRow& row, const MethodOptions& options, const char* name, double otherwise) {
  const Parameter* parameter = row.find_parameter(name);
  if (parameter == nullptr) return otherwise;
  return (options.*parameter->number).value_or(std::stod(parameter->fallback));
}

std::string word_in(const MethodRow& row, const MethodOptions& options, const char* name) {
  const Parameter* parameter = row.find_parameter(name);
  return parameter == nullptr ? "" : (options.*parameter->word).value_or(parameter->fallback);
}

}  // namespace

LargestModel::LargestModel(const MethodRow& row, const MethodOptions& options)
    : keep(number_in(row, options, "keep", 1.0)),
      values(word_in(row, options, "values")),
      scope(word_in(row, options, "scope")),
      chunk(static_cast<std::size_t>(number_in(row, options, "chunk", 4096.0))) {}

std::vector<std::pair<std::size_t, std::size_t>> LargestModel::scopes() const {
  const std::size_t n = size_of(small_model());
  if (scope == "model") return {{0, n}};
  std::vector<std::pair<std::size_t, std::size_t>> all;
  if (scope == "chunk") {
    for (std::size_t begin = 0; begin < n; begin += chunk) all.emplace_back(begin, std::min(begin + chunk, n));
    return all;
  }
  std::size_t begin = 0;
  for (const Tensor& tensor : small_model()) {
    all.emplace_back(begin, begin + tensor.size);
    begin += tensor.size;
  }
  return all;
}

/// The entries that are sent of a scope.
std::size_t LargestModel::count_of(double keep, std::size_t size) {
  return static_cast<std::size_t>(std::max(1.0, std::floor(keep * static_cast<double>(size))));
}

/// The values that arrive of the selected entries of one scope.
Vector LargestModel::coded(const Vector& p, const std::vector<std::size_t>& selected, const Vector& arrived) const {
  const auto mean_of = [&](const auto& counts) {
    double sum = 0.0;
    double count = 0.0;
    for (const std::size_t i : selected) {
      if (!counts(i)) continue;
      sum += std::abs(p[i]);
      count += 1.0;
    }
    return count > 0.0 ? sum / count : 0.0;
  };
  const double mean = mean_of([](std::size_t) { return true; });
  const auto is_above = [&](std::size_t i) {
    return std::abs(std::abs(p[i]) - mean) < close ? std::abs(arrived[i]) > mean : std::abs(p[i]) > mean;
  };
  const double above = mean_of([&](std::size_t i) { return is_above(i); });
  const double below = mean_of([&](std::size_t i) { return !is_above(i); });
  Vector sent;
  for (const std::size_t i : selected) {
    if (rounding() > 0.0) {
      EXPECT_NEAR(arrived[i], p[i], rounding() * std::abs(p[i]) + close);
      sent.push_back(arrived[i]);
      continue;
    }
    const double magnitude = values == "sign" ? mean : values == "two" ? (is_above(i) ? above : below) : std::abs(p[i]);
    // A value of about zero may have had either sign.
    const double sign = magnitude > 0.0 && std::abs(p[i]) < close ? arrived[i] : p[i];
    sent.push_back(std::copysign(magnitude, sign));
  }
  return sent;
}

Vector LargestModel::returned(const Vector& mean, const Vector& arrived) const {
  if (rounding() == 0.0) return mean;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    EXPECT_NEAR(arrived[i], mean[i], rounding() * std::abs(mean[i]) + close);
  }
  return arrived;
}

Vector LargestModel::sent(const Vector& p, const Vector& arrived) const {
  Vector all(p.size(), 0.0);
  for (const auto& [begin, end] : scopes()) {
    std::vector<std::size_t> selected;
    double least = std::numeric_limits<double>::infinity();
    double most = 0.0;
    for (std::size_t i = begin; i < end; ++i) {
      if (keep < 1.0 && std::abs(arrived[i]) < kNothing) {
        most = std::max(most, std::abs(p[i]));
      } else {
        selected.push_back(i);
        least = std::min(least, std::abs(p[i]));
      }
    }
    EXPECT_EQ(selected.size(), count_of(keep, end - begin));
    EXPECT_GE(least, most - 2 * close);
    const Vector sent_here = coded(p, selected, arrived);
    for (std::size_t i = 0; i < selected.size(); ++i) all[selected[i]] = sent_here[i];
  }
  return all;
}

void LargestModel::fill_own_range(const Vector& p, const std::vector<std::uint32_t>& borders, std::size_t k,
                                  Vector& arrived) const {
  const auto is_own = [&](std::size_t i) { return i >= borders[k] && i < borders[k + 1]; };
  for (const auto& [begin, end] : scopes()) {
    std::size_t missing = count_of(keep, end - begin);
    std::vector<std::size_t> own;
    for (std::size_t i = begin; i < end; ++i) {
      if (is_own(i)) {
        own.push_back(i);
      } else if (std::abs(arrived[i]) >= kNothing) {
        ASSERT_GT(missing, 0U);
        --missing;
      }
    }
    std::stable_sort(own.begin(), own.end(), [&](auto i, auto j) { return std::abs(p[i]) > std::abs(p[j]); });
    ASSERT_LE(missing, own.size());
    for (std::size_t i = 0; i < own.size(); ++i) arrived[own[i]] = i < missing ? p[own[i]] : 0.0;
  }
}

Vector LargestModel::coded_return(const std::vector<Vector>& sent, const std::vector<std::uint32_t>& borders,
                                  const Vector& arrived) const {
  const std::size_t ranks = sent.size();
  Vector mean(arrived.size(), 0.0);
  std::vector<bool> is_sent(arrived.size(), false);
  std::size_t all = 0;
  for (const auto& [begin, end] : scopes()) all += count_of(keep, end - begin);
  for (std::size_t i = 0; i < mean.size(); ++i) {
    for (const Vector& one : sent) {
      mean[i] += one[i] / static_cast<double>(ranks);
      if (one[i] != 0.0) is_sent[i] = true;
    }
  }
  Vector back(mean.size(), 0.0);
  for (std::size_t owner = 0; owner < ranks; ++owner) {
    std::size_t summed = 0;
    std::size_t kept = 0;
    double least = std::numeric_limits<double>::infinity();
    double most = 0.0;
    for (const auto& [begin, end] : scopes()) {
      std::vector<std::size_t> selected;
      const auto last = std::min<std::size_t>(end, borders[owner + 1]);
      for (std::size_t i = std::max<std::size_t>(begin, borders[owner]); i < last; ++i) {
        summed += is_sent[i] ? 1 : 0;
        if (std::abs(arrived[i]) < kNothing / 10) {
          most = std::max(most, std::abs(mean[i]));
        } else {
          EXPECT_TRUE(is_sent[i]) << "nobody sent entry " << i;
          selected.push_back(i);
          least = std::min(least, std::abs(mean[i]));
        }
      }
      kept += selected.size();
      const Vector coded_here = coded(mean, selected, arrived);
      for (std::size_t i = 0; i < selected.size(); ++i) back[selected[i]] = coded_here[i];
    }
    EXPECT_EQ(kept, std::min(summed, all / ranks + (owner < all % ranks ? 1 : 0))) << "owner " << owner;
    EXPECT_GE(least, most - 2 * close) << "owner " << owner;
  }
  return back;
}

}  // namespace laconic::test
