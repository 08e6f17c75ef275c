#include "peer/lane.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/overloaded.hpp"
#include "peer/message_entries.hpp"

namespace sluice::peer {
namespace {

using api::Verdict;

constexpr int64_t idle_ping_ms = 1'000;
// Of what an owner must take: an entry with the longest key, and all that can be said of it.
constexpr size_t frame_bytes_least = limits::key_bytes_max + 1'024;
constexpr size_t late_approvals_max = 1'024;           // in one frame
constexpr size_t late_approval_bytes_max = 64 * 1024;  // the text of their keys
constexpr size_t refund_overhead_bytes = 128;          // of a frame: beside keys, sizes and costs

// Nearly all answers: they need nothing more than to be kept.
bool are_decided(std::span<const Verdict> verdicts) noexcept {
  unsigned has_other = 0;
  for (const Verdict verdict : verdicts) {
    has_other |= verdict == Verdict::approved || verdict == Verdict::denied ? 0U : 1U;
  }
  return has_other == 0;
}

// What a Forward takes of the bytes that may be outstanding: as much as the Refunds of all that it
// asks for, which take its place when its answer is late.
size_t outstanding_bytes(const wire::ForwardCut& cut) noexcept {
  const size_t refunds =
      1 + cut.entries_count / late_approvals_max + cut.text_bytes / late_approval_bytes_max;
  return cut.frame_bytes + cut.entries_count * sizeof(wire::LateApproval::cost) +
         refunds * refund_overhead_bytes;
}

static_assert(sizeof(api::RefundClaim) == sizeof(wire::Permit));

// The owner's own form, which only it reads; `cost` lies in both at one place.
api::RefundClaim claim_of(const wire::Permit& permit) noexcept {
  return std::bit_cast<api::RefundClaim>(permit);
}
wire::Permit permit_of(const api::RefundClaim& claim) noexcept {
  return std::bit_cast<wire::Permit>(claim);
}

}  // namespace

Lane::Lane(Context& context, net::ConnectionMemory& memory, uint32_t place, uint32_t wanted_shard)
    : context_(context),
      memory_(memory),
      place_(place),
      wanted_shard_(wanted_shard),
      waiters_(context) {
  outgoings_.reserve(PeerTarget::messages_count);
  unsent_.reserve(PeerTarget::messages_count);
  sent_.reserve(PeerTarget::messages_count);
}

// --- Its life ------------------------------------------------------------------------------

void Lane::connect(const io::PeerAddress& address) noexcept {
  received_ms_ = owed_since_ms_ = context_.now_ms;
  const auto socket = context_.io.connect(address);
  state_ = socket ? State::connecting : State::closed;
  if (!socket) {
    why_lost_ = std::strerror(-socket.error());
    return;
  }
  socket_ = *socket;
  context_.use(socket_, *this);
}

void Lane::serve(PeerTarget& target) noexcept {
  ASSERT(state_ == State::open && target_ == nullptr);
  target_ = &target;
  target.connect(*this);
}

void Lane::on_event(const io::Event& event) noexcept {
  switch (event.kind) {
    case io::EventKind::connected:
      return on_connected();
    case io::EventKind::received:
      return on_received(event.bytes);
    case io::EventKind::sent:
      return on_sent(event.result);
    case io::EventKind::end_of_stream:
    case io::EventKind::hung_up:
      return lose("the connection has ended");
    case io::EventKind::failed:
      return lose(std::strerror(-event.result));
    case io::EventKind::closed:
      connection_.reset();
      state_ = State::closed;
      context_.has_changed = true;
      return;
    default:
      return;
  }
}

void Lane::on_connected() noexcept {
  if (state_ != State::connecting) return;
  connection_.emplace(context_.io, socket_, memory_, place_);
  connection_->start_reading();
  state_ = State::greeting;
  received_ms_ = context_.now_ms;
  const wire::LaneHello hello{.client_name = "sluicegate node",
                              .token = context_.options.secret,
                              .wanted_shard_plus_one = wanted_shard_ + 1};
  write(wire::hello_bytes(hello),
        [&](auto out) { return wire::encode_hello(next_id_++, hello, out); });
}

void Lane::on_sent(int32_t result) noexcept {
  if (!connection_) return;
  connection_->on_sent(result);
  if (connection_->broken()) return lose("a send has failed");
  context_.mark_dirty(*this);  // there is room for more
}

void Lane::lose(std::string_view why) noexcept {
  if (state_ == State::lost || state_ == State::closed) return;
  state_ = State::lost;
  why_lost_ = why;
  context_.has_changed = true;  // this node may stand in from now on
  unsent_.clear();
  sent_.clear();
  sent_refunds_.clear();
  permits_.clear();
  sent_bytes_ = 0;
  if (target_ != nullptr) std::exchange(target_, nullptr)->on_lost(outgoings_);
  outgoings_.clear();
  parcels_.lose(context_.parcels_done);
  waiters_.lose();
  if (connection_) {
    connection_->close();
  } else {
    context_.io.close(socket_);
  }
}

// An owner that is alive answers a ping, however much it has to do.
void Lane::on_tick() noexcept {
  if (state_ == State::lost || state_ == State::closed) return;
  parcels_.give_up(context_.now_ms, context_.parcels_done);
  const int64_t silence_ms = context_.options.silence_ms;
  const int64_t quiet_ms = context_.now_ms - received_ms_;
  if (is_owed()) {
    const int64_t due_ms = context_.now_ms - std::max(received_ms_, owed_since_ms_);
    if (due_ms >= silence_ms) return lose("silent");
    if (state_ == State::open && !is_pinged_ && due_ms >= silence_ms / 3) ping();
  } else if (quiet_ms >= idle_ping_ms) {
    ping();
  }
}

void Lane::ping() noexcept {
  owe();
  is_pinged_ = true;
  write(wire::ping_bytes, [&](auto out) { return wire::encode_ping(next_id_++, out); });
}

// Something is due from now on.
void Lane::owe() noexcept {
  if (!is_owed()) owed_since_ms_ = context_.now_ms;
}

void Lane::flush() noexcept {
  if (state_ == State::lost || !connection_) return;
  send_frames();
  send_parcels();
  if (state_ != State::lost) connection_->flush(context_.now_ms);
}

// --- To the owner --------------------------------------------------------------------------

// Encodes with `encode(out)` into `bytes` of output.
template <typename Encode>
void Lane::write(size_t bytes, Encode encode) noexcept {
  if (!connection_ || connection_->closing()) return;
  if (!has_output_room(bytes)) return lose("it does not read");
  net::OutputBuffer& output = connection_->output();
  output.commit(encode(output.room(bytes)));
  context_.mark_dirty(*this);
}

void Lane::write(const wire::FrameWords& frame) noexcept {
  const auto bytes = std::as_bytes(std::span(frame));
  write(bytes.size(), [&](auto out) {
    std::ranges::copy(bytes, out.begin());
    return bytes.size();
  });
}

bool Lane::has_output_room(size_t bytes) const noexcept {
  return connection_->output().unsent_bytes() + bytes <= limits::output_bytes(1);
}

void Lane::send(Outgoing& outgoing) noexcept {
  ASSERT(state_ == State::open);
  owe();
  outgoings_.push_back(&outgoing);
  unsent_.push_back({.outgoing = &outgoing, .next_entry = 0});
  send_frames();
}

uint32_t Lane::take_back(Outgoing& outgoing) noexcept {
  const auto at = std::ranges::find(unsent_, &outgoing, &Unsent::outgoing);
  if (at == unsent_.end()) return 0;
  const uint32_t count = outgoing.message.entries_count() - at->next_entry;
  unsent_.erase(at);
  if (outgoing.unanswered_count == count) std::erase(outgoings_, &outgoing);
  return count;
}

// Whether the owner takes another frame with so many bytes before it has answered some.
bool Lane::has_frame_room(size_t bytes) const noexcept {
  return has_room(bytes, outstanding_bytes_max_, outstanding_frames_max_);
}

// Whether a quarter is left over then.
bool Lane::has_room_beside_verdicts(size_t bytes) const noexcept {
  return has_room(bytes, outstanding_bytes_max_ / 4 * 3,
                  outstanding_frames_max_ - outstanding_frames_max_ / 4);
}

bool Lane::has_room(size_t bytes, size_t bytes_max, size_t frames_max) const noexcept {
  const size_t frames = sent_.size() + sent_refunds_.size() + parcels_.sent_count();
  return sent_bytes_ == 0 || (sent_bytes_ + bytes <= bytes_max && frames < frames_max);
}

// Writes frames of the messages that have some left, as far as the owner takes them. Permits that
// go back have precedence.
void Lane::send_frames() noexcept {
  if (!write_permits()) return;
  while (!unsent_.empty() && state_ == State::open && !is_leaving_) {
    Unsent& unsent = unsent_.front();
    route::ShardMessage& message = unsent.outgoing->message;
    forward_runs(message, context_.runs);
    const wire::ForwardCut cut = wire::cut_forward(context_.runs, unsent.next_entry, bounds_);
    const size_t bytes = outstanding_bytes(cut);
    if (!has_frame_room(bytes) || connection_->output_over_high()) return;
    const uint64_t id = next_id_++;
    write(cut.frame_bytes,
          [&](auto out) { return wire::encode_forward(id, context_.runs, cut, out); });
    if (state_ == State::lost) return;
    sent_.push_back({.id = id,
                     .outgoing = unsent.outgoing,
                     .first_entry = cut.first_entry,
                     .entries_count = cut.entries_count,
                     .bytes = bytes});
    sent_bytes_ += bytes;
    unsent.next_entry += cut.entries_count;
    if (unsent.next_entry == message.entries_count()) unsent_.erase(unsent_.begin());
  }
}

bool Lane::takes_notice() const noexcept {
  return !connection_->output_over_high();
}

void Lane::withdraw(api::WaiterId waiter, api::Ticket ticket) noexcept {
  const RemotePlace* const place = waiters_.withdraw(waiter, ticket);
  if (place != nullptr) write_withdraw(place->frame_id, std::span(&place->entry, 1));
}

void Lane::write_withdraw(uint64_t frame_id, std::span<const uint32_t> entries) noexcept {
  write(wire::withdraw_bytes(entries.size()),
        [&](auto out) { return wire::encode_withdraw(next_id_++, frame_id, entries, out); });
}

void Lane::refund(const api::RefundClaim& claim) noexcept {
  permits_.push_back(permit_of(claim));
  context_.mark_dirty(*this);
}

// False: some are left, because the owner takes no more frames now.
bool Lane::write_permits() noexcept {
  while (!permits_.empty()) {
    const size_t count = std::min(permits_.size(), wire::refund_permits_max);
    const auto permits = std::span<const wire::Permit>(permits_).last(count);
    const size_t bytes = wire::refund_bytes(permits);
    if (!has_frame_room(bytes) || !has_output_room(bytes)) return false;
    write_refund(bytes, [&](auto out) { return wire::encode_refund(next_id_, permits, out); });
    permits_.resize(permits_.size() - count);
  }
  return true;
}

// Encodes a Refund with the id `next_id_`.
template <typename Encode>
void Lane::write_refund(size_t bytes, Encode encode) noexcept {
  write(bytes, encode);
  if (state_ == State::lost) return;
  sent_refunds_.push_back({.id = next_id_++, .bytes = bytes});
  sent_bytes_ += bytes;
}

// Of a Withdraw, or of a Refund.
void Lane::on_done(uint64_t id) noexcept {
  const auto refund = std::ranges::find(sent_refunds_, id, &SentRefund::id);
  if (refund == sent_refunds_.end()) return;
  sent_bytes_ -= refund->bytes;
  sent_refunds_.erase(refund);
  context_.mark_dirty(*this);  // the next frame may leave
}

// --- From the owner ------------------------------------------------------------------------

void Lane::on_received(std::span<std::byte> bytes) noexcept {
  if (!connection_ || connection_->closing()) return;
  received_ms_ = context_.now_ms;
  net::InputBuffer& input = connection_->input();
  size_t taken = 0;
  if (input.empty()) taken = take_frames(bytes);
  if (taken == bytes.size() || connection_->closing()) return;
  input.compact();
  if (!input.append(bytes.subspan(taken))) return lose("its frames are too large");
  const size_t taken_stored = take_frames(input.unparsed());
  if (!connection_->closing()) input.consume(taken_stored);
}

// Returns the bytes of the whole frames.
size_t Lane::take_frames(std::span<const std::byte> bytes) noexcept {
  size_t taken = 0;
  while (taken < bytes.size() && state_ != State::lost) {
    const auto read = wire::read_frame(bytes.subspan(taken), limits::reply_bytes_max);
    if (const auto* frame = std::get_if<base::Complete<wire::Frame>>(&read)) {
      const auto decoded = wire::decode_owner_frame(frame->value);
      if (!decoded) {
        lose("its frames are malformed");
        break;
      }
      on_frame(*decoded);
      taken += frame->value.size();
    } else {
      if (!std::holds_alternative<base::NeedMore>(read)) lose("its frames are malformed");
      break;
    }
  }
  return taken;
}

void Lane::on_frame(const wire::OwnerFrame& frame) noexcept {
  std::visit(base::Overloaded{
                 [&](const wire::WelcomeFrame& welcome) { on_welcome(welcome); },
                 [&](const wire::VerdictsFrame& verdicts) { on_verdicts(frame.id, verdicts); },
                 [&](const wire::GrantedFrame& granted) { on_granted(frame.id, granted); },
                 [&](const wire::DoneFrame&) { on_done(frame.id); },
                 [&](const wire::QuotaOutcomesFrame& outcomes) { on_outcomes(frame.id, outcomes); },
                 [&](const wire::PongFrame&) { is_pinged_ = false; },
                 [&](const wire::GoAwayFrame&) { is_leaving_ = true; },
                 [&](const wire::ErrorFrame& error) { on_error(error); },
                 [](const auto&) {},
             },
             frame.body);
  if (is_leaving_) leave_when_answered();
}

void Lane::on_error(const wire::ErrorFrame& error) noexcept {
  if (error.code == ErrorCode::secret_expected) return lose_for_secret();
  lose(error.text);
}

// It has another secret than this node, or this one has none.
void Lane::lose_for_secret() noexcept {
  wants_other_secret_ = true;
  lose("it wants another secret (--peer-secret-file)");
}

// What it has not been sent yet is answered by the policy, as after any loss.
void Lane::leave_when_answered() noexcept {
  if (sent_.empty() && parcels_.sent_count() == 0 && !waiters_.has_any()) lose("it shuts down");
}

void Lane::on_welcome(const wire::WelcomeFrame& welcome) noexcept {
  if (state_ != State::greeting) return lose("it greets twice");
  if ((welcome.features & wire::feature_bit::forward) == 0) return lose_for_secret();
  if (!welcome.routing_known) return lose("its routing hash is unknown");
  if (welcome.shards == 0) return lose("its frames are malformed");
  const bool takes_entries =
      welcome.bounds.frame_entries_max > 0 && welcome.bounds.frame_bytes_max >= frame_bytes_least;
  if (!takes_entries) return lose("the frames that it takes are too small");
  owner_ = {.shard = welcome.shard,
            .shards = welcome.shards,
            .routing_seed = welcome.routing_seed,
            .instance_id = welcome.instance_id};
  // Not longer than what fits into this lane's output, nor with more answers than into its input.
  bounds_ = {
      .frame_bytes_max = std::min<size_t>(welcome.bounds.frame_bytes_max, limits::frame_bytes_max),
      .frame_entries_max = std::min(welcome.bounds.frame_entries_max, limits::frame_entries_max)};
  outstanding_bytes_max_ = welcome.outstanding_bytes_max;
  outstanding_frames_max_ = welcome.outstanding_frames_max;
  takes_parcels_ = (welcome.features & wire::feature_bit::forward_quota) != 0 &&
                   !context_.options.secret.empty();
  state_ = State::open;
  context_.has_changed = true;
  if (takes_parcels_) announce_sender();
}

void Lane::on_verdicts(uint64_t id, const wire::VerdictsFrame& verdicts) noexcept {
  const auto at = std::ranges::find(sent_, id, &Sent::id);
  if (at == sent_.end() || verdicts.count != at->entries_count) {
    return lose("it answers what nobody asked");
  }
  const Sent sent = *at;
  sent_.erase(at);
  sent_bytes_ -= sent.bytes;
  if (sent.outgoing->is_given_up()) {
    return_late(sent, verdicts);
  } else {
    keep_answers(sent, verdicts);
  }
  if (state_ == State::lost) return;
  const bool is_last = sent.outgoing->unanswered_count == sent.entries_count;
  if (is_last) std::erase(outgoings_, sent.outgoing);
  target_->on_answers(*sent.outgoing, sent.entries_count);
  context_.mark_dirty(*this);  // the next frame may leave
}

void Lane::keep_answers(const Sent& sent, const wire::VerdictsFrame& verdicts) noexcept {
  route::ShardMessage& message = sent.outgoing->message;
  verdicts.copy_to(message.verdicts(sent.first_entry, sent.entries_count));
  verdicts.copy_to(message.details(sent.first_entry, sent.entries_count));
  const auto own = message.verdicts(sent.first_entry, sent.entries_count);
  if (are_decided(own)) return;
  for (const Verdict impossible : {Verdict::withdrawn, Verdict::handles_full}) {
    std::ranges::replace(own, impossible, Verdict::owner_unreachable);
  }
  clear_details_of(Verdict::owner_unreachable, sent);
  keep_waiters(sent);
  refuse_undecided(sent);
}

void Lane::keep_waiters(const Sent& sent) noexcept {
  route::ShardMessage& message = sent.outgoing->message;
  const auto own = message.verdicts(sent.first_entry, sent.entries_count);
  if (std::ranges::find(own, Verdict::queued) == own.end()) return;
  for_each_entry(message, sent.first_entry, sent.entries_count,
                 [&](uint32_t index, const api::Entry& entry) {
                   Verdict& verdict = message.verdicts(index, 1)[0];
                   if (verdict != Verdict::queued) return;
                   const RemotePlace place{.frame_id = sent.id, .entry = index - sent.first_entry};
                   const RemoteWaiter* const waiter =
                       waiters_.keep(place, entry.ticket, RemoteWaiter::Of::entry);
                   if (waiter == nullptr) {
                     verdict = Verdict::owner_unreachable;
                   } else {
                     message.waiters(index, 1)[0] = waiter->index;
                   }
                 });
}

// They may be those of an earlier message: an answer without columns leaves them.
void Lane::clear_details_of(Verdict verdict, const Sent& sent) noexcept {
  const route::ShardMessage& message = sent.outgoing->message;
  const auto verdicts = message.verdicts(sent.first_entry, sent.entries_count);
  if (std::ranges::find(verdicts, verdict) == verdicts.end()) return;
  for (uint32_t i = 0; i < sent.entries_count; ++i) {
    if (verdicts[i] == verdict) message.details(sent.first_entry + i, 1)[0] = {};
  }
}

// An owner that shuts down has decided nothing of what comes behind its GoAway. To a client of this
// node, `draining` would mean this node.
void Lane::refuse_undecided(const Sent& sent) noexcept {
  const route::ShardMessage& message = sent.outgoing->message;
  const auto verdicts = message.verdicts(sent.first_entry, sent.entries_count);
  if (std::ranges::find(verdicts, Verdict::draining) == verdicts.end()) return;
  for_each_entry(message, sent.first_entry, sent.entries_count,
                 [&](uint32_t index, const api::Entry& entry) {
                   if (message.verdicts(index, 1)[0] != Verdict::draining) return;
                   target_->answer_by_policy(*sent.outgoing, index, entry.op);
                 });
}

// Nobody receives these answers.
void Lane::return_late(const Sent& sent, const wire::VerdictsFrame& verdicts) noexcept {
  // A lane that is lost frees the message, whose entries are read below.
  const size_t bytes_max = sent.bytes + wire::withdraw_bytes(sent.entries_count);
  if (!has_output_room(bytes_max)) return lose("it does not read");
  std::vector<wire::LateApproval> approvals;
  std::vector<uint32_t> queued;
  size_t text_bytes = 0;
  const auto write_approvals = [&] {
    if (approvals.empty()) return;
    write_refund(wire::refund_bytes(approvals),
                 [&](auto out) { return wire::encode_refund(next_id_, sent.id, approvals, out); });
    approvals.clear();
    text_bytes = 0;
  };
  for_each_entry(sent.outgoing->message, sent.first_entry, sent.entries_count,
                 [&](uint32_t index, const api::Entry& entry) {
                   const uint32_t place = index - sent.first_entry;
                   const Verdict verdict = verdicts.verdicts[place];
                   if (verdict == Verdict::queued) queued.push_back(place);
                   if (verdict != Verdict::approved || entry.op != api::Op::acquire) return;
                   approvals.push_back({.key = entry.key(), .cost = entry.cost});
                   text_bytes += entry.key_bytes;
                   const bool is_enough = approvals.size() == late_approvals_max ||
                                          text_bytes > late_approval_bytes_max;
                   if (is_enough) write_approvals();
                 });
  write_approvals();
  if (!queued.empty()) write_withdraw(sent.id, queued);
}

void Lane::on_granted(uint64_t id, const wire::GrantedFrame& granted) noexcept {
  granted.each(
      [&](uint32_t entry, Verdict verdict, const api::Detail& detail, const wire::Permit& permit) {
        const RemotePlace place{.frame_id = id, .entry = entry};
        const api::RefundClaim claim = claim_of(permit);
        const bool has_waited = waiters_.end_entry(place, verdict, detail, claim);
        if (!has_waited && verdict == Verdict::approved) refund(claim);
      });
}

}  // namespace sluice::peer
