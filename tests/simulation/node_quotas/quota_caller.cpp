#include "quota_caller.hpp"

#include <capnp/serialize.h>

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
    const std::string& subject = world_.subjects[world_.random.below(world_.subjects.size())];
    const bool has_id = world_.random.chance(id_share);
    consume({.subject = subject,
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

void QuotaCaller::reserve() {
  const std::string subject = world_.subjects[world_.random.below(world_.subjects.size())];
  uint8_t flags = world_.random.chance(wait_share) ? wire::quota_bit::may_wait : uint8_t{0};
  const bool is_bound = world_.random.chance(bound_share);
  if (is_bound) flags |= wire::quota_bit::connection_bound;
  asked_[next_id_] = {
      .is_bound = is_bound, .subject = subject, .starts = world_.oracle.starts_of(subject)};
  send([&](schema::ClientFrame::Builder frame) {
    auto body = frame.initReserve();
    body.setFlags(flags);
    body.setWaitLimitMs(flags & wire::quota_bit::may_wait ? 3'000 : 0);
    body.setSubjects(kj::StringPtr(subject.c_str()).asBytes());
    body.setSubjectSizes({static_cast<uint16_t>(subject.size())});
  });
}

void QuotaCaller::consume(const Unanswered& what) {
  asked_[next_id_] = {.consumes = true,
                      .subject = what.subject,
                      .id = what.id,
                      .tokens = what.tokens,
                      .starts = world_.oracle.starts_of(what.subject)};
  send([&](schema::ClientFrame::Builder frame) {
    auto body = frame.initConsume();
    body.setSubjects(kj::StringPtr(what.subject.c_str()).asBytes());
    body.setSubjectSizes({static_cast<uint16_t>(what.subject.size())});
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
  world_.oracle.on_ending(ended.subject, ended.number);
  const bool settles = world_.random.chance(0.5);
  send([&](schema::ClientFrame::Builder frame) {
    if (settles) {
      frame.initSettle().setReservations({ended.number});
    } else {
      frame.initCancel().setReservations({ended.number});
    }
  });
}

void QuotaCaller::leave() {
  if (is_over_) return;
  forget_all();
  client_.close();
}

// What was asked for and not answered may be charged or not.
void QuotaCaller::forget_all() {
  is_over_ = true;
  for (const KnownReservation& each : bound_) world_.oracle.on_ending(each.subject, each.number);
  for (const auto& [id, asked] : asked_) {
    if (asked.consumes && !asked.id.empty()) {
      world_.to_repeat.push_back({asked.subject, asked.id, asked.tokens});
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
      world_.to_repeat.push_back({asked.subject, asked.id, asked.tokens});
    }
  }
  if (!api::admits(outcome)) return;
  if (asked.consumes) {
    return world_.oracle.on_consumed(asked.subject, asked.tokens, asked.id, asked.starts);
  }
  if (asked.starts != world_.oracle.starts_of(asked.subject)) return;
  world_.oracle.on_reserved(asked.subject, reservation, asked.starts);
  if (asked.is_bound) {
    ++world_.bound;
    bound_.push_back({asked.subject, reservation});
  } else {
    world_.open.push_back({asked.subject, reservation});
  }
}

}  // namespace sluice::simulation
