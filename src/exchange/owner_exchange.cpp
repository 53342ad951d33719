#include "exchange/owner_exchange.h"

namespace laconic {

OwnerExchange::OwnerExchange(Communicator& communicator, Place& place)
    : Exchange(communicator, place),
      borders_(static_cast<std::size_t>(size()) + 1),
      send_(place, size()),
      receive_(place, size()),
      returned_(place, size()) {}

void OwnerExchange::cut_evenly(const Layout& layout, std::uint64_t unit) {
  set_even_borders(layout.size(), borders_);
  for (auto& border : borders_) border = layout.cut(border, unit);
}

Handle OwnerExchange::stage(int index) {
  if (index == 0) return send_ranges();
  if (index == 1) return return_own_range();
  finish_ranges();
  done();
  return {};
}

Handle OwnerExchange::send_ranges() {
  {
    const Stopwatch watch(cost().encode_seconds);
    write_ranges();
    flag_nonfinite(send_);
  }
  cost().payload_bytes = send_.payload_bytes();
  count_sent(send_);
  count_received(receive_);
  return communicator().all_to_all_varying(send_.bytes(), send_.ranges(), receive_.bytes(), receive_.ranges());
}

Handle OwnerExchange::return_own_range() {
  {
    const Stopwatch watch(cost().decode_seconds);
    make_own_range();
  }
  count_gathered(returned_.length(rank()), returned_.payload_bytes());
  return communicator().all_gather_varying(returned_.payload(rank()), returned_.bytes(), returned_.ranges());
}

void OwnerExchange::finish_ranges() {
  const Stopwatch watch(cost().decode_seconds);
  require_payloads_sound(read_ranges());
  note_nonfinite_returns(returned_);
}

}  // namespace laconic
