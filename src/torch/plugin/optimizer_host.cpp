#include "torch/plugin/optimizer_host.h"

#include <c10/core/GradMode.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/memory.h"
#include "exchange/dense_sum.h"
#include "laconic/error.h"
#include "laconic/nonfinite.h"
#include "torch/plugin/saved_state.h"
#include "torch/plugin/tensors.h"

namespace laconic::plugin {

StepCosts& StepCosts::operator+=(const StepCosts& other) {
  dense_bytes += other.dense_bytes;
  traffic += other.traffic;
  select_seconds += other.select_seconds;
  copy_seconds += other.copy_seconds;
  host_seconds += other.host_seconds;
  step_seconds += other.step_seconds;
  return *this;
}

OptimizerHost::OptimizerHost(std::shared_ptr<Communicator> communicator, Workplace work, std::uint64_t seed,
                             ParameterSet parameters)
    : communicator_(std::move(communicator)),
      side_(communicator_->duplicate()),
      work_(std::move(work)),
      parameters_(std::move(parameters)),
      seed_(seed) {
  const AgreedField field{"seed", std::to_string(seed)};
  require_agreement(*side_, {&field, 1});
  require_same_tensors();
  broadcast(parameters_.start());
}

/// Before the first of them travels: a broadcast of another size may not fail everywhere.
void OptimizerHost::require_same_tensors() {
  std::vector<AgreedField> fields{{"parameters of the optimizer", std::to_string(parameters_.tensors().size())}};
  for (const Tensor& each : parameters_.tensors())
    fields.push_back({"size of " + each.name, std::to_string(each.size)});
  for (const at::Tensor& each : parameters_.start()) {
    fields.push_back({"a tensor of the model", at::toString(each.scalar_type()) + std::to_string(each.numel())});
  }
  require_agreement(*side_, fields);
}

void OptimizerHost::agree(std::span<const AgreedField> fields) {
  require_own_process("step()");
  require_agreement(*communicator_, fields);
}

void OptimizerHost::broadcast(const std::vector<at::Tensor>& tensors) {
  if (tensors.empty()) return;
  const c10::NoGradGuard no_graph;
  std::vector<at::Tensor> bytes;
  for (const at::Tensor& tensor : tensors) {
    bytes.push_back(tensor.detach().cpu().contiguous().view({-1}).view(at::kByte));
  }
  const at::Tensor all = at::cat(bytes);
  side_->broadcast(byte_view(all, "what is broadcast"), 0).wait();
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int64_t size = bytes[i].numel();
    // The copy begins where its type may; a slice of bytes need not.
    const at::Tensor part = all.narrow(0, offset, size).clone();
    tensors[i].detach().copy_(part.view(tensors[i].scalar_type()).view(tensors[i].sizes()));
    offset += size;
  }
  parameters_.note_written();
}

void OptimizerHost::average(const std::vector<at::Tensor>& tensors) {
  if (tensors.empty()) return;
  const c10::NoGradGuard no_graph;
  std::vector<at::Tensor> flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(tensor.detach().to(at::kCPU, at::kFloat).reshape({-1}));
  const at::Tensor all = at::cat(flat);
  Place here({.threads = 1});  // a few statistics, and rarely
  average_over_ranks(*side_, here, float_view(all, "what is averaged"));
  std::int64_t offset = 0;
  for (const at::Tensor& tensor : tensors) {
    tensor.detach().copy_(all.narrow(0, offset, tensor.numel()).view(tensor.sizes()));
    offset += tensor.numel();
  }
}

bool OptimizerHost::step(const HostStepInput& input) {
  require_own_process("step()");
  if (reads_out_) {
    throw InvalidConfig("step() inside read_out(): the parameters are the point to test; leave the with block first");
  }
  const CallOrder order(stream());
  metrics_.last = {};
  StepReport report;
  ++step_;
  try {
    const Stopwatch watch(metrics_.last.step_seconds);
    report = do_step(input);
  } catch (const NonfiniteValue&) {
    throw;  // all ranks know, or were told
  } catch (const TransportError&) {
    throw;
  } catch (const std::exception& error) {
    communicator_->fail(error_text(error));
    throw;
  }
  finished_ = report.finished;
  ++metrics_.steps;
  if (report.skipped) ++metrics_.skipped;
  metrics_.last.dense_bytes = parameters_.size() * sizeof(float);
  metrics_.last.traffic = report.traffic;
  metrics_.last.select_seconds = report.select_seconds;
  metrics_.total += metrics_.last;
  metrics_.bits = report.bits;
  metrics_.extra = report.extra;
  return !report.skipped;
}

void OptimizerHost::enter_read_out() {
  require_own_process("read_out()");
  if (reads_out_) throw InvalidConfig("read_out() inside read_out(): leave the with block first");
  side_->barrier().wait();
  const CallOrder order(stream());
  do_enter_read_out();
  reads_out_ = true;
}

void OptimizerHost::leave_read_out() {
  if (!reads_out_) return;
  const CallOrder order(stream());
  do_leave_read_out();
  reads_out_ = false;
}

State OptimizerHost::save() {
  require_own_process("state_dict()");
  const CallOrder order(stream());
  State state;
  state.put("host of " + method(), 1.0);
  state.put("rank", static_cast<double>(rank()));
  state.put("ranks", static_cast<double>(ranks()));
  put_tensors(state, parameters_.tensors());
  state.put("seed", static_cast<double>(seed_));
  state.put("step", static_cast<double>(step_));
  state.put("skipped", static_cast<double>(metrics_.skipped));
  state.put("rounds", static_cast<double>(metrics_.rounds));
  state.put("finished", finished_ ? 1.0 : 0.0);
  do_save(state);
  return state;
}

void OptimizerHost::require_fitting(const State& state, int rank, int ranks) const {
  if (!state.has("host of " + method())) {
    throw InvalidConfig("saved state is of another method than " + method() + ": load it into the one that saved it");
  }
  require_number(state, "ranks", ranks, "load it on the same number of ranks, or redistribute it");
  require_number(state, "rank", rank, "each rank loads its own");
  require_tensors(state, parameters_.tensors());
  require_number(state, "seed", static_cast<double>(seed_), "give the seed of the run that was saved");
}

/// All is looked at before anything changes, on any rank. `counted`: the state whose counts go on here.
void OptimizerHost::take(const std::function<Change()>& prepare, const State* counted, std::string refusal) {
  require_own_process("load_state_dict()");
  if (reads_out_) refusal = "a state was given inside read_out(): leave the with block first";
  const CallOrder order(stream());
  Change change;
  std::uint32_t step = 0;
  OptimizerMetrics metrics = metrics_;
  bool finished = false;
  try {
    if (refusal.empty()) {
      change = prepare();
      step = static_cast<std::uint32_t>(counted->count("step", std::numeric_limits<std::uint32_t>::max()));
      metrics.steps = step;
      metrics.skipped = counted->count("skipped");
      metrics.rounds = counted->count("rounds");
      finished = counted->count("finished", 1) != 0;
    }
  } catch (const std::exception& error) {
    refusal = error.what();
  }
  agree_on_load(*side_, in_lockstep() ? step : metrics.rounds, refusal);
  change();
  step_ = step;
  metrics_ = metrics;
  finished_ = finished;
  do_go_on();
}

void OptimizerHost::load(const State& state, std::string refusal) {
  const auto prepare = [&] {
    require_fitting(state, rank(), ranks());
    return prepare_load(state);
  };
  take(prepare, &state, std::move(refusal));
}

void OptimizerHost::redeal(const std::vector<State>& saved, std::string refusal) {
  const int olds = static_cast<int>(saved.size());
  if (olds == 0 && refusal.empty()) refusal = "there is no state to distribute: give the states of all ranks of a run";
  const auto prepare = [&] {
    for (int i = 0; i < olds; ++i) require_fitting(saved[static_cast<std::size_t>(i)], i, olds);
    return prepare_redeal(saved);
  };
  const State* counted = olds == 0 ? nullptr : &saved[static_cast<std::size_t>(rank() < olds ? rank() : 0)];
  take(prepare, counted, std::move(refusal));
}

OptimizerMetrics OptimizerHost::metrics() {
  require_own_process("metrics()");
  OptimizerMetrics metrics = metrics_;
  metrics.residual_norm = residual_norm();
  return metrics;
}

}  // namespace laconic::plugin
