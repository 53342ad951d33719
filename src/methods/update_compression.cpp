#include "methods/update_compression.h"

#include "exchange/broadcast.h"
#include "exchange/dense_sum.h"
#include "kernels/block/block.h"
#include "kernels/descent/descent.h"
#include "kernels/elementwise/elementwise.h"
#include "laconic/error.h"
#include "methods/random_blocks.h"
#include "methods/sparse_compression.h"
#include "methods/sum_options.h"

namespace laconic {
namespace {

class BlockCompression : public UpdateCompression {
 public:
  explicit BlockCompression(const Settings& settings)
      : options_(dense_sum_options(settings)), blocks_(settings.number("ratio"), settings.is("scope", "tensor")) {}

  bool by_tensor() const override { return blocks_.by_tensor(); }
  std::uint64_t usual_chunk_entries(Device device) const override {
    return chunk_entries(device, 8.0 * static_cast<double>(bytes_of(options_.format)) / blocks_.ratio());
  }
  void prepare(Place& place, std::span<const Tensor> tensors) override;
  void make_exchanges(const ChunkPipeline& pipeline) override;
  void begin(StepKey key) override { drawn_ = blocks_.draw(key); }
  Exchange& start(const Chunk& chunk, View<float> step, const UpdateErrors& errors, StatusView status,
                  StepReport& report) override;
  void finish(const Chunk& chunk, const UpdateErrors& errors) override;
  void move(const Coefficients& outer, View<const float> steps, const UpdateMemory& memory) override;

 private:
  /// A chunk's blocks, where their entries begin among those of all blocks, and their exchange.
  struct ChunkSum {
    std::size_t first_block = 0;
    std::size_t block_count = 0;
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    std::unique_ptr<BlockSum> sum;
  };
  std::span<const Block> drawn(const ChunkSum& chunk_sum) const {
    return drawn_.subspan(chunk_sum.first_block, chunk_sum.block_count);
  }

  DenseSumOptions options_;
  RandomBlocks blocks_;
  Place* place_ = nullptr;
  std::span<const Block> drawn_;
  Buffer<float> mean_;          ///< of the blocks
  Buffer<float> left_;          ///< what sending leaves of a block: nothing, or the rounding to 16 bits
  Buffer<float> moved_;         ///< the blocks of x
  std::vector<ChunkSum> sums_;  ///< by chunk
};

void BlockCompression::prepare(Place& place, std::span<const Tensor> tensors) {
  place_ = &place;
  blocks_.prepare(tensors);
  for (Buffer<float>* buffer : {&mean_, &left_, &moved_}) buffer->reserve(place, blocks_.size());
  fill(place, 0.0F, left_.view(blocks_.size()));
}

void BlockCompression::make_exchanges(const ChunkPipeline& pipeline) {
  sums_ = pipeline.make_each([&](const Chunk& chunk, Communicator& channel) {
    ChunkSum chunk_sum;
    for (const Block& block : blocks_.blocks()) {
      if (block.offset < chunk.offset) ++chunk_sum.first_block, chunk_sum.first += block.count;
      if (block.offset < chunk.offset || block.offset >= chunk.offset + chunk.size) continue;
      ++chunk_sum.block_count;
      chunk_sum.count += block.count;
    }
    chunk_sum.sum = std::make_unique<BlockSum>(channel, *place_, chunk_sum.count, options_);
    return chunk_sum;
  });
}

Exchange& BlockCompression::start(const Chunk& chunk, View<float> step, const UpdateErrors& errors, StatusView status,
                                  StepReport& report) {
  const ChunkSum& chunk_sum = sums_[chunk.number];
  const View<float> p = errors.next_error;
  const View<float> mean = mean_.view().sub(chunk_sum.first, chunk_sum.count);
  const auto blocks = drawn(chunk_sum);
  if (!step.empty()) {
    const Stopwatch watch(report.select_seconds);
    const auto here = [&](auto view) { return view.sub(chunk.offset, chunk.size); };
    add_residual(*place_, step, here(errors.error), here(p), status);
  }
  if (options_.format != ValueFormat::f32) {
    gather_blocks(*place_, p, blocks, 0, mean);
    round_through_16bit(*place_, options_.format, mean, left_.view().sub(chunk_sum.first, chunk_sum.count), status);
    scatter_blocks(*place_, mean, blocks, 0, p);
  }
  // An engine's sum has no flags: what is not finite outside the blocks must show inside them.
  if (!blocks.empty()) spoil_if_nonfinite(*place_, p.sub(blocks[0].offset + blocks[0].start, 1), status);
  chunk_sum.sum->start(p, blocks, mean, status);
  return *chunk_sum.sum;
}

void BlockCompression::finish(const Chunk& chunk, const UpdateErrors& errors) {
  const ChunkSum& chunk_sum = sums_[chunk.number];
  scatter_blocks(*place_, left_.view().sub(chunk_sum.first, chunk_sum.count), drawn(chunk_sum), 0, errors.next_error);
}

/// Outside the blocks Δ is zero, so x stays there: its rows have no outer momentum.
void BlockCompression::move(const Coefficients& outer, View<const float> /*steps*/, const UpdateMemory& memory) {
  const View<float> moved = moved_.view(blocks_.size());
  gather_blocks(*place_, memory.point(), drawn_, 0, moved);
  axpy(*place_, -outer.learning_rate, mean_.view(blocks_.size()), moved);
  scatter_blocks(*place_, moved, drawn_, 0, memory.point());
}

class LargestCompression : public UpdateCompression {
 public:
  explicit LargestCompression(const Settings& settings) : sparse_(settings) {}

  bool by_tensor() const override { return sparse_.by_tensor(); }
  std::uint64_t usual_chunk_entries(Device device) const override { return sparse_.usual_chunk_entries(device); }
  void prepare(Place& place, std::span<const Tensor> tensors) override {
    place_ = &place;
    sparse_.prepare(place, tensors);
  }
  void make_exchanges(const ChunkPipeline& pipeline) override { sparse_.make_sums(pipeline); }
  Exchange& start(const Chunk& chunk, View<float> step, const UpdateErrors& errors, StatusView status,
                  StepReport& report) override {
    return sparse_.start(chunk, feedback(chunk, step, errors), status, report);
  }
  Exchange& start_from(int leader, const Chunk& chunk, View<float> step, const UpdateErrors& errors, StatusView status,
                       StepReport& report) override {
    return sparse_.start_from(leader, chunk, feedback(chunk, step, errors), status, report);
  }
  void finish(const Chunk& chunk, const UpdateErrors& errors) override {
    sparse_.finish(chunk, errors.next_error.sub(chunk.offset, chunk.size));
  }
  void commit() override { sparse_.commit(); }
  void move(const Coefficients& outer, View<const float> steps, const UpdateMemory& memory) override {
    sgd_step(*place_, outer, steps, memory.velocity(), memory.point());
  }
  void save(State& state) const override { sparse_.save(state); }
  void require_loadable(const State& state) const override { sparse_.require_loadable(state); }
  void load(const State& state) override { sparse_.load(state); }

 private:
  static ChunkFeedback feedback(const Chunk& chunk, View<float> step, const UpdateErrors& errors) {
    return {.values = step,
            .residual = errors.error.sub(chunk.offset, chunk.size),
            .rest = errors.next_error.sub(chunk.offset, chunk.size)};
  }

  SparseCompression sparse_;
  Place* place_ = nullptr;
};

/// All entries, as they are or in 16 bits. What rounding to 16 bits leaves is the error.
class DenseCompression : public UpdateCompression {
 public:
  DenseCompression(const Settings& settings, Senders senders)
      : options_(dense_sum_options(settings)), senders_(senders) {}

  bool leaves_error() const override { return options_.format != ValueFormat::f32; }
  bool by_tensor() const override { return true; }
  void prepare(Place& place, std::span<const Tensor> /*tensors*/) override { place_ = &place; }
  void make_exchanges(const ChunkPipeline& pipeline) override;
  Exchange& start(const Chunk& chunk, View<float> step, const UpdateErrors& errors, StatusView status,
                  StepReport& report) override {
    round(chunk, step, errors, status, report);
    sums_[chunk.number]->start(step, status);
    return *sums_[chunk.number];
  }
  Exchange& start_from(int leader, const Chunk& chunk, View<float> step, const UpdateErrors& errors, StatusView status,
                       StepReport& report) override;
  void move(const Coefficients& outer, View<const float> steps, const UpdateMemory& memory) override {
    sgd_step(*place_, outer, steps, memory.velocity(), memory.point());
  }

 private:
  void round(const Chunk& chunk, View<float> step, const UpdateErrors& errors, StatusView status, StepReport& report);

  DenseSumOptions options_;
  Senders senders_;
  Place* place_ = nullptr;
  int rank_ = 0;
  std::vector<std::unique_ptr<DenseSum>> sums_;         ///< by chunk, if everyone sends
  std::vector<std::unique_ptr<Broadcast>> broadcasts_;  ///< by chunk, if a leader does
};

void DenseCompression::make_exchanges(const ChunkPipeline& pipeline) {
  if (senders_ == Senders::everyone) {
    sums_ = pipeline.make_each([&](const Chunk& chunk, Communicator& channel) {
      return std::make_unique<DenseSum>(channel, *place_, chunk.size, options_);
    });
    return;
  }
  broadcasts_ = pipeline.make_each([&](const Chunk& chunk, Communicator& channel) {
    rank_ = channel.rank();
    return std::make_unique<Broadcast>(channel, *place_, chunk.size, options_.format);
  });
}

/// `step` receives what a receiver will see.
void DenseCompression::round(const Chunk& chunk, View<float> step, const UpdateErrors& errors, StatusView status,
                             StepReport& report) {
  if (!leaves_error()) return;
  const Stopwatch watch(report.select_seconds);
  add_residual(*place_, step, errors.error.sub(chunk.offset, chunk.size), step, status);
  round_through_16bit(*place_, options_.format, step, errors.next_error.sub(chunk.offset, chunk.size), status);
}

Exchange& DenseCompression::start_from(int leader, const Chunk& chunk, View<float> step, const UpdateErrors& errors,
                                       StatusView status, StepReport& report) {
  if (rank_ == leader) {
    round(chunk, step, errors, status, report);
  } else {
    fill(*place_, 0.0F, errors.next_error.sub(chunk.offset, chunk.size));
  }
  broadcasts_[chunk.number]->start(step, leader, status);
  return *broadcasts_[chunk.number];
}

}  // namespace

Exchange& UpdateCompression::start_from(int /*leader*/, const Chunk& /*chunk*/, View<float> /*step*/,
                                        const UpdateErrors& /*errors*/, StatusView /*status*/, StepReport& /*report*/) {
  throw BrokenInvariant("this compression has no leader");
}

std::unique_ptr<UpdateCompression> make_block_compression(const Settings& settings) {
  return std::make_unique<BlockCompression>(settings);
}

std::unique_ptr<UpdateCompression> make_largest_compression(const Settings& settings) {
  return std::make_unique<LargestCompression>(settings);
}

std::unique_ptr<UpdateCompression> make_compression(const Settings& settings, Senders senders) {
  if (settings.number("keep") < 1.0 || is_coded(value_format(settings))) return make_largest_compression(settings);
  return std::make_unique<DenseCompression>(settings, senders);
}

}  // namespace laconic
