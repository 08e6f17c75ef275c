#include "quota_caller.hpp"

#include <capnp/serialize.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "api/quota.hpp"
#include "base/limits.hpp"
#include "base/time.hpp"
#include "wire/capnp_codec_quota.hpp"
#include "wire/frame_reader.hpp"

namespace sluice::simulation {

using api::QuotaCode;

namespace {

constexpr double wait_share = 0.3;
constexpr uint32_t wait_ms = 3'000;
// Its last try, and another node that is silent.
constexpr int64_t wait_slack_ns = 4 * base::ns_per_s;
constexpr double patient_share = 0.7;
constexpr double bound_share = 0.2;
constexpr double id_share = 0.4;
constexpr double several_share = 0.4;
constexpr uint64_t several_max = 3;
constexpr double calls_share = 0.3;  // of frames with several calls
constexpr uint64_t calls_max = 4;

// Of each call.
template <typename Body>
void set_subjects(Body body, const std::vector<Subjects>& calls) {
  std::string names;
  std::vector<uint16_t> sizes;
  std::vector<uint8_t> counts;
  for (const Subjects& subjects : calls) {
    counts.push_back(static_cast<uint8_t>(subjects.size()));
    for (const std::string& subject : subjects) {
      names += subject;
      sizes.push_back(static_cast<uint16_t>(subject.size()));
    }
  }
  body.setSubjects(kj::StringPtr(names.c_str()).asBytes());
  body.setSubjectSizes(kj::arrayPtr(sizes.data(), sizes.size()));
  body.setSubjectCounts(kj::arrayPtr(counts.data(), counts.size()));
}

// One byte for all calls, or one for each.
uint8_t code_of(capnp::Data::Reader codes, size_t call) {
  if (codes.size() == 0) return 0;
  return codes[codes.size() == 1 ? 0 : call];
}
// None for all calls, or one for each.
uint64_t reservation_of(capnp::List<uint64_t>::Reader reservations, size_t call) {
  return call < reservations.size() ? reservations[static_cast<kj::uint>(call)] : 0;
}

}  // namespace

QuotaCaller::QuotaCaller(QuotaWorld& world, const QuotaNode& node, io::SimClient client)
    : world_(world),
      node_(node),
      client_(client),
      is_patient_(world.random.chance(patient_share)),
      last_ns_(world.now_ns) {
  send([](schema::ClientFrame::Builder frame) { frame.initHello().setVersion(1); });
}

void QuotaCaller::send(const std::function<void(schema::ClientFrame::Builder)>& fill) {
  capnp::MallocMessageBuilder message;
  auto frame = message.initRoot<schema::ClientFrame>();
  frame.setId(next_id_++);
  fill(frame);
  const auto words = capnp::messageToFlatArray(message);
  client_.write(std::as_bytes(std::span(words.asBytes().begin(), words.asBytes().size())));
}

void QuotaCaller::act() {
  if (is_over_) return;
  const uint64_t dice = world_.random.below(100);
  if (is_patient_ && is_waiting()) {
    if (dice < 10) end_one();
  } else if (dice < 35) {
    reserve();
  } else if (dice < 55) {
    const bool has_id = world_.random.chance(id_share);
    consume({.subjects = draw_subjects(),
             .id = has_id ? "id" + std::to_string(++world_.ids) : std::string(),
             .tokens = 1 + world_.random.below(20),
             .starts = {}});
  } else if (dice < 70 && !world_.to_repeat.empty()) {
    const Unanswered repeated = world_.to_repeat.back();
    world_.to_repeat.pop_back();
    ++world_.repeated;
    consume(repeated);
  } else if (dice < 97) {
    end_one();
  } else {
    leave();
  }
}

bool QuotaCaller::is_waiting() const {
  return std::ranges::any_of(asked_,
                             [](const auto& frame) { return frame.second.front().may_wait; });
}

// Different ones, in any order.
Subjects QuotaCaller::draw_subjects() {
  const bool is_one = !world_.random.chance(several_share);
  const uint64_t count = is_one ? 1 : 2 + world_.random.below(several_max - 1);
  Subjects drawn;
  while (drawn.size() < count) {
    const std::string& subject = world_.subjects[world_.random.below(world_.subjects.size())];
    if (std::ranges::find(drawn, subject) == drawn.end()) drawn.push_back(subject);
  }
  if (is_spread(drawn)) ++world_.spread;
  return drawn;
}

bool QuotaCaller::is_spread(const Subjects& subjects) const {
  return std::ranges::any_of(subjects, [&](const std::string& subject) {
    return world_.oracle.owner_of(subject) != world_.oracle.owner_of(subjects.front());
  });
}

std::vector<uint64_t> QuotaCaller::starts_of(const Subjects& subjects) const {
  std::vector<uint64_t> starts;
  for (const std::string& subject : subjects) starts.push_back(world_.oracle.starts_of(subject));
  return starts;
}

// The home of several owners may remember what one of them has forgotten in a crash: a repeat is
// not charged there again.
std::vector<uint64_t> QuotaCaller::starts_of(const Unanswered& consumed) const {
  const bool is_remembered = !consumed.starts.empty() && is_spread(consumed.subjects);
  return is_remembered ? consumed.starts : starts_of(consumed.subjects);
}

void QuotaCaller::reserve() {
  const bool has_several = world_.random.chance(calls_share);
  const uint64_t calls_count = has_several ? 2 + world_.random.below(calls_max - 1) : 1;
  std::vector<Subjects> calls;
  while (calls.size() < calls_count) calls.push_back(draw_subjects());
  const bool may_wait = !has_several && world_.random.chance(wait_share);
  uint8_t flags = may_wait ? wire::quota_bit::may_wait : uint8_t{0};
  const bool is_bound = world_.random.chance(bound_share);
  if (is_bound) flags |= wire::quota_bit::connection_bound;
  for (const Subjects& subjects : calls) {
    asked_[next_id_].push_back({.is_bound = is_bound,
                                .may_wait = may_wait,
                                .awake_ns = awake_ns_,
                                .subjects = subjects,
                                .id = {},
                                .starts = starts_of(subjects)});
  }
  send([&](schema::ClientFrame::Builder frame) {
    auto body = frame.initReserve();
    body.setFlags(flags);
    body.setWaitLimitMs(flags & wire::quota_bit::may_wait ? wait_ms : 0);
    set_subjects(body, calls);
  });
}

void QuotaCaller::consume(const Unanswered& what) {
  asked_[next_id_] = {{.consumes = true,
                       .subjects = what.subjects,
                       .id = what.id,
                       .tokens = what.tokens,
                       .starts = starts_of(what)}};
  send([&](schema::ClientFrame::Builder frame) {
    auto body = frame.initConsume();
    set_subjects(body, {what.subjects});
    body.setInputTokens({what.tokens});
    if (what.id.empty()) return;
    body.setIds(kj::StringPtr(what.id.c_str()).asBytes());
    body.setIdSizes({static_cast<uint16_t>(what.id.size())});
  });
}

// Of any client, made at any node.
void QuotaCaller::end_one() {
  if (world_.open.empty()) return;
  const size_t place = world_.random.below(world_.open.size());
  const KnownReservation ended = world_.open[place];
  world_.open.erase(world_.open.begin() + static_cast<ptrdiff_t>(place));
  on_ending(ended);
  const bool settles = world_.random.chance(0.5);
  send([&](schema::ClientFrame::Builder frame) {
    if (settles) {
      frame.initSettle().setReservations({ended.number});
    } else {
      frame.initCancel().setReservations({ended.number});
    }
  });
}

void QuotaCaller::on_ending(const KnownReservation& ended) {
  for (const std::string& subject : ended.subjects) {
    world_.oracle.on_ending(subject, ended.number);
  }
}

void QuotaCaller::leave() {
  if (is_over_) return;
  forget_all();
  client_.close();
}

// What was asked for and not answered may be charged or not.
void QuotaCaller::forget_all() {
  is_over_ = true;
  for (const KnownReservation& each : bound_) on_ending(each);
  for (const auto& [frame, calls] : asked_) {
    for (const Asked& asked : calls) repeat_later(asked);
  }
}

void QuotaCaller::repeat_later(const Asked& asked) {
  if (!asked.consumes || asked.id.empty()) return;
  world_.to_repeat.push_back({asked.subjects, asked.id, asked.tokens, asked.starts});
}

// Whatever happens to other nodes, a call that waits has an answer in time.
void QuotaCaller::check_waits() {
  if (!node_.is_paused) awake_ns_ += world_.now_ns - last_ns_;
  last_ns_ = world_.now_ns;
  const int64_t longest_ns = int64_t{wait_ms} * base::ns_per_ms + wait_slack_ns;
  for (const auto& [frame, calls] : asked_) {
    if (calls.front().may_wait && awake_ns_ - calls.front().awake_ns > longest_ns) {
      world_.oracle.fail("a call that may wait has no answer in time");
    }
  }
}

void QuotaCaller::receive() {
  if (is_over_) return;
  check_waits();
  client_.read(received_);
  size_t taken = 0;
  while (!is_over_ && taken < received_.size()) {
    std::vector<uint64_t> words((received_.size() - taken + 7) / 8);
    std::memcpy(words.data(), received_.data() + taken, received_.size() - taken);
    const auto bytes = std::as_bytes(std::span(words)).first(received_.size() - taken);
    const auto read = wire::read_frame(bytes, limits::reply_bytes_max);
    const auto* const frame = std::get_if<base::Complete<wire::Frame>>(&read);
    if (frame == nullptr) break;
    capnp::FlatArrayMessageReader message(
        {reinterpret_cast<const capnp::word*>(words.data()), frame->value.size() / 8});
    on_frame(message.getRoot<schema::ServerFrame>());
    taken += frame->value.size();
  }
  received_.erase(received_.begin(), received_.begin() + static_cast<ptrdiff_t>(taken));
  const bool is_cut_off = client_.was_reset() || client_.refused() || client_.end_of_stream();
  if (is_cut_off && !is_over_) forget_all();
}

void QuotaCaller::on_frame(schema::ServerFrame::Reader frame) {
  const auto asked = asked_.find(frame.getId());
  if (frame.isError())
    return world_.oracle.fail("an error: " + std::string(frame.getError().getText().cStr()));
  if (asked == asked_.end()) return;  // of a settle or cancel
  if (frame.isQuotaAnswers()) {
    const auto answers = frame.getQuotaAnswers();
    if (code_of(answers.getCodes(), 0) == static_cast<uint8_t>(QuotaCode::queued)) {
      ++world_.queued;
      if (is_spread(asked->second.front().subjects)) ++world_.waiting_spread;
      return;
    }
    on_outcomes(asked->second, answers.getCodes(), answers.getReservations());
    asked_.erase(asked);
  } else if (frame.isGranted()) {
    ++world_.granted;
    const auto granted = frame.getGranted();
    const bool is_admitted = api::admits(static_cast<QuotaCode>(code_of(granted.getCodes(), 0)));
    if (is_admitted && is_spread(asked->second.front().subjects)) ++world_.granted_spread;
    on_outcomes(asked->second, granted.getCodes(), granted.getReservations());
    asked_.erase(asked);
  }
}

void QuotaCaller::on_outcomes(const std::vector<Asked>& calls, capnp::Data::Reader codes,
                              capnp::List<uint64_t>::Reader reservations) {
  for (size_t call = 0; call < calls.size(); ++call) {
    on_outcome(calls[call], code_of(codes, call), reservation_of(reservations, call));
  }
}

void QuotaCaller::on_outcome(const Asked& asked, uint8_t code, uint64_t reservation) {
  const auto outcome = static_cast<QuotaCode>(code);
  if (outcome == QuotaCode::owner_unreachable) {
    ++world_.unreachable;
    repeat_later(asked);
  }
  if (!api::admits(outcome)) return;
  if (asked.consumes) {
    for (size_t i = 0; i < asked.subjects.size(); ++i) {
      world_.oracle.on_consumed(asked.subjects[i], asked.tokens, asked.id, asked.starts[i]);
    }
    return;
  }
  // Its home, or the owner of a part, may have forgotten it.
  if (asked.starts != starts_of(asked.subjects)) return;
  for (size_t i = 0; i < asked.subjects.size(); ++i) {
    world_.oracle.on_reserved(asked.subjects[i], reservation, asked.starts[i]);
  }
  if (asked.is_bound) {
    ++world_.bound;
    bound_.push_back({asked.subjects, reservation});
  } else {
    world_.open.push_back({asked.subjects, reservation});
  }
}

}  // namespace sluice::simulation
