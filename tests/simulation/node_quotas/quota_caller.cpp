#include "quota_caller.hpp"

#include <capnp/serialize.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "api/quota.hpp"
#include "base/limits.hpp"
#include "wire/capnp_codec_quota.hpp"
#include "wire/frame_reader.hpp"

namespace sluice::simulation {

using api::QuotaCode;

namespace {

constexpr double wait_share = 0.3;
constexpr double bound_share = 0.2;
constexpr double id_share = 0.4;
constexpr double several_share = 0.4;
constexpr uint64_t several_max = 3;

template <typename Body>
void set_subjects(Body body, const Subjects& subjects) {
  std::string names;
  auto sizes = body.initSubjectSizes(static_cast<kj::uint>(subjects.size()));
  for (kj::uint i = 0; i < sizes.size(); ++i) {
    names += subjects[i];
    sizes.set(i, static_cast<uint16_t>(subjects[i].size()));
  }
  body.setSubjects(kj::StringPtr(names.c_str()).asBytes());
  body.setSubjectCounts({static_cast<uint8_t>(subjects.size())});
}

// One byte for all entries, or the first of several.
uint8_t first_of(capnp::Data::Reader codes) {
  return codes.size() == 0 ? uint8_t{0} : codes[0];
}

}  // namespace

QuotaCaller::QuotaCaller(QuotaWorld& world, io::SimClient client) : world_(world), client_(client) {
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
  if (dice < 35) {
    reserve();
  } else if (dice < 55) {
    const bool has_id = world_.random.chance(id_share);
    consume({.subjects = draw_subjects(),
             .id = has_id ? "id" + std::to_string(++world_.ids) : std::string(),
             .tokens = 1 + world_.random.below(20)});
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

void QuotaCaller::reserve() {
  const Subjects subjects = draw_subjects();
  const bool may_wait = !is_spread(subjects) && world_.random.chance(wait_share);
  uint8_t flags = may_wait ? wire::quota_bit::may_wait : uint8_t{0};
  const bool is_bound = world_.random.chance(bound_share);
  if (is_bound) flags |= wire::quota_bit::connection_bound;
  asked_[next_id_] = {
      .is_bound = is_bound, .subjects = subjects, .id = {}, .starts = starts_of(subjects)};
  send([&](schema::ClientFrame::Builder frame) {
    auto body = frame.initReserve();
    body.setFlags(flags);
    body.setWaitLimitMs(flags & wire::quota_bit::may_wait ? 3'000 : 0);
    set_subjects(body, subjects);
  });
}

void QuotaCaller::consume(const Unanswered& what) {
  asked_[next_id_] = {.consumes = true,
                      .subjects = what.subjects,
                      .id = what.id,
                      .tokens = what.tokens,
                      .starts = starts_of(what.subjects)};
  send([&](schema::ClientFrame::Builder frame) {
    auto body = frame.initConsume();
    set_subjects(body, what.subjects);
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
  for (const auto& [id, asked] : asked_) {
    if (asked.consumes && !asked.id.empty()) {
      world_.to_repeat.push_back({asked.subjects, asked.id, asked.tokens});
    }
  }
}

void QuotaCaller::receive() {
  if (is_over_) return;
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
    const uint8_t code = first_of(answers.getCodes());
    if (code == static_cast<uint8_t>(QuotaCode::queued)) {
      ++world_.queued;
      return;
    }
    const auto reservations = answers.getReservations();
    on_outcome(asked->second, code, reservations.size() == 0 ? 0 : reservations[0]);
    asked_.erase(asked);
  } else if (frame.isGranted()) {
    ++world_.granted;
    const auto granted = frame.getGranted();
    const auto reservations = granted.getReservations();
    on_outcome(asked->second, first_of(granted.getCodes()),
               reservations.size() == 0 ? 0 : reservations[0]);
    asked_.erase(asked);
  }
}

void QuotaCaller::on_outcome(const Asked& asked, uint8_t code, uint64_t reservation) {
  const auto outcome = static_cast<QuotaCode>(code);
  if (outcome == QuotaCode::owner_unreachable) {
    ++world_.unreachable;
    if (asked.consumes && !asked.id.empty()) {
      world_.to_repeat.push_back({asked.subjects, asked.id, asked.tokens});
    }
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
