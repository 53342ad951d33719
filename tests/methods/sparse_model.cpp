#include "methods/sparse_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace laconic::test {
namespace {

/// Indices of the k largest scores, equals by lowest index.
std::vector<std::size_t> largest(const std::vector<double>& scores, std::size_t begin, std::size_t end, std::size_t k) {
  std::vector<std::size_t> order(end - begin);
  std::iota(order.begin(), order.end(), begin);
  const auto before = [&](std::size_t a, std::size_t b) {
    return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
  };
  if (k < order.size())
    std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k), order.end(), before);
  order.resize(k);
  return order;
}

}  // namespace

SparseModel::Numbers SparseModel::send(const Numbers& gradient, double weight) {
  const std::size_t n = gradient.size();
  if (residual.empty()) residual.assign(n, 0.0), last_mask.assign(n, false), last_a.assign(n, 0.0);
  Numbers a(n);
  Numbers score(n);
  for (std::size_t i = 0; i < n; ++i) {
    a[i] = gradient[i] + residual[i];
    double regularizer = 1.0;
    if (mu > 0.0 && last_mask[i]) {
      const double divisor = weight * (current ? a[i] : last_a[i]);
      if (divisor != 0.0) {
        const double distortion = (last_aggregate[i] - weight * last_a[i]) / divisor;
        regularizer = std::tanh(std::abs(1.0 + distortion) / mu);
      }
    }
    score[i] = std::abs(a[i]) * regularizer;
  }
  Numbers sent(n, 0.0);
  last_mask.assign(n, false);
  const auto select = [&](std::size_t begin, std::size_t end) {
    const auto k = std::max<std::size_t>(1, static_cast<std::size_t>(keep * static_cast<double>(end - begin)));
    Numbers selected;
    const auto support = largest(score, begin, end, k);
    for (const std::size_t i : support) selected.push_back(a[i]);
    for (const std::size_t i : support) sent[i] = sent_as(a[i], selected), last_mask[i] = true;
  };
  if (each > 0) {
    for (std::size_t begin = 0; begin < n; begin += each) select(begin, std::min(begin + each, n));
  } else if (by_tensor) {
    std::size_t offset = 0;
    for (const Tensor& tensor : small_model()) select(offset, offset + tensor.size), offset += tensor.size;
  } else {
    select(0, n);
  }
  for (std::size_t i = 0; i < n; ++i) residual[i] = a[i] - sent[i];
  last_a = a;
  for (std::size_t i = 0; i < n; ++i) last_a[i] = last_mask[i] ? sent[i] : a[i];
  return sent;
}

/// What a receiver sees of one of the values selected in a scope.
double SparseModel::sent_as(double value, const Numbers& selected) const {
  if (magnitudes == 0) return value;
  const auto mean_where = [&](auto&& counts) {
    double sum = 0.0;
    double count = 0.0;
    for (const double each_value : selected) {
      if (!counts(std::abs(each_value))) continue;
      sum += std::abs(each_value);
      count += 1.0;
    }
    return sum / count;
  };
  const double mean = mean_where([](double) { return true; });
  double magnitude = mean;
  if (magnitudes == 2) {
    const bool above = std::abs(value) > mean;
    magnitude = mean_where([&](double other) { return (other > mean) == above; });
  }
  return value < 0.0 ? -magnitude : magnitude;
}

std::vector<double> sparse_mean(std::vector<SparseModel>& workers, const std::vector<std::vector<double>>& gradients) {
  const auto count = static_cast<double>(workers.size());
  std::vector<double> mean(gradients.front().size(), 0.0);
  for (std::size_t rank = 0; rank < workers.size(); ++rank) {
    const auto sent = workers[rank].send(gradients[rank], 1.0 / count);
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += sent[i];
  }
  for (double& value : mean) value /= count;
  for (SparseModel& worker : workers) worker.last_aggregate = mean;
  return mean;
}

std::vector<double> sparse_mean(std::vector<SparseModel>& workers, const std::vector<std::vector<float>>& gradients) {
  std::vector<std::vector<double>> wide;
  for (const auto& gradient : gradients) wide.emplace_back(gradient.begin(), gradient.end());
  return sparse_mean(workers, wide);
}

}  // namespace laconic::test
