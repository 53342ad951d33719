#include "data/play.h"

#include <array>
#include <cctype>
#include <initializer_list>

#include "data/draws.h"

namespace laconic {
namespace {

using Word = const char*;

struct Person {
  Word name;
  bool woman;
};

constexpr std::array<Person, 16> kPersons{{{"Mira", true},
                                           {"Anselm", false},
                                           {"Ruth", true},
                                           {"Borin", false},
                                           {"Celia", true},
                                           {"Duncan", false},
                                           {"Edda", true},
                                           {"Falk", false},
                                           {"Greta", true},
                                           {"Hugo", false},
                                           {"Ilse", true},
                                           {"Jarl", false},
                                           {"Katrin", true},
                                           {"Leopold", false},
                                           {"Nora", true},
                                           {"Oswin", false}}};

struct Noun {
  Word one;
  Word many;
};

/// What a scene is about: where it plays, and the nouns that its speakers prefer.
struct Subject {
  Word place;
  std::array<Noun, 8> nouns;
};

constexpr std::array<Subject, 6> kSubjects{{
    {"A harbour at dusk",
     {{{"ship", "ships"},
       {"sailor", "sailors"},
       {"wave", "waves"},
       {"anchor", "anchors"},
       {"gull", "gulls"},
       {"captain", "captains"},
       {"net", "nets"},
       {"lighthouse", "lighthouses"}}}},
    {"A kitchen in the old house",
     {{{"knife", "knives"},
       {"loaf", "loaves"},
       {"cook", "cooks"},
       {"candle", "candles"},
       {"mouse", "mice"},
       {"guest", "guests"},
       {"table", "tables"},
       {"dish", "dishes"}}}},
    {"A field before the battle",
     {{{"soldier", "soldiers"},
       {"horse", "horses"},
       {"sword", "swords"},
       {"enemy", "enemies"},
       {"drum", "drums"},
       {"tent", "tents"},
       {"general", "generals"},
       {"wolf", "wolves"}}}},
    {"A library by night",
     {{{"book", "books"},
       {"page", "pages"},
       {"scholar", "scholars"},
       {"story", "stories"},
       {"shelf", "shelves"},
       {"letter", "letters"},
       {"ghost", "ghosts"},
       {"lamp", "lamps"}}}},
    {"A garden after the rain",
     {{{"rose", "roses"},
       {"tree", "trees"},
       {"child", "children"},
       {"bird", "birds"},
       {"leaf", "leaves"},
       {"gardener", "gardeners"},
       {"stone", "stones"},
       {"fox", "foxes"}}}},
    {"The court of the king",
     {{{"king", "kings"},
       {"queen", "queens"},
       {"crown", "crowns"},
       {"servant", "servants"},
       {"lady", "ladies"},
       {"judge", "judges"},
       {"law", "laws"},
       {"thief", "thieves"}}}},
}};

struct Verb {
  Word base;
  Word third;
  Word past;
};

constexpr std::array<Verb, 20> kTransitive{{{"see", "sees", "saw"},
                                            {"find", "finds", "found"},
                                            {"love", "loves", "loved"},
                                            {"sell", "sells", "sold"},
                                            {"follow", "follows", "followed"},
                                            {"watch", "watches", "watched"},
                                            {"fear", "fears", "feared"},
                                            {"carry", "carries", "carried"},
                                            {"forget", "forgets", "forgot"},
                                            {"break", "breaks", "broke"},
                                            {"hide", "hides", "hid"},
                                            {"remember", "remembers", "remembered"},
                                            {"bring", "brings", "brought"},
                                            {"lose", "loses", "lost"},
                                            {"draw", "draws", "drew"},
                                            {"hear", "hears", "heard"},
                                            {"praise", "praises", "praised"},
                                            {"steal", "steals", "stole"},
                                            {"guard", "guards", "guarded"},
                                            {"choose", "chooses", "chose"}}};

constexpr std::array<Verb, 12> kIntransitive{{{"sleep", "sleeps", "slept"},
                                              {"fall", "falls", "fell"},
                                              {"wait", "waits", "waited"},
                                              {"sing", "sings", "sang"},
                                              {"rise", "rises", "rose"},
                                              {"tremble", "trembles", "trembled"},
                                              {"laugh", "laughs", "laughed"},
                                              {"vanish", "vanishes", "vanished"},
                                              {"speak", "speaks", "spoke"},
                                              {"stand", "stands", "stood"},
                                              {"return", "returns", "returned"},
                                              {"burn", "burns", "burned"}}};

constexpr std::array<Word, 20> kAdjectives{"old",    "young",  "quiet", "golden", "bitter", "gentle", "broken",
                                           "proud",  "silver", "hungry", "wild",  "pale",   "clever", "heavy",
                                           "secret", "lost",   "honest", "strange", "small", "distant"};
constexpr std::array<Word, 10> kAdverbs{"slowly", "again",  "at night", "without a word", "in vain",
                                        "today",  "gladly", "too late", "far from here",  "once more"};
constexpr std::array<Word, 9> kNumbers{"one", "two", "three", "four", "five", "six", "seven", "eight", "nine"};
constexpr std::array<Word, 5> kJoints{"because", "while", "although", "until", "and"};
constexpr std::array<Word, 6> kCalls{"Listen", "Believe me", "No", "Yes", "Look", "Alas"};

/// Who does something in a sentence, as far as other words must agree with it.
struct Actor {
  std::string words;
  bool plural = false;
  Word pronoun = "it";
};

/// Writes one play. Every choice is the next draw of one stream.
class Author {
 public:
  explicit Author(std::uint64_t seed) : draws_({.seed = seed, .purpose = Purpose::data_drawing}) {}

  std::string scene() {
    subject_ = &kSubjects[pick(kSubjects.size())];
    past_ = one_in(2);
    std::array<const Person*, 3> cast{};
    const std::size_t size = 2 + pick(2);
    for (std::size_t i = 0; i < size; ++i) {
      do {
        cast[i] = &kPersons[pick(kPersons.size())];
      } while ((i > 0 && cast[i] == cast[0]) || (i > 1 && cast[i] == cast[1]));
    }
    std::string text = std::string(subject_->place) + ".\n\n";
    const std::size_t speeches = 6 + pick(9);
    for (std::size_t i = 0; i < speeches; ++i) text += speech(*cast[i % size], *cast[(i + 1) % size]);
    return text;
  }

 private:
  std::size_t pick(std::size_t bound) { return static_cast<std::size_t>(draws_.below(static_cast<int>(bound))); }
  bool one_in(int bound) { return draws_.below(bound) == 0; }
  template <class T, std::size_t N>
  const T& any(const std::array<T, N>& all) {
    return all[pick(N)];
  }

  /// One after another. The parts of a list are made from left to right; those of a sum are not, and each part draws.
  static std::string joined(std::initializer_list<std::string> parts) {
    std::string text;
    for (const std::string& part : parts) text += part;
    return text;
  }

  static std::string capital(std::string text) {
    text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
    return text;
  }

  /// The speaker's name, then some sentences, to the one who speaks next.
  std::string speech(const Person& speaker, const Person& next) {
    std::string text;
    for (const char* letter = speaker.name; *letter != '\0'; ++letter) {
      text += static_cast<char>(std::toupper(static_cast<unsigned char>(*letter)));
    }
    text += ":\n";
    last_ = {};
    const std::size_t sentences = 1 + pick(4);
    for (std::size_t i = 0; i < sentences; ++i) {
      if (i > 0) text += ' ';
      text += sentence(next);
    }
    return text + "\n\n";
  }

  std::string sentence(const Person& next) {
    switch (pick(12)) {
      case 0:
        return joined({any(kCalls), ", ", next.name, ": ", clause(1), "."});
      case 1:
        return joined({"Did you not hear, ", next.name, "? ", capital(clause(1)), "!"});
      case 2:
        return counted();
      case 3:
        return quoted(next);
      case 4:
        return joined({capital(clause(1)), " ", bracket(), "."});
      case 5:
      case 6:
        return joined({capital(clause(1)), " ", any(kJoints), " ", clause(1), "."});
      default:
        return capital(clause(2)) + ".";
    }
  }

  /// Counts up or down by one: where it ends follows from how it began.
  std::string counted() {
    const std::size_t length = 3 + pick(3);
    const std::size_t first = pick(kNumbers.size() - length + 1);
    const bool down = one_in(2);
    std::string text = "Count with me:";
    for (std::size_t i = 0; i < length; ++i) {
      text += (i == 0 ? " " : ", ") + std::string(kNumbers[down ? first + length - 1 - i : first + i]);
    }
    return text + ".";
  }

  std::string quoted(const Person& next) {
    const Person& other = any(kPersons);
    return joined({other.name, " told me: \"", next.name, ", ", clause(1), ".\" That is what ",
                   other.woman ? "she" : "he", " said."});
  }

  /// Round brackets, square ones inside.
  std::string bracket() {
    std::string inside = clause(0);
    if (one_in(2)) inside += " [" + clause(0) + "]";
    return "(" + inside + ")";
  }

  /// Subject and verb agree, also across a relative clause; a pronoun means the subject of the clause before.
  std::string clause(int depth) {
    const bool again = !last_.words.empty() && one_in(4);
    const Actor actor = again ? Actor{last_.pronoun, last_.plural, last_.pronoun} : noun_phrase(depth);
    std::string text = actor.words + " ";
    if (one_in(3)) {
      text += form(any(kIntransitive), actor.plural);
    } else {
      text += joined({form(any(kTransitive), actor.plural), " ", noun_phrase(depth - 1).words});
    }
    if (one_in(4)) text += std::string(" ") + any(kAdverbs);
    last_ = actor;
    return text;
  }

  std::string form(const Verb& verb, bool plural) const { return past_ ? verb.past : plural ? verb.base : verb.third; }

  Actor noun_phrase(int depth) {
    if (one_in(6)) {
      const Person& person = any(kPersons);
      return {person.name, false, person.woman ? "she" : "he"};
    }
    const Noun& noun = one_in(5) ? any(any(kSubjects).nouns) : any(subject_->nouns);
    const bool plural = one_in(2);
    std::string text = "the ";
    if (plural && one_in(2)) text += std::string(kNumbers[1 + pick(kNumbers.size() - 1)]) + " ";
    if (one_in(2)) text += std::string(any(kAdjectives)) + " ";
    text += plural ? noun.many : noun.one;
    if (depth > 0 && one_in(3)) text += " that " + relative(plural);
    return {text, plural, plural ? "they" : "it"};
  }

  /// "the king that fears the wolves", or "the king that the wolves fear".
  std::string relative(bool plural) {
    if (one_in(2)) return joined({form(any(kTransitive), plural), " ", noun_phrase(0).words});
    const Actor actor = noun_phrase(0);
    return joined({actor.words, " ", form(any(kTransitive), actor.plural)});
  }

  Draws draws_;
  const Subject* subject_ = kSubjects.data();
  bool past_ = false;
  Actor last_;  ///< subject of the clause before, in this speech
};

}  // namespace

std::string write_play(std::uint64_t seed, std::size_t characters) {
  Author author(seed);
  std::string text;
  while (text.size() < characters) text += author.scene();
  text.resize(characters);
  return text;
}

}  // namespace laconic
