#include "session/session.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/assert.hpp"
#include "wire/node_header.hpp"

namespace sluice::session {
namespace {

// Frames must start 8-byte aligned to be decoded in place. What lies before `bytes` was already
// copied away, so `bytes` can move down.
std::span<std::byte> align(std::span<std::byte> bytes) noexcept {
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  const size_t off = address % 8;
  if (off == 0 || bytes.empty()) return bytes;
  std::memmove(bytes.data() - off, bytes.data(), bytes.size());
  return {bytes.data() - off, bytes.size()};
}

// A session with requests left sends at the latest after so many turns, or once so many bytes are
// unsent.
constexpr uint8_t put_off_sends_max = 4;
constexpr size_t sent_at_once_bytes = 64 * 1024;

}  // namespace

Context::Context(Backend& of, const Options& with)
    : backend(of),
      options(with),
      waits(with.waiters_max),
      misrouted(with.ownership),
      work(with.turn_work) {
  set_rules(with.rules_digest);
}

void Context::set_rules(uint64_t digest) {
  node_header = wire::node_header_line({.native_port = options.native_port,
                                        .shards = options.shards,
                                        .instance = options.instance_id,
                                        .rules = digest});
}

Context::~Context() {
  departed_handles.clear_and_dispose(std::default_delete<HandleSet>());
}

Session::Session(Context& context, io::Io& io, io::SocketId socket,
                 net::ConnectionMemory& memory) noexcept
    : context_(context),
      connection_(io, socket, memory),
      undelivered_(memory.undelivered(socket.index)),
      timer_(socket.index),
      linger_ms_(context.options.linger_ms) {}

Session::Session(Remains&& remains) noexcept
    : context_(remains.context),
      connection_(std::move(remains.connection)),
      undelivered_(remains.undelivered),
      timer_(connection_.socket().index),
      linger_ms_(context_.options.linger_ms),
      has_unread_(remains.has_unread),
      hung_up_(remains.hung_up) {}

Session::Remains Session::pass_on() noexcept {
  return {.context = context_,
          .connection = std::move(connection_),
          .undelivered = undelivered_,
          .has_unread = has_unread_,
          .hung_up = hung_up_};
}

Session::~Session() {
  base::TimerWheel::cancel(timer_);
}

void Session::mark_dirty() noexcept {
  if (!SessionHook<DirtyTag>::is_linked()) context_.dirty.push_back(*this);
}

void Session::mark_ready() noexcept {
  if (is_ready()) return;
  const size_t wanted = std::max(connection_.input().unparsed().size(), needed_bytes_);
  const uint64_t most = context_.work.turn_work();
  context_.ready.push(*this, has_unread_ ? most : std::min<uint64_t>(wanted, most));
}

void Session::release_hold(Hold reason) noexcept {
  if ((holds_ & reason) == 0) return;
  holds_ = static_cast<uint8_t>(holds_ & ~reason);
  if (holds_ == 0) mark_ready();
}

void Session::block() noexcept {
  hold(held_by_shards);
  if (!SessionHook<BlockedTag>::is_linked()) context_.blocked.push_back(*this);
}

bool Session::block_unless(bool has_room) noexcept {
  if (!has_room) block();
  return has_room;
}

void Session::unblock() noexcept {
  SessionHook<BlockedTag>::unlink();
  mark_dirty();  // an exchange may go on, whatever else holds the session
  release_hold(held_by_shards);
}

bool Session::make_turn_room(const route::KeyColumn& keys, route::Form form,
                             route::Reach reach) noexcept {
  make_own_room(static_cast<uint32_t>(keys.sizes.size()));
  return block_unless(context_.backend.find_turn_room(keys, form, reach));
}

bool Session::make_room_for_keys(size_t entries_count) noexcept {
  make_own_room(static_cast<uint32_t>(entries_count));
  return block_unless(context_.backend.find_room_for_keys(entries_count));
}

bool Session::make_lone_room(const api::Entry& entry) noexcept {
  return block_unless(context_.backend.find_lone_room(entry));
}

bool Session::make_query_room() noexcept {
  return block_unless(context_.backend.may_query());
}

bool Session::make_handle_room(uint32_t count) noexcept {
  if (context_.handle_work > 0 && context_.handle_work + count > limits::turn_handle_work) {
    block();
    return false;
  }
  context_.handle_work += count;
  return true;
}

void Session::begin() noexcept {
  connection_.start_reading();
  schedule_timer();
}

void Session::on_received(std::span<std::byte> bytes) noexcept {
  if (connection_.finishing()) return discard(bytes.size());
  if (connection_.closing()) return;
  mark_dirty();
  if (held()) {
    store(bytes);
  } else if (is_ready() || !context_.work.may_serve_at_once()) {
    // The first bytes of a request are read however few they are: its time begins.
    const bool is_first = connection_.input().empty();
    store(bytes);
    const size_t stored = connection_.input().unparsed().size();
    const size_t enough = std::min(needed_bytes_, context_.options.held_input_bytes);
    if (is_first || stored >= enough) mark_ready();
  } else {
    process(bytes);
    serve_later();
  }
  control_reading();
  schedule_timer();
}

// The peer may be writing while it reads the last reply: a close at once would reset the connection
// and lose that reply.
void Session::discard(size_t bytes) noexcept {
  discarded_bytes_ += bytes;
  if (discarded_bytes_ > linger_bytes_max) close();
}

void Session::process(std::span<std::byte> bytes) noexcept {
  while (!bytes.empty() && !connection_.input().empty()) {
    if (!may_take()) {
      store(bytes);
      return;
    }
    // Copies only what the stored request lacks; the rest is taken in place.
    const size_t stored = connection_.input().unparsed().size();
    const size_t lacking = needed_bytes_ > stored ? needed_bytes_ - stored : bytes.size();
    const size_t copied = std::min(lacking, bytes.size());
    store(bytes.first(copied));
    take_stored();
    bytes = bytes.subspan(copied);
  }
  if (bytes.empty() || connection_.finishing()) return;
  bytes = align(bytes);
  const size_t taken = take(bytes);
  turn_bytes_ += taken;
  if (taken < bytes.size()) store(bytes.subspan(taken));
}

// A session that had stopped reading, because it was behind, takes from its socket what the turn
// still allows.
void Session::take_unread(size_t bytes_max) noexcept {
  while (may_take() && !connection_.reading()) {
    context_.backend.execute();  // the bytes taken before are no longer in use
    const auto bytes = connection_.receive_now(bytes_max);
    has_unread_ = bytes && !bytes->empty();
    if (!has_unread_) return;
    process(*bytes);
  }
}

// When the turn's work is over, and it may have more requests.
void Session::serve_later() noexcept {
  const bool may_go_on = has_more() && !held() && !connection_.closing();
  if (may_go_on && context_.work.is_over()) mark_ready();
}

void Session::store(std::span<const std::byte> bytes) noexcept {
  if (connection_.finishing() || connection_.closing()) return;
  net::InputBuffer& input = connection_.input();
  if (context_.turn.empty()) input.compact();
  if (input.append(bytes)) return;
  context_.backend.execute();  // nothing points into the buffer any more
  if (connection_.finishing() || connection_.closing()) return;
  input.compact();
  // The buffer is larger than all that may be outstanding and all that Io delivers after
  // receive_stop().
  if (!input.append(bytes)) close();
}

void Session::take_stored() noexcept {
  const size_t taken = take(connection_.input().unparsed());
  turn_bytes_ += taken;
  if (!connection_.finishing() && !connection_.closing()) connection_.input().consume(taken);
}

void Session::resume() noexcept {
  ReadyHook::unlink();
  mark_dirty();
  if (connection_.closing()) return;
  const size_t last_bytes = std::exchange(turn_bytes_, 0);
  if (!connection_.finishing() && !held()) take_stored();
  // This turn takes about as much as the last one.
  take_unread(std::max<size_t>(last_bytes, limits::receive_buffer_bytes));
  serve_later();
  control_reading();
  schedule_timer();
}

void Session::control_reading() noexcept {
  if (connection_.closing() || connection_.finishing() || held_by(held_by_move)) return;
  const bool enough =
      has_unread_ || connection_.input().unparsed().size() >= context_.options.held_input_bytes;
  if (held_by(held_by_output) || ((held() || is_ready()) && enough)) {
    connection_.stop_reading();
  } else {
    connection_.start_reading();
    hung_up_ = false;  // the end of the stream will be reported, behind the last bytes
  }
}

bool Session::make_output_room() noexcept {
  if (!connection_.output_over_high()) return true;
  context_.backend.execute();  // answers replace promises, and are mostly much smaller
  if (!connection_.output_over_high()) return true;
  hold(held_by_output);
  return false;
}

void Session::on_end_of_stream() noexcept {
  mark_dirty();
  connection_.on_end_of_stream();
  on_peer_left();
}

void Session::on_hung_up() noexcept {
  mark_dirty();
  hung_up_ = true;
  on_peer_left();
}

void Session::on_peer_left() noexcept {
  if (connection_.closing()) return;
  context_.backend.execute();  // answers what the peer sent before its end
  // No client waits for an outcome any more.
  if (has_waiting() && !has_undecided() && peer_left()) finish();
  // Whole requests that are held, or not read or decided yet, come first: then end_turn() finishes.
}

void Session::on_failed() noexcept {
  connection_.on_failed();
  close();
}

void Session::on_sent(int32_t result, uint32_t untaken_bytes) noexcept {
  const net::OutputBuffer& output = connection_.output();
  if (untaken_bytes > 0) {
    cancel_undelivered(output.sends_count(), output.sending().size() - untaken_bytes);
  }
  connection_.on_sent(result);
  if (connection_.broken()) {
    close();
    return;
  }
  mark_dirty();
  if (connection_.output_under_low()) release_hold(held_by_output);
}

// The kernel has taken no more than the first bytes of this send, and will not take the others.
void Session::cancel_undelivered(uint64_t send, size_t taken_bytes) noexcept {
  for (const uint64_t reservation : undelivered_.behind(send, taken_bytes)) {
    context_.backend.cancel_undelivered(reservation);
  }
}

void Session::end_turn() noexcept {
  SessionHook<DirtyTag>::unlink();
  if (connection_.closing()) return;
  write_outcomes();
  const bool goes_on = held() || has_undecided() || is_ready();
  if (peer_left() && has_waiting() && !has_undecided()) finish();
  if (connection_.peer_finished() && !goes_on) finish();
  if (put_off_send()) return mark_dirty();
  connection_.flush(context_.now_ms());
  if (connection_.ready_to_close()) close();
  schedule_timer();
}

// Whether this turn sends nothing, since the next one goes on with this session. Each send costs a
// system call and wakes the peer: replies of several turns in one send cost that once.
bool Session::put_off_send() noexcept {
  const bool is_next = context_.work.is_over() && context_.ready.is_next(*this);
  const bool is_last = context_.draining || connection_.finishing();
  const net::OutputBuffer& output = connection_.output();
  const bool may_put_off = is_next && !is_last && !output.in_flight() &&
                           output.unsent_bytes() < sent_at_once_bytes &&
                           put_off_sends_ < put_off_sends_max;
  put_off_sends_ = may_put_off ? static_cast<uint8_t>(put_off_sends_ + 1) : uint8_t{0};
  return may_put_off;
}

void Session::finish() noexcept {
  if (connection_.finishing() || connection_.closing()) return;
  drop_waiting();
  connection_.finish();
  mark_dirty();
  schedule_timer();
}

// Few slots are kept for refused connections, so each lingers a short time only.
void Session::refuse() noexcept {
  refused_ = true;
  linger_ms_ = std::min(linger_ms_, context_.options.refused_linger_ms);
  write_refusal();
}

void Session::close() noexcept {
  if (connection_.closing()) return;
  drop_waiting();
  const net::OutputBuffer& output = connection_.output();
  if (output.unsent_bytes() > 0) cancel_undelivered(output.sends_count() + 1, 0);
  ReadyHook::unlink();
  SessionHook<BlockedTag>::unlink();
  base::TimerWheel::cancel(timer_);
  connection_.close();
}

// When the send in flight times out; base::never_ms when none is in flight.
int64_t Session::send_deadline_ms() const noexcept {
  if (!connection_.output().in_flight()) return base::never_ms;
  return connection_.send_started_ms() + context_.options.send_timeout_ms;
}

// A peer that reads slowly lingers no less: its time begins when it has been sent everything.
int64_t Session::linger_deadline_ms() const noexcept {
  const int64_t finished_ms = connection_.finished_ms();
  return finished_ms == base::never_ms ? base::never_ms : finished_ms + linger_ms_;
}

int64_t Session::next_deadline_ms() const noexcept {
  // The dialect's deadline is for what the peer does: not while its requests wait for their turn.
  const int64_t own = is_ready() || connection_.finishing() ? base::never_ms : deadline_ms();
  return std::min({own, send_deadline_ms(), linger_deadline_ms()});
}

void Session::schedule_timer() noexcept {
  if (connection_.closing()) return;
  const int64_t next = next_deadline_ms();
  // A timer that fires early is scheduled again; so only an earlier deadline moves it.
  if (next != base::never_ms && (!timer_.scheduled() || next < timer_.due_ms())) {
    context_.timers.schedule(timer_, next);
  }
}

void Session::on_timer() noexcept {
  if (connection_.closing()) return;
  connection_.trim();
  if (next_deadline_ms() <= context_.now_ms()) {
    if (connection_.finishing() || send_deadline_ms() <= context_.now_ms()) {
      close();
    } else {
      on_deadline();
    }
  }
  schedule_timer();
}

}  // namespace sluice::session
