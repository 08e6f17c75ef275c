#include "peer/peer.hpp"

#include <algorithm>
#include <utility>

#include "log/log.hpp"

namespace sluice::peer {
Peer::Peer(Context& context, net::ConnectionMemory& memory, uint32_t first_place, uint32_t node,
           std::string host, AddressBook& addresses, uint64_t seed)
    : context_(context),
      memory_(memory),
      first_place_(first_place),
      node_(node),
      host_(std::move(host)),
      addresses_(addresses),
      random_(static_cast<std::minstd_rand::result_type>(seed)),
      targets_(context.mailboxes.nodes().node_targets()) {
  target(0);
}

route::TargetId Peer::target_id(uint32_t lane) const noexcept {
  return static_cast<route::TargetId>(context_.mailboxes.nodes().first_target(node_) + lane);
}

// The target of a lane; made when it is needed first.
PeerTarget& Peer::target(uint32_t lane) {
  std::unique_ptr<PeerTarget>& target = targets_[lane];
  if (target == nullptr) {
    target = std::make_unique<PeerTarget>(target_id(lane), context_, counts_);
    context_.mailboxes.attach(target_id(lane), *target);
  }
  return *target;
}

void Peer::on_tick() noexcept {
  for (const auto& lane : lanes_) {
    if (lane) lane->on_tick();
  }
  if (gocc_) gocc_->on_tick();
  if (probe_) probe_->on_tick();
  const int64_t given_up_ms = context_.now_ms - context_.options.timeout_ms;
  for (const auto& target : targets_) {
    if (target) target->give_up(given_up_ms);
  }
  go_on();
}

void Peer::go_on() noexcept {
  remove_closed_lanes();
  if (gocc_) gocc_->go_on();
  if (gocc_ && gocc_->is_open()) pause_ms_ = pause_ms_min;
  if (gocc_ && gocc_->is_closed()) {
    why_down_ = gocc_->why_lost();
    const bool was_open = gocc_->was_open();
    gocc_.reset();
    if (!was_open) note_failure();
  }
  serve_targets();
  follow_shards();
  if (probe_ && probe_->is_over()) on_probed(*std::exchange(probe_, nullptr));
  if (!probe_ && may_probe()) probe();
  note_state();
}

void Peer::remove_closed_lanes() noexcept {
  bool has_failed = false;  // a lane that never opened
  for (std::unique_ptr<Lane>& lane : lanes_) {
    if (!lane || lane->state() != Lane::State::closed) continue;
    why_down_ = lane->why_lost();
    has_failed |= !lane->was_open();
    if (lane->wants_other_secret()) warn_of_secret();
    lane.reset();
  }
  if (has_failed) note_failure();
}

// Once, until it is connected again.
void Peer::warn_of_secret() noexcept {
  if (std::exchange(is_warned_of_secret_, true) || !logs()) return;
  log::warning(
      "another node takes nothing from this one, because their secrets differ: give both the same "
      "--peer-secret-file",
      {{"node", host_}});
}

// --- What it is ----------------------------------------------------------------------------

bool Peer::may_probe() const noexcept {
  if (is_closing_) return false;
  if (!lacks_links()) return false;
  // While somebody asks for its keys, or this node owes it something, there is no reason to wait
  // longer.
  const bool is_wanted = counts_.failed_entries != failed_entries_ || has_own_calls_;
  return context_.now_ms - last_probe_ms_ >= (is_wanted ? pause_ms_min : pause_ms_);
}

void Peer::probe() noexcept {
  if (std::exchange(is_first_probe_, false)) awaited_since_ms_ = context_.now_ms;
  last_probe_ms_ = context_.now_ms;
  failed_entries_ = counts_.failed_entries;
  has_own_calls_ = false;
  const auto address = addresses_.address(node_);
  if (!address) return on_failed("its name has no address yet");
  probe_ = std::make_unique<Probe>(context_, memory_, first_place_, host_);
  tried_ = *address;
  probe_->connect(tried_);
}

void Peer::on_probed(const Probe& probe) noexcept {
  if (probe.state() == Probe::State::failed) return on_failed(probe.why_failed());
  if (is_closing_) return;
  if (!probe.facts()) return connect_gocc(probe.address());
  connect_lanes(*probe.facts(), probe.address());
}

void Peer::on_failed(std::string_view why) noexcept {
  why_down_ = why;
  note_failure();
}

// It is tried again at its next address, after a pause: half of it by chance, so that not all nodes
// come at once. The more addresses its name has, the shorter the pauses are, so that the right one
// is tried about as soon as a single one would be.
void Peer::note_failure() noexcept {
  was_tried_ = true;
  addresses_.note_failed(node_, tried_);
  const int64_t addresses_count = std::max(1U, addresses_.addresses_count(node_));
  const int64_t most_ms = std::max(pause_ms_max / addresses_count, pause_ms_min);
  const int64_t doubled_ms = std::min(2 * pause_ms_, most_ms);
  pause_ms_ = doubled_ms / 2 + static_cast<int64_t>(random_()) % (doubled_ms / 2 + 1);
}

void Peer::connect_lanes(const wire::NodeFacts& facts, io::PeerAddress address) noexcept {
  if (!facts_ || !facts_->is_same_process(facts)) {
    for (const auto& lane : lanes_) {
      if (lane) lane->lose("the node was restarted");
    }
    // Buffers of the old lanes are in use until their sockets are closed.
    const bool are_gone = std::ranges::all_of(lanes_, [](const auto& lane) { return !lane; });
    if (!are_gone) return;
    facts_ = facts;
    lanes_.clear();
    lanes_.resize(std::min<size_t>(facts.shards, targets_.size()));
  }
  address.port = facts.native_port;
  const auto lanes_count = static_cast<uint32_t>(lanes_.size());
  for (uint32_t lane = 0; lane < lanes_count; ++lane) {
    if (lanes_[lane]) continue;
    target(lane);
    const uint32_t shard =
        route::NodeMap::shard_of_lane(context_.mailboxes.shard(), lane, lanes_count, facts.shards);
    lanes_[lane] = std::make_unique<Lane>(context_, memory_, first_place_ + 1 + lane, shard);
    lanes_[lane]->connect(address);
  }
}

void Peer::connect_gocc(const io::PeerAddress& address) noexcept {
  for (const auto& lane : lanes_) {
    if (lane) lane->lose("a gocc has taken the node's place");
  }
  if (!std::ranges::all_of(lanes_, [](const auto& lane) { return !lane; })) return;
  facts_.reset();
  lanes_.clear();
  context_.mailboxes.nodes().forget_shards(node_);
  note_node({});
  gocc_ = std::make_unique<GoccLink>(context_, memory_, first_place_ + 1, node_, host_, target(0));
  gocc_->connect(address);
}

// A lane that was greeted serves its target.
void Peer::serve_targets() noexcept {
  for (uint32_t shard = 0; shard < lanes_.size(); ++shard) {
    Lane* const lane = lanes_[shard].get();
    if (!lane || lane->state() != Lane::State::open || lane->serves()) continue;
    const Lane::Owner& owner = lane->owner();
    if (owner.instance_id != facts_->instance || owner.shards != facts_->shards) {
      lane->lose("the node was restarted");  // after the probe: there will be another one
      continue;
    }
    lane->serve(*targets_[shard]);
    pause_ms_ = pause_ms_min;
  }
}

// Until all lanes are there, the first one takes the keys of all shards. A key's entries go over
// another one when those before them have left the first, so that they are decided in their order.
void Peer::follow_shards() noexcept {
  const auto each_target = [this](auto call) {
    for (const auto& target : targets_) {
      if (target) call(*target);
    }
  };
  const auto resume = [&] { each_target([](PeerTarget& target) { target.resume(); }); };
  if (gocc_ || !is_connected()) return resume();
  route::NodeMap& nodes = context_.mailboxes.nodes();
  const Lane::Owner& owner = lanes_[0]->owner();
  if (!nodes.has_shards(node_, owner.shards, owner.routing_seed)) {
    bool is_idle = true;
    each_target([&](PeerTarget& target) {
      target.hold();
      is_idle &= target.idle();
    });
    if (!is_idle) return;
    nodes.set_shards(node_, owner.shards, owner.routing_seed);
  }
  note_node({.native_port = facts_->native_port,
             .shards = owner.shards,
             .routing_seed = owner.routing_seed,
             .instance_id = owner.instance_id});
  resume();
}

void Peer::note_node(const wire::NodeState& state) noexcept {
  if (node_state_ == state) return;
  node_state_ = state;
  context_.has_new_state = true;
}

// --- Quotas --------------------------------------------------------------------------------

// The lane of this target; or any other, whose shard takes the calls to theirs. As many as there
// are lanes: none takes them.
size_t Peer::lane_for(route::TargetId target) const noexcept {
  const auto takes = [](const std::unique_ptr<Lane>& lane) {
    return lane && lane->takes_parcels();
  };
  const size_t wanted = target - target_id(0);
  if (wanted < lanes_.size() && takes(lanes_[wanted])) return wanted;
  return static_cast<size_t>(std::ranges::find_if(lanes_, takes) - lanes_.begin());
}

// Why no lane takes quota calls.
api::NodeFailure Peer::failure() const noexcept {
  if (gocc_) return api::NodeFailure::is_gocc;
  const bool refuses =
      std::ranges::any_of(lanes_, [](const auto& lane) { return lane && lane->refuses_parcels(); });
  const bool takes_none = refuses || is_warned_of_secret_;
  return takes_none ? api::NodeFailure::takes_none : api::NodeFailure::silent;
}

void Peer::post(QuotaParcel& parcel) noexcept {
  parcel.is_answered = false;
  parcel.failure = api::NodeFailure::silent;
  const size_t lane = lane_for(parcel.target);
  if (lane == lanes_.size()) {
    parcel.failure = failure();
    context_.parcels_done.push_back(&parcel);
    return;
  }
  if (parcel.has_caller) counts_.forwarded_entries += parcel.batch.calls.size();
  parcel.target = target_id(static_cast<uint32_t>(lane));
  parcel.deadline_ms = context_.now_ms + parcel.timeout_ms;
  lanes_[lane]->send(parcel);
}

void Peer::count_back(const QuotaParcel& parcel) noexcept {
  if (parcel.is_answered) return;
  if (parcel.has_caller) {
    counts_.failed_entries += parcel.batch.calls.size();
  } else {
    has_own_calls_ = true;
  }
}

// --- Whether it is there -------------------------------------------------------------------

// Links that are lost are closed a little later, but the loss is logged at once.
void Peer::note_why_lost() noexcept {
  for (const auto& lane : lanes_) {
    if (lane && lane->state() == Lane::State::lost) why_down_ = lane->why_lost();
  }
  if (gocc_ && gocc_->was_open() && !gocc_->is_open()) why_down_ = gocc_->why_lost();
}

void Peer::note_state() noexcept {
  note_why_lost();
  for (uint32_t lane = 0; lane < targets_.size(); ++lane) {
    const bool stands_in =
        context_.policy.stands_in() && targets_[lane] && !targets_[lane]->is_connected();
    context_.mailboxes.nodes().stand_in_for(target_id(lane), stands_in);
  }
  warn_if_never_reached();
  if (is_connected() == is_reachable_) return;
  is_reachable_ = !is_reachable_;
  awaited_since_ms_.reset();
  if (is_reachable_) is_warned_of_secret_ = false;
  if (!logs()) return;
  if (is_reachable_) log::info("node connected", {{"node", host_}});
  if (!is_reachable_) log::warning("node lost", {{"node", host_}, {"reason", why_down_}});
}

// Once. A node that has not been there since the start is never lost: without this line nobody
// would hear of a wrong name in the list.
void Peer::warn_if_never_reached() noexcept {
  const bool is_late =
      awaited_since_ms_ && context_.now_ms - *awaited_since_ms_ >= first_reached_ms_max;
  if (!is_late) return;
  awaited_since_ms_.reset();
  if (is_connected() || !logs()) return;
  log::warning(
      "node not reached since the start: is its URL in --instance-urls right, and is it up?",
      {{"node", host_}, {"reason", why_down_}});
}

// One worker does that for all.
bool Peer::logs() const noexcept {
  return context_.mailboxes.shard() == 0 && !is_closing_;
}

bool Peer::is_connected() const noexcept {
  if (gocc_) return gocc_->is_open();
  return !lanes_.empty() &&
         std::ranges::all_of(lanes_, [](const auto& lane) { return lane && lane->serves(); });
}

bool Peer::lacks_links() const noexcept {
  if (gocc_) return false;
  return !facts_ || std::ranges::any_of(lanes_, [](const auto& lane) { return !lane; });
}

PeerCounts Peer::counts() const noexcept {
  PeerCounts counts = counts_;
  counts.links_wanted = std::max<uint32_t>(1, static_cast<uint32_t>(lanes_.size()));
  return counts;
}

void Peer::close() noexcept {
  is_closing_ = true;
  for (const auto& lane : lanes_) {
    if (lane) lane->lose("this node shuts down");
  }
  if (gocc_) gocc_->lose("this node shuts down");
  if (probe_) probe_->close();
}

bool Peer::is_closed() const noexcept {
  return is_closing_ && !probe_ && !gocc_ &&
         std::ranges::all_of(lanes_, [](const auto& lane) { return !lane; });
}

}  // namespace sluice::peer
