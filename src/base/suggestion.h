#pragma once

#include <span>
#include <string>
#include <string_view>

namespace laconic {

/// The name that was probably meant, or empty where none is near: at most a third of the letters wrong (one in a word
/// of up to five; two that changed places are one), upper and lower case, '-' and '_' alike; or, for three letters and
/// more, a name that contains it.
std::string nearest_name(std::string_view name, std::span<const std::string> names);

/// "; did you mean topk?", or, where none is near, what there is: "; there are adam, def, ...".
std::string did_you_mean(std::string_view name, std::span<const std::string> names);

}  // namespace laconic
