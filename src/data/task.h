#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "laconic/view.h"

namespace laconic {

/// Characters are windows of one long text: a model predicts the character behind each of theirs.
enum class InputKind : std::uint8_t { image, text, characters };

/// What a test reports beside the loss: the share of samples that are classified correctly, or exp(loss), the number of
/// characters among which a model of language hesitates.
enum class Metric : std::uint8_t { accuracy, perplexity };

/// What one sample looks like to a model.
struct InputShape {
  InputKind kind = InputKind::image;
  int channels = 0;  ///< of an image
  int height = 0;
  int width = 0;
  int length = 0;      ///< tokens of a text, padded with 0 at its end; characters of a window
  int vocabulary = 0;  ///< tokens are below this; in a text 0 is padding, 1 is a word that is not in the vocabulary

  /// The number of values of one sample.
  std::size_t size() const;
};

struct TaskOptions {
  std::string data_folder{};  ///< where the tasks' folders are; empty: default_data_folder()
  std::uint64_t seed = 1;
  bool augment = true;    ///< crop and flip training images, if the task does that
  int train_samples = 0;  ///< use only the first so many samples; 0: the task's own number
  int test_samples = 0;
  int context = 64;         ///< characters of a window, for tasks of characters
  std::string text_file{};  ///< for the task `text`: train on this file; empty: a text that the program writes
};

struct TaskContents;

/// A data set in memory. It is immutable, so workers that are threads share one. All random choices are a function of
/// the seed, with operations that every machine rounds alike.
class Task {
 public:
  /// Use make_task.
  explicit Task(TaskContents contents);
  ~Task();
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  const std::string& name() const;
  /// A note for the user on how the data was assembled; usually empty.
  const std::string& note() const;
  InputShape input() const;
  /// Of characters: how many different ones there are.
  int classes() const;
  Metric metric() const;
  /// Of characters: the byte that each token stands for. Otherwise empty.
  const std::string& alphabet() const;
  /// Number of classes that a model predicts for one sample: 1, or of characters one for each of the window's.
  int targets() const;
  std::uint32_t train_size() const;
  std::uint32_t test_size() const;
  int train_label(std::uint32_t sample) const;
  int test_label(std::uint32_t sample) const;
  std::span<const int> train_labels() const;
  std::span<const int> test_labels() const;

  /// Normalised training samples, n·c·h·w. If the task crops and flips, the draws are keyed by (seed, epoch, sample),
  /// so that every caller gets the same images. Throws InvalidConfig if a sample does not exist or `out` has the wrong
  /// size.
  void train_images(std::span<const std::uint32_t> samples, std::uint32_t epoch, View<float> out) const;
  /// Test samples first, …, first + count − 1, normalised and never augmented.
  void test_images(std::uint32_t first, std::uint32_t count, View<float> out) const;
  /// The same for text and characters, n·length.
  void train_tokens(std::span<const std::uint32_t> samples, View<std::int64_t> out) const;
  void test_tokens(std::uint32_t first, std::uint32_t count, View<std::int64_t> out) const;
  /// What is to be predicted, n·targets: the samples' labels, or of characters the character behind each of theirs.
  void train_targets(std::span<const std::uint32_t> samples, View<std::int64_t> out) const;
  void test_targets(std::uint32_t first, std::uint32_t count, View<std::int64_t> out) const;

 private:
  void require_sample(const char* set, std::uint64_t sample, std::size_t size) const;

  std::unique_ptr<const TaskContents> contents_;
  std::vector<float> normalised_;  ///< by channel and pixel value
};

/// A file that a task reads.
struct TaskFile {
  const char* name;  ///< in the task's folder; the file may also be compressed, with .gz or .xz appended
  bool needed;       ///< whether the task needs it
};

/// A file that the publisher offers.
struct Download {
  const char* url;
  const char* md5;      ///< as stated by the publisher or torchvision
  std::uint64_t bytes;  ///< 0: not known
  bool archive;         ///< true: a tar with the files in a folder; false: the file itself
};

using TaskMaker = TaskContents (*)(const struct TaskRow& row, const TaskOptions& options);

/// How a network is trained on a task unless the user says otherwise.
struct TaskTraining {
  const char* method = "sgd";
  const char* optimizer = "sgd";  ///< of methods that go with any optimizer
  double learning_rate = 0.05;    ///< of such methods
  bool cosine = false;            ///< warm-up and a cosine in place of two drops
  double clip = 0.0;              ///< norm to which each worker's gradient is clipped; 0: not clipped
};

/// One task: everything that the program and the tests know of it in advance.
struct TaskRow {
  const char* name;
  const char* summary;
  const char* source;  ///< who published it
  const char* model;   ///< default model
  int classes;               ///< 0: the text decides
  std::uint32_t train_size;  ///< the publisher's; of characters their number
  std::uint32_t test_size;
  std::vector<const char*> folders;  ///< possible names of its folder; `data get` writes to the first
  std::vector<TaskFile> files;       ///< empty: the program generates the data
  std::vector<Download> downloads;
  TaskMaker make;
  bool takes_text_file = false;  ///< TaskOptions::text_file
  TaskTraining training{};
};

/// The one table of tasks.
std::span<const TaskRow> task_table();

/// The row of that name. Otherwise throws an InvalidConfig that suggests the nearest name or lists all names.
const TaskRow& task_row(std::string_view name);

/// The model that was named, or the task's default if `named` is empty.
std::string model_for(std::string_view task, const std::string& named);

/// Reads or generates a task. Throws Error if a file is missing or wrong; the message names the file, the offset, what
/// was expected and what to do. Throws InvalidConfig if there is no such task or it has fewer samples than asked for.
std::shared_ptr<const Task> make_task(std::string_view name, const TaskOptions& options);

/// The value of LACONIC_DATA, or "data" in the working folder if it is not set.
std::string default_data_folder();

/// The path of a task's file, with .gz or .xz if it is compressed; empty if the file is missing.
std::string find_task_file(const TaskRow& row, const std::string& data_folder, std::string_view file);

}  // namespace laconic
