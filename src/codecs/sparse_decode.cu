#include <algorithm>

#include "base/cuda/words.h"
#include "base/transfer.h"
#include "base/workspace.h"
#include "codecs/header_words.h"
#include "codecs/sparse_plan.h"
#include "codecs/twins.h"
#include "codecs/word_check.h"
#include "kernels/bitpack/fields.h"
#include "kernels/checksum/loops.h"

namespace laconic::cuda {
namespace {

using sparse::gap_bytes;

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

/// What is found stays in the place's memory.
void inspect_list(Place& place, const sparse::ReceivedList& list, const ValueSection& section,
                  View<SparseInspection> found) {
  const View<const std::byte> payload = list.payload;
  if (payload.size() < sizeof(PayloadHeader)) return put_zeros(place, as_writable_bytes(found));
  const std::uint64_t body = payload.size() > kIndicesOffset ? payload.size() - kIndicesOffset : 0;
  const Source source{payload.data(), payload.size(), list.range, section,
                      std::min<std::uint64_t>(list.entries.size(), list.range.size)};
  const bool may_be_bitmap = sparse::bitmap_bytes(list.range.size) <= body;
  const std::uint64_t bitmap_units = may_be_bitmap ? (list.range.size + kBitmapUnit - 1) / kBitmapUnit : 0;
  const std::uint64_t most_sound = std::min(source.most, 8 * body / section.bits_each());  // of which the values fit
  const std::uint64_t units = std::max(gap_groups(most_sound), bitmap_units);
  Workspace& workspace = place.workspace();
  const Workspace::Scope scope(workspace);
  // Widths are summed up, and so judged, even if no values could follow so many.
  std::uint32_t* before = workspace.take<std::uint32_t>(std::min(gap_groups(source.most), body)).data();
  const View<std::uint64_t> measures = workspace.take<std::uint64_t>(units + 1);
  Plan* plan = workspace.take<Plan>(1).data();

  const Launch launch(place, "sparse::decode");
  plan_decoding_kernel<<<1, kThreads, 0, launch.stream()>>>(source, before, plan, found.data());
  launch.check();
  if (section.scopes > 0) {
    check_magnitudes_kernel<<<1, kThreads, 0, launch.stream()>>>(source, plan, found.data());
    launch.check();
  }
  checksum(place, payload, payload.data() + offsetof(PayloadHeader, payload_bytes), offsetof(PayloadHeader, checksum),
           {&found.data()->payload.checksum, 1, Device::cuda});
  if (units == 0) return;
  const auto blocks = static_cast<unsigned>(units);
  measure_kernel<<<blocks, kThreads, 0, launch.stream()>>>(source, before, plan, measures.data());
  launch.check();
  sum_units(place, measures);
  get_indices_kernel<<<blocks, kThreads, 0, launch.stream()>>>(source, before, plan, measures.data(),
                                                               list.entries.indices.data(), found.data());
  launch.check();
}

}  // namespace

void inspect_sparse(Place& place, std::span<const sparse::ReceivedList> lists, const sparse::ValueCoding& coding,
                    std::span<SparseInspection> found) {
  const Workspace::Scope scope(place.workspace());
  const View<SparseInspection> there = place.workspace().take<SparseInspection>(lists.size());
  for (std::size_t i = 0; i < lists.size(); ++i) {
    inspect_list(place, lists[i], sparse::section_of(coding, lists[i].range), there.sub(i, 1));
  }
  copy_to_cpu<SparseInspection>(place, there, found.data());
}

}  // namespace laconic::cuda
