// The twins of kernels/coded against the reference, to the bit.

#include "kernels/coded/coded.h"

#include "cuda/fixture.h"
#include "kernels/topk_data.h"

namespace laconic::test {
namespace {

constexpr ValueFormat kFormats[] = {ValueFormat::sign, ValueFormat::two};

class CudaCoded : public Cuda {
 protected:
  /// Entries of a list, and where its scopes begin; without any, scopes have `each` entries.
  struct List {
    std::vector<std::uint32_t> indices;
    std::vector<float> values;
    std::vector<std::uint32_t> starts;
    std::uint32_t each = 0xFFFF'FFFF;

    ScopeCuts cuts() const { return {.each = each, .starts = starts}; }
    ScopeSpan span() const { return cuts().of(0, indices.empty() ? 1 : std::uint64_t{indices.back()} + 1); }
  };

  /// The same list in one scope, in scopes of 100 entries and in some of different sizes.
  static std::vector<List> lists_of(const std::vector<float>& values) {
    List list{{}, values, {}};
    for (std::uint32_t i = 0; i < values.size(); ++i) list.indices.push_back(3 * i + i % 3);
    List fixed = list;
    fixed.each = 100;
    List tensors = list;
    tensors.starts = {0, 1, 2, 50, 51, 1'600, 3'000, 20'000};
    return {list, fixed, tensors};
  }

  struct Coded {
    std::vector<float> values;
    std::vector<float> errors;
    Status status;
  };

  Coded by_reference(ValueFormat format, const List& list) {
    Coded result{list.values, std::vector<float>(list.values.size()), {}};
    std::vector<std::uint32_t> indices = list.indices;
    code_values(reference_, format, list.cuts(), list.span(), {indices, result.values}, result.errors,
                view_of(result.status));
    return result;
  }

  void expect_alike(ValueFormat format, const List& list) {
    const Coded want = by_reference(format, list);
    const DeviceArray<std::uint32_t> indices(list.indices, 1);
    const DeviceArray<float> values(list.values, 2);
    const DeviceArray<float> errors(list.values.size(), 3);
    const DeviceArray<std::uint32_t> starts(list.starts, 1);
    const DeviceStatus status;
    ScopeCuts cuts = list.cuts();
    cuts.device_starts = starts.view();
    code_values(*place_, format, cuts, list.span(), {indices.view(), values.view()}, errors.view(), status.view());
    EXPECT_EQ(status.read().nonfinite, want.status.nonfinite);
    if (want.status.nonfinite == 0) {
      EXPECT_TRUE(same_bits(values.values(), want.values));
      EXPECT_TRUE(same_bits(errors.values(), want.errors));
    }
    EXPECT_TRUE(values.intact() && errors.intact() && status.intact());

    std::vector<float> magnitudes(list.span().count * magnitudes_of(format));
    std::vector<std::uint32_t> fields(list.indices.size());
    Status sender;
    coded_fields(reference_, format, list.cuts(), list.span(), {list.indices, want.values}, magnitudes, fields,
                 view_of(sender));
    const DeviceArray<float> sent(want.values, 1);
    const DeviceArray<float> found_magnitudes(magnitudes.size(), 1);
    const DeviceArray<std::uint32_t> found_fields(fields.size(), 2);
    coded_fields(*place_, format, cuts, list.span(), {indices.view(), sent.view()}, found_magnitudes.view(),
                 found_fields.view(), status.view());
    EXPECT_TRUE(same_bits(found_magnitudes.values(), magnitudes));
    EXPECT_TRUE(same_bits(found_fields.values(), fields));
    EXPECT_EQ(status.read().fault, PayloadFault::none);
    EXPECT_TRUE(found_magnitudes.intact() && found_fields.intact());

    const DeviceArray<float> decoded(want.values.size(), 1);
    coded_values(*place_, format, cuts, list.span(), indices.view(), found_fields.view(), found_magnitudes.view(),
                 decoded.view());
    EXPECT_TRUE(same_bits(decoded.values(), want.values) && decoded.intact());
  }
};

TEST_F(CudaCoded, EverySizeAndCut) {
  for (const std::size_t n : {1UL, 2UL, 31UL, 32UL, 33UL, 511UL, 512UL, 513UL, 4'095UL, 4'097UL, 30'011UL}) {
    for (const List& list : lists_of(awkward_values(n, n))) {
      for (const ValueFormat format : kFormats) {
        if (left_out()) continue;
        SCOPED_TRACE(std::to_string(n) + " " + format_name(format) + " " + std::to_string(list.span().count));
        expect_alike(format, list);
      }
    }
  }
}

TEST_F(CudaCoded, EveryKind) {
  for (const Kind& kind : data_kinds()) {
    for (const List& list : lists_of(values_of(kind, 3'001, 7))) {
      for (const ValueFormat format : kFormats) {
        if (left_out()) continue;
        SCOPED_TRACE(kind.name + " " + format_name(format));
        expect_alike(format, list);
      }
    }
  }
}

TEST_F(CudaCoded, NonfiniteScopesAreFlagged) {
  for (const float extra : {kInfinity, kNotANumber}) {
    for (const List& list : lists_of(awkward_values(3'001, 7, extra))) {
      for (const ValueFormat format : kFormats) expect_alike(format, list);
    }
  }
}

TEST_F(CudaCoded, RefuseScopesWhoseStartsLieOnTheCpuAlone) {
  const DeviceArray<std::uint32_t> indices(std::vector<std::uint32_t>{0, 1, 2});
  const DeviceArray<float> values(std::vector<float>{1.0F, -2.0F, 3.0F});
  const DeviceArray<float> errors(3, 0);
  const DeviceStatus status;
  const std::vector<std::uint32_t> starts{0, 2};
  for (ScopeCuts cuts : {ScopeCuts{.starts = starts}, ScopeCuts{.starts = starts, .device_starts = starts}}) {
    const auto text = message_of<InvalidConfig>([&] {
      code_values(*place_, ValueFormat::sign, cuts, {0, 2}, {indices.view(), values.view()}, errors.view(),
                  status.view());
    });
    EXPECT_TRUE(contains(text, "device_starts")) << text;
  }
}

TEST_F(CudaCoded, ValuesThatNoMagnitudeDescribesAreNoted) {
  const DeviceArray<std::uint32_t> indices(std::vector<std::uint32_t>{0, 1, 2});
  const DeviceArray<float> values(std::vector<float>{1.0F, -2.0F, 3.0F});
  for (const ValueFormat format : kFormats) {
    const DeviceStatus status;
    const DeviceArray<float> magnitudes(magnitudes_of(format), 0);
    const DeviceArray<std::uint32_t> fields(3, 0);
    coded_fields(*place_, format, {}, {0, 1}, {indices.view(), values.view()}, magnitudes.view(), fields.view(),
                 status.view());
    EXPECT_EQ(status.read().fault, PayloadFault::wrong_norm);
    if (format == ValueFormat::two) {
      EXPECT_EQ(status.read().fault_found, 1U);
    }
  }
}

}  // namespace
}  // namespace laconic::test
