#include "cuda/refused_views.h"

#include <gtest/gtest.h>

#include <array>

#include "codecs/block.h"
#include "codecs/dense.h"
#include "codecs/sign.h"
#include "codecs/sparse.h"
#include "codecs/uniform.h"
#include "kernels/bitpack/bitpack.h"
#include "kernels/checksum/checksum.h"
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
#include "support/support.h"

namespace laconic::test {

void RefusedViews::refused(const std::string& view, const std::function<void()>& call) const {
  const auto text = message_of<InvalidConfig>(call);
  const auto expected = "view " + view + " lies on " + device_name(far.floats.device()) + ", the place works on " +
                        device_name(place.device());
  EXPECT_TRUE(contains(text, expected)) << "expected: " << expected << "; found: " << text;
}

void RefusedViews::check_elementwise() const {
  const std::array<View<const float>, 2> parts{near.floats, far.floats};
  const std::array<float, 2> weights{0.5F, 0.5F};
  refused("values", [&] { fill(place, 0.0F, far.floats); });
  refused("values", [&] { clear(place, far.floats); });
  refused("to", [&] { copy(place, near.floats, far.floats); });
  refused("x", [&] { axpy(place, 1.0F, far.floats, near.floats); });
  refused("values", [&] { divide(place, 2.0F, far.floats); });
  refused("status", [&] { read_status(place, far.status); });
  refused("status", [&] { write_status(place, far.status, {}); });
  refused("status", [&] { clear_status(place, far.status); });
  refused("status", [&] { find_nonfinite(place, near.floats, far.status); });
  refused("part", [&] { sum_in_rank_order(place, parts, 2.0F, near.floats, near.status); });
  refused("part", [&] { weighted_sum(place, parts, weights, near.floats, near.status); });
  refused("status", [&] { spoil_if_nonfinite(place, near.floats, far.status); });
  refused("values", [&] { norm(place, far.floats, Norm::l2, near.floats.sub(0, 1), near.status); });
  refused("norms", [&] { scope_norms(place, near.floats, kSize, Norm::max, far.floats, near.status); });
  refused("status", [&] { sum_of_squares(place, near.floats, near.doubles.sub(0, 1), far.status); });
  refused("y", [&] { squared_distance(place, near.floats, far.floats); });
  refused("values", [&] { mean_magnitude(place, far.floats); });
  refused("to", [&] { convert(place, near.floats, far.floats); });
  refused("status", [&] { convert(place, near.floats, near.floats, far.status); });
  refused("out", [&] { to_16bit(place, near.floats, ValueFormat::f16, far.halves, near.status); });
  refused("values", [&] { from_16bit(place, far.halves, ValueFormat::f16, near.floats); });
  refused("out", [&] { round_through_16bit(place, ValueFormat::bf16, near.floats, far.floats, near.status); });
  refused("of a stripe", [&] { take_stripe(place, near.floats, {0, 1}, far.floats); });
  refused("of a stripe", [&] { put_stripe(place, far.floats, 1.0F, {0, 1}, near.floats); });
  refused("of a mask", [&] { dropout_mask(place, {}, near.words, 0.5, far.floats); });
  refused("of a mask's samples", [&] { dropout_mask(place, {}, far.words, 0.5, near.floats); });
  refused("bytes", [&] { checksum(place, far.bytes); });
}

void RefusedViews::check_descent() const {
  const Coefficients nesterov{.momentum = 0.9F, .nesterov = true};
  const StepMemory<const float> before{near.floats, near.floats, near.floats};
  const StepMemory<float> after{near.floats, near.floats, far.floats};
  refused("of a step", [&] { sgd_step(place, {}, far.floats, {}, near.floats); });
  refused("of a step", [&] { adam_step(place, {}, far.floats, near.floats, near.floats, near.floats); });
  refused("of a step", [&] { try_sgd_step(place, {}, near.floats, before, after); });
  refused("of a step", [&] { try_adam_step(place, {}, near.floats, before, after); });
  refused("of a step", [&] { blend(place, 0.5F, far.floats, near.floats); });
  refused("of a step", [&] { running_mean(place, 0.5F, far.floats, near.floats, near.floats); });
  refused("gradient", [&] { running_mean(place, 0.5F, near.floats, far.floats, near.floats); });
  refused("of a step", [&] { subtract_scaled(place, near.floats, 0.5F, near.floats, far.floats); });
  refused("of a step", [&] { scale(place, 0.5F, far.floats); });
  refused("of a step", [&] { scaled_difference(place, 0.5F, far.floats, near.floats, near.floats, near.status); });
  refused("of a step", [&] { subtract_difference(place, near.floats, far.floats, near.floats); });
  refused("status", [&] { add_residual(place, near.floats, near.floats, near.floats, far.status); });
  refused("of a step", [&] {
    add_step_to_error(place, {}, near.floats, {near.floats, far.floats, near.floats, {}}, near.status);
  });
  refused("of a step", [&] { follow_step(place, nesterov, far.floats, near.floats, near.floats); });
  refused("y", [&] { follow_step(place, {}, near.floats, {}, far.floats); });
}

void RefusedViews::check_selection() const {
  const View<float> floats = near.floats;
  const SparseView chosen = near.entries(4);
  const std::array<Scope, 1> scopes{Scope{.size = kSize, .count = 4}};
  const Thresholds thresholds{near.floats.sub(0, 1), near.floats.sub(0, 1)};
  const Thresholds far_thresholds{near.floats.sub(0, 1), far.floats.sub(0, 1)};
  const FixedScopes fixed{.each = 32, .keep = 2, .last_keep = 2};
  const LastSupport last{near.words.sub(0, 4), near.floats.sub(0, 4), near.floats.sub(0, 4)};
  const LastSupport far_last{near.words.sub(0, 4), near.floats.sub(0, 4), far.floats.sub(0, 4)};
  refused("gradient", [&] { error_feedback_topk(place, far.floats, floats, floats, chosen, near.status); });
  refused("rest", [&] { error_feedback_topk(place, floats, floats, far.floats, chosen, near.status); });
  refused("selected", [&] { error_feedback_topk(place, floats, floats, floats, far.entries(4), near.status); });
  refused("status", [&] { error_feedback_topk(place, floats, floats, floats, chosen, far.status); });
  refused("thresholds.next", [&] {
    error_feedback_topk_by_scope(place, floats, floats, floats, scopes, far_thresholds, chosen, near.status);
  });
  refused("residual",
          [&] { error_feedback_topk_by_scope(place, floats, far.floats, floats, fixed, chosen, near.status); });
  refused("last.aggregate",
          [&] { error_feedback_regtopk(place, floats, floats, floats, far_last, {}, chosen, near.status); });
  refused("gradient",
          [&] { error_feedback_regtopk(place, far.floats, floats, floats, last, {}, chosen, near.status); });
  refused("thresholds.next", [&] {
    error_feedback_regtopk_by_scope(place, floats, floats, floats, scopes, far_thresholds, last, {}, chosen,
                                    near.status);
  });
  refused("last.aggregate", [&] {
    error_feedback_regtopk_by_scope(place, floats, floats, floats, scopes, thresholds, far_last, {}, chosen,
                                    near.status);
  });
  refused("left", [&] { split_largest(place, near.entries(8), near.entries(3), far.entries(5)); });
  refused("entries", [&] { split_largest(place, far.entries(8), near.entries(3), near.entries(5)); });
}

void RefusedViews::check_lists() const {
  const SparseView mixed{far.words, near.floats};
  const std::array<Block, 1> blocks{Block{.size = kSize, .count = kSize}};
  refused("out", [&] { gather_blocks(place, near.floats, blocks, 0, far.floats); });
  refused("values", [&] { scatter_blocks(place, far.floats, blocks, 0, near.floats); });
  refused("indices", [&] { scatter_add(place, mixed, near.floats); });
  refused("indices", [&] { scatter(place, mixed, near.floats); });
  refused("indices", [&] { gather(place, near.floats, far.words, near.floats); });
  refused("indices", [&] { find_entries(place, near.entries(4), far.words, near.floats); });
  refused("values", [&] { find_entries(place, near.entries(4), near.words, far.floats); });
  refused("indices", [&] { indices_in_scopes(place, {}, far.words, near.words); });
  refused("indices", [&] { count_below(place, far.words, {}, {}); });
  refused("indices", [&] { read_indices(place, far.words, {}, {}); });
  refused("indices", [&] { draw_indices(place, {}, {}, far.words); });
  refused("sum", [&] { merge_sum(place, {}, mixed); });
  refused("packed", [&] { pack_fields(place, near.words, 8, far.bytes); });
  refused("fields", [&] { unpack_fields(place, near.bytes, 8, far.words); });
  refused("indices", [&] { gaps_of_indices(place, far.words, 0, kSize, near.words, near.widths.sub(0, 1)); });
  refused("gaps", [&] { gaps_of_indices(place, near.words, 0, kSize, far.words, near.widths.sub(0, 1)); });
  refused("widths", [&] { gaps_of_indices(place, near.words, 0, kSize, near.words, far.widths.sub(0, 1)); });
  refused("gaps", [&] { indices_of_gaps(place, 0, kSize, far.words); });
  refused("indices", [&] { indices_from_first(place, far.words, 0, near.words); });
  refused("out", [&] { indices_from_first(place, near.words, 0, far.words); });
  refused("relative", [&] { indices_of_relative(place, far.words, 0, kSize, near.words); });
  refused("indices", [&] { indices_of_relative(place, near.words, 0, kSize, far.words); });
  refused("words", [&] { bitmap_of_indices(place, near.words, 0, far.words); });
  refused("words", [&] { indices_of_bitmap(place, far.words, 0, 32 * kSize, near.words); });
  refused("indices", [&] { indices_of_bitmap(place, near.words, 0, 32 * kSize, far.words); });
}

void RefusedViews::check_fields() const {
  const std::array<View<const std::uint32_t>, 1> ballots{far.words};
  const std::array<OpenBallot, 1> open_ballots{OpenBallot{far.words, far.words}};
  const std::array<View<const std::byte>, 1> payloads{far.bytes};
  const View<float> values = near.floats.sub(0, 32);
  const View<float> one = near.floats.sub(0, 1);
  const View<std::byte> packed = near.bytes.sub(0, 32);
  refused("ballot", [&] { vote(place, ballots, {}, near.words); });
  refused("margins", [&] { abstention_margins(place, near.floats, 1.0F, far.floats); });
  refused("vote", [&] { silence(place, near.floats, far.floats); });
  refused("ballot.signs", [&] { vote_with_abstentions(place, open_ballots, {}, near.words, near.words); });
  refused("words", [&] { pack_signs(place, values, far.words.sub(0, 1), near.status); });
  refused("status", [&] { pack_signs(place, values, near.words.sub(0, 1), far.status); });
  refused("words", [&] { unpack_signs(place, far.words.sub(0, 1), 1.0F, values); });
  refused("values", [&] { unpack_signs(place, near.words.sub(0, 1), 1.0F, far.floats.sub(0, 32)); });
  refused("norms", [&] { quantize(place, values, far.floats.sub(0, 1), {}, packed); });
  refused("packed", [&] { quantize(place, values, one, {}, far.bytes.sub(0, 32)); });
  refused("rest", [&] { quantize(place, values, one, {}, packed, far.floats.sub(0, 32)); });
  refused("packed", [&] { dequantize_add(place, far.bytes.sub(0, 32), one, 8, values); });
  refused("norms", [&] {
    dequantize_sum(place, payloads, just(DequantizeSection{0, 4, values}), 8, 0, 1.0F, near.status);
  });
}

void RefusedViews::check_coded() const {
  const SparseView entries = near.entries(8);
  const View<std::uint32_t> fields = near.words.sub(0, 8);
  const View<float> one = near.floats.sub(0, 1);
  const View<float> errors = near.floats.sub(0, 8);
  constexpr ValueFormat kSign = ValueFormat::sign;
  refused("indices", [&] { code_values(place, kSign, {}, {0, 1}, far.entries(8), errors, near.status); });
  refused("errors", [&] { code_values(place, kSign, {}, {0, 1}, entries, far.floats.sub(0, 8), near.status); });
  refused("fields", [&] { coded_fields(place, kSign, {}, {0, 1}, entries, one, far.words.sub(0, 8), near.status); });
  refused("magnitudes", [&] {
    coded_fields(place, kSign, {}, {0, 1}, entries, far.floats.sub(0, 1), fields, near.status);
  });
  refused("fields", [&] { coded_values(place, kSign, {}, {0, 1}, fields, far.words.sub(0, 8), one, errors); });
  refused("values", [&] { coded_values(place, kSign, {}, {0, 1}, fields, fields, one, far.floats.sub(0, 8)); });
}

void RefusedViews::check_codecs() const {
  const std::array<View<const std::byte>, 1> payloads{far.bytes};
  std::array<std::uint64_t, 1> lengths{};
  const std::array<Block, 1> blocks{Block{.size = kSize, .count = kSize}};
  const Layout layout(16);
  const View<float> values = near.floats.sub(0, 16);
  const View<float> one = near.floats.sub(0, 1);
  const std::array<ReceivedRange, 1> received{ReceivedRange{far.bytes, 0, 16}};
  std::array<float, 1> norms{};
  constexpr ValueFormat kPlain = ValueFormat::f32;
  refused("payload", [&] { seal_payload(place, {}, far.bytes, near.status); });
  refused("status", [&] { flag_payload(place, near.bytes, far.status); });
  refused("payload", [&] { flag_payload(place, far.bytes, near.status); });
  refused("payload", [&] { is_flagged(place, far.bytes); });
  refused("payload", [&] { note_flagged(place, just<View<const std::byte>>(far.bytes), 0, near.status); });
  refused("payload", [&] { read_lengths(place, {payloads}, lengths); });
  refused("payload", [&] { dense::encode(place, one, kPlain, far.bytes, near.status); });
  refused("payload", [&] { dense::decode(place, far.bytes, kPlain, near.floats, near.status); });
  refused("payload", [&] { block::encode(place, near.floats, blocks, 0, 1, kPlain, far.bytes, near.status); });
  refused("payload", [&] { block::decode(place, far.bytes, blocks, 0, 1, kPlain, near.floats, near.status); });
  refused("indices", [&] {
    sparse::encode(place, {far.words, near.floats}, {0, kSize}, kPlain, near.bytes, near.status);
  });
  refused("indices", [&] { sparse::decode(place, near.bytes, {0, 1}, kPlain, {far.words, near.floats}, near.status); });
  refused("payload", [&] { sign::encode(place, values, layout, 0, 16, far.bytes, near.status); });
  refused("values", [&] { sign::encode(place, far.floats.sub(0, 16), layout, 0, 16, near.bytes, near.status); });
  refused("payload", [&] { sign::decode(place, far.bytes, layout, 0, 16, values, near.status); });
  refused("norms", [&] {
    uniform::scope_norms(place, near.floats, Layout::in_scopes(kSize, kSize), Norm::max, far.floats.sub(0, 1),
                         near.status);
  });
  refused("payload", [&] { uniform::encode(place, values, layout, 0, 16, one, 8, {}, far.bytes, near.status); });
  refused("values",
          [&] { uniform::encode(place, far.floats.sub(0, 16), layout, 0, 16, one, 8, {}, near.bytes, near.status); });
  refused("payload", [&] { uniform::decode_add(place, far.bytes, layout, 0, 16, 8, values, near.status); });
  refused("payload", [&] { uniform::decode_sum(place, payloads, layout, 0, 16, 8, 1.0F, values, near.status, norms); });
  refused("payload", [&] { uniform::decode(place, received, layout, 8, 1.0F, values, near.status); });
}

void RefusedViews::check() const {
  check_elementwise();
  check_descent();
  check_selection();
  check_lists();
  check_fields();
  check_coded();
  check_codecs();
}

}  // namespace laconic::test
