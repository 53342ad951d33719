#include <algorithm>
#include <string_view>

#include "data/contents.h"
#include "data/data_file.h"

// CIFAR's binary format: records of the label (CIFAR-100: the coarse one, then the fine one) and three planes of 32×32
// bytes, red, green, blue.

namespace laconic {
namespace {

constexpr int kCifarSide = 32;
constexpr std::uint64_t kCifarBytes = 3 * kCifarSide * kCifarSide;
constexpr int kCoarseClasses = 20;

struct Format {
  std::uint64_t label_bytes;
  std::uint32_t train_records;  ///< of a training file
  std::uint32_t test_records;
  int classes;

  std::uint64_t record_bytes() const { return label_bytes + kCifarBytes; }
};

void append_file(const DataFile& file, const Format& format, std::uint32_t records, std::uint32_t wanted,
                 Samples& samples) {
  file.require_size(records * format.record_bytes(),
                    std::to_string(records) + " records of " + std::to_string(format.record_bytes()) + " bytes");
  for (std::uint32_t i = 0; i < records; ++i) {
    const std::uint64_t start = i * format.record_bytes();
    for (std::uint64_t byte = 0; byte < format.label_bytes; ++byte) {
      const int limit = byte + 1 < format.label_bytes ? kCoarseClasses : format.classes;
      const int label = file.bytes()[start + byte];
      if (label >= limit) file.wrong(start + byte, "a label below " + std::to_string(limit), std::to_string(label));
    }
    if (i >= wanted) continue;
    const auto record = file.bytes().subspan(start, format.record_bytes());
    samples.labels.push_back(record[format.label_bytes - 1]);
    samples.pixels.insert(samples.pixels.end(), record.begin() + static_cast<std::ptrdiff_t>(format.label_bytes),
                          record.end());
  }
}

}  // namespace

TaskContents make_cifar(const TaskRow& row, const TaskOptions& options) {
  const bool ten = std::string_view(row.name) == "cifar10";
  const Format format = ten ? Format{1, 10000, 10000, 10} : Format{2, 50000, 10000, 100};
  std::uint32_t train_left = samples_wanted("train_samples", options.train_samples, row.train_size);
  const std::uint32_t test_wanted = samples_wanted("test_samples", options.test_samples, row.test_size);

  TaskContents contents;
  contents.input = {.kind = InputKind::image, .channels = 3, .height = kCifarSide, .width = kCifarSide};
  contents.train.pixels.reserve(train_left * kCifarBytes);
  contents.test.pixels.reserve(test_wanted * kCifarBytes);
  FirstBytes seen;
  for (const TaskFile& each : row.files) {
    const bool test = std::string_view(each.name).starts_with("test");
    // A file takes seconds to unpack: those that nothing is wanted of stay closed.
    if (!test && train_left == 0) continue;
    const std::uint32_t records = test ? format.test_records : format.train_records;
    const std::uint32_t wanted = test ? test_wanted : std::min(train_left, records);
    const DataFile file(row, options.data_folder, each.name, 2 * records * format.record_bytes());
    append_file(file, format, records, wanted, test ? contents.test : contents.train);
    seen.add(file);
    if (!test) train_left -= wanted;
  }
  contents.mean = ten ? std::array<double, 3>{0.4914, 0.4822, 0.4465} : std::array<double, 3>{0.5071, 0.4865, 0.4409};
  contents.deviation =
      ten ? std::array<double, 3>{0.2470, 0.2435, 0.2616} : std::array<double, 3>{0.2673, 0.2564, 0.2762};
  contents.crop_padding = 4;
  contents.flip = true;
  return contents;
}

}  // namespace laconic
