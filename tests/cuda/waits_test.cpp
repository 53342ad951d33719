// Twins do not wait for the stream. Left out are those that by their contract read a number back: read_status and all
// other reads, is_finite, read_sums_of_squares, squared_distance, mean_magnitude, checksum, count_below, read_indices,
// merge_sum, gaps_of_indices, indices_of_gaps, indices_of_relative, indices_of_bitmap, read_lengths, is_flagged, and
// the decoders, which tell whether a payload is sound.

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "codecs/block.h"
#include "codecs/dense.h"
#include "codecs/sign.h"
#include "codecs/sparse.h"
#include "codecs/uniform.h"
#include "cuda/fixture.h"
#include "kernels/bitpack/bitpack.h"
#include "kernels/checksum/loops.h"
#include "kernels/coded/coded.h"
#include "kernels/descent/descent.h"
#include "kernels/dropout/dropout.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/norm/norm.h"
#include "kernels/quantize/quantize.h"
#include "kernels/regtopk/regtopk.h"
#include "kernels/sign/sign.h"
#include "kernels/sparse/draw.h"
#include "kernels/sparse/indices.h"
#include "kernels/sparse/sparse.h"
#include "kernels/stripe/stripe.h"
#include "kernels/vote/abstain.h"

namespace laconic::test {
namespace {

constexpr std::size_t kSize = 40'000;
constexpr std::size_t kSelected = 400;
/// More than travel in a kernel's parameters.
constexpr std::size_t kMany = 100;

/// Keeps a stream busy until it is let go, ten seconds at most.
struct Gate {
  std::atomic<bool> open{false};
  std::atomic<bool> passed{false};

  static void wait(void* gate_pointer) {
    auto& gate = *static_cast<Gate*>(gate_pointer);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!gate.open && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    gate.passed = true;
  }
};

struct NamedCall {
  const char* name;
  std::function<void()> run;
};

std::vector<std::uint32_t> every_hundredth() {
  std::vector<std::uint32_t> indices;
  for (std::uint32_t i = 0; i < kSelected; ++i) indices.push_back(100 * i);
  return indices;
}

class CudaWaits : public Cuda {
 protected:
  void expect_no_wait(const std::vector<NamedCall>& calls) {
    // The first launch of a kernel loads it, and the first calls take scratch memory, which may wait.
    for (int round = 0; round < 2; ++round) {
      for (const NamedCall& call : calls) call.run();
    }
    read_status(*place_, status_.view());
    Gate gate;
    cuda::check(cudaLaunchHostFunc(cuda_stream(*place_), Gate::wait, &gate), "cudaLaunchHostFunc");
    for (const NamedCall& call : calls) {
      call.run();
      EXPECT_FALSE(gate.passed) << call.name << " waited for the stream";
      if (gate.passed) break;
    }
    gate.open = true;
    read_status(*place_, status_.view());
    EXPECT_TRUE(gate.passed) << "read_status did not wait";
  }

  SparseView entries() const { return {indices_.view(), few_.view()}; }

  DeviceArray<float> a_{normal_values(kSize, 1)};
  DeviceArray<float> b_{normal_values(kSize, 2)};
  DeviceArray<float> c_{normal_values(kSize, 3)};
  DeviceArray<float> d_{normal_values(kSize, 4)};
  DeviceArray<float> norm_{std::vector<float>{5.0F}};
  DeviceArray<float> norms_{kSize / 64};
  DeviceArray<double> squares_{1};
  DeviceArray<std::uint16_t> halves_{kSize};
  DeviceArray<std::uint32_t> words_{sign_words(kSize)};
  DeviceArray<std::uint32_t> more_words_{sign_words(kSize)};
  DeviceArray<std::uint32_t> indices_{every_hundredth()};
  DeviceArray<std::uint32_t> fields_{std::vector<std::uint32_t>(kSelected)};
  DeviceArray<float> few_{normal_values(kSelected, 5)};
  DeviceArray<float> errors_{kSelected};
  DeviceArray<std::byte> packed_{std::vector<std::byte>(quantized_bytes(kSize, 5))};
  DeviceArray<std::byte> payload_{4 * kSize + 1'000};
  DeviceStatus status_;
};

TEST_F(CudaWaits, TwinsOnWholeViewsDoNotWait) {
  const View<float> a = a_.view();
  const View<float> b = b_.view();
  const StatusView status = status_.view();
  const std::vector<View<const float>> parts(kMany, a);
  const std::vector<float> weights(kMany, 0.01F);
  const DeviceArray<std::uint32_t> hash(1);
  const DeviceArray<std::uint32_t> samples(std::vector<std::uint32_t>{1, 2});
  const DeviceArray<float> stripe(kSize / 4);
  std::vector<Block> blocks;
  for (std::uint64_t i = 0; i < kMany; ++i)
    blocks.push_back({.offset = 50 * i, .size = 50, .start = i % 50, .count = 50});
  const View<float> in_blocks = b.sub(0, 50 * kMany);
  expect_no_wait({
      {"fill", [&] { fill(*place_, 1.0F, b); }},
      {"clear", [&] { clear(*place_, b); }},
      {"copy", [&] { copy(*place_, a, b); }},
      {"axpy", [&] { axpy(*place_, 2.0F, a, b); }},
      {"divide", [&] { divide(*place_, 3.0F, b); }},
      {"find_nonfinite", [&] { find_nonfinite(*place_, b, status); }},
      {"spoil_if_nonfinite", [&] { spoil_if_nonfinite(*place_, b, status); }},
      {"sum_in_rank_order", [&] { sum_in_rank_order(*place_, parts, 100.0F, b, status); }},
      {"weighted_sum", [&] { weighted_sum(*place_, parts, weights, b, status); }},
      {"norm l2", [&] { norm(*place_, a, Norm::l2, norm_.view(), status); }},
      {"norm max", [&] { norm(*place_, a, Norm::max, norm_.view(), status); }},
      {"scope_norms l2", [&] { scope_norms(*place_, a, 64, Norm::l2, norms_.view(), status); }},
      {"scope_norms max", [&] { scope_norms(*place_, a, 64, Norm::max, norms_.view(), status); }},
      {"sum_of_squares", [&] { sum_of_squares(*place_, a, squares_.view(), status); }},
      {"to_16bit", [&] { to_16bit(*place_, a, ValueFormat::bf16, halves_.view(), status); }},
      {"from_16bit", [&] { from_16bit(*place_, halves_.view(), ValueFormat::bf16, b); }},
      {"convert", [&] { convert(*place_, a, b, status); }},
      {"round_through_16bit", [&] { round_through_16bit(*place_, ValueFormat::f16, b, c_.view(), status); }},
      {"gather_blocks", [&] { gather_blocks(*place_, a, blocks, 0, in_blocks); }},
      {"scatter_blocks", [&] { scatter_blocks(*place_, in_blocks, blocks, 0, c_.view()); }},
      {"take_stripe",
       [&] {
         take_stripe(*place_, a, {1, 4}, stripe.view());
       }},
      {"put_stripe",
       [&] {
         put_stripe(*place_, stripe.view(), 2.0F, {1, 4}, b);
       }},
      {"dropout_mask", [&] { dropout_mask(*place_, {}, samples.view(), 0.5, b); }},
      {"checksum", [&] { cuda::checksum(*place_, as_bytes(b), nullptr, kNoHole, hash.view()); }},
  });
}

TEST_F(CudaWaits, StepsDoNotWait) {
  const View<float> a = a_.view();
  const View<float> b = b_.view();
  const View<float> c = c_.view();
  const View<float> d = d_.view();
  const StatusView status = status_.view();
  const Coefficients nesterov{.learning_rate = 0.1F, .momentum = 0.9F, .nesterov = true};
  const AdamCoefficients adam{.learning_rate = 0.1F, .correction1 = 1.0F, .correction2 = 1.0F, .epsilon = 1.0F};
  expect_no_wait({
      {"sgd_step", [&] { sgd_step(*place_, nesterov, a, b, c); }},
      {"adam_step", [&] { adam_step(*place_, adam, a, b, c, d); }},
      {"try_sgd_step",
       [&] {
         try_sgd_step(*place_, nesterov, a, {a, {}, a}, {b, {}, c});
       }},
      {"try_adam_step",
       [&] {
         try_adam_step(*place_, adam, a, {a, a, a}, {b, c, d});
       }},
      {"blend", [&] { blend(*place_, 0.5F, a, b); }},
      {"running_mean", [&] { running_mean(*place_, 0.5F, b, a, b); }},
      {"subtract_scaled", [&] { subtract_scaled(*place_, a, 0.5F, b, b); }},
      {"scale", [&] { scale(*place_, 0.5F, b); }},
      {"scaled_difference", [&] { scaled_difference(*place_, 0.5F, a, b, c, status); }},
      {"subtract_difference", [&] { subtract_difference(*place_, a, b, c); }},
      {"add_residual", [&] { add_residual(*place_, a, b, c, status); }},
      {"add_step_to_error",
       [&] {
         add_step_to_error(*place_, nesterov, b, {a, a, c, d}, status);
       }},
      {"follow_step", [&] { follow_step(*place_, nesterov, b, d, c); }},
  });
}

/// Selections in long and short scopes, from a cold and from a warm start.
TEST_F(CudaWaits, SelectionsDoNotWait) {
  const View<float> a = a_.view();
  const View<float> b = b_.view();
  const View<float> rest = c_.view();
  const StatusView status = status_.view();
  const SparseView all = entries();
  const FixedScopes fixed{.each = 1'000, .keep = 10, .last_keep = 10};
  const std::vector<Scope> scopes{{.size = 20'000, .count = 100},
                                  {.tensor = 1, .offset = 20'000, .size = 100, .first = 100, .count = 1},
                                  {.tensor = 2, .offset = 20'100, .size = 19'900, .first = 101, .count = 299}};
  const DeviceArray<float> threshold_memory(std::vector<float>(scopes.size()));
  const Thresholds thresholds{threshold_memory.view(), threshold_memory.view()};
  const DeviceArray<std::uint32_t> support(every_hundredth());
  std::vector<std::uint32_t> within;
  for (const Scope& scope : scopes) {
    for (std::uint32_t i = 0; i < scope.count; ++i)
      within.push_back(i * static_cast<std::uint32_t>(scope.size / scope.count));
  }
  const DeviceArray<std::uint32_t> in_scopes(within);
  const LastSupport last{support.view(), errors_.view(), errors_.view()};
  const LastSupport last_of_scopes{in_scopes.view(), errors_.view(), errors_.view()};
  const DeviceArray<std::uint32_t> others(kSelected);
  const DeviceArray<float> other_values(kSelected);
  const SparseView split{others.view(), other_values.view()};
  fill(*place_, 1.0F, errors_.view());
  expect_no_wait({
      {"topk", [&] { error_feedback_topk(*place_, a, b, rest, all, status); }},
      {"topk, warm", [&] { error_feedback_topk(*place_, a, b, rest, all, status); }},
      {"topk by scope", [&] { error_feedback_topk_by_scope(*place_, a, b, rest, scopes, thresholds, all, status); }},
      {"topk by fixed scope", [&] { error_feedback_topk_by_scope(*place_, a, b, rest, fixed, all, status); }},
      {"regtopk", [&] { error_feedback_regtopk(*place_, a, b, rest, last, {}, all, status); }},
      {"regtopk by scope",
       [&] {
         error_feedback_regtopk_by_scope(*place_, a, b, rest, scopes, thresholds, last_of_scopes, {}, all, status);
       }},
      {"split_largest", [&] { split_largest(*place_, all, split.sub(0, 150), split.sub(150, 250)); }},
  });
}

TEST_F(CudaWaits, ListsDoNotWait) {
  const View<float> a = a_.view();
  const View<float> b = b_.view();
  const View<std::uint32_t> indices = indices_.view();
  const View<float> errors = errors_.view();
  const StatusView status = status_.view();
  const DeviceArray<std::uint32_t> drawn(kSelected);
  const DeviceArray<float> magnitudes(2);
  const DeviceArray<std::byte> packed_fields(packed_bytes(kSelected, 7));
  const std::vector<Scope> scopes{{.size = 20'000, .count = 150},
                                  {.tensor = 1, .offset = 20'000, .size = 20'000, .first = 150, .count = 250}};
  const ScopeSpan one{0, 1};
  constexpr ValueFormat kTwo = ValueFormat::two;
  expect_no_wait({
      {"scatter_add", [&] { scatter_add(*place_, entries(), b); }},
      {"scatter", [&] { scatter(*place_, entries(), b); }},
      {"gather", [&] { gather(*place_, a, indices, errors); }},
      {"find_entries", [&] { find_entries(*place_, entries(), indices, errors); }},
      {"draw_indices", [&] { draw_indices(*place_, {}, scopes, drawn.view()); }},
      {"indices_in_scopes", [&] { indices_in_scopes(*place_, scopes, drawn.view(), fields_.view()); }},
      {"indices_from_first", [&] { indices_from_first(*place_, indices, 0, fields_.view()); }},
      {"bitmap_of_indices", [&] { bitmap_of_indices(*place_, indices, 0, words_.view()); }},
      {"pack_fields", [&] { pack_fields(*place_, fields_.view(), 7, packed_fields.view()); }},
      {"unpack_fields", [&] { unpack_fields(*place_, packed_fields.view(), 7, fields_.view()); }},
      {"code_values", [&] { code_values(*place_, kTwo, {}, one, entries(), errors, status); }},
      {"coded_fields",
       [&] { coded_fields(*place_, kTwo, {}, one, entries(), magnitudes.view(), fields_.view(), status); }},
      {"coded_values",
       [&] { coded_values(*place_, kTwo, {}, one, indices, fields_.view(), magnitudes.view(), errors); }},
  });
}

TEST_F(CudaWaits, FieldsAndVotesDoNotWait) {
  const View<float> a = a_.view();
  const View<float> b = b_.view();
  const View<std::uint32_t> words = words_.view();
  const StatusView status = status_.view();
  const View<std::byte> packed = packed_.view();
  const std::vector<View<const std::uint32_t>> ballots(kMany, words);
  const std::vector<OpenBallot> open_ballots(kMany, {words, words});
  const std::vector<View<const std::byte>> payloads(kMany, payload_.view());
  const std::uint64_t n = 5'000;
  const Quantizer in_scopes{.bits = 5, .rounding = {}, .kind = Rounding::nearest, .scope = 64};
  expect_no_wait({
      {"pack_signs", [&] { pack_signs(*place_, a, words, status); }},
      {"unpack_signs", [&] { unpack_signs(*place_, words, 1.0F, b); }},
      {"quantize", [&] { quantize(*place_, a, norm_.view(), {.bits = 5, .rounding = {}}, packed); }},
      {"dequantize_add", [&] { dequantize_add(*place_, packed, norm_.view(), 5, b); }},
      {"scope_norms", [&] { scope_norms(*place_, a, 64, Norm::max, norms_.view(), status); }},
      {"quantize by scope", [&] { quantize(*place_, a, norms_.view(), in_scopes, packed, c_.view()); }},
      {"dequantize_add by scope", [&] { dequantize_add(*place_, packed, norms_.view(), 5, b, 64); }},
      {"dequantize_sum",
       [&] {
         const DequantizeSection section{0, 4, b.sub(0, n)};
         dequantize_sum(*place_, payloads, just(section), 5, 0, 100.0F, status);
       }},
      {"vote", [&] { vote(*place_, ballots, {}, words); }},
      {"abstention_margins", [&] { abstention_margins(*place_, a, 1.0F, b); }},
      {"silence", [&] { silence(*place_, a, b); }},
      {"vote_with_abstentions", [&] { vote_with_abstentions(*place_, open_ballots, {}, words, more_words_.view()); }},
  });
}

TEST_F(CudaWaits, EncodersDoNotWait) {
  const View<float> a = a_.view();
  const View<std::byte> payload = payload_.view();
  const StatusView status = status_.view();
  const Layout layout(kSize);
  const sparse::IndexRange range{0, kSize};
  const std::vector<Block> blocks{{.offset = 0, .size = kSize, .start = 7, .count = 5'000}};
  const std::vector<View<const std::byte>> sealed(kMany, payload);
  code_values(*place_, ValueFormat::sign, {}, {0, 1}, entries(), errors_.view(), status);
  expect_no_wait({
      {"dense::encode", [&] { dense::encode(*place_, a, ValueFormat::f32, payload, status); }},
      {"block::encode", [&] { block::encode(*place_, a, blocks, 0, 5'000, ValueFormat::bf16, payload, status); }},
      {"sign::encode", [&] { sign::encode(*place_, a, layout, 0, kSize, payload, status); }},
      {"uniform::encode", [&] { uniform::encode(*place_, a, layout, 0, kSize, norm_.view(), 5, {}, payload, status); }},
      {"sparse::encode", [&] { sparse::encode(*place_, entries(), range, ValueFormat::f32, payload, status); }},
      {"sparse::encode of signs",
       [&] { sparse::encode(*place_, entries(), range, ValueFormat::sign, payload, status); }},
      {"flag_payload", [&] { flag_payload(*place_, payload, status); }},
      {"note_flagged",
       [&] {
         const auto each = [&](const auto& body) {
           for (const auto& one : sealed) body(one);
         };
         note_flagged(*place_, each, 0, status);
       }},
      {"forget_nonfinite_rank", [&] { forget_nonfinite_rank(*place_, status); }},
  });
}

}  // namespace
}  // namespace laconic::test
