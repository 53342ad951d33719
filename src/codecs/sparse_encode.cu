#include "base/cuda/words.h"
#include "base/workspace.h"
#include "codecs/header_words.h"
#include "codecs/sparse_plan.h"
#include "codecs/twins.h"
#include "kernels/bitpack/fields.h"
#include "kernels/coded/twins.h"
#include "kernels/convert/formats.h"

namespace laconic::cuda {
namespace {

/// What the kernels share, in the workspace. One of each per group.
struct Groups {
  std::uint8_t* widths;
  std::uint32_t* before;   ///< widths of the groups before, added up
  std::uint64_t* unsound;  ///< encoding: the first entry that is not sound, or the number of entries
};

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

/// The magnitudes, and one group of fields per block.
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

}  // namespace laconic::cuda
