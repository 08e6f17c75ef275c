#include "connector.hpp"

#include <algorithm>
#include <vector>

#include "lane_set.hpp"
#include "routing.hpp"

namespace sluicegate {
namespace {

constexpr size_t intern_entries_max = 4'096;
constexpr size_t intern_bytes_max = 64 * 1024;

}  // namespace

Connector::Connector(Platform& platform, std::string host, uint16_t port,
                     const ClientOptions& options)
    : platform_{platform},
      host_{std::move(host)},
      port_{port},
      options_{options},
      wake_{platform},
      random_{platform.random_seed()} {}

void Connector::start(LaneSet& lanes, IoThread& io, Routing& routing, HandleTable& handles) {
  lanes_ = &lanes;
  io_ = &io;
  routing_ = &routing;
  handles_ = &handles;
  thread_ = platform_.start([this] { run(); });
}

void Connector::stop() {
  {
    const std::lock_guard lock{mutex_};
    is_stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) platform_.join(thread_);
}

void Connector::notify() {
  {
    const std::lock_guard lock{mutex_};
    is_notified_ = true;
  }
  wake_.notify_all();
}

void Connector::run() {
  for (;;) {
    const bool all_connected = connect_all();
    std::unique_lock lock{mutex_};
    if (all_connected) {
      wake_.wait(lock, [this] { return is_notified_ || is_stopping_; });
    } else {
      wake_.wait_until(lock, platform_.now() + next_pause(),
                       [this] { return is_stopping_.load(); });
    }
    if (is_stopping_) return;
    is_notified_ = false;
  }
}

// False after a failed attempt.
bool Connector::connect_all() {
  for (uint32_t lane = 0; lane < std::min(lanes_->count(), routing_->shards.load()); ++lane) {
    if (!(*lanes_)[lane].needs_link()) continue;
    try {
      if ((*lanes_)[lane].take_unproven_loss()) {
        throw ConnectionLost("the server closed the connection before it answered anything");
      }
      connect(lane);
    } catch (const Error& fault) {
      if (is_stopping_) return false;  // close() completes the calls
      ++failures_;
      rest_all(fault.what());
      return false;
    }
  }
  // Only now the number of shards is known.
  for (uint32_t lane = routing_->shards.load(); lane < lanes_->count(); ++lane) {
    (*lanes_)[lane].retire();
  }
  return true;
}

void Connector::connect(uint32_t index) {
  Lane& lane = (*lanes_)[index];
  lane.begin_attempt();
  auto link = std::make_unique<Link>(host_, port_,
                                     ConnectOptions{.client_name = options_.client_name,
                                                    .wanted_shard = index,
                                                    .connect_timeout = options_.connect_timeout},
                                     &is_stopping_, platform_);
  routing_->adopt(link->welcome(), LaneSet::lanes_max);
  intern(*link, index, lane.next_link_tag());
  lane.install(std::move(link));
  while (lanes_->count() < routing_->shards.load()) {
    lanes_->add(std::make_unique<Lane>(lanes_->count(), options_, platform_, *io_, *this));
  }
}

// Interns the lane's keys on a new connection and stores their handles. A key that gets none is
// sent as text.
void Connector::intern(Link& link, uint32_t lane, uint32_t tag) {
  std::vector<std::string_view> keys;
  std::vector<uint32_t> handles;
  size_t bytes = 0;
  const auto ask = [&] {
    if (keys.empty()) return;
    encode(1, Intern{.keys = keys}, link.output());
    const auto frame = link.wait_frame(platform_.now() + options_.connect_timeout);
    if (!frame) throw TimedOut("no answer to Intern from " + link.peer() + " in time");
    const Answer answer = decode(*frame);
    const auto* interned = std::get_if<Interned>(&answer);
    if (interned == nullptr || interned->handles.size() != keys.size()) throw_unexpected(answer);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (interned->verdicts[i] != Verdict::approved) continue;
      handles_->set_handle_slot(handles[i], tag, interned->handles[i]);
    }
    keys.clear();
    handles.clear();
    bytes = 0;
  };
  const size_t entries_max = std::min<size_t>(intern_entries_max, link.welcome().frame_entries_max);
  for (uint32_t handle = 0; handle < handles_->count(); ++handle) {
    const std::string_view key = handles_->key(handle);
    if (routing_->lane_of(key) != lane) continue;
    if (keys.size() == entries_max || bytes + key.size() > intern_bytes_max) ask();
    keys.push_back(key);
    handles.push_back(handle);
    bytes += key.size();
  }
  ask();
}

void Connector::rest_all(const std::string& why) {
  for (uint32_t lane = 0; lane < lanes_->count(); ++lane) (*lanes_)[lane].rest(why);
}

Connector::Clock::duration Connector::next_pause() {
  const uint32_t doublings = std::min(std::max(failures_.load(), 1U) - 1, 20U);
  const auto longest =
      std::min(options_.backoff_first * (int64_t{1} << doublings), options_.backoff_longest);
  std::uniform_real_distribution<double> part{0.5, 1.0};
  return std::chrono::duration_cast<Clock::duration>(longest * part(random_));
}

}  // namespace sluicegate
