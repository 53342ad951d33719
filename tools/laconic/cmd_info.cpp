#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "commands.h"
#include "json_output.h"
#include "laconic/cuda.h"
#include "laconic/place.h"
#include "laconic/version.h"

namespace laconic::tools {
namespace {

std::string available_levels() {
  std::string names;
  for (const SimdLevel level : kSimdLevels) {
    if (simd_available(level)) names += std::string(names.empty() ? "" : ", ") + simd_name(level);
  }
  return names;
}

std::string built(bool in) { return in ? "built in" : "left out"; }

/// NVIDIA's driver tells its devices here, whether or not this build can use them.
std::vector<std::string> gpus_of_the_driver() {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none)) {
    std::ifstream input(entry.path() / "information");
    std::string line;
    while (std::getline(input, line)) {
      const std::string key = "Model:";
      if (line.starts_with(key))
        names.push_back(line.substr(std::min(line.find_first_not_of(" \t", key.size()), line.size())));
    }
  }
  return names;
}

std::string gpu_text() {
  if (LACONIC_CUDA_EMULATED != 0) return "none used (this build emulates CUDA on the CPU, for tests)";
  const auto names = gpus_of_the_driver();
  const int usable = cuda_device_count();
  if (names.empty() && usable == 0) return "none found";
  std::string text = names.empty() ? std::to_string(usable) + " found" : "";
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  if (LACONIC_CUDA == 0) return text + " (not used: this build leaves CUDA out)";
  return text + (usable == 0 ? " (CUDA cannot use it: look at the driver)" : "");
}

/// In the order in which they are shown.
std::vector<std::pair<std::string, std::string>> facts() {
  const Place place;
  return {{"laconic", kVersion},
          {"wire version", std::to_string(kWireVersion)},
          {"SIMD level",
           fmt::format("{}, vectors: {} (available: {}; LACONIC_SIMD chooses one)", simd_name(place.simd()),
                       simd_vectors(place.simd()), available_levels())},
          {"threads", std::to_string(place.threads())},
          {"GPU", gpu_text()},
          {"Highway", built(LACONIC_HIGHWAY != 0)},
          {"MPI", built(LACONIC_MPI != 0)},
          {"CUDA", LACONIC_CUDA_EMULATED != 0 ? "emulated on the CPU" : built(LACONIC_CUDA != 0)},
          {"PyTorch", built(LACONIC_TORCH != 0)},
          {"report", built(LACONIC_REPORT != 0)}};
}

void show(const JsonOutput& json) {
  nlohmann::ordered_json object;
  for (const auto& [name, value] : facts()) {
    if (!json.on_stdout()) std::cout << fmt::format("{:<14} {}\n", name, value);
    std::string key = name;
    std::replace(key.begin(), key.end(), ' ', '_');
    object[key] = value;
  }
  json.write(object.dump(2) + "\n");
}

}  // namespace

void add_info(CLI::App& program) {
  CLI::App* command = program.add_subcommand("info", "What this machine and this build can do");
  auto json = std::make_shared<JsonOutput>();
  json->add_to(*command, "the same");
  command->footer("Example:\n  LACONIC_SIMD=avx2 laconic info");
  command->callback([json] { show(*json); });
}

}  // namespace laconic::tools
