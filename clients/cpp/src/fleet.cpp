#include "fleet.hpp"

#include <algorithm>
#include <utility>

#include "connector.hpp"

namespace sluicegate {
namespace {

constexpr const char* unproven = "the server closed the connection before it answered anything";

}  // namespace

Fleet::Fleet(const Parts& parts, Dialer& dialer, std::vector<Address> addresses)
    : parts_{parts}, dialer_{dialer} {
  for (Address& address : addresses) given_.push_back({std::move(address), std::nullopt});
}

void Fleet::note(NodeList list) {
  const std::lock_guard lock{mutex_};
  report_ = std::move(list);
}

Fleet::Clock::time_point Fleet::connect_due() {
  if (find_connected() == Node::no_lane) find_first();
  take_reports();
  hand_over_draining();
  reconnect_lost();
  const auto due = connect_next();
  choose_home();
  return due;
}

// What servers that shut down were not sent.
void Fleet::hand_over_draining() {
  for (uint32_t lane = 0; lane < parts_.lanes.count(); ++lane) {
    if (!parts_.lanes[lane].is_draining()) continue;
    const uint32_t other = find_stand_in();
    if (other != Node::no_lane) parts_.lanes[lane].hand_over(parts_.lanes[other]);
  }
}

// Those that were connected until just now; home before the others.
void Fleet::reconnect_lost() {
  const auto reconnect = [this](uint32_t place) {
    if (is_lost(place) && find_connected() != Node::no_lane) connect_node(place);
  };
  if (parts_.nodes.home() < known_.size()) reconnect(parts_.nodes.home());
  for (uint32_t place = 0; place < known_.size(); ++place) reconnect(place);
}

// Makes one attempt at most: for the node that has waited for one longest. Where no node is
// connected any more, find_first() is due.
Fleet::Clock::time_point Fleet::connect_next() {
  std::optional<uint32_t> next;
  for (uint32_t place = 0; place < known_.size(); ++place) {
    if (!lacks_links(place)) continue;
    if (!next || known_[place].retry_at < known_[*next].retry_at) next = place;
  }
  if (find_connected() == Node::no_lane) return {};
  if (next && parts_.platform.now() >= known_[*next].retry_at) connect_node(*next);
  auto due = Clock::time_point::max();
  for (uint32_t place = 0; place < known_.size(); ++place) {
    if (!lacks_links(place)) continue;
    hand_over(place);
    due = std::min(due, known_[place].retry_at);
  }
  return find_connected() == Node::no_lane ? Clock::time_point{} : due;
}

// ------------------------------------------------------------------------------ the first one

// Whoever answers first. The addresses share the time that one of them would have.
void Fleet::find_first() {
  note_unproven_losses();
  for (uint32_t lane = 0; lane < parts_.lanes.count(); ++lane) parts_.lanes[lane].begin_attempt();
  for (Known& node : known_) {
    node.retry_at = {};
    node.tried.clear();
  }
  const auto deadline = parts_.platform.now() + parts_.options.connect_timeout;
  const auto addresses = all_addresses();
  std::string why = "no address is left";
  for (size_t i = 0; i < addresses.size(); ++i) {
    const auto left = std::max(deadline - parts_.platform.now(), Clock::duration{0});
    const auto part = left / static_cast<int64_t>(addresses.size() - i);
    const auto own_deadline = parts_.platform.now() + part;
    try {
      auto link = dialer_.dial(addresses[i], 0, std::chrono::ceil<std::chrono::milliseconds>(part));
      const NodeList list = dialer_.ask_nodes(*link, own_deadline);
      if (list.digest != list_digest_ || list.nodes.size() != known_.size()) forget_places();
      list_digest_ = list.digest;
      adopt(list);
      note_place(addresses[i], list.own);
      note_reach(false);  // the others are tried now
      parts_.nodes.set_home(list.own);
      install(list.own, 0, addresses[i], std::move(link));
      return retire_free_lanes();
    } catch (const Error& fault) {
      if (parts_.connector.is_stopping()) throw;
      why = fault.what();
    }
  }
  note_reach(true);
  throw ConnectionLost(why);
}

void Fleet::note_reach(bool is_out_of_reach) noexcept {
  for (uint32_t place = 0; place < known_.size(); ++place) {
    parts_.nodes[place].is_out_of_reach = is_out_of_reach;
  }
}

void Fleet::note_unproven_losses() {
  bool is_unproven = false;
  for (uint32_t lane = 0; lane < parts_.lanes.count(); ++lane) {
    is_unproven |= parts_.lanes[lane].take_unproven_loss();
  }
  if (is_unproven) throw ConnectionLost(unproven);
}

// Another list: what was learned by the old one says nothing about it. No lane is connected now.
void Fleet::forget_places() {
  for (uint32_t place = 0; place < known_.size(); ++place) {
    for (auto& lane : parts_.nodes[place].lanes) {
      const uint16_t freed = lane.exchange(Node::no_lane);
      if (freed != Node::no_lane) free_lanes_.push_back(freed);
    }
  }
  known_.clear();
  for (Given& each : given_) each.place.reset();
}

// A server that was started just now has not reached all nodes yet, and names no ports of these.
void Fleet::adopt(const NodeList& list) {
  known_.resize(std::max<size_t>(list.nodes.size(), 1));
  for (size_t place = 0; place < list.nodes.size(); ++place) {
    Known& node = known_[place];
    const NodeList::Entry& reported = list.nodes[place];
    const bool says_less = reported.address.port == 0 && node.reported.address.port != 0;
    if (says_less || node.reported == reported) continue;
    node.reported = reported;
    if (reported.instance_id == node.instance_id) continue;
    node.retry_at = {};  // it was restarted
    node.tried.clear();
  }
  parts_.nodes.resize(static_cast<uint32_t>(known_.size()));
}

// Of servers with our list only.
void Fleet::take_reports() {
  std::optional<NodeList> reported;
  {
    const std::lock_guard lock{mutex_};
    reported = std::exchange(report_, std::nullopt);
  }
  for (auto& report : {dialer_.take_report(), std::move(reported)}) {
    if (report && report->digest == list_digest_ && report->nodes.size() == known_.size()) {
      adopt(*report);
    }
  }
}

// ------------------------------------------------------------------------------------- a node

void Fleet::connect_node(uint32_t place) {
  try {
    if (take_unproven_loss(place)) throw ConnectionLost(unproven);
    if (needs_link(place, 0)) connect_first_lane(place);
    connect_shards(place);
    known_[place].was_connected = true;
  } catch (const Error& fault) {
    if (parts_.connector.is_stopping()) throw;
    note_failure(place, fault.what());
  }
}

// Nothing is held against a node that was restarted.
bool Fleet::take_unproven_loss(uint32_t place) {
  const Known& known = known_[place];
  const uint64_t reported = known.reported.instance_id;
  const bool was_restarted = reported != 0 && reported != known.instance_id;
  bool is_unproven = false;
  for (uint32_t shard = 0; shard < known.lane_instances.size(); ++shard) {
    const uint32_t lane = parts_.nodes[place].lane(shard);
    if (lane == Node::no_lane || !parts_.lanes[lane].take_unproven_loss()) continue;
    is_unproven |= !was_restarted && known.lane_instances[shard] == known.instance_id;
  }
  return is_unproven;
}

void Fleet::connect_first_lane(uint32_t place) {
  const auto address = untried_address(place);
  if (!address) throw ConnectionLost("its address is not known");
  known_[place].tried.push_back(*address);
  const auto deadline = parts_.platform.now() + owner_timeout();
  auto link = dialer_.dial(*address, 0, owner_timeout());
  const NodeList list = dialer_.ask_nodes(*link, deadline);
  if (list.digest == list_digest_) note_place(*address, list.own);
  if (!leads_to(list, place)) {
    throw ConnectionLost("another server answers at " + to_text(*address));
  }
  install(place, 0, *address, std::move(link));
}

void Fleet::connect_shards(uint32_t place) {
  Node& node = parts_.nodes[place];
  const uint32_t shards = node.routing.shards.load();
  for (uint32_t shard = 1; shard < shards; ++shard) {
    if (!needs_link(place, shard)) continue;
    const Known& known = known_[place];
    auto link = dialer_.dial(known.connected, shard, owner_timeout());
    if (link->welcome().instance_id != known.instance_id) {
      throw ConnectionLost("another server answers at " + link->peer());
    }
    install(place, shard, known.connected, std::move(link));
  }
  for (uint32_t shard = shards; shard < Node::shards_max; ++shard) {
    if (node.lane(shard) != Node::no_lane) parts_.lanes[node.lane(shard)].retire();
  }
}

// Its keys go to another node meanwhile. The next of its addresses is tried without a pause.
void Fleet::note_failure(uint32_t place, const std::string& why) {
  Known& node = known_[place];
  node.was_connected = false;
  node.retry_at = parts_.platform.now();
  if (node.tried.empty() || !untried_address(place)) {
    node.tried.clear();
    node.retry_at += parts_.options.owner_retry;
    parts_.nodes[place].is_out_of_reach = true;
  }
  const uint32_t other = find_stand_in();
  for (Lane* const lane : lanes_of(place)) {
    if (other == Node::no_lane) {
      lane->rest(why);
    } else if (lane->index() != other) {
      lane->rest(why, parts_.lanes[other]);
    }
  }
}

// Calls that chose one of its lanes just before that was lost.
void Fleet::hand_over(uint32_t place) {
  const uint32_t other = find_stand_in();
  if (other == Node::no_lane) return;
  for (Lane* const lane : lanes_of(place)) {
    if (lane->index() != other) lane->hand_over(parts_.lanes[other]);
  }
}

std::vector<Lane*> Fleet::lanes_of(uint32_t place) const {
  std::vector<Lane*> lanes;
  const Node& node = parts_.nodes[place];
  for (uint32_t shard = 0; shard < Node::shards_max; ++shard) {
    if (node.lane(shard) != Node::no_lane) lanes.push_back(&parts_.lanes[node.lane(shard)]);
  }
  return lanes;
}

void Fleet::install(uint32_t place, uint32_t shard, const Address& address,
                    std::unique_ptr<Link> link) {
  if (!needs_link(place, shard)) throw ConnectionLost("the server is shutting down");
  Node& node = parts_.nodes[place];
  Known& known = known_[place];
  if (shard == 0) {
    node.routing.adopt(link->welcome(), shards_max());
    known.connected = address;
    known.instance_id = link->welcome().instance_id;
    known.was_connected = true;
    known.tried.clear();
    node.is_out_of_reach = false;
  }
  known.retry_at = {};
  known.lane_instances.resize(std::max<size_t>(known.lane_instances.size(), shard + 1));
  known.lane_instances[shard] = known.instance_id;
  Lane& lane = lane_for(place, shard);
  node.lanes[shard].store(static_cast<uint16_t>(lane.index()), std::memory_order_release);
  const uint32_t count = parts_.nodes.count();
  dialer_.intern(*link, lane.next_link_tag(), owner_timeout(), [&](std::string_view key) {
    return &parts_.nodes.owner(key, count) == &node && node.routing.shard_of(key) == shard;
  });
  lane.install(std::move(link));
}

Lane& Fleet::lane_for(uint32_t place, uint32_t shard) {
  const uint32_t own = parts_.nodes[place].lane(shard);
  if (own != Node::no_lane) return parts_.lanes[own];
  const auto free = std::find_if(free_lanes_.begin(), free_lanes_.end(),
                                 [&](uint32_t lane) { return parts_.lanes[lane].needs_link(); });
  if (free != free_lanes_.end()) {
    Lane& lane = parts_.lanes[*free];
    free_lanes_.erase(free);
    return lane;
  }
  if (parts_.lanes.count() == LaneSet::lanes_max) throw LimitExceeded("no lane is left");
  return parts_.connector.add_lane();
}

// No call may wait on one that nobody connects.
void Fleet::retire_free_lanes() {
  for (const uint32_t lane : free_lanes_) parts_.lanes[lane].retire();
}

// It changes only when it must: a page goes on where it was begun. While it may be back at the next
// attempt, it stays.
void Fleet::choose_home() noexcept {
  const uint32_t home = parts_.nodes.home();
  if (is_connected(home) || (home < known_.size() && is_lost(home))) return;
  for (uint32_t place = 0; place < known_.size(); ++place) {
    if (is_connected(place)) return parts_.nodes.set_home(place);
  }
}

// -------------------------------------------------------------------------------- what is known

uint32_t Fleet::find_connected() const noexcept {
  for (uint32_t lane = 0; lane < parts_.lanes.count(); ++lane) {
    if (parts_.lanes[lane].is_connected()) return lane;
  }
  return Node::no_lane;
}

// The lane that takes over what a lost one was not sent. Any node forwards what has an owner; what
// has none goes where it is asked from now on, home.
uint32_t Fleet::find_stand_in() noexcept {
  choose_home();
  const uint32_t home = parts_.nodes.home();
  return is_connected(home) ? parts_.nodes[home].lane(0) : find_connected();
}

bool Fleet::is_connected(uint32_t place) const noexcept {
  return place < known_.size() && parts_.lanes.is_connected(parts_.nodes[place].lane(0));
}

bool Fleet::needs_link(uint32_t place, uint32_t shard) const {
  const uint32_t lane = parts_.nodes[place].lane(shard);
  return lane == Node::no_lane || parts_.lanes[lane].needs_link();
}

bool Fleet::lacks_links(uint32_t place) const {
  const uint32_t shards = parts_.nodes[place].routing.shards.load();
  for (uint32_t shard = 0; shard < shards; ++shard) {
    if (needs_link(place, shard)) return true;
  }
  return false;
}

// No attempt was made since then.
bool Fleet::is_lost(uint32_t place) const {
  return known_[place].was_connected && lacks_links(place);
}

bool Fleet::leads_to(const NodeList& list, uint32_t place) const noexcept {
  return list.digest == list_digest_ && list.own == place &&
         std::max<size_t>(list.nodes.size(), 1) == known_.size();
}

// The last one that has led to it comes first, then the others that have, then the servers' own
// word, then those not tried yet.
std::vector<Address> Fleet::addresses_of(uint32_t place) const {
  std::vector<Address> addresses;
  for (const Given& each : given_) {
    if (each.place == place) addresses.push_back(each.address);
  }
  const Address& named = known_[place].reported.address;
  if (named.port != 0 && !named.host.empty()) addresses.push_back(named);
  for (const Given& each : given_) {
    if (!each.place) addresses.push_back(each.address);
  }
  std::stable_partition(addresses.begin(), addresses.end(),
                        [&](const Address& address) { return address == known_[place].connected; });
  return addresses;
}

std::optional<Address> Fleet::untried_address(uint32_t place) const {
  const std::vector<Address>& tried = known_[place].tried;
  for (const Address& address : addresses_of(place)) {
    if (std::find(tried.begin(), tried.end(), address) == tried.end()) return address;
  }
  return std::nullopt;
}

// Home comes first: it stays home if all connections were lost for a moment only.
std::vector<Address> Fleet::all_addresses() const {
  std::vector<Address> addresses;
  for (const Given& each : given_) addresses.push_back(each.address);
  for (const Known& node : known_) {
    const Address& named = node.reported.address;
    const bool is_known = named.port != 0 && !named.host.empty();
    if (is_known && std::find(addresses.begin(), addresses.end(), named) == addresses.end()) {
      addresses.push_back(named);
    }
  }
  const uint32_t home = parts_.nodes.home();
  if (home < known_.size()) {
    std::stable_partition(addresses.begin(), addresses.end(), [&](const Address& address) {
      return address == known_[home].connected;
    });
  }
  return addresses;
}

void Fleet::note_place(const Address& address, uint32_t place) noexcept {
  for (Given& each : given_) {
    if (each.address == address) each.place = place;
  }
}

uint32_t Fleet::shards_max() const noexcept {
  const auto count = static_cast<uint32_t>(std::max<size_t>(known_.size(), 1));
  return std::clamp(LaneSet::lanes_max / count, 1U, Node::shards_max);
}

}  // namespace sluicegate
