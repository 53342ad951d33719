#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/view.h"

namespace laconic {

enum class InputKind : std::uint8_t { image, text };

/// What one sample looks like to a model.
struct InputShape {
  InputKind kind = InputKind::image;
  int channels = 0;  ///< of an image
  int height = 0;
  int width = 0;
  int length = 0;      ///< of a text: tokens, padded with 0 at its end
  int vocabulary = 0;  ///< tokens are below this: 0 padding, 1 a word that the vocabulary does not have

  /// Values of one sample.
  std::size_t size() const;
};

struct TaskOptions {
  std::string data_folder{};  ///< where the tasks' folders are; empty: default_data_folder()
  std::uint64_t seed = 1;
  bool augment = true;    ///< crop and flip training images, where the task does
  int train_samples = 0;  ///< the first so many; 0: the task's own number
  int test_samples = 0;
};

struct TaskContents;

/// A data set in memory, immutable once made: workers that are threads share one. Everything that is drawn is a
/// function of the seed, by operations that every machine rounds alike.
class Task {
 public:
  /// By make_task.
  explicit Task(TaskContents contents);
  ~Task();
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  const std::string& name() const;
  /// What a user should know of how the data was put together; mostly empty.
  const std::string& note() const;
  InputShape input() const;
  int classes() const;
  std::uint32_t train_size() const;
  std::uint32_t test_size() const;
  int train_label(std::uint32_t sample) const;
  int test_label(std::uint32_t sample) const;
  std::span<const int> train_labels() const;
  std::span<const int> test_labels() const;

  /// Training samples, normalised, n·c·h·w; augmented (crop, flip where the task does) by draws keyed (seed, epoch,
  /// sample), so that whoever asks gets the same. InvalidConfig if a sample does not exist or `out` has another size.
  void train_images(std::span<const std::uint32_t> samples, std::uint32_t epoch, View<float> out) const;
  /// Test samples first, …, first + count − 1, normalised, never augmented.
  void test_images(std::uint32_t first, std::uint32_t count, View<float> out) const;
  /// The same for text, n·length.
  void train_tokens(std::span<const std::uint32_t> samples, View<std::int64_t> out) const;
  void test_tokens(std::uint32_t first, std::uint32_t count, View<std::int64_t> out) const;

 private:
  std::unique_ptr<const TaskContents> contents_;
  std::vector<float> normalised_;  ///< by channel and pixel value
};

/// A file that a task reads.
struct TaskFile {
  const char* name;  ///< in the task's folder; may also lie there with .gz or .xz behind
  bool needed;       ///< whether the task cannot do without
};

/// A file that the publisher offers.
struct Download {
  const char* url;
  const char* md5;      ///< as the publisher or torchvision states it
  std::uint64_t bytes;  ///< 0: not known
  bool archive;         ///< a tar that holds the files in a folder; else the file itself
};

using TaskMaker = TaskContents (*)(const struct TaskRow& row, const TaskOptions& options);

/// One task: all that the program and the tests know of it beforehand.
struct TaskRow {
  const char* name;
  const char* summary;
  const char* source;  ///< who published it
  const char* model;   ///< what it is trained with unless told otherwise
  int classes;
  std::uint32_t train_size;  ///< the publisher's
  std::uint32_t test_size;
  std::vector<const char*> folders;  ///< names that its folder may have; the first is where `data get` writes
  std::vector<TaskFile> files;       ///< none: the program draws it
  std::vector<Download> downloads;
  TaskMaker make;
};

/// The one table of tasks.
std::span<const TaskRow> task_table();

/// InvalidConfig that says which name was probably meant, or which there are.
const TaskRow& task_row(std::string_view name);

/// The model that was named, or the task's own where none was.
std::string model_for(std::string_view task, const std::string& named);

/// Reads or draws a task. Error where a file is missing, or is not what it should be: file, offset, what was expected,
/// what to do. InvalidConfig where there is no such task, or it has fewer samples than are asked for.
std::shared_ptr<const Task> make_task(std::string_view name, const TaskOptions& options);

/// LACONIC_DATA, or else "data" in the working folder.
std::string default_data_folder();

/// Where a task's file lies, with its ending if it is compressed; empty if it is missing.
std::string find_task_file(const TaskRow& row, const std::string& data_folder, std::string_view file);

}  // namespace laconic
