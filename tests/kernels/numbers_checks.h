#pragma once

// Every front door that reads a gradient must read one of 16 bits as it reads the same values in float32, and every one
// that writes a gradient must write what it writes to floats, rounded. The checks run on any place: `Array` is memory
// that the place reaches (Guarded or DeviceArray). What is expected comes from the reference's loops on floats.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/scratch_status.h"
#include "kernels/convert/convert.h"
#include "kernels/descent/descent.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/norm/norm.h"
#include "kernels/quantize/quantize.h"
#include "kernels/regtopk/regtopk.h"
#include "kernels/sign/sign.h"
#include "kernels/sparse/sparse.h"
#include "kernels/topk/topk.h"
#include "support/support.h"

namespace laconic::test {

using Words = std::vector<std::uint16_t>;
using FloatList = std::vector<float>;
using IndexList = std::vector<std::uint32_t>;

inline constexpr NumberType k16bitTypes[] = {NumberType::float16, NumberType::bfloat16};

inline GradientView numbers_in(View<std::uint16_t> words, NumberType type) {
  return {reinterpret_cast<std::byte*>(words.data()), type, words.size(), words.device()};
}

inline Words rounded(const FloatList& values, NumberType type) {
  Place reference({.threads = 1, .simd = SimdLevel::reference});
  const ScratchStatus status(reference);
  Words words(values.size());
  to_16bit(reference, values, format_of(type), words, status.view());
  return words;
}

inline FloatList widened_copy(const Words& words, NumberType type) {
  Place reference({.threads = 1, .simd = SimdLevel::reference});
  FloatList values(words.size());
  from_16bit(reference, words, format_of(type), values);
  return values;
}

template <class T>
bool equal_bits(const std::vector<T>& found, const std::vector<T>& expected) {
  return found.size() == expected.size() &&
         (found.empty() || std::memcmp(found.data(), expected.data(), found.size() * sizeof(T)) == 0);
}

/// Normal values, and among them both zeros, subnormals and equal ones.
inline Words awkward_words(std::size_t n, std::uint64_t seed, NumberType type) {
  Words words = rounded(normal_values(n, seed), type);
  for (std::size_t i = seed % 5; i < n; i += 5) words[i] = static_cast<std::uint16_t>(i * 40'503U & 0x807FU);
  for (std::size_t i = 3; i < n; i += 11) words[i] = words[3];
  return words;
}

template <template <class> class Array>
class NumberChecks {
 public:
  NumberChecks(Place& place, NumberType type, std::size_t n)
      : place_(place),
        type_(type),
        n_(n),
        words_(awkward_words(n, n, type)),
        floats_(widened_copy(words_, type)),
        residual_(normal_values(n, n + 1)) {
    for (std::size_t i = 0; i < n; i += 3) residual_[i] = 0.0F;
  }

  void run() {
    if (n_ > 0) {
      for (const std::size_t k : {std::size_t{1}, n_ / 100 + 1, n_}) select(k);
      for (const std::uint64_t scope : {64ULL, 4096ULL, 10'000ULL}) select_by_scope(scope);
      select_in_scopes();
    }
    add();
    pack();
    take_norms();
    for (const int bits : {4, 5, 8}) {
      for (const std::uint64_t scope : {0ULL, 256ULL, 8192ULL}) quantize_values(bits, scope);
    }
    find();
    write_entries();
    write_signs();
    for (const std::size_t ranks : {1UL, 3UL, 70UL}) write_sums(ranks, 4, 0);
    for (const int bits : {4, 5, 8}) {
      for (const std::uint64_t scope : {0ULL, 256ULL, 8192ULL}) write_sums(3, bits, scope);
    }
    find_listed();
    for (const std::size_t ranks : {1UL, 3UL, 70UL}) write_mean(ranks);
    convert_all();
  }

 private:
  struct Selected {
    FloatList rest;
    IndexList indices;
    FloatList values;
    float threshold;
  };

  /// Twice, so that the second start is warm. call(place, gradient, residual, rest, selected, status).
  template <template <class> class Memory, class Call>
  Selected selected(Place& place, ConstGradientView gradient, std::size_t k, Call&& call) const {
    Memory<float> residual(residual_, 1);
    Memory<float> rest(FloatList(n_), 2);
    Memory<std::uint32_t> indices(IndexList(k), 1);
    Memory<float> values(FloatList(k), 3);
    const ScratchStatus status(place);
    for (int step = 0; step < 2; ++step) {
      call(place, gradient, residual.view(), rest.view(), SparseView{indices.view(), values.view()}, status.view());
    }
    EXPECT_TRUE(rest.intact() && indices.intact() && values.intact());
    return {rest.values(), indices.values(), values.values(), status.read().threshold};
  }

  template <class Call>
  void compare_selections(const std::string& what, std::size_t k, Call&& call) {
    const Selected expected = selected<Guarded>(reference_, floats_, k, call);
    Array<std::uint16_t> words(words_, 3);
    const Selected found = selected<Array>(place_, numbers_in(words.view(), type_), k, call);
    EXPECT_TRUE(equal_bits(found.indices, expected.indices)) << what << " of " << k;
    EXPECT_TRUE(equal_bits(found.values, expected.values)) << what << " of " << k;
    EXPECT_TRUE(equal_bits(found.rest, expected.rest)) << what << " of " << k;
    EXPECT_EQ(found.threshold, expected.threshold) << what << " of " << k;
  }

  void select(std::size_t k) {
    compare_selections("top-k", k,
                       [](Place& place, ConstGradientView gradient, View<const float> residual, View<float> rest,
                          SparseView selected, StatusView status) {
                         error_feedback_topk(place, gradient, residual, rest, selected, status);
                       });
    IndexList support;
    for (std::size_t i = n_ % 2; i < n_; i += 13) support.push_back(static_cast<std::uint32_t>(i));
    const FloatList corrected = normal_values(support.size(), 5);
    const FloatList aggregate = normal_values(support.size(), 6);
    compare_selections("RegTop-k", k,
                       [&](Place& place, ConstGradientView gradient, View<const float> residual, View<float> rest,
                           SparseView selected, StatusView status) {
                         const auto run = [&](const LastSupport& last) {
                           error_feedback_regtopk(place, gradient, residual, rest, last, {.weight = 0.25F}, selected,
                                                  status);
                         };
                         if (&place == &reference_) return run({support, corrected, aggregate});
                         Array<std::uint32_t> there(support);
                         Array<float> a(corrected);
                         Array<float> g(aggregate);
                         run({there.view(), a.view(), g.view()});
                       });
  }

  void select_by_scope(std::uint64_t each) {
    const std::uint64_t last = n_ - (n_ - 1) / each * each;
    const FixedScopes scopes{each, each / 64, (last + 63) / 64};
    compare_selections("top-k by scope of " + std::to_string(each), scopes.selected(n_),
                       [&](Place& place, ConstGradientView gradient, View<const float> residual, View<float> rest,
                           SparseView selected, StatusView status) {
                         error_feedback_topk_by_scope(place, gradient, residual, rest, scopes, selected, status);
                       });
  }

  /// Scopes that begin at odd entries, some of them long. Of one of these everything is selected.
  void select_in_scopes() {
    std::vector<Scope> scopes;
    std::uint64_t selected = 0;
    for (std::uint64_t offset = 1, i = 0; offset < n_; ++i) {
      const std::uint64_t size = std::min<std::uint64_t>(i % 3 == 0 ? 8'901 : 33 + i, n_ - offset);
      scopes.push_back({0, offset, size, selected, i == 3 ? size : (size + 49) / 50});
      offset += size;
      selected += scopes.back().count;
    }
    FloatList rest(n_), thresholds(scopes.size()), kept(selected);
    IndexList indices(selected);
    Status status;
    error_feedback_topk_by_scope(reference_, floats_, residual_, rest, scopes, {thresholds, thresholds},
                                 {indices, kept}, view_of(status));
    Array<std::uint16_t> words(words_, 3);
    Array<float> residual(residual_, 1), found_rest(FloatList(n_), 2), found(FloatList(selected), 1);
    Array<float> found_thresholds(FloatList(scopes.size()));
    Array<std::uint32_t> found_indices(IndexList(selected), 1);
    const ScratchStatus found_status(place_);
    error_feedback_topk_by_scope(place_, numbers_in(words.view(), type_), residual.view(), found_rest.view(), scopes,
                                 {found_thresholds.view(), found_thresholds.view()},
                                 {found_indices.view(), found.view()}, found_status.view());
    EXPECT_TRUE(equal_bits(found_indices.values(), indices));
    EXPECT_TRUE(equal_bits(found.values(), kept));
    EXPECT_TRUE(equal_bits(found_rest.values(), rest));
    EXPECT_TRUE(equal_bits(found_thresholds.values(), thresholds));
  }

  void add() {
    FloatList expected(n_);
    Array<std::uint16_t> words(words_, 1);
    Array<float> residual(residual_, 1);
    Array<float> out(FloatList(n_), 2);
    const ScratchStatus unused(reference_);
    const ScratchStatus status(place_);
    add_residual(reference_, floats_, residual_, expected, unused.view());
    add_residual(place_, numbers_in(words.view(), type_), residual.view(), out.view(), status.view());
    EXPECT_TRUE(out.intact() && equal_bits(out.values(), expected)) << "add_residual";
    running_mean(reference_, 0.9F, residual_, floats_, expected);
    running_mean(place_, 0.9F, residual.view(), numbers_in(words.view(), type_), out.view());
    EXPECT_TRUE(out.intact() && equal_bits(out.values(), expected)) << "running_mean";
  }

  void pack() {
    IndexList expected(sign_words(n_));
    Array<std::uint16_t> words(words_, 1);
    Array<std::uint32_t> out(IndexList(sign_words(n_)), 1);
    const ScratchStatus unused(reference_);
    const ScratchStatus status(place_);
    pack_signs(reference_, floats_, expected, unused.view());
    pack_signs(place_, numbers_in(words.view(), type_), out.view(), status.view());
    EXPECT_TRUE(out.intact() && equal_bits(out.values(), expected)) << "pack_signs";
  }

  void take_norms() {
    Array<std::uint16_t> words(words_, 1);
    const GradientView gradient = numbers_in(words.view(), type_);
    const ScratchStatus unused(reference_);
    const ScratchStatus status(place_);
    for (const Norm kind : {Norm::l2, Norm::max}) {
      FloatList expected(1);
      Array<float> found(FloatList(1), 1);
      norm(reference_, floats_, kind, expected, unused.view());
      norm(place_, gradient, kind, found.view(), status.view());
      EXPECT_TRUE(equal_bits(found.values(), expected)) << "norm";
      for (const std::uint64_t scope : {64ULL, 8192ULL, 65'536ULL}) {
        FloatList norms((n_ + scope - 1) / scope);
        Array<float> found_norms(norms, 1);
        scope_norms(reference_, floats_, scope, kind, norms, unused.view());
        scope_norms(place_, gradient, scope, kind, found_norms.view(), status.view());
        EXPECT_TRUE(equal_bits(found_norms.values(), norms)) << "norms of scopes of " << scope;
      }
    }
    EXPECT_EQ(read_sum_of_squares(place_, gradient, status.view()),
              read_sum_of_squares(reference_, floats_, unused.view()));
  }

  void quantize_values(int bits, std::uint64_t scope) {
    const FloatList norms(norms_of(n_, scope), 3.0F);
    const RandomStream stream{.seed = 1, .step = 2, .rank = 3, .tensor = 4, .purpose = Purpose::rounding};
    for (const bool plain : {true, false}) {
      const Quantizer quantizer{.bits = bits,
                                .rounding = stream,
                                .first = 0,
                                .kind = plain ? Rounding::stochastic : Rounding::nearest,
                                .scope = scope};
      std::vector<std::byte> expected(quantized_bytes(n_, bits));
      FloatList rest(plain ? 0 : n_);
      Array<std::uint16_t> words(words_, 3);
      Array<float> place_norms(norms, 1);
      Array<std::byte> packed(expected, 4);
      Array<float> place_rest(rest, 1);
      quantize(reference_, floats_, norms, quantizer, expected, rest);
      quantize(place_, numbers_in(words.view(), type_), place_norms.view(), quantizer, packed.view(),
               place_rest.view());
      EXPECT_TRUE(packed.intact() && equal_bits(packed.values(), expected)) << bits << " bits, scope " << scope;
      EXPECT_TRUE(place_rest.intact() && equal_bits(place_rest.values(), rest)) << bits << " bits, scope " << scope;
    }
  }

  void find() {
    Array<std::uint16_t> words(words_, 1);
    EXPECT_TRUE(is_finite(place_, numbers_in(words.view(), type_)));
    if (n_ == 0) return;
    Words spoilt = words_;
    spoilt.back() = 0x7F81U | 0x7C00U;  // NaN in both types
    Array<std::uint16_t> bad(spoilt, 1);
    const GradientView gradient = numbers_in(bad.view(), type_);
    EXPECT_FALSE(is_finite(place_, gradient));
    Array<float> residual(residual_, 1);
    Array<float> rest(FloatList(n_), 1);
    Array<std::uint32_t> words_out(IndexList(std::max<std::size_t>(sign_words(n_), 1)), 1);
    Array<float> one(FloatList(1), 1);
    const auto flags = [&](const char* what, auto&& call) {
      const ScratchStatus status(place_);
      call(status.view());
      EXPECT_EQ(status.read().nonfinite, 1U) << what;
    };
    flags("top-k", [&](StatusView status) {
      error_feedback_topk(place_, gradient, residual.view(), rest.view(), {words_out.view().sub(0, 1), one.view()},
                          status);
    });
    flags("add_residual", [&](StatusView status) {
      add_residual(place_, gradient, residual.view(), rest.view(), status);
    });
    flags("pack_signs", [&](StatusView status) { pack_signs(place_, gradient, words_out.view(), status); });
    flags("norm", [&](StatusView status) { norm(place_, gradient, Norm::max, one.view(), status); });
    flags("convert", [&](StatusView status) { convert(place_, gradient, rest.view(), status); });
  }

  void write_entries() {
    IndexList indices;
    for (std::size_t i = n_ % 3; i < n_; i += 7) indices.push_back(static_cast<std::uint32_t>(i));
    const FloatList values = normal_values(indices.size(), 8);
    FloatList expected(n_);
    scatter(reference_, {indices, values}, expected);
    Array<std::uint16_t> out(words_, 1);
    Array<std::uint32_t> place_indices(indices, 1);
    Array<float> place_values(values, 1);
    clear(place_, numbers_in(out.view(), type_));
    scatter(place_, {place_indices.view(), place_values.view()}, numbers_in(out.view(), type_));
    EXPECT_TRUE(out.intact() && equal_bits(out.values(), rounded(expected, type_))) << "scatter";
  }

  void write_signs() {
    IndexList bits(sign_words(n_));
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint32_t>((i + 1) * 2'654'435'761U);
    FloatList expected(n_);
    unpack_signs(reference_, bits, 0.3F, expected);
    Array<std::uint32_t> place_bits(bits, 1);
    Array<std::uint16_t> out(words_, 1);
    unpack_signs(place_, place_bits.view(), 0.3F, numbers_in(out.view(), type_));
    EXPECT_TRUE(out.intact() && equal_bits(out.values(), rounded(expected, type_))) << "unpack_signs";
  }

  /// The mean of some payloads: norms, then fields. Norms that make a sum overflow are noticed.
  void write_sums(std::size_t ranks, int bits, std::uint64_t scope) {
    const std::uint64_t norm_bytes = norms_of(n_, scope) * sizeof(float);
    std::vector<std::vector<std::byte>> messages(ranks);
    const FloatList norms(norms_of(n_, scope), 3.0F);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      messages[rank].resize(norm_bytes + quantized_bytes(n_, bits));
      if (norm_bytes > 0) std::memcpy(messages[rank].data(), norms.data(), norm_bytes);
      const RandomStream stream{.seed = 1, .step = 0, .rank = static_cast<std::uint32_t>(rank), .tensor = 0,
                                .purpose = Purpose::rounding};
      quantize(reference_, floats_, norms, {.bits = bits, .rounding = stream, .scope = scope},
               View<std::byte>(messages[rank]).sub(norm_bytes, quantized_bytes(n_, bits)));
    }
    const auto divisor = static_cast<float>(ranks);
    const std::vector<View<const std::byte>> payloads(messages.begin(), messages.end());
    FloatList expected(n_);
    const ScratchStatus unused(reference_);
    dequantize_sum(reference_, payloads, just(DequantizeSection{0, norm_bytes, expected}), bits, scope, divisor,
                   unused.view());
    std::vector<std::unique_ptr<Array<std::byte>>> there;
    std::vector<View<const std::byte>> place_payloads;
    for (const auto& message : messages) {
      there.push_back(std::make_unique<Array<std::byte>>(message, 4));
      place_payloads.push_back(there.back()->view());
    }
    Array<std::uint16_t> out(words_, 1);
    const ScratchStatus status(place_);
    const DequantizeSection section{0, norm_bytes, numbers_in(out.view(), type_)};
    dequantize_sum(place_, place_payloads, just(section), bits, scope, divisor, status.view());
    EXPECT_TRUE(out.intact() && equal_bits(out.values(), rounded(expected, type_)))
        << "sum of " << ranks << ", " << bits << " bits, scope " << scope;
    EXPECT_EQ(status.read().nonfinite, 0U);
    if (ranks == 1 || n_ == 0) return;
    const float huge = 3e38F;
    std::vector<std::byte> message(norm_bytes + quantized_bytes(n_, bits), std::byte{0});
    for (std::uint64_t i = 0; i < norm_bytes; i += sizeof(float)) std::memcpy(message.data() + i, &huge, sizeof(float));
    message[norm_bytes] = static_cast<std::byte>((1 << (bits - 1)) - 1);  // the first entry at its highest level
    Array<std::byte> overflowing(message, 4);
    const std::vector<View<const std::byte>> both(2, overflowing.view());
    dequantize_sum(place_, both, just(section), bits, scope, 2.0F, status.view());
    EXPECT_EQ(status.read().nonfinite, 1U) << bits << " bits, scope " << scope;
  }

  void find_listed() {
    IndexList listed, asked;
    for (std::size_t i = n_ / 5; i < n_ / 2; i += 3) listed.push_back(static_cast<std::uint32_t>(i));
    for (std::size_t i = 0; i < n_; i += 2) asked.push_back(static_cast<std::uint32_t>(i));
    const FloatList values = normal_values(listed.size(), 4);
    FloatList expected(asked.size());
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const auto at = std::find(listed.begin(), listed.end(), asked[i]);
      if (at != listed.end()) expected[i] = values[static_cast<std::size_t>(at - listed.begin())];
      if (n_ > 10'000 && i > 2000) break;
    }
    if (n_ > 10'000) asked.resize(2001), expected.resize(2001);
    Array<std::uint32_t> place_listed(listed, 1);
    Array<float> place_values(values, 1);
    Array<std::uint32_t> place_asked(asked, 1);
    Array<float> found(FloatList(asked.size(), 7.0F), 2);
    find_entries(place_, {place_listed.view(), place_values.view()}, place_asked.view(), found.view());
    EXPECT_TRUE(found.intact() && equal_bits(found.values(), expected)) << "find_entries";
  }

  /// The mean of parts of the same type.
  void write_mean(std::size_t ranks) {
    std::vector<Words> parts(ranks);
    std::vector<FloatList> floats(ranks);
    std::vector<std::unique_ptr<Array<std::uint16_t>>> there;
    std::vector<View<const float>> float_views;
    std::vector<ConstGradientView> views;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      parts[rank] = awkward_words(n_, rank, type_);
      floats[rank] = widened_copy(parts[rank], type_);
      float_views.emplace_back(floats[rank]);
      there.push_back(std::make_unique<Array<std::uint16_t>>(parts[rank], rank % 3));
      views.emplace_back(numbers_in(there.back()->view(), type_));
    }
    FloatList expected(n_);
    const ScratchStatus unused(reference_);
    const auto divisor = static_cast<float>(ranks);
    sum_in_rank_order(reference_, float_views, divisor, expected, unused.view());
    Array<std::uint16_t> out(words_, 1);
    const ScratchStatus status(place_);
    sum_in_rank_order(place_, views, divisor, numbers_in(out.view(), type_), status.view());
    EXPECT_TRUE(out.intact() && equal_bits(out.values(), rounded(expected, type_))) << "mean of " << ranks;
    EXPECT_EQ(status.read().nonfinite, 0U);
  }

  void convert_all() {
    Array<std::uint16_t> words(words_, 1);
    Array<float> wide(FloatList(n_), 1);
    const ScratchStatus status(place_);
    convert(place_, numbers_in(words.view(), type_), wide.view(), status.view());
    EXPECT_TRUE(wide.intact() && equal_bits(wide.values(), floats_)) << "widened";
    for (const NumberType to : k16bitTypes) {
      Array<std::uint16_t> out(Words(n_), 2);
      convert(place_, numbers_in(words.view(), type_), numbers_in(out.view(), to), status.view());
      EXPECT_TRUE(out.intact() && equal_bits(out.values(), rounded(floats_, to))) << "to another type";
    }
    Array<float> copy_of_floats(FloatList(n_), 2);
    convert(place_, wide.view(), copy_of_floats.view(), status.view());
    EXPECT_TRUE(copy_of_floats.intact() && equal_bits(copy_of_floats.values(), floats_)) << "copied";
    EXPECT_EQ(status.read().nonfinite, 0U);
    if (n_ == 0) return;
    FloatList spoilt = floats_;
    spoilt.back() = std::numeric_limits<float>::infinity();
    Array<float> bad(spoilt, 1);
    Array<std::uint16_t> out(Words(n_), 2);
    convert(place_, bad.view(), numbers_in(out.view(), type_));  // without a status
    convert(place_, bad.view(), numbers_in(out.view(), type_), status.view());
    EXPECT_EQ(status.read().nonfinite, 1U);
  }

  Place& place_;
  Place reference_{{.threads = 1, .simd = SimdLevel::reference}};
  NumberType type_;
  std::size_t n_;
  Words words_;
  FloatList floats_;
  FloatList residual_;
};

inline const std::vector<std::size_t> kNumberSizes{0, 1, 33, 700, 8193, 70'003};

}  // namespace laconic::test
