#include "peer/own_place.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "log/log.hpp"
#include "peer/host_text.hpp"

namespace sluice::peer {
namespace {

constexpr int64_t retry_ns = base::ns_per_s;
constexpr int64_t log_every_ns = 5 * base::ns_per_s;
constexpr const char* cure = "correct the list, or name this instance's item with --own-url";

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all;
}

std::vector<uint16_t> places_with_port(const std::vector<Instance>& instances, uint16_t port) {
  std::vector<uint16_t> places;
  for (uint16_t place = 0; place < instances.size(); ++place) {
    if (instances[place].port == port) places.push_back(place);
  }
  return places;
}

std::optional<uint16_t> place_of(const std::vector<Instance>& instances, const Instance& own) {
  for (uint16_t place = 0; place < instances.size(); ++place) {
    if (is_same(instances[place], own)) return place;
  }
  return std::nullopt;
}

uint16_t place_of_own_url(const std::vector<Instance>& instances, const std::string& own_url) {
  const Instance own = parse_instance(own_url, "--own-url");
  if (const auto place = place_of(instances, own)) return *place;
  throw std::runtime_error("--own-url " + own.url +
                           " is not in --instance-urls: " + urls_of(instances));
}

// An item that may be this process, and where its name leads.
struct Candidate {
  uint16_t place = 0;
  Instance instance;
  bool is_literal = false;  // the host is an address
  io::ResolvedHost host;
};

class Search {
 public:
  Search(const std::vector<Instance>& instances, const OwnPlaceOptions& options, Machine& machine)
      : options_(options),
        machine_(machine),
        bound_(io::IpAddress::parse(options.bind)),
        own_name_(without_last_dot(in_lower_case(machine.host_name()))) {
    if (bound_ && bound_->is_unspecified()) bound_.reset();
    for (const uint16_t place : places_with_port(instances, options.port)) {
      const Instance& instance = instances[place];
      candidates_.push_back({.place = place,
                             .instance = instance,
                             .is_literal = io::IpAddress::parse(instance.host).has_value(),
                             .host = {}});
    }
  }

  uint16_t run() {
    // Instances on one machine share its name: only their addresses differ.
    if (bound_) {
      if (const auto place = only_one(matches_of_addresses())) return *place;
    }
    if (const auto place = place_by_name()) return *place;
    return wait_for_addresses();
  }

 private:
  using Matches = std::vector<const Candidate*>;

  static std::optional<uint16_t> only_one(const Matches& matches) {
    if (matches.size() != 1) return std::nullopt;
    return matches.front()->place;
  }

  template <typename Test>
  Matches matching(Test matches) const {
    Matches found;
    for (const Candidate& each : candidates_) {
      if (matches(each)) found.push_back(&each);
    }
    return found;
  }

  std::optional<uint16_t> place_by_name() const {
    if (own_name_.empty()) return std::nullopt;
    const auto whole = matching([this](const Candidate& each) {
      return without_last_dot(each.instance.host) == own_name_;
    });
    if (const auto place = only_one(whole)) return place;
    return only_one(matching([this](const Candidate& each) {
      return !each.is_literal && first_label(each.instance.host) == first_label(own_name_);
    }));
  }

  // Resolves all candidates.
  Matches matches_of_addresses() {
    local_ = bound_ ? std::vector{*bound_} : machine_.local_addresses();
    for (Candidate& each : candidates_) each.host = machine_.resolve(each.instance.host);
    return matching([this](const Candidate& each) {
      return std::ranges::any_of(each.host.addresses,
                                 [this](const io::IpAddress& of) { return is_own(of); });
    });
  }

  bool is_own(const io::IpAddress& address) const {
    if (!bound_ && address.is_loopback()) return true;
    return std::ranges::find(local_, address) != local_.end();
  }

  uint16_t wait_for_addresses() {
    const bool may_change =
        std::ranges::any_of(candidates_, [](const Candidate& each) { return !each.is_literal; });
    const int64_t deadline_ns = machine_.now_ns() + (may_change ? options_.patience_ns : 0);
    while (true) {
      const Matches matches = matches_of_addresses();
      if (const auto place = only_one(matches)) return *place;
      if (!matches.empty()) fail_of_several(matches);
      const int64_t now_ns = machine_.now_ns();
      if (now_ns >= deadline_ns) fail_of_none();
      log_waiting(now_ns, deadline_ns);
      machine_.sleep_ns(std::min(retry_ns, deadline_ns - now_ns));
    }
  }

  void log_waiting(int64_t now_ns, int64_t deadline_ns) {
    if (now_ns < next_log_ns_) return;
    next_log_ns_ = now_ns + log_every_ns;
    log::info("no item of --instance-urls leads to this machine yet: trying again",
              {{"items", items_text()},
               {"machine", machine_text()},
               {"secondsLeft", (deadline_ns - now_ns) / base::ns_per_s}});
  }

  // "http://a:8080 (192.0.2.7), http://b:8080 (Name or service not known)"
  std::string items_text() const {
    std::vector<std::string> items;
    for (const Candidate& each : candidates_) {
      const std::string leads_to =
          each.host.addresses.empty() ? each.host.error : texts_of(each.host.addresses);
      items.push_back(each.instance.url + (each.is_literal ? "" : " (" + leads_to + ")"));
    }
    return joined(items);
  }

  std::string machine_text() const {
    return (own_name_.empty() ? "no host name" : own_name_) + ", " + (bound_ ? "--bind " : "") +
           texts_of(local_);
  }

  static std::string texts_of(const std::vector<io::IpAddress>& addresses) {
    constexpr size_t shown_max = 8;
    std::vector<std::string> texts;
    for (const io::IpAddress& each : addresses) {
      if (texts.size() < shown_max) texts.push_back(each.text());
    }
    if (addresses.size() > shown_max) texts.emplace_back("...");
    return joined(texts);
  }

  [[noreturn]] void fail_of_none() const {
    throw std::runtime_error("no item of --instance-urls with port " +
                             std::to_string(options_.port) + " leads to this machine (" +
                             machine_text() + "): " + items_text() + ": " + cure);
  }

  [[noreturn]] static void fail_of_several(const Matches& matches) {
    std::vector<std::string> urls;
    for (const Candidate* each : matches) urls.push_back(each->instance.url);
    throw std::runtime_error(
        "several items of --instance-urls lead to this machine: " + joined(urls) +
        ": name this instance's with --own-url, or its address with --bind");
  }

  const OwnPlaceOptions& options_;
  Machine& machine_;
  std::optional<io::IpAddress> bound_;  // of --bind, if it is one address
  const std::string own_name_;
  std::vector<Candidate> candidates_;
  std::vector<io::IpAddress> local_;
  int64_t next_log_ns_ = 0;
};

}  // namespace

void check_own_place(const std::vector<Instance>& instances, const OwnPlaceOptions& options) {
  if (!options.own_url.empty()) {
    place_of_own_url(instances, options.own_url);
    return;
  }
  if (options.port == 0) {
    throw std::runtime_error(
        "--instance-urls needs a --port that is in the list, or --own-url: --port 0 takes any");
  }
  if (places_with_port(instances, options.port).empty()) {
    throw std::runtime_error("no item of --instance-urls has this instance's port, " +
                             std::to_string(options.port) + " (--port): " + urls_of(instances) +
                             ": " + cure);
  }
}

uint16_t find_own_place(const std::vector<Instance>& instances, const OwnPlaceOptions& options,
                        Machine& machine) {
  check_own_place(instances, options);
  if (!options.own_url.empty()) return place_of_own_url(instances, options.own_url);
  return Search(instances, options, machine).run();
}

}  // namespace sluice::peer
