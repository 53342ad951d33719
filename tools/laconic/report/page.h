#pragma once

#include <string>

namespace laconic::tools {

/// Whether the charts' library was there when the program was built.
bool report_is_built_in();

/// The whole page around what report_json made; Error if it is not built in, with what to install.
std::string report_page(const std::string& data);

}  // namespace laconic::tools
