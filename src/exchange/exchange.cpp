#include "exchange/exchange.h"

#include <chrono>
#include <string>

#include "base/check.h"
#include "base/memory.h"
#include "codecs/payload.h"
#include "laconic/error.h"

namespace laconic {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void set_even_borders(std::uint64_t n, std::span<std::uint64_t> borders) {
  const std::uint64_t ranks = borders.size() - 1;
  for (std::uint64_t i = 0; i <= ranks; ++i) borders[i] = n / ranks * i + n % ranks * i / ranks;
}

std::vector<std::uint64_t> even_borders(std::uint64_t n, int ranks) {
  std::vector<std::uint64_t> borders(static_cast<std::size_t>(ranks) + 1);
  set_even_borders(n, borders);
  return borders;
}

namespace {

auto in_order(const Slots& slots) {
  return [&slots](const auto& body) {
    for (int from = 0; from < slots.ranks(); ++from) body(slots.payload(from));
  };
}

}  // namespace

Exchange::Exchange(Communicator& communicator, Place& place) : communicator_(communicator), place_(place) {}

void Exchange::require_idle() const {
  if (!failure_.empty()) throw TransportError(failure_);
  if (!done_) throw InvalidConfig("an exchange was started before the last one's finish(): finish it first");
}

void Exchange::begin(StatusView status) {
  LACONIC_CHECK(done_ == true);
  require_at_least("status", status.size(), 1);
  status_ = status;
  seen_.reset();
  forget_nonfinite_rank(place_, status_);
  traffic_ = {};
  next_stage_ = 0;
  done_ = false;
  telling_others([&] { run_stage(); });
}

bool Exchange::advance() {
  telling_others([&] {
    while (!done_ && pending_.test()) run_stage();
  });
  return done_;
}

bool Exchange::is_ready() {
  bool ready = false;
  telling_others([&] { ready = done_ || pending_.test(); });
  if (ready && !noticed_at_) noticed_at_ = seconds_now();
  return ready;
}

bool Exchange::wait_for_stage() {
  telling_others([&] {
    if (done_) return;
    pending_.wait();
    run_stage();
  });
  return done_;
}

void Exchange::finish() {
  telling_others([&] {
    while (!done_) {
      pending_.wait();
      run_stage();
    }
  });
}

void Exchange::run_stage() {
  if (next_stage_ > 0) traffic_.exchange_seconds += noticed_at_.value_or(seconds_now()) - sent_at_;
  noticed_at_.reset();
  pending_ = stage(next_stage_++);
  sent_at_ = seconds_now();
}

template <class Body>
void Exchange::telling_others(Body&& body) {
  if (!failure_.empty()) throw TransportError(failure_);
  try {
    body();
  } catch (const std::exception& error) {
    give_up(error_text(error).c_str());
    throw;
  }
}

/// The others hear the reason before they notice that this rank withdrew from the message.
void Exchange::give_up(const char* reason) noexcept {
  communicator_.fail(reason);
  abandon();
  done_ = true;
  try {
    failure_ = std::string("this exchange failed before: ") + reason;
  } catch (const std::bad_alloc&) {
    failure_.assign(1, '!');  // short enough to need no memory
  }
}

void Exchange::count_sent(const Slots& slots) {
  traffic_.sent_bytes += slots.payload_bytes() - slots.length(rank());
  traffic_.sent_messages += static_cast<std::uint64_t>(size() - 1);
}

void Exchange::count_received(const Slots& slots) {
  traffic_.received_bytes += slots.payload_bytes() - slots.length(rank());
}

void Exchange::count_gathered(std::uint64_t own_bytes, std::uint64_t all_bytes) {
  traffic_.sent_bytes += own_bytes * static_cast<std::uint64_t>(size() - 1);
  traffic_.received_bytes += all_bytes - own_bytes;
  traffic_.sent_messages += static_cast<std::uint64_t>(size() - 1);
}

void Exchange::flag_nonfinite(Slots& slots) {
  const Status mine = seen_ ? *seen_ : require_own_sound();  // a list has been read to learn its length
  if (mine.nonfinite == 0) return;
  for (int to = 0; to < slots.ranks(); ++to) flag_payload(place_, slots.slot(to), status_);
}

void Exchange::note_nonfinite(const Slots& slots) { note_flagged(place_, in_order(slots), 0, status_); }

void Exchange::note_nonfinite_returns(const Slots& slots) {
  note_flagged(place_, in_order(slots), 0, status_, /*only_if_none=*/true);
}

void Exchange::note_nonfinite(View<const std::byte> payload, int from) {
  note_flagged(place_, just(payload), from, status_);
}

}  // namespace laconic
