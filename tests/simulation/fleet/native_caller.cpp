#include "native_caller.hpp"

#include <algorithm>

namespace sluice::simulation {
namespace {

using api::Verdict;

constexpr size_t frames_max = 8;
constexpr uint64_t entries_max = 12;
constexpr uint32_t segment_words = 1'024;
constexpr uint8_t asked_details =
    schema::DETAIL_LIMIT | schema::DETAIL_REMAINING | schema::DETAIL_RETRY_AFTER;

Verdict verdict_at(capnp::Data::Reader column, uint32_t index) {
  return static_cast<Verdict>(column.size() == 1 ? column[0] : column[index]);
}

api::Detail detail_at(schema::Details::Reader details, uint32_t index) {
  return {.limit = details.getLimit()[index],
          .remaining = details.getRemaining()[index],
          .retry_after_ms = static_cast<int64_t>(details.getRetryAfterMs()[index])};
}

}  // namespace

NativeCaller::NativeCaller(CallerWorld& world, uint32_t node, io::SimClient client)
    : Caller(world, node, client) {
  client_.write(build_frame(segment_words, [](schema::ClientFrame::Builder frame) {
    frame.setId(1);
    frame.initHello().setVersion(schema::PROTOCOL_VERSION);
  }));
}

// ------------------------------------------------------------------------------------- asking

void NativeCaller::ask() {
  if (!is_welcome_) return;
  const uint64_t dice = world_.random.below(100);
  if (dice < 8) return ask_withdraw();
  if (frames_.size() >= frames_max) return;
  if (dice < 20) return ask_release();
  ask_acquire();
}

void NativeCaller::send(uint64_t id, Frame frame, const AskedFrame& asked) {
  frame.open = static_cast<uint32_t>(frame.calls.size());
  client_.write(build_frame(segment_words, [&](schema::ClientFrame::Builder builder) {
    frame.is_release ? fill_release(builder, asked) : fill_acquire(builder, asked);
  }));
  frames_.emplace(id, std::move(frame));
}

// Entries of one frame all set the number of their keys' queues, or none does, so that all forms
// occur: those that do not are of keys that nobody else asks for.
void NativeCaller::ask_acquire() {
  io::Random& random = world_.random;
  const bool is_marked = random.chance(0.6);
  Frame frame{.has_details = is_marked};
  AskedFrame asked{.id = next_id_++, .entries = {}};
  if (is_marked) asked.details = asked_details;
  const uint64_t count = 1 + random.below(entries_max);
  while (frame.calls.size() < count) {
    Call drawn = drawn_call(true);
    if (drawn.op == api::Op::release) drawn.op = api::Op::acquire;
    if (!is_marked) {
      drawn.may_wait = false;
      if (drawn.key.starts_with('k')) drawn.key = "once-";
      if (drawn.op == api::Op::acquire && random.chance(0.9)) drawn.cost = 1;
    }
    // The frame has one limit for all.
    if (drawn.may_wait && asked.wait_limit_ms == 0) asked.wait_limit_ms = drawn.wait_limit_ms;
    if (!frame.calls.empty()) drawn.first_of_frame = frame.calls.front()->id;
    Call& call = world_.oracle.ask(std::move(drawn));
    call.wait_limit_ms = 0;
    frame.calls.push_back(&call);
    AskedEntry entry{.key = call.key, .cost = call.cost, .may_wait = call.may_wait};
    if (is_marked && call.op == api::Op::acquire) {
      entry.overrides.max_requests_in_queue = call_mark + call.id;
    }
    asked.entries.push_back(std::move(entry));
  }
  for (Call* const call : frame.calls) call->wait_limit_ms = asked.wait_limit_ms;
  send(asked.id, std::move(frame), asked);
}

void NativeCaller::ask_release() {
  Frame frame{.is_release = true};
  AskedFrame asked{.id = next_id_++, .entries = {}};
  const uint64_t count = 1 + world_.random.below(3);
  while (frame.calls.size() < count) {
    Call drawn = drawn_call(true);
    drawn.op = api::Op::release;
    drawn.may_wait = false;
    drawn.cost = std::max(drawn.cost, 1U);
    if (!frame.calls.empty()) drawn.first_of_frame = frame.calls.front()->id;
    Call& call = world_.oracle.ask(std::move(drawn));
    frame.calls.push_back(&call);
    asked.entries.push_back({.key = call.key, .cost = call.cost});
  }
  send(asked.id, std::move(frame), asked);
}

void NativeCaller::ask_withdraw() {
  if (frames_.empty()) return;
  auto at = frames_.begin();
  std::advance(at, static_cast<ptrdiff_t>(world_.random.below(frames_.size())));
  const uint64_t target = at->first;
  if (at->second.is_release) return;
  const uint64_t id = next_id_++;
  withdrawals_.push_back({.id = id, .target = target});
  client_.write(build_frame(segment_words, [&](schema::ClientFrame::Builder builder) {
    builder.setId(id);
    builder.initWithdraw().setTarget(target);
  }));
}

void NativeCaller::note_withdrawals() {
  std::erase_if(withdrawals_, [this](const Withdrawal& withdrawal) {
    const auto is_held_by = [&](const auto& frame) {
      return frame.first < withdrawal.id && !frame.second.is_answered;
    };
    if (std::ranges::any_of(frames_, is_held_by)) return false;
    const auto target = frames_.find(withdrawal.target);
    if (target == frames_.end()) return true;
    for (Call* const call : target->second.calls) {
      if (call->is_queued && !call->answer) world_.oracle.withdrawn(*call);
    }
    return true;
  });
}

void NativeCaller::leave_calls() {
  for (auto& [id, frame] : frames_) {
    for (Call* const call : frame.calls) world_.oracle.left(*call);
  }
  frames_.clear();
}

// ------------------------------------------------------------------------------------ answers

void NativeCaller::take_answers() {
  while (!is_over() && !world_.failure &&
         take_frame(inbox_, [this](schema::ServerFrame::Reader frame) { on_frame(frame); })) {
  }
  note_withdrawals();
}

void NativeCaller::on_frame(schema::ServerFrame::Reader reader) {
  if (reader.isWelcome()) {
    is_welcome_ = true;
    return;
  }
  if (reader.isGoAway()) return;
  if (reader.isError()) return fail("an error: " + std::string(reader.getError().getText().cStr()));
  const auto frame = frames_.find(reader.getId());
  if (reader.isDone() && frame == frames_.end()) return;  // of a withdrawal
  if (frame == frames_.end()) return fail("an answer to what was not asked");
  if (reader.isDone() && frame->second.is_release) {
    on_released(frame->second);
  } else if (reader.isVerdicts()) {
    on_verdicts(frame->second, reader.getVerdicts());
  } else if (reader.isGranted()) {
    on_granted(frame->second, reader.getGranted());
  } else {
    fail("a frame of another kind");
  }
  if (frame->second.is_answered && frame->second.open == 0) frames_.erase(frame);
}

void NativeCaller::on_verdicts(Frame& frame, schema::Verdicts::Reader verdicts) {
  if (frame.is_answered) return fail("verdicts twice");
  if (verdicts.getCount() != frame.calls.size()) return fail("verdicts for another frame");
  frame.is_answered = true;
  for (uint32_t i = 0; i < frame.calls.size(); ++i) {
    const Verdict verdict = verdict_at(verdicts.getVerdicts(), i);
    api::Detail detail;
    if (frame.has_details) detail = detail_at(verdicts.getDetails(), i);
    const FleetOracle::Answer answer{.verdict = verdict,
                                     .detail = frame.has_details ? &detail : nullptr};
    if (verdict == Verdict::queued) {
      world_.oracle.queued(*frame.calls[i], answer);
    } else {
      world_.oracle.answered(*frame.calls[i], answer);
      --frame.open;
    }
  }
}

void NativeCaller::on_released(Frame& frame) {
  frame.is_answered = true;
  frame.open = 0;
  for (Call* const call : frame.calls) {
    world_.oracle.answered(*call, {.verdict = Verdict::approved, .is_done = true});
  }
}

void NativeCaller::on_granted(Frame& frame, schema::Granted::Reader granted) {
  if (!frame.is_answered) return fail("a grant before the verdicts");
  const auto entries = granted.getEntries();
  for (uint32_t i = 0; i < entries.size(); ++i) {
    if (entries[i] >= frame.calls.size()) return fail("a grant for an entry that is not there");
    Call& call = *frame.calls[entries[i]];
    if (!call.is_queued) return fail("a grant for an entry that does not wait");
    world_.oracle.answered(call,
                           {.verdict = verdict_at(granted.getVerdicts(), i), .is_outcome = true});
    --frame.open;
  }
}

}  // namespace sluice::simulation
