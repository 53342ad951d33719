#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "data/contents.h"
#include "data/data_file.h"

// MNIST's format: magic number, sizes (each four bytes, the highest first), then bytes.

namespace laconic {
namespace {

constexpr std::uint32_t kIdxSide = 28;
constexpr std::uint32_t kIdxPixels = kIdxSide * kIdxSide;
constexpr std::uint32_t kImagesMagic = 0x803;
constexpr std::uint32_t kLabelsMagic = 0x801;
constexpr std::uint64_t kImagesHeader = 16;
constexpr std::uint64_t kLabelsHeader = 8;
constexpr std::uint64_t kMostTimes = 10;  ///< as many images as the publisher's

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
    if (file.number(offset) != kIdxSide) {
      file.wrong(offset, std::to_string(kIdxSide) + (offset == 8 ? " rows" : " columns"),
                 std::to_string(file.number(offset)));
    }
  }
  const std::uint32_t count = file.number(4);
  if (count == 0) file.wrong(4, "1 image or more", "0");
  file.require_size(kImagesHeader + std::uint64_t{count} * kIdxPixels, std::to_string(count) + " images");
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

/// How the files of a publisher are told from those of another that have the same names, sizes and format.
struct Publication {
  std::string_view task;
  double mean;  ///< of all training pixels
  double deviation;
  std::array<std::uint8_t, 10> train_labels;  ///< the first ones
  std::array<std::uint8_t, 10> test_labels;

  const auto& labels(bool training) const { return training ? train_labels : test_labels; }
};

constexpr Publication kPublications[] = {
    {"mnist", 0.1307, 0.3081, {5, 0, 4, 1, 9, 2, 1, 3, 1, 4}, {7, 2, 1, 0, 4, 1, 4, 9, 5, 9}},
    {"fashion-mnist", 0.286, 0.353, {9, 0, 0, 3, 0, 2, 7, 2, 5, 5}, {9, 2, 1, 1, 6, 1, 4, 6, 5, 7}}};

bool begin_as(std::span<const std::uint8_t> labels, const Publication& publication, bool training) {
  const auto& known = publication.labels(training);
  return labels.size() >= known.size() && std::equal(known.begin(), known.end(), labels.begin());
}

/// Of so many images the mean is within some hundredths of the whole set's, whichever they are.
bool are_as_bright(std::span<const std::uint8_t> pixels, const Publication& publication) {
  constexpr std::size_t kEnough = 1000 * kIdxPixels;
  if (pixels.size() < kEnough) return false;
  const double sum = std::accumulate(pixels.begin(), pixels.begin() + kEnough, 0.0);
  return std::abs(sum / kEnough / 255.0 - publication.mean) < 0.05;
}

/// Both sets have files of the same names: one in the other's folder would train, and be told as what it is not.
void refuse_files_of_another(const TaskRow& row, const DataFile& images, const DataFile& labels, bool training) {
  for (const Publication& other : kPublications) {
    if (other.task == row.name) continue;
    const std::string found = "those of " + std::string(other.task);
    if (begin_as(labels.bytes().subspan(kLabelsHeader), other, training)) {
      labels.wrong(kLabelsHeader, std::string("the labels of ") + row.name, found);
    }
    if (are_as_bright(images.bytes().subspan(kImagesHeader), other)) {
      images.wrong(kImagesHeader, std::string("the images of ") + row.name, found + ", as bright as they are");
    }
  }
}

const Publication& publication_of(const TaskRow& row) {
  return *std::find_if(std::begin(kPublications), std::end(kPublications),
                       [&](const Publication& each) { return each.task == row.name; });
}

struct Set {
  Samples samples;      ///< those that are wanted
  std::uint32_t found;  ///< in the file
};

Set read_set(const TaskRow& row, const TaskOptions& options, std::string_view prefix, FirstBytes& seen) {
  const std::string name(prefix);
  const std::uint64_t most = kImagesHeader + kMostTimes * row.train_size * kIdxPixels;
  const DataFile images(row, options.data_folder, name + "-images-idx3-ubyte", most);
  const std::uint32_t count = check_images(images);
  const DataFile labels(row, options.data_folder, name + "-labels-idx1-ubyte", images.size());
  check_labels(labels, count, row.classes);
  const bool training = prefix == "train";
  refuse_files_of_another(row, images, labels, training);
  seen.add(images, kImagesHeader);
  const std::uint32_t wanted = samples_wanted(training ? "train_samples" : "test_samples",
                                              training ? options.train_samples : options.test_samples, count);
  const auto pixels = images.bytes().subspan(kImagesHeader, std::size_t{wanted} * kIdxPixels);
  const auto classes = labels.bytes().subspan(kLabelsHeader, wanted);
  Set set{.samples = {}, .found = count};
  set.samples.pixels.assign(pixels.begin(), pixels.end());
  set.samples.labels.assign(classes.begin(), classes.end());
  return set;
}

}  // namespace

TaskContents make_idx(const TaskRow& row, const TaskOptions& options) {
  TaskContents contents;
  contents.input = {.kind = InputKind::image, .channels = 1, .height = kIdxSide, .width = kIdxSide};
  FirstBytes seen;
  Set train = read_set(row, options, "train", seen);
  Set test = read_set(row, options, "t10k", seen);
  contents.note = note_on_sizes(row, train.found, test.found);
  contents.train = std::move(train.samples);
  contents.test = std::move(test.samples);
  contents.mean[0] = publication_of(row).mean;
  contents.deviation[0] = publication_of(row).deviation;
  return contents;
}

}  // namespace laconic
