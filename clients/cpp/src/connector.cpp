#include "connector.hpp"

#include <algorithm>
#include <utility>

#include "lane_set.hpp"

namespace sluicegate {

Connector::Connector(const Parts& parts, Address address)
    : parts_{parts},
      address_{std::move(address)},
      dialer_{parts.platform, parts.options, parts.handles, is_stopping_},
      wake_{parts.platform},
      backoff_{parts.options, parts.platform.random_seed()} {}

Connector::Connector(const Parts& parts, std::vector<Address> addresses)
    : Connector{parts, Address{}} {
  const Fleet::Parts fleet{.platform = parts.platform,
                           .options = parts.options,
                           .lanes = parts.lanes,
                           .nodes = parts.nodes,
                           .connector = *this};
  fleet_.emplace(fleet, dialer_, std::move(addresses));
}

void Connector::start() {
  thread_ = parts_.platform.start([this] { run(); });
}

void Connector::stop() {
  {
    const std::lock_guard lock{mutex_};
    is_stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) parts_.platform.join(thread_);
}

void Connector::notify() {
  {
    const std::lock_guard lock{mutex_};
    is_notified_ = true;
  }
  wake_.notify_all();
}

void Connector::note_nodes(const Topology& topology) {
  if (!fleet_) return;
  fleet_->note(list_of(topology));
  notify();
}

Lane& Connector::add_lane() {
  const uint32_t index = parts_.lanes.count();
  parts_.lanes.add(
      std::make_unique<Lane>(index, parts_.options, parts_.platform, parts_.io, *this));
  return parts_.lanes[index];
}

void Connector::run() {
  for (;;) {
    bool has_failed = false;
    Deadline due;
    try {
      due = connect_due();
    } catch (const Error& fault) {
      if (is_stopping_) return;  // close() completes the calls
      has_failed = true;
      ++failures_;
      rest_all(fault.what());
      due = parts_.platform.now() + backoff_.pause(failures_);
    }
    std::unique_lock lock{mutex_};
    // A loss cuts no pause: each lane that waits for an attempt has been lost before.
    const auto goes_on = [&] { return is_stopping_ || (is_notified_ && !has_failed); };
    if (due) {
      wake_.wait_until(lock, *due, goes_on);
    } else {
      wake_.wait(lock, goes_on);
    }
    if (is_stopping_) return;
    is_notified_ = false;
  }
}

// Throws after a failed attempt. Returns when to try again without a reason.
Connector::Deadline Connector::connect_due() {
  if (!fleet_) {
    connect_all();
    return std::nullopt;
  }
  const auto due = fleet_->connect_due();
  return due == Clock::time_point::max() ? Deadline{} : due;
}

void Connector::connect_all() {
  const Routing& routing = parts_.routing;
  LaneSet& lanes = parts_.lanes;
  for (uint32_t lane = 0; lane < std::min(lanes.count(), routing.shards.load()); ++lane) {
    if (!lanes[lane].needs_link()) continue;
    if (lanes[lane].take_unproven_loss()) {
      throw ConnectionLost("the server closed the connection before it answered anything");
    }
    connect(lane);
  }
  // Only now the number of shards is known.
  for (uint32_t lane = routing.shards.load(); lane < lanes.count(); ++lane) lanes[lane].retire();
}

void Connector::connect(uint32_t index) {
  Lane& lane = parts_.lanes[index];
  lane.begin_attempt();
  auto link = dialer_.dial(address_, index, parts_.options.connect_timeout);
  parts_.routing.adopt(link->welcome(), Node::shards_max);
  dialer_.intern(
      *link, lane.next_link_tag(), parts_.options.connect_timeout,
      [this, index](std::string_view key) { return parts_.routing.shard_of(key) == index; });
  lane.install(std::move(link));
  while (parts_.lanes.count() < parts_.routing.shards.load()) add_lane();
}

void Connector::rest_all(const std::string& why) {
  for (uint32_t lane = 0; lane < parts_.lanes.count(); ++lane) parts_.lanes[lane].rest(why);
}

}  // namespace sluicegate
