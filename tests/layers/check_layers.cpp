// check_layers ROOT: the folders are the layers, and a folder may include only what stands above it. Prints one line a
// breach, "file:line: includes X; folder Y may include ...", and exits 1 if there is one. Runs in every build.

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;
using List = std::vector<std::string_view>;

/// A folder, and the folders above it that it may include besides itself.
struct Layer {
  std::string_view folder;
  List above;
};

List plus(List folders, const List& more) {
  for (const std::string_view folder : more) folders.push_back(folder);
  return folders;
}

const std::vector<Layer>& layers() {
  static const std::vector<Layer> table = [] {
    const List transport{"include/laconic", "src/base", "src/kernels"};
    const List core = plus(transport, {"src/codecs", "src/transport", "src/exchange"});
    const List methods = plus(core, {"src/methods", "src/problems", "src/network"});
    const List plugin = plus(methods, {"src/torch/plugin/c10d"});
    const List records = plus(methods, {"src/experiment"});
    const List train = plus(records, {"src/records", "src/data", "src/torch/models"});
    const List diagnose = plus(train, {"src/torch/train"});
    const List hosts = plus(diagnose, {"src/torch/diagnose"});
    return std::vector<Layer>{
        {"include/laconic", {}},
        {"src/base", {"include/laconic"}},
        {"src/data", {"include/laconic", "src/base"}},
        {"src/kernels", {"include/laconic", "src/base"}},
        {"src/codecs", {"include/laconic", "src/base", "src/kernels"}},
        {"src/transport", transport},
        {"src/exchange", core},
        {"src/methods", core},
        {"src/problems", core},
        {"src/network", core},
        {"src/experiment", plus(methods, {"src/data"})},
        {"src/records", records},
        {"src/torch/plugin/c10d", plus(transport, {"src/transport"})},
        {"src/torch/plugin", plugin},
        {"src/torch/python", plus(plugin, {"src/records", "src/torch/plugin"})},
        {"src/torch/models", {"include/laconic", "src/base", "src/kernels", "src/data", "src/problems"}},
        {"src/torch/train", train},
        {"src/torch/diagnose", diagnose},
        {"src/claims/networks", plus(hosts, {"src/claims"})},
        {"src/claims", records},
        {"bench", hosts},
        {"tools/laconic", plus(hosts, {"bench", "src/claims", "src/claims/networks"})},
    };
  }();
  return table;
}

/// Headers that only some folders may see, most of them of others. A name that ends in '/' stands for all below it.
struct Restricted {
  std::string_view header;
  List folders;
};

const std::vector<Restricted>& restricted_headers() {
  const static List mpi{"include/laconic/mpi.h", "src/transport/mpi", "tests"};
  const static List torch{"src/torch", "tests/torch", "tests/python"};
  const static List cuda{"src/base", "src/kernels", "src/torch", "tests", "examples"};
  static const std::vector<Restricted> table{
      // Loops over gradients are kernels: methods and exchanges have no threads, and no way to open a place's memory.
      {"base/thread_pool.h", {"src/base", "src/kernels", "src/transport", "bench", "tests"}},
      {"base/touch.h", {"src/kernels", "src/codecs", "tests"}},
      {"mpi.h", mpi},
      {"laconic/mpi.h", {"src/transport/mpi", "bench", "tools", "tests", "examples"}},
      {"torch/", torch},
      {"ATen/", torch},
      {"c10/", torch},
      {"pybind11/", {"src/torch/python", "tests/python"}},
      {"Python.h", {"src/torch/python", "tests/python"}},
      {"cuda", cuda},
      {"cub/", cuda},
      {"thrust/", cuda},
      {"hwy/", {"src/kernels"}},
      {"zlib.h", {"src/data", "tests"}},
      {"lzma.h", {"src/data", "tests"}},
      {"CLI/", {"tools"}},
      {"gtest/", {"tests"}},
  };
  return table;
}

bool begins_with_folder(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

const Layer* layer_of(std::string_view path) {
  for (const Layer& layer : layers()) {
    if (begins_with_folder(path, layer.folder)) return &layer;
  }
  return nullptr;
}

struct Include {
  std::string file;  ///< relative to the root
  int line = 0;
  std::string header;    ///< as it is written
  std::string resolved;  ///< relative to the root, or empty for a header that is not ours
};

bool is_source(const fs::path& path) {
  static constexpr std::array<std::string_view, 6> kEndings{".h", ".hpp", ".cpp", ".cc", ".cu", ".cuh"};
  return std::find(kEndings.begin(), kEndings.end(), path.extension().string()) != kEndings.end();
}

/// The header between the quotes or brackets of an include line, or empty.
std::string header_in(std::string_view text) {
  const auto skip = [&] {
    const std::size_t start = text.find_first_not_of(" \t");
    text.remove_prefix(start == std::string_view::npos ? text.size() : start);
  };
  skip();
  if (!text.starts_with('#')) return {};
  text.remove_prefix(1);
  skip();
  if (!text.starts_with("include")) return {};
  text.remove_prefix(7);
  skip();
  if (text.empty() || (text.front() != '"' && text.front() != '<')) return {};
  const std::size_t end = text.find(text.front() == '"' ? '"' : '>', 1);
  return std::string(text.substr(1, end == std::string_view::npos ? end : end - 1));
}

std::string resolve(const fs::path& root, const fs::path& file, const std::string& header) {
  for (const fs::path& base : {file.parent_path(), root / "include", root / "src", root, root / "tests"}) {
    const fs::path candidate = (base / header).lexically_normal();
    if (!fs::is_regular_file(candidate)) continue;
    const fs::path relative = candidate.lexically_relative(root);
    if (!relative.empty() && *relative.begin() != "..") return relative.generic_string();
  }
  return {};
}

std::vector<Include> includes_of(const fs::path& root) {
  std::vector<Include> found;
  for (const char* top : {"include", "src", "bench", "tools", "tests", "fuzz", "examples"}) {
    if (!fs::is_directory(root / top)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      std::ifstream input(entry.path());
      std::string text;
      for (int line = 1; std::getline(input, text); ++line) {
        const std::string header = header_in(text);
        if (header.empty()) continue;
        found.push_back({entry.path().lexically_relative(root).generic_string(), line, header,
                         resolve(root, entry.path(), header)});
      }
    }
  }
  std::sort(found.begin(), found.end(),
            [](const Include& a, const Include& b) { return std::tie(a.file, a.line) < std::tie(b.file, b.line); });
  return found;
}

std::string join(const List& names) {
  std::string text;
  for (const std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text.empty() ? "nothing else" : text;
}

/// What is wrong with one include, or empty.
std::string breach(const Include& include) {
  for (const Restricted& rule : restricted_headers()) {
    const bool whole = rule.header.ends_with(".h");
    if (whole ? include.header != rule.header : !include.header.starts_with(rule.header)) continue;
    if (!whole && !include.resolved.empty()) continue;
    const bool allowed = std::any_of(rule.folders.begin(), rule.folders.end(),
                                     [&](std::string_view folder) { return begins_with_folder(include.file, folder); });
    if (!allowed) return "only " + join(rule.folders) + " may include it";
  }
  const Layer* from = layer_of(include.file);
  if (from == nullptr || include.resolved.empty()) return {};
  const Layer* to = layer_of(include.resolved);
  if (to == from) return {};
  if (to == nullptr) return std::string(from->folder) + " may include no tests";
  if (std::find(from->above.begin(), from->above.end(), to->folder) != from->above.end()) return {};
  return std::string(from->folder) + " may include, besides itself, " + join(from->above);
}

/// The includes by which laconic.h would reach an engine's header: what it pulls in must need nothing but C++.
std::vector<Include> engines_in_public_header(const std::vector<Include>& includes) {
  std::multimap<std::string, const Include*> by_file;
  for (const Include& include : includes) by_file.emplace(include.file, &include);
  std::set<std::string> seen{"include/laconic/laconic.h"};
  std::vector<std::string> open(seen.begin(), seen.end());
  std::vector<Include> found;
  while (!open.empty()) {
    const std::string file = open.back();
    open.pop_back();
    for (auto [it, end] = by_file.equal_range(file); it != end; ++it) {
      const Include& include = *it->second;
      const bool own = begins_with_folder(include.resolved, "include/laconic");
      // A C++ header has neither folder nor ending.
      const bool standard = include.resolved.empty() && include.header.find_first_of("./") == std::string::npos;
      if (include.header == "laconic/mpi.h" || (!own && !standard)) found.push_back(include);
      if (own && seen.insert(include.resolved).second) open.push_back(include.resolved);
    }
  }
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || !fs::is_directory(argv[1])) {
    std::cerr << "usage: check_layers ROOT\n";
    return 2;
  }
  const std::vector<Include> includes = includes_of(fs::path(argv[1]).lexically_normal());
  int breaches = 0;
  const auto tell = [&](const Include& include, const std::string& why) {
    std::cerr << include.file << ':' << include.line << ": error: includes " << include.header << "; " << why << '\n';
    ++breaches;
  };
  for (const Include& include : includes) {
    if (const std::string why = breach(include); !why.empty()) tell(include, why);
  }
  for (const Include& include : engines_in_public_header(includes)) {
    tell(include, "laconic/laconic.h may pull in only itself and the C++ library");
  }
  return breaches == 0 ? 0 : 1;
}
