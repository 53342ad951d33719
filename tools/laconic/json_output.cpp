#include "json_output.h"

#include <iostream>
#include <utility>

#include "laconic/error.h"
#include "output_file.h"

namespace laconic::tools {

void JsonOutput::add_to(CLI::App& command, const std::string& what) {
  option_ =
      command.add_option("--json", path_, what + " as JSON: on stdout instead of the text, or also into FILE")
          ->expected(0, 1)
          ->option_text("[FILE]");
}

void JsonOutput::require_writable() const { tools::require_writable(file()); }

void JsonOutput::write(const std::string& text) const {
  if (on_stdout()) std::cout << text;
  std::cout << std::flush;  // before the file, which may be /dev/stdout
  write_file(file(), text);
}

std::string JsonOutput::give_back() { return std::exchange(path_, ""); }

std::string JsonOutput::give_name_back(const std::function<void(const std::string&)>& require_name) {
  if (file().empty() || file().find_first_of("./") != std::string::npos) return "";
  try {
    require_name(file());
  } catch (const InvalidConfig& error) {
    throw InvalidConfig(error.what() + (". If it is a file, its name needs a dot or a slash: --json ./" + file()));
  }
  return give_back();
}

}  // namespace laconic::tools
