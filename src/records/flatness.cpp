#include "records/flatness.h"

#include <filesystem>
#include <fstream>

#include "base/whole_file.h"
#include "records/file_names.h"
#include "records/json_record.h"

namespace laconic {
namespace {

std::string file_in(const std::string& folder, const char* name) { return folder + "/" + name; }

}  // namespace

void write_point(const std::string& folder, View<const float> model) {
  write_whole_file(file_in(folder, kPointFile), as_bytes(model));
}

std::vector<float> read_point(const std::string& folder) {
  const std::string file = file_in(folder, kPointFile);
  std::ifstream input(file, std::ios::binary);
  std::vector<float> model(std::filesystem::file_size(file) / sizeof(float));
  if (!input.read(reinterpret_cast<char*>(model.data()), static_cast<std::streamsize>(model.size() * sizeof(float)))) {
    throw Error("cannot read " + file);
  }
  return model;
}

void write_flatness(const std::string& folder, const RecordedFlatness& flatness) {
  const nlohmann::ordered_json json{{"trace", flatness.trace},     {"trace_error", flatness.trace_error},
                                    {"largest", flatness.largest}, {"largest_error", flatness.largest_error},
                                    {"loss", flatness.loss},       {"samples", flatness.samples}};
  write_whole_file(file_in(folder, kFlatnessFile), json.dump(2) + "\n");
}

std::optional<RecordedFlatness> read_flatness(const std::string& folder) {
  const std::string file = file_in(folder, kFlatnessFile);
  if (!std::filesystem::exists(file)) return {};
  const JsonRecord json = read_json_record(file);
  return RecordedFlatness{.trace = json.number("trace"),
                          .trace_error = json.number("trace_error"),
                          .largest = json.number("largest"),
                          .largest_error = json.number("largest_error"),
                          .loss = json.number("loss"),
                          .samples = json.count("samples")};
}

}  // namespace laconic
