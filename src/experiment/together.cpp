#include "experiment/together.h"

#include <algorithm>
#include <string>

#include "experiment/gather.h"
#include "laconic/error.h"

namespace laconic {
namespace {

constexpr std::size_t kLongestMessage = 4096;

enum Outcome : std::uint32_t { fine, wrong_setting, failed };

/// How the body ended on this rank, and what it said.
Outcome outcome_of(const std::function<void()>& body, std::string& message) {
  try {
    body();
  } catch (const InvalidConfig& error) {
    message = error.what();
    return wrong_setting;
  } catch (const std::exception& error) {
    message = error.what();
    return failed;
  }
  return fine;
}

}  // namespace

void succeed_together(Communicator& group, const std::function<void()>& body) {
  std::string message;
  const auto outcomes = gather_number(group, static_cast<std::uint32_t>(outcome_of(body, message)));
  const auto first = std::find_if(outcomes.begin(), outcomes.end(), [](std::uint32_t each) { return each != fine; });
  if (first == outcomes.end()) return;
  message.resize(kLongestMessage);
  const View<char> text(message.data(), message.size());
  group.broadcast(as_writable_bytes(text), static_cast<int>(first - outcomes.begin())).wait();
  message.resize(message.find('\0') == std::string::npos ? message.size() : message.find('\0'));
  if (*first == wrong_setting) throw InvalidConfig(message);
  throw Error(message);
}

}  // namespace laconic
