#include <fmt/format.h>

#include <iostream>
#include <string>

#include "commands.h"
#include "laconic/place.h"
#include "laconic/version.h"

namespace laconic::tools {
namespace {

std::string available_levels() {
  std::string names;
  for (const SimdLevel level :
       {SimdLevel::reference, SimdLevel::portable, SimdLevel::neon, SimdLevel::avx2, SimdLevel::avx512}) {
    if (simd_available(level)) names += std::string(names.empty() ? "" : ", ") + simd_name(level);
  }
  return names;
}

void line(const char* name, const std::string& value) { std::cout << fmt::format("{:<14} {}\n", name, value); }

const char* yes_or_no(bool built_in) { return built_in ? "built in" : "left out"; }

void show() {
  const Place place;
  line("laconic", kVersion);
  line("wire version", std::to_string(kWireVersion));
  line("SIMD level",
       std::string(simd_name(place.simd())) + " (available: " + available_levels() + "; LACONIC_SIMD chooses one)");
  line("threads", std::to_string(place.threads()));
  line("Highway", yes_or_no(LACONIC_HIGHWAY != 0));
  line("MPI", yes_or_no(LACONIC_MPI != 0));
  line("CUDA", yes_or_no(LACONIC_CUDA != 0));
  line("PyTorch", yes_or_no(LACONIC_TORCH != 0));
  line("report", yes_or_no(LACONIC_REPORT != 0));
}

}  // namespace

void add_info(CLI::App& program) {
  CLI::App* command = program.add_subcommand("info", "What this machine and this build can do");
  command->footer("Example:\n  LACONIC_SIMD=avx2 laconic info");
  command->callback(show);
}

}  // namespace laconic::tools
