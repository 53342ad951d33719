#pragma once

#include <sstream>
#include <string>
#include <string_view>

#include "laconic/error.h"
#include "laconic/view.h"

namespace laconic::detail {

template <class Left, class Right>
[[noreturn]] void broken(const char* text, const char* file, int line, const Left& left, const Right& right) {
  std::ostringstream message;
  message << file << ':' << line << ": " << text << " does not hold: " << +left << " against " << +right
          << ". This is a bug in Laconic; please report it.";
  throw BrokenInvariant(message.str());
}

/// Holds the left side of a comparison so that both sides can be shown when it fails.
template <class Left>
struct Comparison {
  const Left& left;
  const char* text;
  const char* file;
  int line;

#define LACONIC_COMPARE(op)                                      \
  template <class Right>                                         \
  void operator op(const Right& right) const {                   \
    if (!(left op right)) broken(text, file, line, left, right); \
  }
  LACONIC_COMPARE(==)
  LACONIC_COMPARE(!=)
  LACONIC_COMPARE(<)
  LACONIC_COMPARE(<=)
  LACONIC_COMPARE(>)
  LACONIC_COMPARE(>=)
#undef LACONIC_COMPARE
};

struct Check {
  const char* text;
  const char* file;
  int line;
  template <class Left>
  Comparison<Left> operator<<(const Left& left) const {
    return {left, text, file, line};
  }
};

}  // namespace laconic::detail

/// For bugs, not for callers' mistakes: LACONIC_CHECK(a == b) throws BrokenInvariant and shows both sides.
#define LACONIC_CHECK(comparison) (::laconic::detail::Check{#comparison, __FILE__, __LINE__} << comparison)

namespace laconic {

/// Throws InvalidConfig unless the view has `expected` entries: "gradient has 10 entries, expected 12: pass ...".
void require_size(std::string_view name, std::size_t size, std::size_t expected);

/// Throws InvalidConfig unless the view has at least `expected` entries.
void require_at_least(std::string_view name, std::size_t size, std::size_t expected);

/// Throws InvalidConfig unless the view lies on the device where the place works.
void require_same_device(std::string_view name, Device device, Device expected);

/// Throws InvalidConfig: `what` has no CUDA version, so use a place on the CPU.
[[noreturn]] void no_cuda_version(std::string_view what);

}  // namespace laconic
