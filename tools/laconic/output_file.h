#pragma once

#include <string>

namespace laconic::tools {

/// Error if a file of that name could not be written: told before hours of work, not after. Empty: nothing to do.
void require_writable(const std::string& path);

/// Writes beside the file and renames, so that whoever reads it finds the old one or the new one, whole; into devices,
/// pipes and links as they are. Empty: nothing.
void write_file(const std::string& path, const std::string& text);

}  // namespace laconic::tools
