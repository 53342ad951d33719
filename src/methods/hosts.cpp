// Which ranks are on the same machine, which options and messages call a host.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>

#include "base/philox.h"
#include "laconic/error.h"
#include "laconic/two_levels.h"
#include "transport/agreement.h"

namespace laconic {
namespace {

using HostName = std::array<char, 256>;

/// Empty if the system does not know it.
HostName own_host_name() {
  HostName name{};
  const char* given = std::getenv("LACONIC_HOST");
  if (given != nullptr && *given != '\0') {
    std::string(given).copy(name.data(), name.size() - 1);
  } else if (gethostname(name.data(), name.size() - 1) != 0) {
    name = {};
  }
  return name;
}

/// Numbers what the ranks gave, in the order in which it first occurs.
template <class Mark>
std::vector<int> numbered(Communicator& communicator, const Mark& mine) {
  std::vector<Mark> marks(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(as_bytes(View<const Mark>(&mine, 1)), as_writable_bytes(View<Mark>(marks))).wait();
  std::map<Mark, int> number_of;
  std::vector<int> hosts;
  for (const Mark& each : marks) {
    hosts.push_back(number_of.try_emplace(each, static_cast<int>(number_of.size())).first->second);
  }
  return hosts;
}

std::string text_of_hosts(std::span<const int> hosts) {
  std::string text;
  for (const int host : hosts) text.append(text.empty() ? "" : " ").append(std::to_string(host));
  return text;
}

void require_even(std::span<const int> hosts) {
  const auto ranks_of = [&](int host) { return std::count(hosts.begin(), hosts.end(), host); };
  for (const int host : hosts) {
    if (ranks_of(host) == ranks_of(hosts.front())) continue;
    throw InvalidConfig("host " + std::to_string(hosts.front()) + " has " + std::to_string(ranks_of(hosts.front())) +
                        " ranks and host " + std::to_string(host) + " has " + std::to_string(ranks_of(host)) +
                        ": two levels need the same number on every host; start as many ranks on each, or use one "
                        "level");
  }
}

}  // namespace

std::vector<int> hosts_of_size(int ranks, int ranks_per_host) {
  if (ranks_per_host < 1 || ranks % ranks_per_host != 0) {
    std::string divisors;
    for (int each = 1; each <= ranks; ++each) {
      if (ranks % each == 0) divisors.append(divisors.empty() ? "" : ", ").append(std::to_string(each));
    }
    throw InvalidConfig("ranks per host must divide the number of ranks, " + std::to_string(ranks) + ", got " +
                        std::to_string(ranks_per_host) + ": give one of " + divisors);
  }
  std::vector<int> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(rank / ranks_per_host);
  return hosts;
}

std::vector<int> hosts_by_color(Communicator& communicator, int color) { return numbered(communicator, color); }

std::vector<int> hosts_by_name(Communicator& communicator) {
  const HostName name = own_host_name();
  const std::vector<int> hosts = numbered(communicator, name);
  // Known to all, so that no rank waits for one that gave up.
  const std::vector<int> nameless = numbered(communicator, static_cast<int>(name == HostName{}));
  if (name == HostName{} || std::count(nameless.begin(), nameless.end(), 0) != communicator.size()) {
    throw Error("a rank could not read its host name: set LACONIC_HOST to a name that the ranks of a host share");
  }
  return hosts;
}

TwoLevels::TwoLevels(Communicator& all, std::span<const int> hosts) : all_(all), hosts_(text_of_hosts(hosts)) {
  const std::vector<AgreedField> fields{{"host of each rank", hosts_}, overlap_field(all_)};
  require_agreement(all_, fields);
  if (hosts.size() != static_cast<std::size_t>(all_.size())) {
    throw InvalidConfig(std::to_string(hosts.size()) + " hosts were given for " + std::to_string(all_.size()) +
                        " ranks: give the number of each rank's host");
  }
  require_even(hosts);
  if (!all_.duplicates_overlap()) {
    throw InvalidConfig(all_.description() + ": the engine needs one order for the calls of all groups, which two "
                        "levels do not have: use another engine, such as Gloo, or one level");
  }
  within_ = all_.split(hosts[static_cast<std::size_t>(all_.rank())]);
  between_ = all_.split(within_->rank());
}

std::uint64_t seed_of_slice(std::uint64_t seed, int local_rank) {
  return derived_seed(seed, static_cast<std::uint32_t>(local_rank), Purpose::slice_seed);
}

}  // namespace laconic
