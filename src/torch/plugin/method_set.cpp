#include "torch/plugin/method_set.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/philox.h"
#include "base/scratch_status.h"
#include "base/transfer.h"
#include "exchange/exchange.h"
#include "kernels/descent/descent.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/norm/norm.h"
#include "laconic/error.h"
#include "laconic/nonfinite.h"
#include "methods/table.h"
#include "transport/agreement.h"

namespace laconic::plugin {
namespace {

constexpr double kClipEpsilon = 1e-6;  ///< as in torch's clip_grad_norm_

std::string list_of(const std::vector<std::uint32_t>& numbers) {
  std::string text;
  for (const std::uint32_t number : numbers) text.append(text.empty() ? "" : ",").append(std::to_string(number));
  return text;
}

}  // namespace

std::uint64_t seed_of_group(std::uint64_t seed, std::uint32_t group) {
  return derived_seed(seed, group, Purpose::group_seed);
}

SetMetrics& SetMetrics::operator+=(const SetMetrics& other) {
  traffic += other.traffic;
  within += other.within;
  dense_bytes += other.dense_bytes;
  select_seconds += other.select_seconds;
  wait_seconds += other.wait_seconds;
  early_entries += other.early_entries;
  bits = other.bits;
  return *this;
}

MethodSet::MethodSet(std::vector<Tensor> parameters, std::vector<MethodGroup> groups, const MethodSetOptions& options,
                     Communicator& communicator, Place& place, Communicator* shards)
    : parameters_(std::move(parameters)),
      offsets_{0},
      options_(options),
      communicator_(communicator),
      shards_(shards),
      place_(place),
      group_of_(parameters_.size()),
      index_in_group_(parameters_.size()),
      parts_(parameters_.size()),
      used_(parameters_.size() + 1),
      is_carried_(parameters_.size()) {
  require_cover(groups);
  if (!(options_.clip >= 0.0 && std::isfinite(options_.clip))) {
    throw InvalidConfig("clip must be above 0 and finite, got " + std::to_string(options_.clip) +
                        ": the largest norm of a rank's gradient; 0 for none");
  }
  std::vector<AgreedField> fields{{"seed", std::to_string(options_.seed)},
                                  {"warmup", std::to_string(options_.warmup)},
                                  {"nonfinite", options_.policy == NonfinitePolicy::error ? "error" : "skip"},
                                  {"chunk_entries", std::to_string(options_.chunk_entries)},
                                  {"unused parameters", options_.drops_unused ? "dropped" : "kept"},
                                  {"clip", std::to_string(options_.clip)},
                                  {"levels", options_.hosts.empty() ? "one" : "two"}};
  for (const MethodGroup& group : groups) fields.push_back({"group " + group.method, list_of(group.parameters)});
  require_agreement(communicator_, fields);
  if (!options_.hosts.empty()) levels_ = std::make_unique<TwoLevels>(communicator_, options_.hosts);
  for (const Tensor& each : parameters_) offsets_.push_back(offsets_.back() + each.size);
  for (const MethodGroup& group : groups) {
    for (std::uint32_t i = 0; i < group.parameters.size(); ++i) {
      group_of_[group.parameters[i]] = group_count();
      index_in_group_[group.parameters[i]] = i;
    }
    groups_.push_back(make_group(group));
  }
  if (!communicator_.duplicates_overlap()) let_one_go_first();
  if (options_.warmup > 0) {
    MethodGroup all{.method = kDenseMethod, .options = {}, .parameters = {}};
    for (std::uint32_t i = 0; i < parameters_.size(); ++i) all.parameters.push_back(i);
    dense_ = make_group(all);
  }
  if (options_.drops_unused && !options_.used_alike) reserve_carried();
  if (options_.clip > 0.0) {
    norms_.reserve(place_, parameters_.size());
    read_norms_.resize(parameters_.size());
  }
}

void MethodSet::require_cover(const std::vector<MethodGroup>& groups) const {
  std::vector<bool> covered(parameters_.size());
  for (const MethodGroup& group : groups) {
    if (group.parameters.empty())
      throw InvalidConfig("a group of " + group.method + " has no parameters: leave it out");
    for (const std::uint32_t each : group.parameters) {
      LACONIC_CHECK(each < parameters_.size());
      if (covered[each])
        throw InvalidConfig("parameter " + parameters_[each].name + " is in two groups: name it in one");
      covered[each] = true;
    }
  }
  const auto missing = std::find(covered.begin(), covered.end(), false);
  if (missing != covered.end()) {
    throw InvalidConfig("parameter " + parameters_[static_cast<std::size_t>(missing - covered.begin())].name +
                        " is in no group: add it to one of " + kDenseMethod);
  }
}

MethodSet::Group MethodSet::make_group(const MethodGroup& group) {
  const MethodRow& row = method_row(group.method);
  if (row.fixes_optimizer()) {
    std::string optimizer = row.traits.optimizer;
    optimizer.front() = static_cast<char>(std::toupper(optimizer.front()));  // as torch.optim names its class
    throw InvalidConfig(group.method + " is an optimizer and sends gradients like " + kDenseMethod + ": use " +
                        kDenseMethod + " with torch.optim." + optimizer);
  }
  Group made{.method = levels_ ? make_method(group.method, group.options, *levels_, place_)
                               : make_method(group.method, group.options, communicator_, place_),
             .owes = row.keeps_residual(group.options),
             .parameters = group.parameters,
             .batch = {}};
  std::vector<Tensor> tensors;
  for (const std::uint32_t each : group.parameters) tensors.push_back(parameters_[each]);
  if (options_.chunk_entries > 0) made.method->set_chunk_entries(options_.chunk_entries);
  made.method->register_tensors(tensors);
  made.method->set_nonfinite_policy(NonfinitePolicy::error);
  return made;
}

/// Methods that all exchange while gradients arrive would make their calls in an order that differs between ranks.
void MethodSet::let_one_go_first() {
  const auto gain = [&](const Group& group) {
    std::uint64_t entries = 0;
    for (const std::uint32_t each : group.parameters) entries += parameters_[each].size;
    return std::pair(group.method->streams(), entries);
  };
  const auto first = std::ranges::max_element(groups_, {}, gain);
  for (auto each = groups_.begin(); each != groups_.end(); ++each) each->waits = each != first;
}

std::span<MethodSet::Group> MethodSet::active() {
  if (step_ < options_.warmup) return {&*dense_, 1};
  return groups_;
}

void MethodSet::begin() {
  if (open_) throw InvalidConfig("a step was begun before the last one was finished");
  std::fill(used_.begin(), used_.end(), kUsed);
  abandoned_ = false;
  arrived_ = 0;
  held_.clear();
  last_ = {};
  open_ = true;
  const auto rank = static_cast<std::uint32_t>(communicator_.rank());
  std::uint32_t number = 0;
  for (Group& group : active()) {
    group.batch.clear();  // a step that failed may have left parts
    group.method->begin({seed_of_group(options_.seed, number++), step_, rank});
  }
}

void MethodSet::add(std::span<const TensorPart> parts) {
  for (const TensorPart& part : parts) {
    if (part.tensor >= parameters_.size()) throw InvalidConfig("a part of an unknown parameter was added");
    if (!options_.takes_16bit()) LACONIC_CHECK(part.values.is_float32() == true);
  }
  arrived_ += parts.size();
  if (options_.clip == 0.0) return pass_on(parts);
  held_.insert(held_.end(), parts.begin(), parts.end());
  if (!complete()) return;
  clip_held();
  pass_on(held_);
}

void MethodSet::clip_held() {
  const double norm = norm_of_held();
  if (!std::isfinite(norm)) return;  // the methods meet the value and act by the policy
  const double factor = options_.clip / (norm + kClipEpsilon);
  if (factor >= 1.0) return;
  for (const TensorPart& part : held_) scale(place_, static_cast<float>(factor), part.values.floats());
}

/// The norm of the parameters' norms, in the order of registration: the same in whatever order they arrived.
double MethodSet::norm_of_held() {
  const ScratchStatus unused(place_);
  const auto each = [&](FunctionRef<void(const NormPart&)> body) {
    for (const TensorPart& part : held_) body({part.values, norms_.view().sub(part.tensor, 1)});
  };
  norms(place_, each, Norm::l2, unused.view());
  copy_to_cpu<float>(place_, norms_.view(parameters_.size()), read_norms_.data());
  double squares = 0.0;
  for (const float each_norm : read_norms_) squares += static_cast<double>(each_norm) * each_norm;
  return std::sqrt(shards_ == nullptr ? squares : squares_of_all_shards(squares));
}

/// Summed in rank order, so that all shards scale by the same factor.
double MethodSet::squares_of_all_shards(double squares) {
  std::vector<double> all(static_cast<std::size_t>(shards_->size()));
  shards_->all_gather(as_bytes(View<const double>(&squares, 1)), as_writable_bytes(View<double>(all))).wait();
  return std::accumulate(all.begin(), all.end(), 0.0);
}

/// The first shard in which a value was not finite. Collective over the shards, which also tell each other whether they
/// abandoned the step.
std::optional<int> MethodSet::nonfinite_shard(bool finite) {
  constexpr std::byte kNotFinite{1};
  constexpr std::byte kAbandoned{2};
  std::byte mine{0};
  if (!finite) mine |= kNotFinite;
  if (abandoned_) mine |= kAbandoned;
  std::vector<std::byte> all(static_cast<std::size_t>(shards_->size()));
  shards_->all_gather(View<const std::byte>(&mine, 1), View<std::byte>(all)).wait();
  const auto has = [](std::byte flag) { return [flag](std::byte each) { return (each & flag) != std::byte{0}; }; };
  abandoned_ = std::ranges::any_of(all, has(kAbandoned));
  const auto first = std::ranges::find_if(all, has(kNotFinite));
  if (first == all.end()) return std::nullopt;
  return static_cast<int>(first - all.begin());
}

void MethodSet::pass_on(std::span<const TensorPart> parts) {
  for (const TensorPart& part : parts) {
    parts_[part.tensor] = part.values;
    if (is_carried_[part.tensor] != 0) add_carried(part);
    if (step_ < options_.warmup) {
      dense_->batch.push_back(part);
    } else {
      groups_[group_of_[part.tensor]].batch.push_back({index_in_group_[part.tensor], part.values});
    }
  }
  for (Group& group : active()) {
    if (!group.waits) add_batch(group);
  }
}

void MethodSet::add_batch(Group& group) {
  if (!group.batch.empty()) group.method->add(group.batch);
  group.batch.clear();
}

void MethodSet::add_carried(const TensorPart& part) {
  LACONIC_CHECK(part.values.is_float32() == true);
  axpy(place_, 1.0F, carried_.view().sub(offsets_[part.tensor], part.values.size()), part.values.floats());
}

bool MethodSet::streams() const {
  if (!open_ || options_.clip > 0.0) return false;
  if (step_ < options_.warmup) return dense_->method->streams();
  return std::any_of(groups_.begin(), groups_.end(),
                     [](const Group& group) { return group.method->streams() && !group.waits; });
}

std::vector<Neighbours> MethodSet::neighbours() const {
  std::vector<Neighbours> all;
  for (const Group& group : groups_) {
    const bool streams = group.method->streams() && !group.waits && options_.clip == 0.0;
    Neighbours each{.parameters = group.parameters, .starts = {}, .streams = streams};
    for (const std::uint32_t start : group.method->chunk_starts()) each.starts.push_back(group.parameters[start]);
    all.push_back(std::move(each));
  }
  return all;
}

void MethodSet::poll() {
  for (Group& group : active()) group.method->poll();
}

bool MethodSet::finish(bool report) {
  const double start = seconds_now();
  open_ = false;  // a failure leaves no step behind
  for (Group& group : active()) last_.early_entries += group.method->poll();
  bool finite = true;
  for (const bool waits : {false, true}) {
    for (Group& group : active()) {
      if (group.waits != waits) continue;
      add_batch(group);
      finite &= group.method->settle();
    }
  }
  std::exception_ptr refusal;
  if (shards_ != nullptr) {
    const std::optional<int> shard = nonfinite_shard(finite);
    if (shard && finite && report && options_.policy == NonfinitePolicy::error) {
      refusal = std::make_exception_ptr(
          NonfiniteValue("a gradient of shard " + std::to_string(*shard) + " of the model was not finite in step " +
                         std::to_string(step_) + ": the ranks of that shard name the parameter"));
    }
    finite &= !shard.has_value();
  }
  std::vector<std::byte> used;
  if (options_.drops_unused) {
    std::string difference;
    used = used_anywhere(difference);
    finite &= !abandoned_;
    if (finite && options_.used_alike && !difference.empty()) {
      finite = false;
      refusal = std::make_exception_ptr(OtherParameters(difference));
    }
  }
  last_.wait_seconds = seconds_now() - start;
  const std::span<Group> groups = active();
  std::vector<StepReport> reports;
  for (Group& group : groups) {
    // Which rank and which tensor is known to the method that met it; the others only forget the step.
    if (finite || (report && options_.policy == NonfinitePolicy::error && !group.method->settle())) {
      try {
        reports.push_back(group.method->finish());
      } catch (const NonfiniteValue&) {
        if (!refusal) refusal = std::current_exception();
      }
    } else {
      reports.push_back(group.method->abandon());
    }
  }
  count(reports);
  if (finite && options_.drops_unused) carry(used);
  ++step_;
  if (!finite) ++skipped_;
  if (refusal) std::rethrow_exception(refusal);
  return finite;
}

/// One byte per parameter from every rank, at the end of a step, when all have said what they used, and one for a rank
/// that abandoned the step. `difference` receives a sentence if ranks did not use the same parameters equally often.
std::vector<std::byte> MethodSet::used_anywhere(std::string& difference) {
  used_.back() = abandoned_ ? kUsed : kUnused;
  std::vector<std::byte> all(used_.size() * static_cast<std::size_t>(communicator_.size()));
  communicator_.all_gather(View<const std::byte>(used_), View<std::byte>(all)).wait();
  std::vector<std::byte> used(used_.size(), kUnused);
  for (std::size_t i = 0; i < all.size(); ++i) used[i % used.size()] |= all[i];
  abandoned_ = used.back() != kUnused;
  for (std::size_t i = 0; i < all.size() && difference.empty() && !abandoned_; ++i) {
    const std::byte missing = all[i] ^ used[i % used.size()];
    if (missing != kUnused) difference = text_of_difference(i / used.size(), i % used.size(), missing);
  }
  return used;
}

/// `missing`: what another rank has and this one does not.
std::string MethodSet::text_of_difference(std::size_t rank, std::size_t parameter, std::byte missing) const {
  const std::string who = "rank " + std::to_string(rank) + " of the replicas ";
  const std::string what = parameters_[parameter].name + " in step " + std::to_string(step_);
  if ((missing & kUsed) != kUnused) {
    return who + "did not use " + what + " and another did: replicas must use the same parameters in each step";
  }
  return who + "had no further gradient of " + what + " and another had: replicas must call the same modules equally " +
         "often in each step";
}

/// Every rank keeps the same aggregate and adds it to its own gradient next time: its mean is what was not applied.
void MethodSet::carry(const std::vector<std::byte>& used) {
  const bool dense = step_ < options_.warmup;
  for (std::uint32_t i = 0; i < parameters_.size(); ++i) {
    is_carried_[i] = (used[i] & kUsed) == kUnused && !dense && groups_[group_of_[i]].owes ? 1 : 0;
    if (is_carried_[i] == 0) continue;
    LACONIC_CHECK(parts_[i].is_float32() == true);
    reserve_carried();
    copy(place_, parts_[i].floats(), carried_.view().sub(offsets_[i], parts_[i].size()));
  }
}

void MethodSet::reserve_carried() {
  if (carried_.capacity() > 0) return;
  carried_.reserve(place_, offsets_.back());
  fill(place_, 0.0F, carried_.view(offsets_.back()));
}

void MethodSet::count(std::span<const StepReport> reports) {
  last_.dense_bytes = offsets_.back() * sizeof(float);
  for (const StepReport& report : reports) {
    last_.traffic += report.traffic;
    last_.within += report.within;
    last_.select_seconds += report.select_seconds;
    if (last_.bits == 0.0) last_.bits = report.bits;
  }
  total_ += last_;
}

double MethodSet::residual_norm() {
  double squares = 0.0;
  for (Group& group : groups_) {
    const double norm = group.method->residual_norm();
    squares += norm * norm;
  }
  return std::sqrt(squares);
}

}  // namespace laconic::plugin
