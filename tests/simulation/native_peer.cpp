#include "native_peer.hpp"

#include <algorithm>

#include "base/limits.hpp"
#include "proto/key_hash.hpp"
#include "server/worker.hpp"

namespace sluice::simulation {
namespace {

constexpr size_t outstanding_max = 40;  // frames of one peer, well below what Welcome allows
constexpr uint64_t batches_max = 4;     // frames at once
constexpr uint64_t mixed_entries_max = 60;
constexpr uint64_t many_mixed_entries_max = 2'000;

api::Verdict verdict_at(capnp::Data::Reader column, uint32_t index) {
  return static_cast<api::Verdict>(column.size() == 1 ? column[0] : column[index]);
}

}  // namespace

NativePeer::NativePeer(World& world, bool is_bystander)
    : Peer(world, server::native_listener, is_bystander),
      mixes_(world.ios.size() > 1 && world.random.chance(is_bystander ? 0.7 : 0.4)),
      hurries_(mixes_ && !is_bystander && world.random.chance(0.3)) {
  world.oracle.watch_order(client_.link_id());
}

// ------------------------------------------------------------------------------------- asking

uint32_t NativePeer::segment_words() {
  // With small first segments frames have several.
  return world_.random.chance(0.1) ? 24 : 4'096;
}

void NativePeer::send_frame(const Fill& fill) {
  send(build_frame(segment_words(), fill));
  asked_.rbegin()->second.end = record().asked_bytes;
}

uint64_t NativePeer::expect(Kind kind, ErrorCode error) {
  ++world_.operations;
  const uint64_t id = next_id_;
  // Mostly counting upwards, as clients do.
  next_id_ += world_.random.chance(0.05) ? 1 + world_.random.below(1'000'000) : 1;
  asked_[id] = {.kind = kind, .error = error, .waiting = {}};
  return id;
}

void NativePeer::send_hello() {
  sent_hello_ = true;
  const uint64_t id = expect(Kind::hello);
  send_frame([&](schema::ClientFrame::Builder frame) {
    frame.setId(id);
    auto hello = frame.initHello();
    hello.setVersion(1);
    hello.setClientName("simulation");
    // Zero is no wish; one too many is no wish either.
    if (is_bystander_ || world_.random.chance(0.5)) {
      hello.setWantedShard(wanted_shard());
      record().wanted_shard = hello.getWantedShard() - 1;
    }
  });
}

uint32_t NativePeer::wanted_shard() {
  while (true) {
    const auto wanted = static_cast<uint32_t>(world_.random.below(world_.ios.size() + 2));
    const bool is_shard = wanted > 0 && wanted <= world_.ios.size();
    if (!is_bystander_ || (is_shard && !world_.may_stand_still(wanted - 1))) return wanted;
  }
}

void NativePeer::ask() {
  if (!sent_hello_) {
    if (world_.random.chance(0.02)) return send_broken_bytes();
    return send_hello();
  }
  if (!welcomed_ && !impatient_) return;
  uint64_t count = mixes_ ? 1 + world_.random.below(batches_max) : 1;
  for (; count > 0 && asked_.size() < outstanding_max && !half_closed_; --count) ask_one();
}

void NativePeer::ask_one() {
  if (interns_ && world_.random.chance(0.4)) return ask_with_handles();
  const uint64_t dice = world_.random.below(is_bystander_ ? 80 : 100);
  if (dice < 70) return ask_acquire();
  if (dice < 80) return ask_release();
  if (dice < 88) return ask_withdraw();
  if (dice < 92) return ask_inspect();
  if (dice < 94) return ask_wrong();
  const uint64_t id = expect(Kind::ping);
  send_frame([&](schema::ClientFrame::Builder frame) {
    frame.setId(id);
    frame.setPing();
  });
}

void NativePeer::ask_acquire() {
  AskedFrame frame;
  frame.id = expect(Kind::acquire);
  draw_entries(frame);
  send_frame([&](schema::ClientFrame::Builder builder) { fill_acquire(builder, frame); });
}

// Keys alone, with costs, or with everything.
void NativePeer::draw_entries(AskedFrame& frame) {
  io::Random& random = world_.random;
  const uint64_t count = random_count(0.2);
  const uint64_t dice = mixes_ ? random.below(100) : 100;
  const bool plain = dice < 30;
  const bool with_costs = dice < 50;
  const bool may_wait = !with_costs && random.chance(0.5);
  frame.all_may_wait = may_wait && random.chance(0.3);
  for (uint64_t i = 0; i < count; ++i) {
    AskedEntry entry = random_acquire(may_wait);
    if (plain) entry.cost = 1;
    if (with_costs) entry.overrides = {};
    frame.entries.push_back(std::move(entry));
  }
  if (count > 4'000) {  // with all columns it would be longer than a frame may be
    for (AskedEntry& entry : frame.entries) entry.overrides.window_ms = api::keep_window;
  }
  // The shard that answers `invalid_key` may stand still.
  const bool has_invalid = !is_bystander_ && random.chance(0.02);
  if (has_invalid && count > 0) frame.entries[0].key.clear();
  if (!plain) draw_terms(frame);
  std::vector<std::string> keys;
  for (const AskedEntry& entry : frame.entries) keys.push_back(entry.key);
  count_mixed(keys, plain        ? ShardEvent::mixed_plain
                    : with_costs ? ShardEvent::mixed_costs
                                 : ShardEvent::mixed_terms);
}

// The number of entries in a frame: mostly few, sometimes many; with a greedy peer more often.
uint64_t NativePeer::random_count(double many_if_greedy) {
  io::Random& random = world_.random;
  const bool many = random.chance(greedy_ ? many_if_greedy : 0.002);
  if (mixes_ && !many && random.chance(0.5)) {
    return random.below(random.chance(0.1) ? many_mixed_entries_max : mixed_entries_max);
  }
  return many ? 1'000 + random.below(limits::frame_entries_max - 999) : random.below(12);
}

void NativePeer::draw_terms(AskedFrame& frame) {
  io::Random& random = world_.random;
  if (random.chance(0.02) && !frame.entries.empty()) frame.entries[0].cost = limits::permits_max;
  if (random.chance(0.5)) frame.details = static_cast<uint8_t>(greedy_ ? 127 : random.below(128));
  if (random.chance(0.3)) {
    frame.wait_limit_ms = 1 + static_cast<uint32_t>(random.below(world_.wait_ms_max));
  }
  asked_[frame.id].details = frame.details;
}

// Sends wrong frames too: with handles that the peer does not hold, or never held.
void NativePeer::ask_with_handles() {
  const uint64_t dice = world_.random.below(100);
  if (dice < 15 || (held_.empty() && dice < 90)) return ask_intern();
  if (dice < 25) return ask_forget();
  ask_by_handle();
}

// Interns the keys of all clients, again and again, and some keys that it hardly ever uses.
void NativePeer::ask_intern() {
  io::Random& random = world_.random;
  const uint64_t id = expect(Kind::intern);
  std::vector<std::string>& keys = asked_[id].keys;
  const uint64_t count = random.below(6);
  for (uint64_t i = 0; i < count; ++i) keys.push_back(random_key());
  if (random.chance(0.05)) {
    for (uint64_t i = random.below(world_.spare_keys); i > 0; --i) {
      keys.push_back("spare" + std::to_string(random.below(world_.spare_keys)));
    }
  }
  std::erase_if(keys, [&](const std::string& key) { return !is_interned_here(key); });
  if (random.chance(0.02)) keys.emplace_back();  // invalid_key
  if (random.chance(0.02)) keys.emplace_back(limits::key_bytes_max, 'k');
  send_frame([&](schema::ClientFrame::Builder builder) { fill_intern(builder, id, keys); });
}

uint32_t NativePeer::owner_of(const std::string& key) const {
  return proto::owner_shard(proto::routing_hash(key, routing_seed_), shards_);
}

void NativePeer::count_mixed(const std::vector<std::string>& keys, ShardEvent event) {
  const auto is_of_other_shard = [&](const std::string& key) {
    return owner_of(key) != owner_of(keys.front());
  };
  if (welcomed_ && std::ranges::any_of(keys, is_of_other_shard)) world_.count(event);
}

// Only a connection that holds no other shard's key is answered from the handle slots.
bool NativePeer::is_interned_here(const std::string& key) const {
  if (is_bystander_ && key.starts_with("spare")) return false;
  if (interns_other_shard_ || !welcomed_) return interns_other_shard_;
  return owner_of(key) == shard_;
}

void NativePeer::ask_forget() {
  io::Random& random = world_.random;
  const uint64_t id = expect(Kind::forget);
  std::vector<api::Handle>& handles = asked_[id].handles;
  if (random.chance(0.1)) {
    for (const auto& [handle, key] : held_) handles.push_back(handle);
  } else {
    for (uint64_t i = random.below(4); i > 0; --i) handles.push_back(random_handle());
  }
  for (const api::Handle handle : handles) {
    const auto held = held_.find(handle);
    if (held == held_.end()) continue;
    numbers_.erase(held->second);
    held_.erase(held);
  }
  send_frame([&](schema::ClientFrame::Builder builder) { fill_forget(builder, id, handles); });
}

// Half of these frames are plain: they take the fast path.
void NativePeer::ask_by_handle() {
  io::Random& random = world_.random;
  if (is_bystander_ && numbers_.empty()) return ask_acquire();
  AskedFrame frame;
  frame.id = expect(Kind::acquire);
  const uint64_t count = random_count(0.05);
  const bool plain = random.chance(0.5);
  const bool may_wait = !plain && random.chance(0.5);
  frame.all_may_wait = may_wait && random.chance(0.3);
  // Another's handle has no key, and the shard that refuses those without one may stand still.
  const bool strays = !is_bystander_ && random.chance(0.1);
  for (uint64_t i = 0; i < count; ++i) {
    AskedEntry entry = random_acquire(may_wait);
    const auto number = numbers_.find(entry.key);
    if (plain) entry = {};
    if (number != numbers_.end()) {
      entry.handle = number->second;
    } else if (strays || numbers_.empty()) {
      entry.handle = random_handle();
    } else {
      entry.handle = numbers_.begin()->second;
    }
    asked_[frame.id].meant.push_back(meant_by(entry.handle));
    frame.entries.push_back(entry);
  }
  if (!plain) draw_terms(frame);
  std::vector<std::string> keys;
  for (const MeantKey& key : asked_[frame.id].meant) {
    if (key && !key->empty()) keys.push_back(*key);
  }
  count_mixed(keys, ShardEvent::mixed_handles);
  send_frame([&](schema::ClientFrame::Builder builder) { fill_acquire_by_handle(builder, frame); });
}

api::Handle NativePeer::random_handle() {
  io::Random& random = world_.random;
  if (random.chance(0.02)) return random.chance(0.5) ? api::no_handle : 1'000'000'000;
  if (held_.empty() || random.chance(0.2)) {
    return static_cast<api::Handle>(random.below(2 * world_.spare_keys));
  }
  return std::next(held_.begin(), static_cast<ptrdiff_t>(random.below(held_.size())))->first;
}

NativePeer::MeantKey NativePeer::meant_by(api::Handle handle) const {
  const auto held = held_.find(handle);
  if (held != held_.end()) return held->second;
  if (awaits(Kind::intern)) return {};
  return std::string{};
}

bool NativePeer::awaits(Kind kind) const {
  return std::ranges::any_of(asked_, [&](const auto& one) { return one.second.kind == kind; });
}

void NativePeer::ask_release() {
  AskedFrame frame;
  frame.id = expect(Kind::release);
  const uint64_t count = 1 + world_.random.below(4);
  for (uint64_t i = 0; i < count; ++i) frame.entries.push_back(random_entry(false));
  send_frame([&](schema::ClientFrame::Builder builder) { fill_release(builder, frame); });
}

// Withdraws a frame that waits, some of its entries, or a frame that does not exist.
void NativePeer::ask_withdraw() {
  uint64_t target = world_.random.next();
  std::vector<uint32_t> entries;
  for (const auto& [id, asked] : asked_) {
    if (asked.kind != Kind::acquire || !world_.random.chance(0.5)) continue;
    target = id;
    for (const uint32_t entry : asked.waiting) {
      if (world_.random.chance(0.5)) entries.push_back(entry);
    }
    break;
  }
  const uint64_t id = expect(Kind::withdraw);
  send_frame([&](schema::ClientFrame::Builder frame) {
    frame.setId(id);
    auto withdraw = frame.initWithdraw();
    withdraw.setTarget(target);
    auto list = withdraw.initEntries(static_cast<uint32_t>(entries.size()));
    for (uint32_t i = 0; i < entries.size(); ++i) list.set(i, entries[i]);
  });
}

void NativePeer::ask_inspect() {
  const bool page = !walking_ && world_.random.chance(0.5);
  const uint64_t id = expect(page ? Kind::page : Kind::inspect);
  if (page) {
    walking_ = true;
    page_keys_.clear();
  }
  const std::string key = page ? "" : random_key();
  send_frame([&](schema::ClientFrame::Builder frame) {
    frame.setId(id);
    auto inspect = frame.initInspect();
    const auto* bytes = reinterpret_cast<const kj::byte*>(key.data());
    inspect.setKey(kj::ArrayPtr<const kj::byte>(bytes, key.size()));
    inspect.setLimit(static_cast<uint32_t>(world_.random.below(8)));
  });
}

// Each wrong frame is answered by its Error, and changes nothing.
void NativePeer::ask_wrong() {
  AskedFrame frame;
  frame.entries = {{.key = random_key()}, {.key = random_key()}};
  const auto send_acquire = [&](ErrorCode code, const Fill& spoil) {
    frame.id = expect(Kind::wrong, code);
    send_frame([&](schema::ClientFrame::Builder builder) {
      fill_acquire(builder, frame);
      spoil(builder);
    });
  };
  switch (world_.random.below(11)) {
    case 0:
      return send_acquire(ErrorCode::bad_columns, [](schema::ClientFrame::Builder builder) {
        builder.getAcquire().initCosts(3);
      });
    case 1:
      return send_acquire(ErrorCode::bad_columns, [](schema::ClientFrame::Builder builder) {
        builder.getAcquire().getKeySizes().set(0, 60'000);
      });
    case 2:
      return send_acquire(ErrorCode::bad_cost, [](schema::ClientFrame::Builder builder) {
        builder.getAcquire().initCosts(2).set(1, limits::permits_max + 1);
      });
    case 3:
      if (world_.random.chance(0.5)) {
        frame.entries[1].overrides.max_requests = 0;
      } else {
        frame.entries[1].overrides.window_ms = limits::window_ms_min - 1;
      }
      return send_acquire(ErrorCode::bad_override, [](schema::ClientFrame::Builder) {});
    case 4:
      frame.wait_limit_ms = limits::wait_ms_max + 1;
      return send_acquire(ErrorCode::bad_wait_limit, [](schema::ClientFrame::Builder) {});
    case 5:
      frame.details = 128;
      return send_acquire(ErrorCode::bad_flag, [](schema::ClientFrame::Builder) {});
    case 6:
      frame.id = expect(Kind::wrong, ErrorCode::bad_columns);
      return send_frame([&](schema::ClientFrame::Builder builder) {
        fill_acquire_by_handle(builder, frame);
        builder.getAcquireByHandle().initCosts(3);
      });
    case 7:
      frame.id = expect(Kind::wrong, ErrorCode::bad_columns);
      return send_frame([&](schema::ClientFrame::Builder builder) {
        fill_intern(builder, frame.id, {frame.entries[0].key, frame.entries[1].key});
        builder.getIntern().getKeySizes().set(0, 60'000);
      });
    case 8:
      frame.id = expect(Kind::wrong, ErrorCode::unsupported);
      return send_frame([&](schema::ClientFrame::Builder builder) {
        builder.setId(frame.id);
        builder.setUnset();
      });
    case 9:
      end_with_next_request();
      frame.id = expect(Kind::wrong, ErrorCode::unexpected_hello);
      return send_frame([&](schema::ClientFrame::Builder builder) {
        builder.setId(frame.id);
        builder.initHello().setVersion(1);
      });
    default:
      return send_broken_bytes();
  }
}

// Bytes that are no Cap'n Proto: the connection ends, whatever follows.
void NativePeer::send_broken_bytes() {
  end_with_next_request();
  Bytes garbage(8 + world_.random.below(64));
  for (std::byte& byte : garbage) byte = static_cast<std::byte>(world_.random.next());
  std::ranges::fill(std::span(garbage).first(4), std::byte{0xFF});
  send(garbage);
}

// ------------------------------------------------------------------------------------ answers

void NativePeer::take_answers() {
  while (!over() && take_frame(inbox_, [&](auto frame) { on_frame(frame); })) {
  }
}

NativePeer::Asked* NativePeer::find(uint64_t id, Kind kind) {
  const auto found = asked_.find(id);
  if (found == asked_.end() || found->second.kind != kind) {
    fail("got an answer that it did not ask for, to frame " + std::to_string(id));
    return nullptr;
  }
  return &found->second;
}

void NativePeer::on_frame(schema::ServerFrame::Reader frame) {
  const uint64_t id = frame.getId();
  switch (frame.which()) {
    case schema::ServerFrame::WELCOME:
      if (find(id, Kind::hello) == nullptr) return;
      welcomed_ = true;
      record().was_welcomed = true;
      shard_ = frame.getWelcome().getShard();
      shards_ = frame.getWelcome().getShards();
      routing_seed_ = frame.getWelcome().getRoutingSeed();
      asked_.erase(id);
      return;
    case schema::ServerFrame::VERDICTS:
      return on_verdicts(id, frame.getVerdicts());
    case schema::ServerFrame::GRANTED:
      return on_granted(id, frame.getGranted());
    case schema::ServerFrame::DONE:
      return on_done(id);
    case schema::ServerFrame::INSPECTED:
      return on_inspected(id, frame.getInspected());
    case schema::ServerFrame::INTERNED:
      return on_interned(id, frame.getInterned());
    case schema::ServerFrame::PONG:
      if (find(id, Kind::ping) != nullptr) asked_.erase(id);
      return;
    case schema::ServerFrame::ERROR:
      return on_error(id, frame.getError());
    case schema::ServerFrame::GO_AWAY:
      return take_go_away();
    case schema::ServerFrame::QUOTA_ANSWERS:
    case schema::ServerFrame::QUOTA_OUTCOMES:
    case schema::ServerFrame::TOPOLOGY_REPLY:
    case schema::ServerFrame::USAGE_REPLY:
    case schema::ServerFrame::UNSET:
      fail("got a frame of a kind that it cannot get");
  }
}

void NativePeer::forget(uint64_t id, const DecidedRequest* decided_request) {
  asked_.erase(id);
  std::erase_if(decided(), [&](const DecidedRequest& one) { return &one == decided_request; });
}

void NativePeer::on_verdicts(uint64_t id, schema::Verdicts::Reader verdicts) {
  Asked* asked = find(id, Kind::acquire);
  if (asked == nullptr) return;
  if (asked->decided != nullptr) return fail("got verdicts twice");
  const auto found = std::ranges::find_if(
      decided(), [&](const DecidedRequest& one) { return one.id == id && !one.reported; });
  const capnp::Data::Reader column = verdicts.getVerdicts();
  if (found == decided().end()) {
    // Behind GoAway the server decides nothing any more.
    const bool all = std::ranges::all_of(
        column, [](uint8_t byte) { return byte == static_cast<uint8_t>(api::Verdict::draining); });
    if (!got_go_away() || !all) return fail("got verdicts without a decision");
    asked_.erase(id);
    return;
  }
  found->reported = true;
  asked->decided = &*found;
  if (verdicts.getCount() != found->entries.size()) return fail("got too few or too many verdicts");
  for (uint32_t i = 0; i < found->entries.size(); ++i) {
    const DecidedEntry& entry = found->entries[i];
    if (verdict_at(column, i) != entry.verdict) {
      return fail("got another verdict than decided: frame " + std::to_string(id) + ", entry " +
                  std::to_string(i) + " of " + std::to_string(found->entries.size()) + ", " +
                  entry.key + ": " + std::string(api::verdict_name(verdict_at(column, i))) +
                  " instead of " + std::string(api::verdict_name(entry.verdict)));
    }
    if (!asked->meant.empty() && asked->meant[i] && *asked->meant[i] != entry.key) {
      return fail("asked for " + *asked->meant[i] + " by handle and was answered for " + entry.key);
    }
    check_detail(*asked, verdicts.getDetails(), i, entry.detail, entry, false);
    if (entry.verdict == api::Verdict::queued) asked->waiting.insert(i);
  }
  if (asked->waiting.empty()) forget(id, asked->decided);
}

void NativePeer::on_granted(uint64_t id, schema::Granted::Reader granted) {
  Asked* asked = find(id, Kind::acquire);
  if (asked == nullptr) return;
  if (asked->decided == nullptr) return fail("got a grant before the verdicts");
  const auto entries = granted.getEntries();
  for (uint32_t i = 0; i < entries.size(); ++i) {
    if (asked->waiting.erase(entries[i]) == 0) return fail("got a grant for no waiting entry");
    const DecidedEntry& entry = asked->decided->entries[entries[i]];
    if (entry.outcome == api::Verdict::none) return fail("got a grant without a decision");
    if (verdict_at(granted.getVerdicts(), i) != entry.outcome) {
      return fail("got another outcome than decided");
    }
    check_detail(*asked, granted.getDetails(), i, entry.outcome_detail, entry, true);
  }
  if (asked->waiting.empty()) forget(id, asked->decided);
}

void NativePeer::check_detail(const Asked& asked, schema::Details::Reader details, uint32_t index,
                              const api::Detail& expected, const DecidedEntry& entry, bool late) {
  const auto differs = [&](uint8_t bit, const auto& column, uint64_t value) {
    if ((asked.details & bit) == 0) return column.size() != 0;
    return index >= column.size() || uint64_t{column[index]} != value;
  };
  const auto unsigned_of = [](int64_t value) { return static_cast<uint64_t>(value); };
  if (differs(schema::DETAIL_LIMIT, details.getLimit(), expected.limit) ||
      differs(schema::DETAIL_WINDOW, details.getWindowMs(), unsigned_of(expected.window_ms)) ||
      differs(schema::DETAIL_REMAINING, details.getRemaining(), expected.remaining) ||
      differs(schema::DETAIL_RESET, details.getResetMs(), unsigned_of(expected.reset_ms)) ||
      differs(schema::DETAIL_RETRY_AFTER, details.getRetryAfterMs(),
              unsigned_of(expected.retry_after_ms)) ||
      (!late && differs(schema::DETAIL_POSITION, details.getPosition(), expected.position))) {
    fail(std::string("got other details than decided") + (late ? ", late" : ""));
  }
  if ((asked.details & schema::DETAIL_REQUEST_ID) == 0) return;
  const auto ids = details.getRequestId();
  if (index >= ids.size()) return fail("got no request id");
  if (entry.op == api::Op::look) {
    if (ids[index] != 0) fail("got a request id of a look");
    return;
  }
  world_.oracle.check_reported_id(entry, ids[index]);
}

void NativePeer::on_done(uint64_t id) {
  const auto found = asked_.find(id);
  const bool known = found != asked_.end();
  if (known && (found->second.kind == Kind::withdraw || found->second.kind == Kind::forget)) {
    asked_.erase(found);
    return;
  }
  if (find(id, Kind::release) == nullptr) return;
  const auto done = std::ranges::find(decided(), id, &DecidedRequest::id);
  if (done == decided().end()) return fail("got Done without a decision");
  forget(id, &*done);
}

void NativePeer::on_interned(uint64_t id, schema::Interned::Reader interned) {
  const Asked* asked = find(id, Kind::intern);
  if (asked == nullptr) return;
  const std::vector<std::string> keys = asked->keys;
  const auto handles = interned.getHandles();
  if (handles.size() != keys.size()) return fail("got too few or too many handles");
  for (uint32_t i = 0; i < keys.size() && !over(); ++i) {
    on_interned(id, keys[i], handles[i], verdict_at(interned.getVerdicts(), i));
  }
  asked_.erase(id);
}

void NativePeer::on_interned(uint64_t id, const std::string& key, api::Handle handle,
                             api::Verdict verdict) {
  if ((verdict == api::Verdict::approved) != (handle != api::no_handle)) {
    return fail("got a handle and a verdict that contradict each other");
  }
  const bool invalid = key.empty() || key.size() == limits::key_bytes_max;
  if (invalid != (verdict == api::Verdict::invalid_key)) {
    return fail("got " + std::string(api::verdict_name(verdict)) + " when it interned a key");
  }
  if (invalid) return;
  // It interns nothing any more either.
  if ((verdict == api::Verdict::draining) != got_go_away()) {
    return fail("got " + std::string(api::verdict_name(verdict)) + " when it interned a key" +
                (got_go_away() ? " behind GoAway" : ""));
  }
  if (got_go_away() || verdict == api::Verdict::handles_full) return;
  if (verdict != api::Verdict::approved) return fail("got no handle for no reason");
  const auto number = numbers_.find(key);
  if (number != numbers_.end() && number->second != handle) return fail("got a second handle");
  // Frames sent since then may have forgotten the handle.
  const bool forgotten = std::ranges::any_of(asked_, [&](const auto& one) {
    return one.first > id && std::ranges::count(one.second.handles, handle) > 0;
  });
  if (forgotten) return;
  const auto held = held_.find(handle);
  if (held != held_.end() && held->second != key) return fail("got the handle of another key");
  held_[handle] = key;
  numbers_[key] = handle;
}

void NativePeer::on_inspected(uint64_t id, schema::Inspected::Reader inspected) {
  const auto found = asked_.find(id);
  if (found == asked_.end()) return fail("got an inspection that it did not ask for");
  const bool page = found->second.kind == Kind::page;
  asked_.erase(found);
  if (!page) return;
  const capnp::Data::Reader keys = inspected.getKeys();
  size_t offset = 0;
  for (const uint16_t size : inspected.getKeySizes()) {
    const std::string key(reinterpret_cast<const char*>(keys.begin()) + offset, size);
    offset += size;
    if (!page_keys_.insert(key).second) return fail("was shown key " + key + " twice");
  }
  const uint64_t cursor = inspected.getCursor();
  if (cursor == 0 || half_closed_ || settling_) {
    walking_ = false;
    return;
  }
  const uint64_t next = expect(Kind::page);
  send_frame([&](schema::ClientFrame::Builder frame) {
    frame.setId(next);
    frame.initInspect().setCursor(cursor);
  });
}

void NativePeer::on_error(uint64_t id, schema::Error::Reader error) {
  const auto code = static_cast<ErrorCode>(error.getCode());
  const bool sent_broken_bytes = record().last_request_from != no_offset;
  const bool broken =
      sent_broken_bytes && (code == ErrorCode::malformed || code == ErrorCode::hello_expected);
  if (broken) return end_by(code);
  if (take_ending_error(code)) return;
  const Asked* asked = find(id, Kind::wrong);
  if (asked == nullptr) return;
  if (asked->error != code) return fail("got error " + std::string(error_name(code)));
  if (ends_connection(code)) end_by(code);
  asked_.erase(id);
}

// The server has all that it sent, and other shards decide a part of it.
bool NativePeer::is_hasty() {
  return hurries_ && is_written() && undecided_end() != no_offset && world_.random.chance(0.05);
}

bool NativePeer::awaits_answer() const {
  return !asked_.empty();
}

uint64_t NativePeer::open_end() const {
  return asked_.empty() ? no_offset : asked_.begin()->second.end;
}

uint64_t NativePeer::undecided_end() const {
  const auto first =
      std::ranges::find_if(asked_, [](const auto& one) { return one.second.decided == nullptr; });
  return first == asked_.end() ? no_offset : first->second.end;
}

// Every decision was answered, except the outcomes of waiters that the end removed.
void NativePeer::check_graceful_end() {
  const bool gives_up_waiting =
      was_ended_for(why::peer_left | why::last_request | why::header_timeout);
  for (const DecidedRequest& request : decided()) {
    if (!request.reported || !gives_up_waiting)
      return fail("ended without an answer that was decided");
  }
  const uint64_t answered_until = answered_until_end(!decided().empty());
  for (const auto& [id, asked] : asked_) {
    if (asked.end > answered_until || asked.decided != nullptr) continue;
    return fail("ended with frame " + std::to_string(id) + " unanswered");
  }
}

}  // namespace sluice::simulation
