#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "commands.h"
#include "data/task.h"
#include "download.h"
#include "json_output.h"
#include "laconic/error.h"
#include "text_table.h"
#include "usage.h"

namespace laconic::tools {
namespace {

using Json = nlohmann::ordered_json;

struct DataFlags {
  std::string folder = default_data_folder();
  std::string name;
  std::uint64_t seed = 1;
  int count = 8;
  JsonOutput json;
};

std::vector<std::string> missing_files(const TaskRow& row, const std::string& folder) {
  std::vector<std::string> missing;
  for (const TaskFile& file : row.files) {
    if (find_task_file(row, folder, file.name).empty()) missing.emplace_back(file.name);
  }
  return missing;
}

/// "here", "not here", or which files are missing.
std::string state_of(const TaskRow& row, const std::string& folder) {
  if (row.files.empty()) return "needs no files";
  const std::vector<std::string> missing = missing_files(row, folder);
  if (missing.empty()) return "here";
  if (missing.size() == row.files.size()) return "not here";
  return fmt::format("missing: {}", fmt::join(missing, ", "));
}

void list_text(const std::string& folder) {
  std::vector<std::vector<std::string>> rows{
      {"TASK", "CLASSES", "TRAIN", "TEST", "MODEL", "FILES", "WHAT IT IS", "SOURCE"}};
  for (const TaskRow& row : task_table()) {
    rows.push_back({row.name, row.classes > 0 ? std::to_string(row.classes) : "-", std::to_string(row.train_size),
                    std::to_string(row.test_size), row.model, state_of(row, folder), row.summary, row.source});
  }
  std::cout << text_table(rows, {false, true, true, true})
            << "\nTRAIN, TEST: number of samples; for texts without classes, of characters.\nFILES: in " << folder
            << " (--data or LACONIC_DATA name another folder); laconic data get TASK fetches them.\n";
}

std::string list_json(const std::string& folder) {
  Json all = Json::array();
  for (const TaskRow& row : task_table()) {
    Json files = Json::array();
    for (const TaskFile& file : row.files) {
      const std::string path = find_task_file(row, folder, file.name);
      files.push_back({{"name", file.name}, {"needed", file.needed}, {"path", path.empty() ? Json() : Json(path)}});
    }
    all.push_back({{"name", row.name},
                   {"summary", row.summary},
                   {"source", row.source},
                   {"model", row.model},
                   {"classes", row.classes > 0 ? Json(row.classes) : Json()},
                   {"train_samples", row.train_size},
                   {"test_samples", row.test_size},
                   {"files", std::move(files)}});
  }
  return all.dump(2) + "\n";
}

void get(const DataFlags& flags) {
  const TaskRow& row = task_row(flags.name);
  if (row.downloads.empty()) {
    std::cout << row.name << " needs no files: the program generates it\n";
    return;
  }
  try {
    download_task(row, flags.folder, [](const std::string& line) { std::cout << line << std::endl; });
  } catch (const Error&) {
    std::cerr << "By hand, on a machine with a network connection:\n" << by_hand(row, flags.folder);
    throw;
  }
  // Reading it is the last check: files that were there before were not compared with a sum.
  const auto task = make_task(row.name, {.data_folder = flags.folder});
  std::cout << fmt::format("{}: {} training and {} test samples in {}\n", row.name, task->train_size(),
                           task->test_size(), flags.folder);
  if (!task->note().empty()) std::cout << task->note() << '\n';
}

/// Images side by side, dark to bright; of a colour image the first channel.
void show_images(const Task& task, std::uint32_t first, std::uint32_t count) {
  static constexpr std::string_view kShades = " .:-=+*#%@";
  const InputShape shape = task.input();
  const auto size = static_cast<std::uint32_t>(shape.size());
  std::vector<float> images(std::size_t{count} * size);
  task.test_images(first, count, images);
  const auto [low, high] = std::minmax_element(images.begin(), images.end());
  const float scale = static_cast<float>(kShades.size() - 1) / std::max(*high - *low, 1e-6F);
  for (int y = 0; y < shape.height; ++y) {
    std::string line;
    for (std::uint32_t i = 0; i < count; ++i) {
      const float* row = images.data() + std::size_t{i} * size + static_cast<std::size_t>(y * shape.width);
      for (int x = 0; x < shape.width; ++x) line += kShades[static_cast<std::size_t>((row[x] - *low) * scale + 0.5F)];
      line += ' ';
    }
    std::cout << line << '\n';
  }
}

/// The validation's windows follow each other in the text.
void show_characters(const Task& task) {
  const std::uint32_t count = task.test_size();
  std::vector<std::int64_t> tokens(task.input().size() * count);
  task.test_tokens(0, count, tokens);
  std::string line;
  for (const std::int64_t token : tokens) {
    const char byte = task.alphabet()[static_cast<std::size_t>(token)];
    if (byte != '\n') {
      line += byte;
      continue;
    }
    std::cout << printable(line) << '\n';
    line.clear();
  }
  std::cout << printable(line) << '\n';
}

void show(const DataFlags& flags) {
  const auto task = make_task(
      flags.name, {.data_folder = flags.folder, .seed = flags.seed, .train_samples = 1, .test_samples = flags.count});
  if (task->input().kind == InputKind::characters) return show_characters(*task);
  if (task->input().kind != InputKind::image) throw InvalidConfig(task->name() + " has no images to show");
  static constexpr std::uint32_t kAcross = 4;
  for (std::uint32_t first = 0; first < task->test_size(); first += kAcross) {
    const std::uint32_t count = std::min(kAcross, task->test_size() - first);
    std::cout << "labels";
    for (std::uint32_t i = 0; i < count; ++i) std::cout << ' ' << task->test_label(first + i);
    std::cout << '\n';
    show_images(*task, first, count);
  }
}

}  // namespace

void add_data(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("data", "Lists data sets, fetches their files, shows their images or text");
  command->require_subcommand(1);
  auto flags = std::make_shared<DataFlags>();

  CLI::App* list = command->add_subcommand("list", "The tasks, and whether their files are here");
  list->add_option("--data", flags->folder, "folder that holds the tasks' folders")->capture_default_str();
  flags->json.add_to(*list, "the tasks");
  list->callback([flags] {
    if (!flags->json.on_stdout()) list_text(flags->folder);
    if (flags->json.wanted()) flags->json.write(list_json(flags->folder));
  });

  CLI::App* fetch = command->add_subcommand("get", "Fetches a task's files from their publisher and checks them");
  fetch->add_option("task", flags->name, "its name")->required();
  fetch->add_option("--to,--data", flags->folder, "folder in which to create the task's folder")->capture_default_str();
  fetch->callback([flags] { get(*flags); });

  CLI::App* images = command->add_subcommand("show", "Shows a task's first test images as text, or the beginning of its validation text");
  images->add_option("task", flags->name, "its name")->required();
  images->add_option("--data", flags->folder, "folder that holds the tasks' folders")->capture_default_str();
  images->add_option("--seed", flags->seed, "seed of generated tasks")->capture_default_str();
  images->add_option("--count", flags->count, "number of images, or of windows of 64 characters")->check(whole_in(1, 100))->capture_default_str();
  images->callback([flags] { show(*flags); });

  const char* footer =
      "Examples:\n"
      "  laconic data list\n"
      "  laconic data get fashion-mnist --to data\n"
      "  laconic data show digits --count 4\n"
      "  laconic data show text --count 20\n"
      "The folder is --data; if it is not given, LACONIC_DATA; if that is not set, data in the working folder.";
  for (CLI::App* each : {command, list, fetch, images}) each->footer(footer);
}

}  // namespace laconic::tools
