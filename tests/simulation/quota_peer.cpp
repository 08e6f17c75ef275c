#include "quota_peer.hpp"

#include <algorithm>

#include "base/limits.hpp"
#include "io/sim/sim_network.hpp"
#include "quota_frames.hpp"
#include "server/worker.hpp"

namespace sluice::simulation {
namespace {

using api::QuotaCode;

constexpr size_t calls_outstanding_max = 12;
constexpr uint64_t entries_max = 6;
constexpr uint32_t connection_bound_lifetime_ms = 2'500;  // longer than most connections live

QuotaCode code_at(schema::QuotaAnswers::Reader answers, uint32_t index) {
  const capnp::Data::Reader codes = answers.getCodes();
  return static_cast<QuotaCode>(codes.size() == 1 ? codes[0] : codes[index]);
}

}  // namespace

QuotaPeer::QuotaPeer(World& world, bool audits)
    : Peer(world, server::native_listener), books_(*world.books), audits_(audits) {
  if (!audits_) return;
  send_hello();
  ask_usage();
}

int64_t QuotaPeer::now_ns() const {
  return world_.network->clock().monotonic_ns;
}

// ------------------------------------------------------------------------------------- asking

void QuotaPeer::send_frame(const Fill& fill) {
  const uint32_t segment_words = world_.random.chance(0.1) ? 24 : 4'096;
  send(build_frame(segment_words, fill));
  asked_.at(last_id_).end = record().asked_bytes;
}

QuotaPeer::Asked& QuotaPeer::expect(Kind kind) {
  ++world_.operations;
  Asked& asked = asked_[++last_id_];
  asked.kind = kind;
  asked.asked_ns = now_ns();
  return asked;
}

void QuotaPeer::send_hello() {
  sent_hello_ = true;
  expect(Kind::hello);
  send_frame([&](schema::ClientFrame::Builder frame) {
    frame.setId(last_id_);
    auto hello = frame.initHello();
    hello.setVersion(1);
    if (world_.random.chance(0.5)) {
      hello.setWantedShard(static_cast<uint32_t>(world_.random.below(world_.ios.size() + 1)));
      record().wanted_shard = hello.getWantedShard() - 1;
    }
  });
}

void QuotaPeer::ask() {
  if (!sent_hello_) return send_hello();
  if (!welcomed_ || asked_.size() >= calls_outstanding_max) return;
  const uint64_t dice = world_.random.below(100);
  if (dice < 38) return ask_reserve();
  if (dice < 45) return ask_consume();
  if (dice < 62) return ask_settle();
  if (dice < 70) return ask_cancel();
  if (dice < 74) return ask_extend();
  if (dice < 78) return ask_record();
  if (dice < 81) return ask_check();
  if (dice < 87) return ask_usage();
  if (dice < 88) return ask_page();
  if (dice < 92) return ask_withdraw();
  if (dice < 95) return ask_ping();
  if (dice < 97) return ask_reset();
  ask_change();
}

QuotaPeer::Entry QuotaPeer::draw_entry() {
  Entry entry;
  entry.subjects = books_.draw_call();
  entry.amounts = books_.draw_amounts();
  return entry;
}

// A reserve with a client's id: a new one, or a repeat.
QuotaPeer::Entry QuotaPeer::draw_named() {
  Entry entry = draw_entry();
  NamedReserve* named = world_.random.chance(0.5) ? books_.draw_named() : nullptr;
  if (named == nullptr) named = &books_.name(entry.subjects, entry.amounts);
  entry.subjects = named->subjects;
  entry.amounts = named->amounts;
  entry.client_id = named->client_id;
  books_.ask_named(*named, now_ns());
  return entry;
}

// Of a record or consume; sometimes with an id.
QuotaPeer::Entry QuotaPeer::draw_charge(api::QuotaOp op) {
  Entry entry = draw_entry();
  if (world_.random.chance(0.3)) {
    const NamedCharge& named = books_.draw_named_charge(op, entry.is_repeat);
    entry.subjects = named.subjects;
    entry.amounts = named.amounts;
    entry.client_id = named.client_id;
  }
  entry.charge = books_.ask_charge(entry.subjects, entry.amounts);
  return entry;
}

void QuotaPeer::ask_reserve() {
  io::Random& random = world_.random;
  Asked& asked = expect(Kind::reserve);
  const bool waits = asked.waits = random.chance(0.6);
  const bool named = random.chance(0.3);
  asked.lifetime_ms = named ? named_lifetime_ms : books_.draw_lifetime_ms();
  asked.connection_bound = !named && random.chance(0.3);
  if (asked.connection_bound && random.chance(0.5))
    asked.lifetime_ms = connection_bound_lifetime_ms;
  for (uint64_t count = 1 + random.below(entries_max); count > 0; --count) {
    Entry entry = named ? draw_named() : draw_entry();
    entry.charge = books_.ask_charge(entry.subjects, entry.amounts);
    asked.entries.push_back(std::move(entry));
  }
  ReserveFrame frame{.id = last_id_, .lifetime_ms = asked.lifetime_ms};
  frame.flags = static_cast<uint8_t>((waits ? schema::QUOTA_MAY_WAIT : 0) |
                                     (asked.connection_bound ? schema::QUOTA_CONNECTION_BOUND : 0) |
                                     (random.chance(0.2) ? schema::QUOTA_WANTS_LIMITS : 0) |
                                     (random.chance(0.2) ? schema::QUOTA_WANTS_VIOLATED : 0));
  if (random.chance(0.4)) frame.wait_limit_ms = 1 + static_cast<uint32_t>(random.below(400));
  for (const Entry& entry : asked.entries) {
    frame.entries.push_back(
        {.subjects = entry.subjects, .amounts = entry.amounts, .client_id = entry.client_id});
  }
  send_frame([&](schema::ClientFrame::Builder builder) { fill_reserve(builder, frame); });
}

void QuotaPeer::ask_check() {
  Asked& asked = expect(Kind::check);
  ReserveFrame frame{.id = last_id_, .checks = true};
  for (uint64_t count = 1 + world_.random.below(entries_max); count > 0; --count) {
    asked.entries.push_back(draw_entry());
    frame.entries.push_back({.subjects = asked.entries.back().subjects,
                             .amounts = asked.entries.back().amounts,
                             .client_id = {}});
  }
  send_frame([&](schema::ClientFrame::Builder builder) { fill_reserve(builder, frame); });
}

// Reservations of any client; seldom one that does not exist.
std::vector<uint64_t> QuotaPeer::draw_reservations() {
  std::vector<uint64_t> reservations;
  for (uint64_t count = 1 + world_.random.below(4); count > 0; --count) {
    const uint64_t drawn = books_.draw_reservation();
    const bool bogus = drawn == 0 || world_.random.chance(0.02);
    reservations.push_back(bogus ? world_.random.next() : drawn);
  }
  return reservations;
}

// Mostly with the same amounts, so that repeats occur.
void QuotaPeer::ask_settle() {
  io::Random& random = world_.random;
  Asked& asked = expect(Kind::end);
  SettleFrame frame{.id = last_id_};
  for (const uint64_t reservation : draw_reservations()) {
    const uint64_t seed = random.chance(0.7) ? reservation : random.next();
    Settled settled{.reservation = reservation,
                    .requests = 1 + seed % 2,
                    .input_tokens = seed % 23,
                    .output_tokens = seed % 29};
    settled.cached = random.chance(0.2) ? settled.input_tokens / 2 : 0;
    books_.ask_end(reservation,
                   {.tokens = settled.input_tokens - settled.cached + settled.output_tokens,
                    .requests = settled.requests});
    frame.settled.push_back(settled);
    asked.entries.push_back({.subjects = {}, .client_id = {}, .reservation = reservation});
  }
  send_frame([&](schema::ClientFrame::Builder builder) { fill_settle(builder, frame); });
}

void QuotaPeer::ask_cancel() {
  Asked& asked = expect(Kind::end);
  const bool keeps = world_.random.chance(0.3);
  const std::vector<uint64_t> reservations = draw_reservations();
  for (const uint64_t reservation : reservations) {
    const Charge* charge = books_.find(reservation);
    const uint64_t requests = keeps && charge != nullptr ? charge->reserved.requests : 0;
    books_.ask_end(reservation, {.tokens = 0, .requests = requests});
    asked.entries.push_back({.subjects = {}, .client_id = {}, .reservation = reservation});
  }
  send_frame([&](schema::ClientFrame::Builder frame) {
    frame.setId(last_id_);
    auto cancel = frame.initCancel();
    cancel.setFlags(keeps ? schema::QUOTA_KEEP_REQUESTS : 0);
    fill_numbers(cancel.initReservations(static_cast<uint32_t>(reservations.size())), reservations);
  });
}

void QuotaPeer::ask_extend() {
  Asked& asked = expect(Kind::extend);
  const std::vector<uint64_t> reservations = draw_reservations();
  const uint32_t lifetime_ms = books_.draw_lifetime_ms();
  for (const uint64_t reservation : reservations) {
    asked.entries.push_back({.subjects = {}, .client_id = {}, .reservation = reservation});
    // A shorter lifetime may end the reservation sooner than the first one.
    if (Charge* charge = books_.find(reservation)) charge->open_until_ns = 0;
  }
  send_frame([&](schema::ClientFrame::Builder frame) {
    frame.setId(last_id_);
    auto extend = frame.initExtend();
    extend.setLifetimeMs(lifetime_ms);
    fill_numbers(extend.initReservations(static_cast<uint32_t>(reservations.size())), reservations);
  });
}

void QuotaPeer::ask_record() {
  Asked& asked = expect(Kind::record);
  ReserveFrame frame{.id = last_id_};
  for (uint64_t count = 1 + world_.random.below(entries_max); count > 0; --count) {
    Entry entry = draw_charge(api::QuotaOp::record);
    frame.entries.push_back(
        {.subjects = entry.subjects, .amounts = entry.amounts, .client_id = entry.client_id});
    asked.entries.push_back(std::move(entry));
  }
  send_frame([&](schema::ClientFrame::Builder builder) { fill_record(builder, frame); });
}

void QuotaPeer::ask_consume() {
  io::Random& random = world_.random;
  Asked& asked = expect(Kind::consume);
  ReserveFrame frame{.id = last_id_};
  asked.waits = random.chance(0.5);
  frame.flags = static_cast<uint8_t>((asked.waits ? schema::QUOTA_MAY_WAIT : 0) |
                                     (random.chance(0.2) ? schema::QUOTA_WANTS_LIMITS : 0) |
                                     (random.chance(0.2) ? schema::QUOTA_WANTS_VIOLATED : 0));
  if (random.chance(0.4)) frame.wait_limit_ms = 1 + static_cast<uint32_t>(random.below(400));
  for (uint64_t count = 1 + random.below(entries_max); count > 0; --count) {
    Entry entry = draw_charge(api::QuotaOp::consume);
    frame.entries.push_back(
        {.subjects = entry.subjects, .amounts = entry.amounts, .client_id = entry.client_id});
    asked.entries.push_back(std::move(entry));
  }
  send_frame([&](schema::ClientFrame::Builder builder) { fill_consume(builder, frame); });
}

void QuotaPeer::ask_usage() {
  Asked& asked = expect(Kind::usage);
  std::vector<std::string> subjects = {books_.draw_subject()};
  if (audits_) subjects = books_.subjects();
  for (const std::string& subject : subjects) asked.questions.push_back(books_.ask_usage(subject));
  send_frame([&](schema::ClientFrame::Builder frame) {
    frame.setId(last_id_);
    auto usage = frame.initUsage();
    fill_names(usage, subjects);
  });
}

void QuotaPeer::ask_page() {
  expect(Kind::page);
  send_frame([&](schema::ClientFrame::Builder frame) {
    frame.setId(last_id_);
    frame.initUsage().setLimit(static_cast<uint32_t>(world_.random.below(8)));
  });
}

// Puts a quota, or removes it again.
void QuotaPeer::ask_change() {
  if (!books_.changes()) return ask_ping();
  expect(Kind::change);
  const std::string& subject = books_.draw_subject();
  send_frame([&](schema::ClientFrame::Builder frame) {
    frame.setId(last_id_);
    auto change = frame.initQuota();
    change.setSubject(data_of(subject));
    if (world_.random.chance(0.4)) {
      change.setRemove(true);
    } else {
      fill_quota(change.initQuota(), books_.changed_quota(subject));
    }
  });
}

void QuotaPeer::ask_reset() {
  if (!books_.resets()) return ask_ping();
  expect(Kind::change);
  const bool all = world_.random.chance(0.3);
  const std::string& subject = books_.draw_subject();
  send_frame([&](schema::ClientFrame::Builder frame) {
    frame.setId(last_id_);
    auto reset = frame.initReset();
    reset.setAll(all);
    if (!all) reset.setSubject(data_of(subject));
  });
}

// Withdraws a frame that waits, or some of its entries; or a frame that does not exist.
void QuotaPeer::ask_withdraw() {
  uint64_t target = world_.random.next();
  std::vector<uint32_t> entries;
  for (const auto& [id, asked] : asked_) {
    const bool may_wait = asked.kind == Kind::reserve || asked.kind == Kind::consume;
    if (!may_wait || !world_.random.chance(0.5)) continue;
    target = id;
    for (const uint32_t entry : asked.waiting) {
      if (world_.random.chance(0.5)) entries.push_back(entry);
    }
    break;
  }
  expect(Kind::withdraw);
  send_frame([&](schema::ClientFrame::Builder frame) {
    frame.setId(last_id_);
    auto withdraw = frame.initWithdraw();
    withdraw.setTarget(target);
    fill_numbers(withdraw.initEntries(static_cast<uint32_t>(entries.size())), entries);
  });
}

void QuotaPeer::ask_ping() {
  expect(Kind::ping);
  send_frame([&](schema::ClientFrame::Builder frame) {
    frame.setId(last_id_);
    frame.setPing();
  });
}

// ------------------------------------------------------------------------------------ answers

void QuotaPeer::take_answers() {
  while (!over() && take_frame(inbox_, [&](auto frame) { on_frame(frame); })) {
  }
}

QuotaPeer::Asked* QuotaPeer::find(uint64_t id) {
  const auto found = asked_.find(id);
  if (found != asked_.end()) return &found->second;
  fail("got an answer that it did not ask for, to frame " + std::to_string(id));
  return nullptr;
}

void QuotaPeer::on_frame(schema::ServerFrame::Reader frame) {
  const uint64_t id = frame.getId();
  switch (frame.which()) {
    case schema::ServerFrame::WELCOME:
      welcomed_ = true;
      record().was_welcomed = true;
      asked_.erase(id);
      return;
    case schema::ServerFrame::QUOTA_ANSWERS:
      return on_answers(id, frame.getQuotaAnswers());
    case schema::ServerFrame::GRANTED:
      return on_granted(id, frame.getGranted());
    case schema::ServerFrame::USAGE_REPLY:
      return on_usage(id, frame.getUsageReply());
    case schema::ServerFrame::DONE:
    case schema::ServerFrame::PONG:
      if (const Asked* asked = find(id)) {
        const bool fits = asked->kind == Kind::withdraw || asked->kind == Kind::ping;
        if (!fits) return fail("got Done or Pong for something else");
        asked_.erase(id);
      }
      return;
    case schema::ServerFrame::ERROR:
      return on_error(frame.getError());
    case schema::ServerFrame::GO_AWAY:
      return take_go_away();
    default:
      fail("got a frame of a kind that it cannot get");
  }
}

void QuotaPeer::on_answers(uint64_t id, schema::QuotaAnswers::Reader answers) {
  Asked* asked = find(id);
  if (asked == nullptr) return;
  if (asked->answered) return fail("was answered twice");
  asked->answered = true;
  const auto count = static_cast<uint32_t>(asked->entries.size());
  if (asked->kind != Kind::change && answers.getCount() != count) {
    return fail("got too few or too many answers");
  }
  if (asked->kind == Kind::change) note_undurable(code_at(answers, 0));
  for (uint32_t index = 0; index < count && !over(); ++index) {
    const QuotaCode code = code_at(answers, index);
    const Entry& entry = asked->entries[index];
    const bool is_drained = code == QuotaCode::draining;
    if (is_drained && !may_be_drained(*asked)) return fail("was refused because of no drain");
    if (asked->kind == Kind::reserve) {
      const auto reservations = answers.getReservations();
      on_reserved(*asked, index, code, index < reservations.size() ? reservations[index] : 0);
    } else if (asked->kind == Kind::consume) {
      on_consumed(*asked, index, code);
    } else if (asked->kind == Kind::end && code == QuotaCode::ok) {
      books_.ended(entry.reservation, now_ns());
    } else if (asked->kind == Kind::record && code == QuotaCode::ok) {
      on_charged(entry);
    } else if (asked->kind == Kind::record && !api::admits(code)) {
      books_.denied(*entry.charge);
    }
  }
  if (asked->waiting.empty()) asked_.erase(id);
}

void QuotaPeer::note_undurable(QuotaCode code) {
  if (code != QuotaCode::not_durable && code != QuotaCode::memory_only) return;
  if (!world_.keeps_state) return fail("got an answer about a state that nobody keeps");
  world_.count(code == QuotaCode::not_durable ? StateEvent::not_durable : StateEvent::memory_only);
}

// Behind GoAway its own shard refuses every reserve. Others that drain refuse those that would
// wait.
bool QuotaPeer::may_be_drained(const Asked& asked) const {
  if (asked.kind != Kind::reserve && asked.kind != Kind::consume) return false;
  return got_go_away() || (asked.waits && drains_anywhere());
}

// At once, or after a wait.
void QuotaPeer::on_consumed(Asked& asked, uint32_t index, QuotaCode code) {
  const Entry& entry = asked.entries[index];
  if (code == QuotaCode::queued) {
    asked.waiting.insert(index);
  } else if (code == QuotaCode::ok) {
    on_charged(entry);
  } else if (!api::admits(code)) {
    books_.denied(*entry.charge);
  }
}

// A repeat is charged only if the server has forgotten its id, or denied it before.
void QuotaPeer::on_charged(const Entry& entry) {
  if (!entry.is_repeat) books_.recorded(*entry.charge);
}

void QuotaPeer::on_reserved(Asked& asked, uint32_t index, QuotaCode code, uint64_t reservation) {
  const Entry& entry = asked.entries[index];
  if (code == QuotaCode::queued) {
    asked.waiting.insert(index);
  } else if (api::admits(code)) {
    on_admitted(asked, entry, reservation);
  } else {
    if (reservation != 0) return fail("was denied, and got a reservation");
    on_denied(asked, entry);
  }
}

void QuotaPeer::on_admitted(const Asked& asked, const Entry& entry, uint64_t reservation) {
  if (reservation == 0) return fail("was admitted without a reservation");
  const ChargePtr charge = books_.admitted(entry.charge, reservation, asked.asked_ns, now_ns(),
                                           asked.lifetime_ms, asked.connection_bound);
  if (entry.client_id.empty()) return;
  books_.admitted_named(entry.client_id, charge, asked.asked_ns, now_ns());
}

void QuotaPeer::on_granted(uint64_t id, schema::Granted::Reader granted) {
  Asked* asked = find(id);
  if (asked == nullptr) return;
  if (!asked->answered) return fail("got a grant before the answers");
  const auto entries = granted.getEntries();
  const capnp::Data::Reader codes = granted.getCodes();
  const auto reservations = granted.getReservations();
  for (uint32_t i = 0; i < entries.size() && !over(); ++i) {
    if (asked->waiting.erase(entries[i]) == 0) return fail("got a grant for no waiting entry");
    const auto code = static_cast<api::QuotaCode>(codes[codes.size() == 1 ? 0 : i]);
    const uint64_t reservation = i < reservations.size() ? reservations[i] : 0;
    const Entry& entry = asked->entries[entries[i]];
    if (code == QuotaCode::draining && !drains_anywhere())
      return fail("waited, and no drain ended it");
    if (asked->kind == Kind::consume) {
      on_consumed(*asked, entries[i], code);
    } else if (api::admits(code)) {
      on_admitted(*asked, entry, reservation);
    } else if (reservation != 0) {
      fail("was not granted anything, and got a reservation");
    } else {
      on_denied(*asked, entry);
    }
  }
  if (asked->waiting.empty()) asked_.erase(id);
}

void QuotaPeer::on_denied(const Asked& asked, const Entry& entry) {
  books_.denied(*entry.charge);
  if (!entry.client_id.empty()) books_.denied_named(entry.client_id, asked.asked_ns);
}

void QuotaPeer::on_usage(uint64_t id, schema::UsageReply::Reader reported) {
  Asked* asked = find(id);
  if (asked == nullptr) return;
  const schema::LimitStates::Reader limits = reported.getLimits();
  const capnp::Data::Reader names = limits.getNames();
  size_t offset = 0;
  for (uint32_t row = 0; row < limits.getNameSizes().size() && asked->kind == Kind::usage; ++row) {
    const uint8_t size = limits.getNameSizes()[row];
    const std::string name(reinterpret_cast<const char*>(names.begin()) + offset, size);
    offset += size;
    books_.check_usage(*asked->questions[limits.getEntries()[row]], name, limits.getUsed()[row]);
    if (audits_ && (name == "slots" ? limits.getUsed() : limits.getReserved())[row] != 0) {
      fail("finds " + name + " of " + asked->questions[limits.getEntries()[row]]->subject +
           " held at the end");
    }
  }
  for (const uint32_t open : reported.getOpenReservations()) {
    if (audits_ && open != 0) fail("finds a reservation open at the end");
  }
  for (const uint32_t waiting : reported.getWaiting()) {
    if (audits_ && waiting != 0) fail("finds a waiter at the end");
  }
  for (const QuestionPtr& question : asked->questions) books_.forget(question);
  asked_.erase(id);
}

void QuotaPeer::on_error(schema::Error::Reader error) {
  const auto code = static_cast<ErrorCode>(error.getCode());
  if (!take_ending_error(code)) fail("got error " + std::string(error_name(code)));
}

uint64_t QuotaPeer::undecided_end() const {
  const auto first =
      std::ranges::find_if(asked_, [](const auto& one) { return !one.second.answered; });
  return first == asked_.end() ? no_offset : first->second.end;
}

void QuotaPeer::check_graceful_end() {
  const bool waits =
      std::ranges::any_of(asked_, [](const auto& one) { return one.second.answered; });
  const uint64_t answered_until = answered_until_end(waits);
  if (waits && !was_ended_for(why::peer_left | why::header_timeout)) {
    return fail("ended while it waited");
  }
  for (const auto& [id, asked] : asked_) {
    if (asked.end > answered_until || asked.answered) continue;
    return fail("ended with frame " + std::to_string(id) + " unanswered");
  }
}

}  // namespace sluice::simulation
