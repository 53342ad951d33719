#include "torch/train/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/check.h"
#include "base/whole_file.h"
#include "laconic/error.h"
#include "records/parsed_text.h"

namespace laconic {
namespace {

static_assert(std::endian::native == std::endian::little, "the file's byte order is the machine's");

using Json = nlohmann::ordered_json;
constexpr const char* kRemarks = "__metadata__";
constexpr std::uint64_t kLengthBytes = sizeof(std::uint64_t);
constexpr std::uint64_t kTooMany = std::numeric_limits<std::uint64_t>::max() / sizeof(float);
constexpr std::uint64_t kLongestHeader = 100'000'000;  // what the format's own reader allows

/// Entries of a shape; a number that no file has where it is beyond all memory.
std::uint64_t entries_of(const std::vector<std::uint64_t>& shape) {
  std::uint64_t entries = 1;
  for (const std::uint64_t side : shape) {
    if (side != 0 && entries > std::numeric_limits<std::int64_t>::max() / sizeof(float) / side) return kTooMany;
    entries *= side;
  }
  return entries;
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {
    std::ifstream input(path, std::ios::binary | std::ios::ate);
    if (!input || !std::filesystem::is_regular_file(path)) throw Error("cannot read " + path);
    bytes_.resize(static_cast<std::size_t>(input.tellg()));
    input.seekg(0);
    if (!input.read(bytes_.data(), static_cast<std::streamsize>(bytes_.size()))) throw Error("cannot read " + path);
  }

  SafetensorsFile read() {
    const Json header = parse_header();
    SafetensorsFile file;
    for (const auto& [name, entry] : header.items()) {
      if (name == kRemarks) {
        read_remarks(entry, file.remarks);
      } else {
        ranges_.push_back(range_of(name, entry));
      }
    }
    std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
    require_no_gap();
    file.memory.resize((bytes_.size() - data_start_) / sizeof(float));
    std::memcpy(file.memory.data(), bytes_.data() + data_start_, bytes_.size() - data_start_);
    for (Range& range : ranges_) {
      const View<const float> all(file.memory);
      file.arrays.push_back({std::move(range.name), std::move(range.shape),
                             all.sub(range.begin / sizeof(float), (range.end - range.begin) / sizeof(float))});
    }
    return file;
  }

 private:
  struct Range {
    std::string name;
    std::vector<std::uint64_t> shape;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  [[noreturn]] void refuse(std::uint64_t offset, const std::string& expected, const std::string& found) const {
    throw Error(path_ + ", offset " + std::to_string(offset) + ": expected " + expected + ", found " + found +
                ". The file is damaged or no safetensors file");
  }

  Json parse_header() {
    if (bytes_.size() < kLengthBytes) refuse(0, "8 bytes of length", std::to_string(bytes_.size()) + " bytes");
    std::uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), kLengthBytes);
    if (length > kLongestHeader || length > bytes_.size() - kLengthBytes) {
      refuse(
          0,
          "the length of a header, at most " + std::to_string(std::min(kLongestHeader, bytes_.size() - kLengthBytes)),
          std::to_string(length));
    }
    data_start_ = kLengthBytes + length;
    const std::string_view text(bytes_.data() + kLengthBytes, length);
    if (const auto deep = too_deep_json(text)) {
      refuse(kLengthBytes + *deep, "JSON of at most " + std::to_string(kDeepest) + " levels", "more");
    }
    Json header;
    try {
      header = Json::parse(text);
    } catch (const Json::parse_error& error) {
      refuse(kLengthBytes + (error.byte == 0 ? 0 : error.byte - 1), "JSON", "none");
    }
    if (!header.is_object()) refuse(kLengthBytes, "a JSON object", header.type_name());
    return header;
  }

  void read_remarks(const Json& entry, Remarks& remarks) const {
    if (!entry.is_object()) refuse(kLengthBytes, "an object of texts as __metadata__", entry.dump());
    for (const auto& [key, text] : entry.items()) {
      if (!text.is_string()) refuse(kLengthBytes, "a text as __metadata__ " + key, text.dump());
      remarks[key] = text.get<std::string>();
    }
  }

  static bool is_list_of_sizes(const Json& list) {
    return list.is_array() &&
           std::all_of(list.begin(), list.end(), [](const Json& one) { return one.is_number_unsigned(); });
  }

  Range range_of(const std::string& name, const Json& entry) const {
    const std::string which = " for tensor " + name;
    if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") || !entry.contains("data_offsets")) {
      refuse(kLengthBytes, "dtype, shape and data_offsets" + which, entry.dump());
    }
    if (entry["dtype"] != "F32") refuse(kLengthBytes, "dtype \"F32\"" + which, entry["dtype"].dump());
    if (!is_list_of_sizes(entry["shape"])) refuse(kLengthBytes, "a shape" + which, entry["shape"].dump());
    const Json& offsets = entry["data_offsets"];
    if (!is_list_of_sizes(offsets) || offsets.size() != 2) {
      refuse(kLengthBytes, "two data_offsets" + which, offsets.dump());
    }
    Range range{name, entry["shape"].get<std::vector<std::uint64_t>>(), offsets[0], offsets[1]};
    const std::uint64_t room = bytes_.size() - data_start_;
    if (range.begin > range.end || range.end > room) {
      refuse(data_start_ + std::min(range.begin, room), "bytes " + offsets.dump() + " of the data" + which,
             "data of " + std::to_string(room) + " bytes");
    }
    if (range.end - range.begin != entries_of(range.shape) * sizeof(float)) {
      refuse(data_start_ + range.begin, "4 bytes for each entry of shape " + entry["shape"].dump() + which,
             std::to_string(range.end - range.begin) + " bytes");
    }
    return range;
  }

  void require_no_gap() const {
    std::uint64_t position = 0;
    for (const Range& range : ranges_) {
      if (range.begin != position) {
        refuse(data_start_ + position, "the next tensor's data",
               "tensor " + range.name + " at " + std::to_string(data_start_ + range.begin));
      }
      position = range.end;
    }
    if (const std::uint64_t end = data_start_ + position; end != bytes_.size()) {
      refuse(end, "the end of the file", std::to_string(bytes_.size() - end) + " bytes more");
    }
  }

  std::string path_;
  std::vector<char> bytes_;
  std::uint64_t data_start_ = 0;
  std::vector<Range> ranges_;
};

}  // namespace

void write_safetensors(const std::string& path, std::span<const NamedArray> arrays, const Remarks& remarks) {
  Json header = Json::object();
  if (!remarks.empty()) header[kRemarks] = remarks;
  std::uint64_t position = 0;
  for (const NamedArray& array : arrays) {
    LACONIC_CHECK(array.values.size() == entries_of(array.shape));
    const std::uint64_t end = position + array.values.size_bytes();
    header[array.name] = {{"dtype", "F32"}, {"shape", array.shape}, {"data_offsets", {position, end}}};
    position = end;
  }
  std::string bytes = header.dump();
  bytes.append((kLengthBytes - bytes.size() % kLengthBytes) % kLengthBytes, ' ');  // the values are aligned
  const std::uint64_t length = bytes.size();
  bytes.insert(0, reinterpret_cast<const char*>(&length), kLengthBytes);
  bytes.reserve(bytes.size() + position);
  for (const NamedArray& array : arrays) {
    bytes.append(reinterpret_cast<const char*>(array.values.data()), array.values.size_bytes());
  }
  write_whole_file(path, bytes);
}

SafetensorsFile read_safetensors(const std::string& path) { return Reader(path).read(); }

}  // namespace laconic
