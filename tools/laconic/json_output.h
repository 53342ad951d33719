#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace laconic::tools {

/// `--json` in every command: alone, or as `--json -`, JSON stands on stdout and nothing else does; with a file's name
/// the text stands on stdout and JSON goes into the file.
class JsonOutput {
 public:
  /// `what` the JSON holds: "the rows".
  void add_to(CLI::App& command, const std::string& what);

  bool wanted() const { return option_->count() > 0; }
  /// True if stdout belongs to the JSON.
  bool on_stdout() const { return wanted() && (path_.empty() || path_ == "-"); }
  /// The file's name, or empty.
  std::string file() const { return wanted() && !on_stdout() ? path_ : ""; }
  /// Error before hours of work if the file could not be written.
  void require_writable() const;
  /// Nothing unless wanted.
  void write(const std::string& text) const;

  /// A word that was taken for the file's name and is none: gives it back, and JSON goes to stdout.
  std::string give_back();
  /// In `methods --json topk` the word is a name: a file's has a dot or a slash. Gives such a word back, and JSON goes
  /// to stdout; else empty. For commands that take names: `require_name` throws for a word that is none of them.
  std::string give_name_back(const std::function<void(const std::string&)>& require_name);

 private:
  CLI::Option* option_ = nullptr;
  std::string path_;
};

}  // namespace laconic::tools
