#pragma once

#include <cstdint>
#include <string>

namespace laconic {

/// The text of the task `text`: scenes of a play, `characters` bytes of ASCII. Language models have something to learn at
/// every distance in it: spelling; agreement of verbs and pronouns with a subject that may lie some words back; tense;
/// brackets and quotation marks that close in order; counting; speakers that take turns; a subject per scene. It is a
/// function of the seed by whole numbers, so every machine writes the same bytes.
std::string write_play(std::uint64_t seed, std::size_t characters);

}  // namespace laconic
