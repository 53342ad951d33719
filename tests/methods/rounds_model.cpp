#include "methods/rounds_model.h"

#include <cmath>

#include "support/support.h"

namespace laconic::test {
namespace {

/// Curvatures, targets and noise are float32 numbers, so that both precisions work on the same problem.
struct Quadratic {
  Quadratic(std::size_t n, int rank, std::uint32_t step)
      : targets(normal_values(n, 17 + static_cast<std::uint64_t>(rank))),
        noise(normal_values(n, 1'000'003ULL * (step + 1) + static_cast<std::uint64_t>(rank))),
        curvature(rank == kSharedBatch ? 1.0F : 0.5F + 0.25F * static_cast<float>(rank)) {}

  template <class T>
  T gradient(std::size_t i, T x) const {
    return static_cast<T>(curvature) * (x - static_cast<T>(targets[i])) +
           static_cast<T>(0.125) * static_cast<T>(noise[i]);
  }

  std::vector<float> targets;
  std::vector<float> noise;
  float curvature;
};

}  // namespace

std::vector<double> quadratic_gradient(const std::vector<double>& point, int rank, std::uint32_t step) {
  const Quadratic quadratic(point.size(), rank, step);
  std::vector<double> gradient(point.size());
  for (std::size_t i = 0; i < point.size(); ++i) gradient[i] = quadratic.gradient(i, point[i]);
  return gradient;
}

std::vector<float> quadratic_gradient(View<const float> point, int rank, std::uint32_t step) {
  const Quadratic quadratic(point.size(), rank, step);
  std::vector<float> gradient(point.size());
  for (std::size_t i = 0; i < point.size(); ++i) gradient[i] = quadratic.gradient(i, point[i]);
  return gradient;
}

float reported_loss(int rank, std::uint32_t step) {
  return static_cast<float>((static_cast<std::uint32_t>(rank) * 7 + step / 4 * 5 + step % 4 * 3) % 11);
}

MethodOptions options_of(const RoundSettings& settings) {
  MethodOptions options{.period = static_cast<double>(settings.period)};
  if (settings.method != "localsgd") options.pull = settings.pull;
  if (settings.method != "localsgd" && settings.method != "easgd") options.proximity = settings.proximity;
  if (settings.method == "mgrawa" || settings.method == "lgrawa") {
    options.smoothing = settings.smoothing;
    options.score = settings.local_scores ? "local" : "shared";
  }
  return options;
}

void score_on_shared_batch(View<const float> model, View<float> gradient) {
  const auto made = quadratic_gradient(model, kSharedBatch, 0);
  std::copy(made.begin(), made.end(), gradient.begin());
}

RoundModel::RoundModel(RoundSettings settings, int workers, std::vector<Tensor> tensors, double start)
    : settings_(std::move(settings)), tensors_(std::move(tensors)) {
  std::uint64_t n = 0;
  for (const Tensor& tensor : tensors_) n += tensor.size;
  const auto count = static_cast<std::size_t>(workers);
  models_.assign(count, Vector(n, start));
  momenta_.assign(count, Vector(n, 0.0));
  centre_.assign(n, start);
  errors_.assign(count, Vector(n, 0.0));
  const std::size_t layers = settings_.method == "lgrawa" ? tensors_.size() : 1;
  scores_.assign(count, Vector(layers, 0.0));
  norm_sums_ = scores_;
  weights_ = scores_;
  losses_.assign(count, 0.0);
}

RoundModel::Vector RoundModel::layer_norms(const Vector& gradient) const {
  Vector norms;
  std::size_t i = 0;
  for (const Tensor& tensor : tensors_) {
    double squares = 0.0;
    for (const std::size_t end = i + tensor.size; i < end; ++i) squares += gradient[i] * gradient[i];
    norms.push_back(std::sqrt(squares));
  }
  if (settings_.method == "lgrawa") return norms;
  double sum = 0.0;
  for (const double norm : norms) sum += norm;
  return {sum};
}

void RoundModel::step(std::uint32_t number) {
  const bool proximity = settings_.method != "localsgd" && settings_.method != "easgd";
  const double share = proximity ? settings_.proximity / static_cast<double>(settings_.period) : 0.0;
  for (std::size_t m = 0; m < models_.size(); ++m) {
    const Vector gradient = quadratic_gradient(models_[m], static_cast<int>(m), number);
    const Vector norms = layer_norms(gradient);
    for (std::size_t k = 0; k < norm_sums_[m].size(); ++k) norm_sums_[m][k] += norms[k];
    losses_[m] += static_cast<double>(reported_loss(static_cast<int>(m), number));
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      momenta_[m][i] = settings_.momentum * momenta_[m][i] + gradient[i];
      models_[m][i] -= settings_.learning_rate * (gradient[i] + settings_.momentum * momenta_[m][i]);
      models_[m][i] = (1.0 - share) * models_[m][i] + share * centre_[i];
    }
  }
  if (++steps_ == settings_.period) round();
}

void RoundModel::round() {
  if (settings_.method == "mgrawa" || settings_.method == "lgrawa") grawa_round();
  if (settings_.method == "easgd") elastic_round();
  if (settings_.method == "lsgd") leader_round();
  if (settings_.method == "localsgd") average_round();
  for (Vector& sums : norm_sums_) sums.assign(sums.size(), 0.0);
  losses_.assign(losses_.size(), 0.0);
  steps_ = 0;
  ++rounds_;
}

void RoundModel::grawa_round() {
  const std::size_t layers = scores_[0].size();
  Vector inverse_sums(layers, 0.0);
  for (std::size_t m = 0; m < models_.size(); ++m) {
    const Vector shared = layer_norms(quadratic_gradient(models_[m], kSharedBatch, 0));
    for (std::size_t k = 0; k < layers; ++k) {
      const double norm = settings_.local_scores ? norm_sums_[m][k] / static_cast<double>(steps_) : shared[k];
      scores_[m][k] = settings_.smoothing * scores_[m][k] + (1.0 - settings_.smoothing) * norm;
      const double corrected = scores_[m][k] / (1.0 - std::pow(settings_.smoothing, static_cast<double>(rounds_ + 1)));
      weights_[m][k] = 1.0 / corrected;
      inverse_sums[k] += weights_[m][k];
    }
  }
  for (Vector& weights : weights_) {
    for (std::size_t k = 0; k < layers; ++k) weights[k] /= inverse_sums[k];
  }
  std::vector<std::size_t> layer_of;
  for (std::size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
    layer_of.insert(layer_of.end(), tensors_[tensor].size, layers == 1 ? 0 : tensor);
  }
  const auto workers = static_cast<double>(models_.size());
  centre_ = combined([&](std::size_t m, std::size_t i) { return workers * weights_[m][layer_of[i]]; });
  pull_all();
}

void RoundModel::elastic_round() {
  const auto workers = static_cast<double>(models_.size());
  const double alpha = settings_.pull / workers;
  const Vector mean = combined([](std::size_t, std::size_t) { return 1.0; });
  for (std::size_t i = 0; i < centre_.size(); ++i) {
    for (Vector& model : models_) model[i] = (1.0 - alpha) * model[i] + alpha * centre_[i];
    centre_[i] = (1.0 - settings_.pull) * centre_[i] + settings_.pull * mean[i];
  }
}

void RoundModel::leader_round() {
  leader_ = 0;
  for (std::size_t m = 1; m < losses_.size(); ++m) {
    if (losses_[m] < losses_[static_cast<std::size_t>(leader_)]) leader_ = static_cast<int>(m);
  }
  if (compress) {
    for (std::size_t m = 0; m < models_.size(); ++m) {
      if (static_cast<int>(m) == leader_) continue;
      for (double& owed : errors_[m]) owed *= 1.0 - settings_.pull;
    }
    const Vector sent = coded_difference(static_cast<std::size_t>(leader_), [](std::size_t) { return 1.0; });
    for (std::size_t i = 0; i < centre_.size(); ++i) centre_[i] -= sent[i];
  } else {
    centre_ = models_[static_cast<std::size_t>(leader_)];
  }
  pull_all();
}

void RoundModel::average_round() {
  centre_ = combined([](std::size_t, std::size_t) { return 1.0; });
  for (Vector& model : models_) model = centre_;
}

/// σ.
double RoundModel::share() const {
  if (settings_.method == "localsgd") return 1.0;
  return settings_.method == "easgd" ? settings_.pull / static_cast<double>(models_.size()) : settings_.pull;
}

RoundModel::Vector RoundModel::coded_difference(std::size_t worker, const std::function<double(std::size_t)>& weight) {
  Vector& owed = errors_[worker];
  Vector p(centre_.size());
  for (std::size_t i = 0; i < p.size(); ++i) p[i] = weight(i) * (centre_[i] - models_[worker][i]) + owed[i];
  const Vector sent = compress(p, worker, share());
  for (std::size_t i = 0; i < p.size(); ++i) owed[i] = (1.0 - share()) * owed[i] + share() * (p[i] - sent[i]);
  return sent;
}

template <class Weight>
RoundModel::Vector RoundModel::combined(const Weight& weight) {
  const auto workers = static_cast<double>(models_.size());
  Vector mean(centre_.size(), 0.0);
  for (std::size_t m = 0; m < models_.size(); ++m) {
    const Vector sent = compress ? coded_difference(m, [&](std::size_t i) { return weight(m, i); }) : Vector();
    for (std::size_t i = 0; i < mean.size(); ++i) {
      mean[i] += (compress ? sent[i] : weight(m, i) * models_[m][i]) / workers;
    }
  }
  if (!compress) return mean;
  if (returned) mean = returned(mean);
  for (std::size_t i = 0; i < mean.size(); ++i) mean[i] = centre_[i] - mean[i];
  return mean;
}

void RoundModel::pull_all() {
  for (Vector& model : models_) {
    for (std::size_t i = 0; i < model.size(); ++i) {
      model[i] = (1.0 - settings_.pull) * model[i] + settings_.pull * centre_[i];
    }
  }
}

}  // namespace laconic::test
