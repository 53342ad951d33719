#include "page.h"

#include <string_view>

#include "laconic/error.h"
#include "records/report.h"

#if LACONIC_REPORT
// The assembler takes files in as they are: five megabytes as a C++ array would cost the compiler minutes.
// clang-format off
#define LACONIC_EMBED(name, path)                                                                       \
  asm(".pushsection .rodata, \"a\"\n"                                                                   \
      ".global laconic_" #name "_begin\n .hidden laconic_" #name "_begin\n laconic_" #name "_begin:\n"  \
      ".incbin \"" path "\"\n"                                                                          \
      ".global laconic_" #name "_end\n .hidden laconic_" #name "_end\n laconic_" #name "_end:\n"        \
      ".popsection\n");                                                                                 \
  extern "C" const char laconic_##name##_begin[];                                                       \
  extern "C" const char laconic_##name##_end[];                                                         \
  static std::string_view name##_file() { return {laconic_##name##_begin, laconic_##name##_end}; }
// clang-format on

LACONIC_EMBED(html, LACONIC_PAGE_FOLDER "/page.html")
LACONIC_EMBED(style, LACONIC_PAGE_FOLDER "/page.css")
LACONIC_EMBED(script, LACONIC_PAGE_FOLDER "/page.js")
LACONIC_EMBED(plotly, LACONIC_PLOTLY_FILE)
#endif

namespace laconic::tools {

#if LACONIC_REPORT

bool report_is_built_in() { return true; }

std::string report_page(const std::string& data) {
  return joined_page({.html = html_file(),
                      .style = style_file(),
                      .data = data,
                      .plotly = plotly_file(),
                      .script = script_file()});
}

#else

bool report_is_built_in() { return false; }

std::string report_page(const std::string& /*data*/) {
  throw Error(
      "this laconic was built without the report, which needs plotly.min.js of the Python package plotly: run "
      "scripts/setup, which fetches it, or pass -DLACONIC_PLOTLY=FILE, and build again");
}

#endif

}  // namespace laconic::tools
