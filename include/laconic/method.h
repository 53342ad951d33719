#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "laconic/coefficients.h"
#include "laconic/communicator.h"
#include "laconic/key.h"
#include "laconic/place.h"
#include "laconic/status.h"
#include "laconic/traffic.h"
#include "laconic/view.h"

namespace laconic {

struct AgreedField;
struct Chunk;
class ChunkStream;
class Exchange;
class JoinedParts;

/// A tensor as a method is told of it, once: tensors lie one after another in flat views, in registration order.
struct Tensor {
  std::string name;
  std::uint64_t size = 0;
};

/// A part of a gradient that has arrived. The view is the method's until the step is finished: it receives the
/// aggregate, whenever that is there.
struct TensorPart {
  std::uint32_t tensor = 0;  ///< index in registration order
  View<float> values;        ///< the whole tensor
};

/// What one step did, on this rank.
struct StepReport {
  bool skipped = false;      ///< dropped on all ranks, a value not being finite; memory is as it was
  bool undone = false;       ///< by RegTop-k's step guard: model and optimizer are as they were, the residual is not
  bool finished = false;     ///< round methods that were told their steps: none is left
  std::uint32_t rounds = 0;  ///< of model methods: times that this rank met the others; a lifted method's step is one
  Traffic traffic;
  double select_seconds = 0.0;  ///< adding what is remembered, selecting, scoring
  double bits = 0.0;            ///< quantizers: bits of a field
  double extra = 0.0;           ///< a method's own diagnostic, named by its row in the table (0 where it has none)
};

/// A setting of a method, by its name and as text.
using SettingText = std::pair<std::string, std::string>;

/// Named pieces of a method's memory, by rank. Numbers, arrays and texts; a file format is the host's business.
class State {
 public:
  void put(const std::string& name, View<const float> values);
  void put(const std::string& name, View<const std::uint32_t> values);
  void put(const std::string& name, double value);
  void put(const std::string& name, const std::string& text);
  /// InvalidConfig where the name is missing or the size differs from the view's.
  void get(const std::string& name, View<float> values) const;
  void get(const std::string& name, View<std::uint32_t> values) const;
  double number(const std::string& name) const;
  std::string text(const std::string& name) const;
  bool has(const std::string& name) const;
  std::vector<std::string> names() const;
  /// A number that counts something. InvalidConfig where it is not whole or not in 0..most.
  std::uint64_t count(const std::string& name, std::uint64_t most = kMostCounted) const;
  /// InvalidConfig where the number, or a value of the array of floats, is not in [low, high].
  void require_in(const std::string& name, double low, double high) const;
  /// A state inside a state, for a method that is built on another.
  void put(const std::string& name, const State& part);
  State part(const std::string& name) const;
  /// Entries of an array, 0 where there is none of that name.
  std::uint64_t size(const std::string& name) const;
  /// InvalidConfig where an entry of the other is missing here, or is of another kind or size.
  void require_entries_of(const State& other) const;
  /// InvalidConfig where there is an entry here that the other does not have.
  void require_no_entries_beyond(const State& other) const;

  /// One flat, versioned, checksummed string of bytes and back. Throws CorruptPayload if it is damaged, InvalidConfig if
  /// it has the format of an earlier version.
  std::vector<std::byte> to_bytes() const;
  static State from_bytes(View<const std::byte> bytes);

  /// Every whole number up to here is a double.
  static constexpr std::uint64_t kMostCounted = std::uint64_t{1} << 53;

 private:
  struct Entry {
    std::string name;
    char kind;  ///< 'f' floats, 'u' 32-bit words, 'd' one double, 't' text
    std::vector<std::byte> bytes;
  };
  const Entry& entry(const std::string& name) const;
  const Entry& entry(const std::string& name, char kind) const;
  Entry& fresh(const std::string& name, char kind, std::size_t bytes);
  std::vector<Entry> entries_;
};

/// What every method has: tensors, memory that can be saved, a group of ranks that can change.
class Method {
 public:
  virtual ~Method();
  Method(const Method&) = delete;
  Method& operator=(const Method&) = delete;

  /// Tells the tensors, once, before the first step. Collective: ranks that differ in names or sizes are all told
  /// where.
  void register_tensors(std::span<const Tensor> tensors);

  /// Tensors are exchanged in chunks, neighbours together until they have so many entries. Before register_tensors, and
  /// the same on all ranks. Small chunks start early, large ones need fewer messages.
  void set_chunk_entries(std::uint64_t entries);
  /// Whether tensors that are added early are exchanged while the others are still on their way. False where the method
  /// needs the whole gradient first (scope = model, and what its row says), or where it is one chunk: such a step
  /// collects its parts. Known once the tensors are.
  virtual bool streams() const;
  /// The first tensor of each chunk, ascending: a host that lays tensors of a chunk one after another, in the order of
  /// registration, spares a copy. Known once the tensors are.
  std::vector<std::uint32_t> chunk_starts() const;
  /// Between begin and finish: lets exchanges in flight go on, as add does too, and never waits. Returns how many
  /// entries of this step have their aggregate already.
  virtual std::uint64_t poll();

  /// This rank's memory between steps. A run that loads it goes on bit for bit as if it had never stopped. An
  /// asynchronous run is saved at a round: on each rank after the same round (set_after_round), and before any rank
  /// goes on (a barrier of the host's); InvalidConfig elsewhere. Tickets taken since are dealt anew.
  State save() const;
  /// Throws InvalidConfig for a state of another method, another rank or another number of ranks (use resize for the
  /// last); for one that was saved with other settings, the method's or its optimizer's, and names the setting with
  /// both values; for one that lacks an entry or has one too many; for an index or a count that no method of these
  /// settings can have saved; and in the middle of a step. Nothing has changed then. Settings that leave the meaning of
  /// the memory as it is may change: `route`, `order`, `diagnose`, and of round methods `total_steps` and, at a round,
  /// `pace`; so may all that is no setting of a method, as learning rates, threads and the non-finite policy.
  void load(const State& state);
  /// Throws what load would throw, and loads nothing.
  void require_loadable(const State& state) const;

  /// Ranks come or go. Collective over the old ranks and the new: every old rank calls it, with `next` null if it
  /// leaves; every newcomer makes the method on a communicator of its own (one rank), registers the same tensors and
  /// calls it too. What is owed, the mean of the residuals, is kept; RegTop-k forgets its last support; a newcomer to a
  /// round method starts at the centre. A model method is then started again, on every rank.
  virtual void resize(Communicator* next);

  /// ℓ2 norm of what this rank still owes; 0 for methods that remember nothing. Reads the memory once.
  virtual double residual_norm();

  const std::string& name() const { return name_; }

 protected:
  Method(std::string name, Communicator& communicator, Place& place);

  /// Tensors are known: allocate memory for them.
  virtual void prepare() = 0;
  virtual void save_memory(State& state) const = 0;
  /// InvalidConfig where the state cannot be saved now.
  virtual void require_savable() const {}
  /// After require_loadable_memory, so that it need not refuse anything.
  virtual void load_memory(const State& state) = 0;
  /// By default the state must have what this would save, each entry of the same size. What steers a step, indices and
  /// counts, is to be checked as well: a state may have been edited.
  virtual void require_loadable_memory(const State& state) const;
  /// Whether a step has begun and is not finished.
  virtual bool in_step() const { return false; }
  /// Memory that differs from rank to rank and is owed to the others (residuals, local momenta), the residual first:
  /// resize replaces it by its mean over the old ranks.
  virtual std::vector<View<float>> owed() { return {}; }
  /// Memory that is the same on all ranks: resize hands it to newcomers.
  virtual std::vector<View<float>> shared() { return {}; }
  /// Memory that owed() lists only since a step has needed it. If one rank of a resize has it, all allocate it first,
  /// as zeros.
  virtual bool has_late_memory() const { return false; }
  virtual void allocate_late_memory() {}
  /// After resize: communicator() is the new one; drop what cannot be kept, make the exchanges anew.
  virtual void regrouped() = 0;

  // A step in chunks (src/methods/stream.h), for methods that go through one.
  /// Whether a tensor's exchange needs nothing of the other tensors; false: all tensors are one chunk.
  virtual bool by_tensor() const { return false; }
  /// Entries of a chunk where the host sets none: a MiB of them. More where an entry is a bit on the wire.
  virtual std::uint64_t usual_chunk_entries() const { return std::uint64_t{1} << 18; }
  /// Reads a chunk that has arrived, before its exchange starts; in a step that waits for all, before any does.
  virtual void read_chunk(const Chunk&, View<const float> /*gradient*/, StatusView, StepReport&) {}
  /// The paper's step on a chunk up to the start of its exchange, which ends in place. What is remembered goes into a
  /// second copy until the step counts. The exchange sets status.nonfinite and nonfinite_rank on all ranks alike.
  virtual Exchange& start_chunk(const Chunk& chunk, View<float> gradient, StatusView status, StepReport& report);
  /// The aggregate is there. Chunks end in another order on every rank: no collective here.
  virtual void finish_chunk(const Chunk&, View<float> /*aggregate*/, StatusView, StepReport&) {}
  ChunkStream& stream() const { return *stream_; }
  std::uint64_t chunk_entries() const { return chunk_entries_ > 0 ? chunk_entries_ : usual_chunk_entries(); }
  bool chunk_entries_set() const { return chunk_entries_ > 0; }

  static constexpr const char* kNonfiniteRemedy =
      "lower the learning rate, clip gradients, or drop such steps (nonfinite=\"skip\" in Python, --nonfinite skip, "
      "set_nonfinite_policy in C++)";
  /// Call it while the gradient is still this worker's, after the exchange's start: notes which tensor was not finite.
  void locate_nonfinite(View<const float> gradient, const Status& status);
  /// The same for a chunk, where the lowest tensor of the step counts. Its stream calls it with the gradient.
  void note_nonfinite(const Chunk& chunk, View<const float> gradient, const Status& status);
  /// All ranks know of a non-finite value: each throws which rank, tensor and step it was; `what` of the tensor was
  /// looked at. Collective.
  [[noreturn]] void refuse_nonfinite(const Status& status, std::uint32_t step, const std::string& what = "gradient",
                                     const std::string& remedy = kNonfiniteRemedy);
  /// Only this rank knows, as in a local step: throws the same, and the others' next wait ends with it.
  [[noreturn]] void refuse_own_nonfinite(std::uint32_t step);

  Communicator& communicator() const { return *communicator_; }
  Place& place() const { return *place_; }
  int rank() const { return communicator_->rank(); }
  int ranks() const { return communicator_->size(); }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  std::uint64_t parameters() const { return parameters_; }
  bool registered() const { return registered_; }
  /// Where a method stands: it was made, took a state, follows another group, or runs.
  enum class Stage : std::uint8_t { made, loaded, resized, running };
  Stage stage() const { return stage_; }
  /// Whether this rank has started a run or loaded a state: in a resize, those that have not are newcomers.
  bool has_run() const { return stage_ != Stage::made; }
  void mark_running() { stage_ = Stage::running; }

 private:
  friend class ChunkStream;
  friend class ModelMethod;
  friend struct SettingsOfMethods;
  static constexpr std::uint64_t kNoTensor = ~std::uint64_t{0};

  std::vector<AgreedField> agreed_fields() const;
  int meet_newcomers(Communicator& group);
  void put_identity(State& state) const;
  void require_same_settings(const State& state) const;
  std::string nonfinite_message(std::size_t culprit, std::uint64_t tensor, std::uint64_t step, const std::string& what,
                                const std::string& remedy) const;

  std::string name_;
  std::vector<SettingText> settings_;  ///< those that a state must have been saved with
  Communicator* communicator_;
  Place* place_;
  std::vector<Tensor> tensors_;
  std::uint64_t parameters_ = 0;
  bool registered_ = false;
  Stage stage_ = Stage::made;
  std::uint64_t bad_tensor_ = kNoTensor;
  std::uint64_t chunk_entries_ = 0;  ///< as the host has set it; 0: the usual
  std::unique_ptr<ChunkStream> stream_;
  std::unique_ptr<JoinedParts> joined_;  ///< of a model method's step
};

enum class NonfinitePolicy : std::uint8_t { error, skip };

/// Turns this worker's gradient into the aggregate of all workers.
class GradientMethod : public Method {
 public:
  /// One step as it arrives: begin, add in any partition and order, finish. The result does not depend on the
  /// partition, nor need it be the same on all ranks. add starts the exchange of what is ready, in the reverse order of
  /// registration, and does not wait; finish waits for all, and only then does the step count. add takes its list whole
  /// or, if it throws InvalidConfig, nothing of it.
  void begin(StepKey key);
  void add(std::span<const TensorPart> parts);
  StepReport finish();

  /// The first half of finish, for hosts of several methods whose steps count together or not at all: waits for all,
  /// and tells whether every value of every rank was finite, the same on all ranks. Then comes finish, or abandon on
  /// all ranks: the step does not count, memory is as it was, and the parts are zero.
  bool settle();
  StepReport abandon();

  /// The three in one, on a flat view of all tensors in order; without registered tensors it is one tensor, "gradient".
  StepReport reduce(StepKey key, View<float> gradient);

  void set_nonfinite_policy(NonfinitePolicy policy) { policy_ = policy; }
  std::uint64_t skipped_steps() const { return skipped_steps_; }

 protected:
  using Method::Method;

  Exchange& start_chunk(const Chunk& chunk, View<float> gradient, StatusView status, StepReport& report) override = 0;
  /// Whether this step's first exchange needs all tensors, though by_tensor() says that others do not.
  virtual bool waits_for_all() const { return false; }
  /// All parts of all ranks were finite: the step counts, and the second copy becomes the memory.
  virtual void commit() = 0;

  StepKey key() const { return key_; }

 private:
  bool in_step() const override { return open_; }
  StepReport conclude();
  StepReport drop();

  NonfinitePolicy policy_ = NonfinitePolicy::error;
  std::uint64_t skipped_steps_ = 0;
  StepKey key_;
  bool open_ = false;
  bool settled_ = false;
  StepReport report_;
  std::vector<TensorPart> whole_;
};

/// One step's settings that a host may change from step to step.
struct StepInput {
  StepKey key;
  float learning_rate = 0.0F;
  /// This worker's training loss where the gradient was taken: lsgd elects its leader by it and refuses a NaN.
  float loss = std::numeric_limits<float>::quiet_NaN();
  /// One a tensor, instead of learning_rate and of the method's own momentum and weight_decay, for methods that are SGD
  /// themselves (ef-rbgs, def, def-a); empty: the same for all. Lives until the step is begun.
  std::span<const Coefficients> tensors{};
};

/// model -> gradients of it on the batch that all workers share in this round, flat.
using ScoringFunction = std::function<void(View<const float> model, View<float> gradient)>;

/// Decides where the next gradient is taken, or when models meet. Every gradient method lifts to one (`lift`).
class ModelMethod : public Method {
 public:
  /// Opens the method for steps: every rank calls it once after the method was made, after each load and after each
  /// resize. Always collective; a step without it, or a second start, is refused. Ranks compare how they came here and
  /// what they must have in common: the start point, later the model of a lifted method, x of DEF or the centre of a
  /// round method. If they differ, all throw the same InvalidConfig, and start may be called again. An asynchronous run
  /// takes a ticket here, and may join a round.
  /// `model` is the start point, or this rank's own model as it was when the state was saved or the group changed. It
  /// ends as the point where the next gradient is taken: after a resize DEF writes it, and a newcomer to a round method
  /// gets the centre.
  StepReport start(View<float> model);

  /// `gradient` was taken at `model`, which ends as the point for the next one; `gradient` is scratch afterwards.
  /// report.finished: a run of round methods with total_steps has used them up; call no further step.
  StepReport step(const StepInput& input, View<float> model, View<float> gradient);

  /// The same step as the gradient arrives: begin_step, add in any partition and order, finish_step. Parts lie where
  /// the caller likes and are scratch afterwards; `model` keeps its values until finish_step, which moves it. What can
  /// be exchanged early is (`streams`); add does not wait.
  void begin_step(const StepInput& input, View<float> model);
  void add(std::span<const TensorPart> parts);
  StepReport finish_step();

  /// The point to test and save, into `out`; `model` is not changed. Collective.
  void read_out(View<const float> model, View<float> out);

  void set_scoring(ScoringFunction scoring) { scoring_ = std::move(scoring); }
  /// Called after every round, inside start or step, on all ranks at the same round, with what that call did so far:
  /// the moment to save an asynchronous run, where a rank may join two rounds in one step.
  void set_after_round(std::function<void(const StepReport&)> hook) { after_round_ = std::move(hook); }
  void set_nonfinite_policy(NonfinitePolicy policy) { policy_ = policy; }
  std::uint64_t skipped_steps() const { return skipped_steps_; }

 protected:
  using Method::Method;

  /// After start has compared; stage() says where the run comes from.
  virtual StepReport do_start(View<float> model) = 0;
  /// What all ranks must have in common at a start: by default the model.
  virtual std::vector<AgreedField> common_fields(View<const float> model);
  /// For common_fields.
  AgreedField checksum_field(const std::string& what, View<const float> values);
  /// For a method that is built on another, when its own run starts.
  static void start_inner(Method& inner) { inner.stage_ = Stage::running; }
  /// What a method does before the whole gradient is there: nothing, unless it streams.
  virtual void do_begin(const StepInput& /*input*/, View<const float> /*model*/) {}
  virtual void do_add(std::span<const TensorPart> /*parts*/) {}
  /// Waits for what do_add started. Only then are the parts joined.
  virtual void do_finish() {}
  /// The gradient is there: the parts that were added, one after another, as do_add and do_finish left them.
  virtual StepReport do_step(const StepInput& input, View<float> model, View<float> gradient) = 0;
  virtual void do_read_out(View<const float> model, View<float> out) = 0;

  /// Whether StepInput::tensors is for it.
  virtual bool takes_coefficients() const { return false; }

  const ScoringFunction& scoring() const { return scoring_; }
  void tell_round(const StepReport& report) const {
    if (after_round_) after_round_(report);
  }
  NonfinitePolicy policy() const { return policy_; }
  void count_skipped() { ++skipped_steps_; }

 private:
  void require_started() const;
  bool in_step() const override { return open_; }
  void require_coefficients(std::span<const Coefficients> given) const;

  ScoringFunction scoring_;
  std::function<void(const StepReport&)> after_round_;
  StepInput input_;
  View<float> model_;
  bool open_ = false;
  std::vector<TensorPart> whole_;
  NonfinitePolicy policy_ = NonfinitePolicy::error;
  std::uint64_t skipped_steps_ = 0;
};

}  // namespace laconic
