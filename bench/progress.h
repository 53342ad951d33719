#pragma once

#include <string>
#include <string_view>

namespace laconic::bench {

/// A line on stderr that is written over, on a terminal; nothing elsewhere.
class Progress {
 public:
  explicit Progress(bool show);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void say(const std::string& text) const;
  void clear() const { say(""); }

 private:
  bool show_;
};

/// Whether a name contains one of the filter's words, which commas separate. An empty filter matches all.
bool matches(std::string_view name, std::string_view filter);

}  // namespace laconic::bench
