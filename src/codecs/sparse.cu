#include <algorithm>

#include "base/cuda/launch.h"
#include "base/cuda/words.h"
#include "base/transfer.h"
#include "base/workspace.h"
#include "codecs/header_words.h"
#include "codecs/sparse_layout.h"
#include "codecs/sparse_twins.h"
#include "codecs/twins.h"
#include "codecs/word_check.h"
#include "kernels/bitpack/fields.h"
#include "kernels/checksum/loops.h"
#include "kernels/coded/twins.h"
#include "kernels/convert/formats.h"
#include "kernels/sparse/units.h"

// The sparse codec on a device. Which coding a payload has, and so where its parts lie, depends on the data: one block
// of threads makes a plan, and the kernels after it follow the plan. The host learns it when it reads the status, or
// with the one wait of a decoder.

namespace laconic::cuda {
namespace {

using sparse::gap_bytes;
using sparse::gap_groups;
using sparse::IndexCoding;
using sparse::IndexRange;
using sparse::kFirstOffset;
using sparse::kIndicesOffset;
using sparse::kMostWidth;
using sparse::ValueSection;
using sparse::width_bytes;

constexpr std::uint64_t kBytesAUnit = kPackGroup / 8;  ///< bytes that one bit of width takes in a full group
constexpr unsigned kNoCoding = 3;  ///< of lists that do not ascend, so that receivers refuse them, and of refused ones

struct Plan {
  std::uint64_t index_bytes;
  unsigned coding;
};

/// What the kernels share, in the workspace. One of each a group.
struct Groups {
  std::uint8_t* widths;
  std::uint32_t* before;   ///< widths of the groups before, added up
  std::uint64_t* unsound;  ///< encoding: the first entry that is not sound, or the number of entries
};

struct WidthSums {
  std::uint64_t bits;         ///< of all groups
  std::uint64_t wrong_group;  ///< the first whose width is impossible, or kNoGroup; it counts as 0
};

/// One block: fills `before`. Widths may come from anywhere.
__device__ WidthSums sum_widths(const std::uint8_t* widths, std::uint64_t count, std::uint32_t* before) {
  __shared__ unsigned long long wrong_group;
  if (threadIdx.x == 0) wrong_group = kNoGroup;
  __syncthreads();
  const std::uint64_t groups = gap_groups(count);
  std::uint64_t done = 0;
  for (std::uint64_t begin = 0; begin < groups; begin += kThreads) {
    const std::uint64_t group = begin + threadIdx.x;
    std::uint32_t width = group < groups ? widths[group] : 0;
    if (width > kMostWidth) {
      atomicMin(&wrong_group, static_cast<unsigned long long>(group));
      width = 0;
    }
    const auto sums = sums_of_block<kThreads>(width);
    if (group < groups) before[group] = static_cast<std::uint32_t>(done) + sums.before;
    done += sums.all;
  }
  __syncthreads();
  const std::uint64_t missing = groups * kPackGroup - count;  // fields that the last group lacks
  const std::uint64_t last = missing == 0 || widths[groups - 1] > kMostWidth ? 0 : widths[groups - 1];
  return {done * kPackGroup - missing * last, wrong_group};
}

__device__ std::uint64_t least(const std::uint64_t* numbers, std::uint64_t count, std::uint64_t start) {
  __shared__ unsigned long long found;
  if (threadIdx.x == 0) found = start;
  __syncthreads();
  for (std::uint64_t i = threadIdx.x; i < count; i += kThreads) {
    atomicMin(&found, static_cast<unsigned long long>(numbers[i]));
  }
  __syncthreads();
  return found;
}

// ---- encode

__device__ void note_unsound(std::uint64_t position, std::uint64_t count, Status* status) {
  if (status->fault != PayloadFault::none) return;
  status->fault = PayloadFault::wrong_index;
  status->fault_offset = kIndicesOffset;
  status->fault_found = position;
  status->fault_expected = count;
}

/// One block: chooses the coding and writes header, first index, widths and all filling.
__global__ void plan_encoding_kernel(Groups groups, std::uint64_t count, IndexRange range, ValueSection section,
                                     std::byte* payload, Plan* plan, Status* status) {
  const WidthSums sums = sum_widths(groups.widths, count, groups.before);
  const std::uint64_t unsound = least(groups.unsound, gap_groups(count), count);
  const sparse::ChosenCoding chosen = unsound == count ? sparse::choose_coding(count, range.size, sums.bits)
                                                       : sparse::ChosenCoding{IndexCoding{kNoCoding}, 0};
  if (chosen.coding == IndexCoding::gaps) {
    for (std::uint64_t group = threadIdx.x; group < width_bytes(count); group += kThreads) {
      payload[kIndicesOffset + group] = static_cast<std::byte>(group < gap_groups(count) ? groups.widths[group] : 0);
    }
    const std::uint64_t end = kIndicesOffset + width_bytes(count) + (sums.bits + 7) / 8;
    if (end + threadIdx.x < kIndicesOffset + chosen.bytes) payload[end + threadIdx.x] = std::byte{0};
  }
  const std::uint64_t values_end = kIndicesOffset + chosen.bytes + (section.bits(count) + 7) / 8;
  const std::uint64_t payload_bytes = kIndicesOffset + chosen.bytes + section.bytes(count);
  if (values_end + threadIdx.x < payload_bytes) payload[values_end + threadIdx.x] = std::byte{0};
  if (threadIdx.x != 0) return;
  *plan = {chosen.bytes, static_cast<unsigned>(chosen.coding)};
  PayloadHeader header = header_of(Codec::sparse, static_cast<std::uint8_t>(section.format), payload_bytes, range.size);
  header.flags = static_cast<std::uint8_t>(static_cast<unsigned>(chosen.coding) << sparse::kCodingShift);
  header.count = static_cast<std::uint32_t>(count);
  store_header(header, payload);
  store_word(payload + kFirstOffset, static_cast<std::uint32_t>(range.first));
  store_word(payload + kFirstOffset + sizeof(std::uint32_t), static_cast<std::uint32_t>(range.first >> 32));
  if (unsound != count) note_unsound(unsound, count, status);
}

/// Packs a group of n fields, by all threads of a block.
template <class Field>
__device__ void put_group(const Field& field, unsigned n, unsigned width, std::byte* out) {
  if (n == kPackGroup) {
    for (unsigned word = threadIdx.x; word < kPackLanes * width; word += kThreads) {
      store_word(out + word * sizeof(std::uint32_t), packed_word(field, width, word));
    }
  } else {
    for (unsigned byte = threadIdx.x; byte < (n * width + 7) / 8; byte += kThreads) {
      out[byte] = packed_byte(field, n, width, byte);
    }
  }
}

/// A group a block: its gaps packed, or its indices as they are.
__global__ void put_indices_kernel(const std::uint32_t* indices, std::uint64_t count, std::uint64_t first,
                                   Groups groups, const Plan* plan, std::byte* payload) {
  const std::uint64_t begin = std::uint64_t{blockIdx.x} * kPackGroup;
  const auto n = static_cast<unsigned>(count - begin < kPackGroup ? count - begin : kPackGroup);
  if (plan->coding == static_cast<unsigned>(IndexCoding::raw)) {
    auto* out = reinterpret_cast<std::uint32_t*>(payload + kIndicesOffset);
    for (unsigned i = threadIdx.x; i < n; i += kThreads) {
      out[begin + i] = indices[begin + i] - static_cast<std::uint32_t>(first);
    }
  }
  if (plan->coding != static_cast<unsigned>(IndexCoding::gaps)) return;
  const unsigned width = groups.widths[blockIdx.x];
  if (width == 0) return;
  std::byte* out = payload + kIndicesOffset + width_bytes(count) + kBytesAUnit * groups.before[blockIdx.x];
  put_group([=](unsigned i) { return gap_before(indices, begin + i, first); }, n, width, out);
}

__global__ void put_bitmap_kernel(const std::uint32_t* indices, std::uint64_t count, IndexRange range, const Plan* plan,
                                  std::byte* payload) {
  if (plan->coding != static_cast<unsigned>(IndexCoding::bitmap)) return;
  bitmap_of_unit(indices, count, range.first, reinterpret_cast<std::uint32_t*>(payload + kIndicesOffset),
                 plan->index_bytes / sizeof(std::uint32_t), blockIdx.x);
}

__global__ void put_values_kernel(const float* values, std::uint64_t count, ValueFormat format, const Plan* plan,
                                  std::byte* payload, Status* status) {
  std::byte* out = payload + kIndicesOffset + plan->index_bytes;
  bool nonfinite = false;
  for_each_entry(count, [&](std::uint64_t i) {
    if (format == ValueFormat::f32) {
      reinterpret_cast<float*>(out)[i] = values[i];
      nonfinite |= is_nonfinite(values[i]);
      return;
    }
    const bool half = format == ValueFormat::f16;
    const std::uint16_t narrow = half ? formats::half_of(values[i]) : formats::bfloat_of(values[i]);
    reinterpret_cast<std::uint16_t*>(out)[i] = narrow;
    nonfinite |= half ? formats::nonfinite_half(narrow) : formats::nonfinite_bfloat(narrow);
  });
  if (nonfinite) status->nonfinite = 1;
}

/// The magnitudes, and a group of fields a block.
__global__ void put_coded_kernel(const float* magnitudes, const std::uint32_t* fields, std::uint64_t count,
                                 ValueSection section, const Plan* plan, std::byte* payload) {
  std::byte* out = payload + kIndicesOffset + plan->index_bytes;
  for (std::uint64_t i = thread_index(); i < section.magnitudes(count); i += std::uint64_t{gridDim.x} * kThreads) {
    store_word(out + i * sizeof(float), __float_as_uint(magnitudes[i]));
  }
  const std::uint64_t begin = std::uint64_t{blockIdx.x} * kPackGroup;
  const auto n = static_cast<unsigned>(count - begin < kPackGroup ? count - begin : kPackGroup);
  const auto width = static_cast<unsigned>(section.bits_each());
  const auto field = [=](unsigned i) { return fields[begin + i]; };
  out += section.magnitude_bytes(count) + kBytesAUnit * width * blockIdx.x;
  put_group(field, n, width, out);
}

// ---- decode

/// What a decoder's kernels work on.
struct Source {
  const std::byte* payload;
  std::uint64_t size;  ///< of the view
  IndexRange range;
  ValueSection section;
  std::uint64_t most;  ///< entries for which there is room

  __device__ const std::uint32_t* words() const {
    return reinterpret_cast<const std::uint32_t*>(payload + kIndicesOffset);
  }
};

/// The header's numbers as far as they can be followed without leaving the payload or the room for indices.
struct Followed {
  std::uint64_t length;  ///< 0 if nothing can be followed
  std::uint64_t count;
  unsigned coding;
};

__device__ Followed followed(const Source& source) {
  const PayloadHeader header = load_header(source.payload);
  const bool fits = header.payload_bytes >= kIndicesOffset && header.payload_bytes <= source.size &&
                    header.payload_bytes % kPayloadAlignment == 0 && header.count <= source.most;
  return {fits ? header.payload_bytes : 0, header.count, sparse::coding_of(header)};
}

/// One block: sums up the widths of gaps and looks at the words that end sections.
__global__ void plan_decoding_kernel(Source source, std::uint32_t* before, Plan* plan, SparseInspection* found) {
  const Followed header = followed(source);
  const bool has_gaps = header.coding == static_cast<unsigned>(IndexCoding::gaps) &&
                        kIndicesOffset + width_bytes(header.count) <= header.length;
  const std::byte* sections = source.payload + kIndicesOffset;
  WidthSums sums{0, kNoGroup};
  if (has_gaps) sums = sum_widths(reinterpret_cast<const std::uint8_t*>(sections), header.count, before);
  if (threadIdx.x != 0) return;
  *found = {};
  found->wrong_magnitude = kNoMagnitude;
  found->payload.header = load_header(source.payload);
  found->payload.wrong_word = kNoWord;
  if (source.size >= kIndicesOffset) {
    found->first = load_word(source.payload + kFirstOffset) |
                   std::uint64_t{load_word(source.payload + kFirstOffset + sizeof(std::uint32_t))} << 32;
  }
  found->gap_bits = sums.bits;
  found->wrong_group = sums.wrong_group;
  if (sums.wrong_group != kNoGroup) found->wrong_width = static_cast<std::uint32_t>(sections[sums.wrong_group]);
  const std::uint64_t index_bytes = has_gaps             ? gap_bytes(header.count, sums.bits)
                                    : header.coding == 0 ? sparse::raw_bytes(header.count)
                                                         : sparse::bitmap_bytes(source.range.size);
  const bool sound = header.coding != kNoCoding && sums.wrong_group == kNoGroup && header.length != 0 &&
                     (has_gaps || header.coding != static_cast<unsigned>(IndexCoding::gaps)) &&
                     kIndicesOffset + index_bytes + source.section.bytes(header.count) == header.length;
  *plan = {index_bytes, sound ? header.coding : kNoCoding};
  if (!sound || header.count == 0) return;
  if (has_gaps) {
    found->widths_end = load_word(sections + width_bytes(header.count) - sizeof(std::uint32_t));
    if (sums.bits != 0) found->gaps_end = load_word(sections + index_bytes - sizeof(std::uint32_t));
  }
  found->values_end = load_word(source.payload + header.length - sizeof(std::uint32_t));
}

/// One block: looks for magnitudes that are not finite or are negative.
__global__ void check_magnitudes_kernel(Source source, const Plan* plan, SparseInspection* found) {
  __shared__ unsigned long long wrong;
  if (threadIdx.x == 0) wrong = kNoMagnitude;
  __syncthreads();
  const std::byte* magnitudes = source.payload + kIndicesOffset + plan->index_bytes;
  const std::uint64_t count = plan->coding == kNoCoding ? 0 : source.section.magnitudes(followed(source).count);
  for (std::uint64_t i = threadIdx.x; i < count; i += kThreads) {
    if (norms_at(0, 1).allows(load_word(magnitudes + i * sizeof(float)))) continue;
    atomicMin(&wrong, static_cast<unsigned long long>(i));
  }
  __syncthreads();
  if (threadIdx.x != 0 || wrong == kNoMagnitude) return;
  found->wrong_magnitude = wrong;
  found->magnitude = load_word(magnitudes + wrong * sizeof(float));
}

/// The gaps of one group, still packed.
struct PackedGroup {
  const std::byte* packed;
  unsigned width;
  unsigned n;

  __device__ std::uint32_t operator()(unsigned i) const {
    return n == kPackGroup ? field_of_group(packed, width, i) : field_of_stream(packed, width, i);
  }
};

__device__ PackedGroup packed_group(const Source& source, std::uint64_t count, const std::uint32_t* before,
                                    std::uint64_t group) {
  const std::byte* sections = source.payload + kIndicesOffset;
  const std::uint64_t left = count - group * kPackGroup;
  return {sections + width_bytes(count) + kBytesAUnit * before[group], static_cast<unsigned>(sections[group]),
          static_cast<unsigned>(left < kPackGroup ? left : kPackGroup)};
}

/// A unit a block, of whichever coding; units beyond the last measure nothing.
__global__ void measure_kernel(Source source, const std::uint32_t* before, const Plan* plan, std::uint64_t* measures) {
  const std::uint64_t unit = blockIdx.x;
  std::uint64_t measure = 0;
  if (plan->coding == static_cast<unsigned>(IndexCoding::gaps)) {
    const std::uint64_t count = followed(source).count;
    if (unit < gap_groups(count)) {
      const PackedGroup gap = packed_group(source, count, before, unit);
      measure = measured_gaps(gap, gap.n);
    }
  } else if (plan->coding == static_cast<unsigned>(IndexCoding::bitmap)) {
    measure = measured_bitmap(source.words(), source.range.size, unit);
  }
  if (threadIdx.x == 0) measures[unit] = measure;
}

__device__ void get_raw(const Source& source, std::uint64_t count, std::uint32_t* indices, SparseInspection* found) {
  const std::uint32_t* relative = source.words();
  const std::uint64_t begin = std::uint64_t{blockIdx.x} * kGapGroup;
  for (std::uint64_t i = begin + threadIdx.x; i < count && i < begin + kGapGroup; i += kThreads) {
    if (!sound_index(relative, i, 0, source.range.size)) found->wrong_indices = 1;
    indices[i] = relative[i] + static_cast<std::uint32_t>(source.range.first);
  }
}

__global__ void get_indices_kernel(Source source, const std::uint32_t* before, const Plan* plan,
                                   const std::uint64_t* measures, std::uint32_t* indices, SparseInspection* found) {
  if (plan->coding == kNoCoding) return;
  const std::uint64_t unit = blockIdx.x;
  const std::uint64_t count = followed(source).count;
  const std::uint64_t total = measures[gridDim.x];
  if (plan->coding == static_cast<unsigned>(IndexCoding::raw)) return get_raw(source, count, indices, found);
  if (plan->coding == static_cast<unsigned>(IndexCoding::gaps)) {
    if (total > source.range.size) {
      found->wrong_indices = 1;
    } else if (unit < gap_groups(count)) {
      const PackedGroup gap = packed_group(source, count, before, unit);
      indices_of_group(gap, gap.n, source.range.first + measures[unit],
                       [=](unsigned i, std::uint32_t index) { indices[unit * kPackGroup + i] = index; });
    }
    return;
  }
  if (total != count) {
    found->wrong_indices = 1;
    return;
  }
  indices_of_bitmap_unit(source.words(), source.range.size, source.range.first, unit, measures[unit],
                         [=](std::uint64_t i, std::uint32_t index) { indices[i] = index; });
}

/// Magnitudes and fields go to the workspace first: where they belong depends on the plan.
void put_coded(Place& place, ConstSparseView entries, IndexRange range, const sparse::ValueCoding& coding,
               const Plan* plan, View<std::byte> payload, StatusView status) {
  const ValueSection section = sparse::section_of(coding, range);
  const std::uint64_t count = entries.size();
  if (count == 0) return;
  const View<float> magnitudes = place.workspace().take<float>(section.magnitudes(count));
  const View<std::uint32_t> fields = place.workspace().take<std::uint32_t>(count);
  cuda::coded_fields(place, coding.format, coding.cuts, coding.scopes_of(range), entries, magnitudes, fields, status);
  const Launch launch(place, "sparse::encode");
  put_coded_kernel<<<static_cast<unsigned>(gap_groups(count)), kThreads, 0, launch.stream()>>>(
      magnitudes.data(), fields.data(), count, section, plan, payload.data());
  launch.check();
}

}  // namespace

void encode_sparse(Place& place, ConstSparseView entries, IndexRange range, const sparse::ValueCoding& coding,
                   View<std::byte> payload, StatusView status) {
  const std::uint64_t count = entries.size();
  const std::uint64_t group_count = gap_groups(count);
  Workspace& workspace = place.workspace();
  const Workspace::Scope scope(workspace);
  const View<std::uint8_t> widths = workspace.take<std::uint8_t>(group_count);
  const View<std::uint64_t> unsound = workspace.take<std::uint64_t>(group_count);
  const Groups groups{widths.data(), workspace.take<std::uint32_t>(group_count).data(), unsound.data()};
  Plan* plan = workspace.take<Plan>(1).data();
  group_gaps(place, entries.indices, range.first, range.size, {}, widths, unsound);

  const Launch launch(place, "sparse::encode");
  plan_encoding_kernel<<<1, kThreads, 0, launch.stream()>>>(
      groups, count, range, sparse::section_of(coding, range), payload.data(), plan, status.data());
  launch.check();
  if (count > 0) {
    put_indices_kernel<<<static_cast<unsigned>(group_count), kThreads, 0, launch.stream()>>>(
        entries.indices.data(), count, range.first, groups, plan, payload.data());
    launch.check();
  }
  if (sparse::bitmap_bytes(range.size) < sparse::raw_bytes(count)) {  // else it is never chosen
    const auto units = static_cast<unsigned>((range.size + kBitmapUnit - 1) / kBitmapUnit);
    put_bitmap_kernel<<<units, kThreads, 0, launch.stream()>>>(entries.indices.data(), count, range, plan,
                                                               payload.data());
    launch.check();
  }
  if (is_coded(coding.format)) {
    put_coded(place, entries, range, coding, plan, payload, status);
  } else {
    launch_over(place, "sparse::encode", count, put_values_kernel, entries.values.data(), count, coding.format, plan,
                payload.data(), status.data());
  }
  seal_written(place, payload, status);
}

void inspect_sparse(Place& place, View<const std::byte> payload, IndexRange range, const ValueSection& section,
                    View<std::uint32_t> indices, SparseInspection& found) {
  const std::uint64_t body = payload.size() > kIndicesOffset ? payload.size() - kIndicesOffset : 0;
  const Source source{payload.data(), payload.size(), range, section,
                      std::min<std::uint64_t>(indices.size(), range.size)};
  const bool may_be_bitmap = sparse::bitmap_bytes(range.size) <= body;
  const std::uint64_t bitmap_units = may_be_bitmap ? (range.size + kBitmapUnit - 1) / kBitmapUnit : 0;
  const std::uint64_t most_sound = std::min(source.most, 8 * body / section.bits_each());  // of which the values fit
  const std::uint64_t units = std::max(gap_groups(most_sound), bitmap_units);
  Workspace& workspace = place.workspace();
  const Workspace::Scope scope(workspace);
  // Widths are summed up, and so judged, even if no values could follow so many.
  std::uint32_t* before = workspace.take<std::uint32_t>(std::min(gap_groups(source.most), body)).data();
  const View<std::uint64_t> measures = workspace.take<std::uint64_t>(units + 1);
  Plan* plan = workspace.take<Plan>(1).data();
  const View<SparseInspection> there = workspace.take<SparseInspection>(1);

  const Launch launch(place, "sparse::decode");
  plan_decoding_kernel<<<1, kThreads, 0, launch.stream()>>>(source, before, plan, there.data());
  launch.check();
  if (section.scopes > 0) {
    check_magnitudes_kernel<<<1, kThreads, 0, launch.stream()>>>(source, plan, there.data());
    launch.check();
  }
  checksum(place, payload, payload.data() + offsetof(PayloadHeader, payload_bytes), offsetof(PayloadHeader, checksum),
           {&there.data()->payload.checksum, 1, Device::cuda});
  if (units > 0) {
    const auto blocks = static_cast<unsigned>(units);
    measure_kernel<<<blocks, kThreads, 0, launch.stream()>>>(source, before, plan, measures.data());
    launch.check();
    sum_units(place, measures);
    get_indices_kernel<<<blocks, kThreads, 0, launch.stream()>>>(source, before, plan, measures.data(), indices.data(),
                                                                 there.data());
    launch.check();
  }
  found = read_one<SparseInspection>(place, there);
}

}  // namespace laconic::cuda
