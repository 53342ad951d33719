#include <algorithm>
#include <string_view>

#include "data/contents.h"
#include "data/data_file.h"

// MNIST's format: magic number, sizes (each four bytes, the highest first), then bytes.

namespace laconic {
namespace {

constexpr std::uint32_t kSide = 28;
constexpr std::uint32_t kPixels = kSide * kSide;
constexpr std::uint32_t kImagesMagic = 0x803;
constexpr std::uint32_t kLabelsMagic = 0x801;
constexpr std::uint64_t kImagesHeader = 16;
constexpr std::uint64_t kLabelsHeader = 8;
constexpr std::uint64_t kMost = std::uint64_t{1} << 30;

std::string hex(std::uint32_t value) {
  std::string text = "0x00000000";
  for (std::size_t i = 9; i > 1; --i, value >>= 4) text[i] = "0123456789abcdef"[value & 15];
  return text;
}

void require_magic(const DataFile& file, std::uint32_t magic, std::uint64_t header, const char* kind) {
  if (file.size() < header) {
    file.wrong(file.size(), std::to_string(header) + " bytes of an idx header", "the end: the file is cut off");
  }
  const std::uint32_t found = file.number(0);
  if (found == magic) return;
  const char* other = found == kImagesMagic ? " (images)" : found == kLabelsMagic ? " (labels)" : "";
  file.wrong(0, hex(magic) + ", the magic number of an idx file of " + kind, hex(found) + other);
}

/// How many images; the file holds that many of the right size.
std::uint32_t check_images(const DataFile& file) {
  require_magic(file, kImagesMagic, kImagesHeader, "images");
  for (const std::uint64_t offset : {8U, 12U}) {
    if (file.number(offset) != kSide) {
      file.wrong(offset, std::to_string(kSide) + (offset == 8 ? " rows" : " columns"),
                 std::to_string(file.number(offset)));
    }
  }
  const std::uint32_t count = file.number(4);
  if (count == 0) file.wrong(4, "1 image or more", "0");
  file.require_size(kImagesHeader + std::uint64_t{count} * kPixels, std::to_string(count) + " images");
  return count;
}

void check_labels(const DataFile& file, std::uint32_t count, int classes) {
  require_magic(file, kLabelsMagic, kLabelsHeader, "labels");
  if (file.number(4) != count) {
    file.wrong(4, std::to_string(count) + " labels, as there are images", std::to_string(file.number(4)));
  }
  file.require_size(kLabelsHeader + count, std::to_string(count) + " labels");
  const auto labels = file.bytes().subspan(kLabelsHeader);
  const auto bad = std::find_if(labels.begin(), labels.end(), [&](std::uint8_t label) { return label >= classes; });
  if (bad == labels.end()) return;
  file.wrong(kLabelsHeader + static_cast<std::uint64_t>(bad - labels.begin()),
             "a label below " + std::to_string(classes), std::to_string(*bad));
}

Samples read_set(const TaskRow& row, const TaskOptions& options, std::string_view prefix) {
  const std::string name(prefix);
  const DataFile images(row, options.data_folder, name + "-images-idx3-ubyte", kMost);
  const std::uint32_t count = check_images(images);
  const DataFile labels(row, options.data_folder, name + "-labels-idx1-ubyte", kMost);
  check_labels(labels, count, row.classes);
  const bool training = prefix == "train";
  const std::uint32_t wanted = samples_wanted(training ? "train_samples" : "test_samples",
                                              training ? options.train_samples : options.test_samples, count);
  const auto pixels = images.bytes().subspan(kImagesHeader, std::size_t{wanted} * kPixels);
  const auto classes = labels.bytes().subspan(kLabelsHeader, wanted);
  Samples samples;
  samples.pixels.assign(pixels.begin(), pixels.end());
  samples.labels.assign(classes.begin(), classes.end());
  return samples;
}

}  // namespace

TaskContents make_idx(const TaskRow& row, const TaskOptions& options) {
  TaskContents contents;
  contents.input = {.kind = InputKind::image, .channels = 1, .height = kSide, .width = kSide};
  contents.train = read_set(row, options, "train");
  contents.test = read_set(row, options, "t10k");
  const bool fashion = std::string_view(row.name) == "fashion-mnist";
  contents.mean[0] = fashion ? 0.286 : 0.1307;
  contents.deviation[0] = fashion ? 0.353 : 0.3081;
  return contents;
}

}  // namespace laconic
