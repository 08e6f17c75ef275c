#include "session/native_session.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "base/assert.hpp"
#include "base/same_secret.hpp"
#include "base/smaller_limit.hpp"
#include "wire/frame_reader.hpp"
#include "wire/wrong_port.hpp"

namespace sluice::session {
namespace {

void fill_costs(std::span<api::Entry> entries, wire::Column<uint32_t> costs) noexcept {
  if (costs.empty()) return;
  for (size_t i = 0; i < entries.size(); ++i) entries[i].cost = costs[i];
}

// Of a Forward: with those of entries that want none.
std::span<const api::Detail> wanted_details(const Verdicts& verdicts, Scratch& scratch) noexcept {
  scratch.details.assign(verdicts.details.size(), {});
  for (size_t i = 0; i < verdicts.entries.size(); ++i) {
    if ((verdicts.entries[i].flags & api::flag::wants_details) == 0) continue;
    scratch.details[i] = verdicts.details[i];
  }
  return scratch.details;
}

void mark_looks(std::span<api::Entry> entries) noexcept {
  for (api::Entry& entry : entries) {
    if (entry.cost == 0) entry.op = api::Op::look;
  }
}

}  // namespace

NativeSession::NativeSession(Context& context, io::Io& io, io::SocketId socket,
                             net::ConnectionMemory& memory) noexcept
    : Session(context, io, socket, memory), started_ms_(context.now_ms()) {}

NativeSession::~NativeSession() {
  ASSERT(frames_.empty());
  if (handles_ != nullptr) context_.departed_handles.push_back(*handles_.release());
}

size_t NativeSession::take(std::span<const std::byte> bytes) noexcept {
  const size_t taken = take_frames(bytes);
  const bool is_partial = needed_bytes_ > 0 && taken < bytes.size();
  if (!is_partial) {
    partial_since_ms_ = base::never_ms;
  } else if (taken > 0 || partial_since_ms_ == base::never_ms) {
    partial_since_ms_ = context_.now_ms();
  }
  return taken;
}

size_t NativeSession::take_frames(std::span<const std::byte> bytes) noexcept {
  size_t taken = 0;
  needed_bytes_ = 0;
  while (may_take()) {
    if (fatal_) {
      write_error(fatal_->id, fatal_->code);
      break;
    }
    if (!make_output_room()) break;
    const auto decoded = wire::read_frame(bytes.subspan(taken), limits::frame_bytes_max);
    if (const auto* more = std::get_if<base::NeedMore>(&decoded)) {
      needed_bytes_ = std::max<size_t>(more->total_bytes, 8);
      break;
    }
    if (const auto* malformed = std::get_if<base::Malformed>(&decoded)) {
      if (!welcomed_ && wire::is_http_request(bytes.subspan(taken)))
        answer_http(bytes.subspan(taken));
      else
        write_error(0, malformed->code);
      break;
    }
    const auto& frame = std::get<base::Complete<wire::Frame>>(decoded);
    if (!on_frame(frame.value)) break;
    taken += frame.consumed_bytes;
    spend(work::frame + work::bytes(frame.consumed_bytes));
  }
  return taken;
}

// A frame with entries of other shards is answered later. Frames that are ordered behind everything
// before them have to wait for that: an error that ends the connection, Inspect, and Withdraw on a
// server that is alone.
bool NativeSession::all_decided() noexcept {
  context_.backend.execute();
  if (outstanding_frames_ == 0) return true;
  hold(held_by_decision);
  return false;
}

bool NativeSession::on_hello(uint64_t id, const wire::HelloRequest& hello) noexcept {
  if (welcomed_) {
    write_error(id, ErrorCode::unexpected_hello);
    return true;
  }
  if (hello.version != wire::protocol_version) {
    write_error(id, ErrorCode::unsupported_version);
    return true;
  }
  const std::string_view secret = context_.options.peer_secret;
  is_node_ = base::is_same_secret(hello.token, secret);
  if (!is_node_ && !hello.token.empty() && !secret.empty()) {
    write_error(id, ErrorCode::secret_expected);
    return true;
  }
  if (context_.draining) {
    write_error(id, ErrorCode::draining);
    finish();
    return true;
  }
  const uint32_t wanted =
      hello.wanted_shard_plus_one - 1;  // 0, no wish, wraps around to a shard that does not exist
  if (wanted < context_.options.shards && wanted != context_.options.shard) {
    // Its new shard reads this Hello again.
    hold(held_by_move);
    context_.backend.move(*this, wanted);
    return false;
  }
  welcomed_ = true;
  write_welcome(id);
  return true;
}

void NativeSession::write_welcome(uint64_t id) noexcept {
  const Options& options = context_.options;
  const wire::WelcomeAnswer welcome{
      .shard = options.shard,
      .shards = options.shards,
      .routing_seed = options.routing_seed,
      .instance_id = options.instance_id,
      .waiting_entries_max = std::min(options.waiters_max, limits::connection_waiters_max),
      .handles_max = options.handles_max,
      .key_bytes_max = options.key_bytes_max,
      .server_version = SLUICE_VERSION,
      .rest_port = options.rest_port,
      .takes_forwards = may_forward(),
      .takes_quota_calls = is_node(),
  };
  write(wire::small_answer_bytes_max,
        [&](auto out) { return wire::encode_welcome(id, welcome, out); });
}

bool NativeSession::id_in_use(uint64_t id) const noexcept {
  if (frames_.find(id) != frames_.end()) return true;
  if (withdrawals_ != nullptr && withdrawals_->holds(id)) return true;
  if (outstanding_frames_ == 0 || id > highest_id_) return false;
  // Clients count upwards, so this search is rare; the number of outstanding frames bounds it.
  const auto requests = context_.turn.requests();
  uint32_t left = outstanding_frames_;
  for (auto request = requests.rbegin(); request != requests.rend() && left > 0; ++request) {
    if (request->session != connection_.socket().index) continue;
    if (request->id == id) return true;
    --left;
  }
  return left > 0 && context_.backend.awaits(*this, id);
}

// Whether a frame may become a request of the turn. The turn has room.
bool NativeSession::admit(uint64_t id, size_t frame_bytes) noexcept {
  if (id_in_use(id)) {
    write_error(id, ErrorCode::id_in_use);
    return false;
  }
  if (outstanding_frames_ >= limits::outstanding_frames_max ||
      outstanding_bytes_ + frame_bytes > limits::outstanding_bytes_max) {
    write_error(id, ErrorCode::too_many_outstanding);
    return false;
  }
  highest_id_ = outstanding_frames_ == 0 ? id : std::max(highest_id_, id);
  ++outstanding_frames_;
  outstanding_bytes_ += frame_bytes;
  return true;
}

// The request that a frame of entries becomes.
route::Request NativeSession::request_of(uint64_t id, size_t frame_bytes,
                                         Kind kind) const noexcept {
  return {.session = connection_.socket().index,
          .generation = connection_.socket().generation,
          .id = id,
          .frame_bytes = static_cast<uint32_t>(frame_bytes),
          .kind = kind};
}

route::Request NativeSession::request_of(uint64_t id, size_t frame_bytes,
                                         const wire::AcquireCommon& terms) const noexcept {
  const Kind kind = terms.has_wait_flags() ? decides_or_waits : decides;
  route::Request request = request_of(id, frame_bytes, kind);
  request.detail_bits = terms.detail_bits;
  return request;
}

void NativeSession::add_plain(const route::Request& request,
                              const wire::AcquireRequest& acquire) noexcept {
  const auto count = static_cast<uint32_t>(acquire.key_sizes.size());
  connection_.reserve_output(wire::verdicts_bytes_max(count, 0));
  context_.backend.add(request, {.text = acquire.keys, .sizes = acquire.key_sizes});
}

void NativeSession::on_acquire(uint64_t id, size_t frame_bytes,
                               const wire::AcquireRequest& acquire) noexcept {
  if (!admit(id, frame_bytes)) return;
  const route::Request request = request_of(id, frame_bytes, acquire);
  if (acquire.has_defaults_only()) return add_plain(request, acquire);
  const auto entries = context_.turn.add(request, static_cast<uint32_t>(acquire.key_sizes.size()));
  route::fill_entries(entries, acquire.keys.data(), acquire.key_sizes);
  fill_common(entries, acquire);
  context_.backend.send_last();
}

// For entries that have their keys already.
void NativeSession::fill_common(std::span<api::Entry> entries,
                                const wire::AcquireCommon& terms) noexcept {
  fill_terms(entries, terms);
  if (terms.has_wait_flags()) take_tickets(entries, terms);
}

// All but waiting.
void NativeSession::fill_terms(std::span<api::Entry> entries,
                               const wire::AcquireCommon& terms) noexcept {
  connection_.reserve_output(
      wire::verdicts_bytes_max(static_cast<uint32_t>(entries.size()), terms.detail_bits));
  fill_costs(entries, terms.costs);
  if (!terms.costs.empty()) mark_looks(entries);
  if (terms.has_overrides()) {
    for (size_t i = 0; i < entries.size(); ++i) {
      context_.turn.set_overrides(entries[i], terms.overrides(i));
    }
  }
  if (terms.detail_bits != 0) {
    const bool id_wanted = (terms.detail_bits & wire::detail_bit::request_id) != 0;
    const auto flags =
        static_cast<uint8_t>(api::flag::wants_details | (id_wanted ? api::flag::shows_id : 0));
    for (api::Entry& entry : entries) entry.flags = flags;
  }
}

void NativeSession::take_tickets(std::span<api::Entry> entries,
                                 const wire::AcquireCommon& terms) noexcept {
  const uint32_t wait_ms = base::smaller_limit(terms.wait_limit_ms, context_.options.wait_ms_max);
  const uint64_t waiting = waiting_count(context_, WaitsFor::permits);
  for (uint32_t i = 0; i < entries.size(); ++i) {
    const bool may_wait =
        terms.all_may_wait() || (terms.entry_flags[i] & wire::entry_bit::may_wait) != 0;
    api::Entry& entry = entries[i];
    if (!may_wait || entry.op == api::Op::look) continue;
    entry.flags |= api::flag::may_wait;
    entry.wait_ms_max = wait_ms;
    entry.flags |=
        take_ticket(context_, tickets_, place_of(i), WaitsFor::permits, waiting, entry.ticket);
  }
}

void NativeSession::on_release(uint64_t id, size_t frame_bytes,
                               const wire::ReleaseRequest& release) noexcept {
  const auto count = static_cast<uint32_t>(release.key_sizes.size());
  if (!admit(id, frame_bytes)) return;
  const auto entries = context_.turn.add(request_of(id, frame_bytes, releases), count);
  connection_.reserve_output(release_answer_bytes_max(count));
  route::fill_entries(entries, release.keys.data(), release.key_sizes);
  fill_costs(entries, release.costs);
  for (api::Entry& entry : entries) entry.op = api::Op::release;
  context_.backend.send_last();
}

bool NativeSession::on_withdraw(uint64_t id, const wire::WithdrawRequest& request) noexcept {
  if (!is_undecided(request.target)) {
    withdraw(id, request.target, request.entries);
    return true;
  }
  if (keep_withdrawal(id, request)) return true;
  hold(held_by_decision);
  return false;
}

// Whether another shard, or another node, has still to decide this frame; the turn has no entries.
bool NativeSession::is_undecided(uint64_t id) const noexcept {
  return outstanding_frames_ > 0 && context_.backend.awaits(*this, id);
}

bool NativeSession::keep_withdrawal(uint64_t id, const wire::WithdrawRequest& request) noexcept {
  if (withdrawals_ == nullptr) withdrawals_.reset(new (std::nothrow) PendingWithdrawals);
  if (withdrawals_ == nullptr || !withdrawals_->keep(id, request)) return false;
  connection_.reserve_output(wire::small_answer_bytes_max);
  return true;
}

// The frame has its verdicts.
void NativeSession::withdraw_pending(uint64_t target) noexcept {
  if (withdrawals_ == nullptr) return;
  while (const auto withdrawal = withdrawals_->take(target)) {
    connection_.release_output(wire::small_answer_bytes_max);
    withdraw(withdrawal->id, target, {withdrawal->entries.data(), withdrawal->entries.size()});
  }
}

void NativeSession::withdraw(uint64_t id, uint64_t target,
                             std::span<const uint32_t> entries) noexcept {
  const auto frame = frames_.find(target);
  if (frame != frames_.end()) {
    auto& wanted = context_.scratch.indexes;
    wanted.assign(entries.begin(), entries.end());
    std::sort(wanted.begin(), wanted.end());
    auto& tickets = context_.scratch.tickets;
    tickets.clear();
    for (const WaitingEntry& entry : frame->waiting) {
      if (wanted.empty() || std::binary_search(wanted.begin(), wanted.end(), entry.entry_index)) {
        tickets.push_back(entry.ticket);
      }
    }
    // The outcome comes as a grant, at once or from another shard, and removes the entry. A waiter
    // that leaves may let the ones behind it be granted, so the last ones of this frame go first.
    for (auto ticket = tickets.rbegin(); ticket != tickets.rend(); ++ticket) {
      context_.backend.withdraw(context_.waits[*ticket]);
    }
  }
  write(wire::small_answer_bytes_max, [&](auto out) { return wire::encode_done(id, out); });
}

void NativeSession::on_inspect(uint64_t id, const wire::InspectRequest& request) noexcept {
  hold(held_by_query);
  if (!request.key.empty()) {
    context_.backend.inspect(*this, id, request.key);
  } else {
    // As many keys as fit into one answer, however long they are.
    const uint32_t fitting = limits::reply_bytes_max / (context_.options.key_bytes_max + 64);
    const uint32_t limit = base::smaller_limit(request.limit, limits::inspect_page_max);
    context_.backend.page(*this, id, request.cursor, std::min(limit, fitting));
  }
}

void NativeSession::on_inspected(uint64_t id, const api::KeyState* state) noexcept {
  on_page(id, state == nullptr ? std::span<const api::KeyState>{} : std::span(state, 1), 0);
}

void NativeSession::on_page(uint64_t id, std::span<const api::KeyState> keys,
                            uint64_t next_cursor) noexcept {
  spend(keys.size() * work::row);
  release_hold(held_by_query);
  if (connection_.finishing()) return;
  write(wire::inspected_bytes_max(keys),
        [&](auto out) { return wire::encode_inspected(id, keys, next_cursor, out); });
}

void NativeSession::on_topology(uint64_t id, const wire::TopologyRequest&) noexcept {
  if (!TopologyWatcher::is_linked()) context_.topology_watchers.push_back(*this);
  is_topology_due_ = false;
  write_topology(id);
}

// A client that reads slowly gets the last state only, once it has read what came before.
void NativeSession::on_topology_changed() noexcept {
  is_topology_due_ = true;
  mark_dirty();
}

void NativeSession::write_topology(uint64_t id) noexcept {
  const wire::Topology& topology = context_.backend.topology();
  spend(topology.nodes.size() * work::row);
  write(wire::topology_bytes_max(topology),
        [&](auto out) { return wire::encode_topology(id, topology, out); });
}

// Only REST sessions ask for these.
void NativeSession::on_counted(uint64_t, uint64_t) noexcept {}
void NativeSession::on_text(uint64_t, std::string_view, std::string_view) noexcept {}

size_t NativeSession::release_answer_bytes_max(uint32_t entries_count) noexcept {
  return std::max(wire::small_answer_bytes_max, wire::verdicts_bytes_max(entries_count, 0));
}

// Done, unless some owners could not be asked: then it is to be known which.
void NativeSession::write_released(const route::Request& request,
                                   std::span<const api::Verdict> verdicts) noexcept {
  const size_t bytes_max = release_answer_bytes_max(request.entries_count);
  connection_.release_output(bytes_max);
  const bool are_done = std::find(verdicts.begin(), verdicts.end(),
                                  api::Verdict::owner_unreachable) == verdicts.end();
  write(bytes_max, [&](auto out) {
    return are_done ? wire::encode_done(request.id, out)
                    : wire::encode_verdicts(request.id, verdicts, {}, 0, out);
  });
}

void NativeSession::on_verdicts(const route::Request& request, const Verdicts& verdicts) noexcept {
  --outstanding_frames_;
  outstanding_bytes_ -= request.frame_bytes;
  if (outstanding_frames_ == 0) release_hold(held_by_decision);
  if (connection_.closing() || connection_.finishing()) {
    if (kind_may_wait(request.kind)) abandon_waiting(verdicts);
    return;
  }
  if (request.kind == releases) {
    write_released(request, verdicts.verdicts);
    return withdraw_pending(request.id);
  }
  const size_t bytes_max = wire::verdicts_bytes_max(request.entries_count, request.detail_bits);
  connection_.release_output(bytes_max);
  std::span<const api::Detail> details = verdicts.details;
  if (request.kind == forwards && request.detail_bits != 0) {
    details = wanted_details(verdicts, context_.scratch);
  }
  write(bytes_max, [&](auto out) {
    return wire::encode_verdicts(request.id, verdicts.verdicts, details, request.detail_bits, out);
  });
  if (kind_may_wait(request.kind)) keep_waiting(request, verdicts);
  withdraw_pending(request.id);
}

void NativeSession::write_error(uint64_t id, ErrorCode code) noexcept {
  const wire::ErrorAnswer answer{.code = code, .text = error_text(code)};
  const bool last = ends_connection(code);
  if (last && !all_decided()) {  // earlier frames are answered first
    fatal_ = {.code = code, .id = id};
    return;
  }
  if (connection_.finishing() || connection_.closing()) return;
  write(wire::small_answer_bytes_max,
        [&](auto out) { return wire::encode_error(id, answer, out); });
  if (last) finish();
}

// For whoever sent HTTP to this port.
void NativeSession::answer_http(std::span<const std::byte> request) noexcept {
  write(wire::wrong_port_bytes_max, [&](auto out) {
    return wire::encode_wrong_port(request, context_.options.rest_port, context_.now.wall_ns, out);
  });
  finish();
}

void NativeSession::write_refusal() noexcept {
  write_error(0, ErrorCode::too_many_connections);
}

void NativeSession::begin_drain() noexcept {
  if (sent_go_away_ || connection_.finishing() || connection_.closing()) return;
  if (held_by(held_by_move)) return;  // its new shard sends GoAway
  if (!welcomed_) {
    write_error(0, ErrorCode::draining);
    finish();
    return;
  }
  sent_go_away_ = true;
  drain_started_ms_ = context_.now_ms();
  write(wire::small_answer_bytes_max,
        [](auto out) { return wire::encode_go_away("the server is shutting down", out); });
  schedule_timer();
}

void NativeSession::answer_draining(uint64_t id, uint32_t count, uint8_t detail_bits) noexcept {
  auto& verdicts = context_.scratch.verdicts;
  auto& details = context_.scratch.details;
  verdicts.assign(count, api::Verdict::draining);
  details.assign(count, {});
  context_.drained_entries += count;
  write(wire::verdicts_bytes_max(count, detail_bits),
        [&](auto out) { return wire::encode_verdicts(id, verdicts, details, detail_bits, out); });
}

int64_t NativeSession::deadline_ms() const noexcept {
  if (held_by(held_by_move)) return base::never_ms;
  if (!welcomed_) return started_ms_ + context_.options.header_timeout_ms;
  return std::min(rest_deadline_ms(), grace_deadline_ms());
}

// When the rest of a frame has to be there. Not while the session is held: then it does not look.
int64_t NativeSession::rest_deadline_ms() const noexcept {
  if (held() || partial_since_ms_ == base::never_ms) return base::never_ms;
  return partial_since_ms_ + context_.options.header_timeout_ms;
}

// After GoAway. Answers that another shard has not given yet, or that the peer does not read, come
// first; the drain's own deadline is not far.
int64_t NativeSession::grace_deadline_ms() const noexcept {
  const bool is_answered = frames_.empty() && granted_frames_.empty() && outstanding_frames_ == 0;
  const bool is_idle = is_answered && !held();
  const bool ends_soon = sent_go_away_ && is_idle;
  return ends_soon ? drain_started_ms_ + context_.options.drain_grace_ms : base::never_ms;
}

void NativeSession::on_deadline() noexcept {
  if (!welcomed_) {
    write_error(0, ErrorCode::hello_timeout);
  } else if (rest_deadline_ms() <= context_.now_ms()) {
    write_error(0, ErrorCode::frame_timeout);
  } else {
    finish();
  }
}

}  // namespace sluice::session
