#include "state_client.hpp"

#include "base/error_code.hpp"
#include "server/worker.hpp"

namespace sluice::simulation {
namespace {

using api::QuotaCode;

constexpr size_t frames_outstanding_max = 8;
constexpr uint64_t client_ids_count = 40;

QuotaCode code_at(schema::QuotaAnswers::Reader answers, uint32_t index) {
  const capnp::Data::Reader codes = answers.getCodes();
  return static_cast<QuotaCode>(codes.size() == 1 ? codes[0] : codes[index]);
}

}  // namespace

StateClient::StateClient(StateWorld& world, io::SimIo& io)
    : world_(world), client_(io.connect(server::native_listener)) {
  send_hello();
}

// Where one call of a frame may be of several shards, all its calls are decided with that.
void StateClient::note_busy(Asked& asked, const std::vector<std::string>& subjects) {
  asked.busy.insert(asked.busy.end(), subjects.begin(), subjects.end());
  asked.may_be_spread = asked.may_be_spread || subjects.size() > 1;
}

void StateClient::add_busy(std::set<std::string>& names) const {
  for (const auto& [id, asked] : asked_) {
    if (asked.may_be_spread) names.insert(asked.busy.begin(), asked.busy.end());
  }
}

void StateClient::send(const Fill& fill) {
  ++world_.calls;
  client_.write(build_frame(4'096, fill));
}

void StateClient::send_hello() {
  expect();
  send([&](schema::ClientFrame::Builder frame) {
    frame.setId(last_id_);
    frame.initHello().setVersion(1);
  });
}

void StateClient::act() {
  io::Random& random = world_.random;
  if (over_ || !is_welcome_ || asked_.size() >= frames_outstanding_max) return;
  if (random.chance(0.005)) {
    client_.close();
    over_ = true;
    return;
  }
  const uint64_t dice = random.below(100);
  if (dice < 45) return ask_reserve();
  if (dice < 60) return ask_charge();
  if (dice < 92) return ask_end();
  if (dice < 99) return ask_change();
  ask_reset();
}

ReserveEntry StateClient::draw_entry(Asked& asked) {
  io::Random& random = world_.random;
  ReserveEntry entry{.subjects = world_.books.draw_call(),
                     .amounts = {.requests = random.below(3),
                                 .input_tokens = random.below(40),
                                 .output_tokens = random.below(40)},
                     .client_id = {}};
  if (random.chance(0.2)) entry.client_id = "id " + std::to_string(random.below(client_ids_count));
  note_busy(asked, entry.subjects);
  return entry;
}

void StateClient::ask_reserve() {
  io::Random& random = world_.random;
  Asked& asked = expect();
  ReserveFrame frame{.id = last_id_};
  frame.lifetime_ms = static_cast<uint32_t>(random.chance(0.5) ? random.between(10, 500)
                                                               : random.between(1'000, 600'000));
  frame.flags = random.chance(0.2) ? schema::QUOTA_CONNECTION_BOUND : uint8_t{0};
  for (uint64_t count = 1 + random.below(4); count > 0; --count) {
    frame.entries.push_back(draw_entry(asked));
    asked.reserved.push_back(frame.entries.back().subjects);
  }
  send([&](schema::ClientFrame::Builder builder) { fill_reserve(builder, frame); });
}

void StateClient::ask_charge() {
  Asked& asked = expect();
  ReserveFrame frame{.id = last_id_};
  for (uint64_t count = 1 + world_.random.below(4); count > 0; --count) {
    frame.entries.push_back(draw_entry(asked));
  }
  const bool records = world_.random.chance(0.5);
  send([&](schema::ClientFrame::Builder builder) {
    records ? fill_record(builder, frame) : fill_consume(builder, frame);
  });
}

void StateClient::ask_end() {
  io::Random& random = world_.random;
  const uint64_t reservation = world_.books.draw_reservation();
  if (reservation == 0) return;
  note_busy(expect(), world_.books.subjects_of(reservation));
  if (random.chance(0.6)) {
    SettleFrame frame{.id = last_id_,
                      .settled = {{.reservation = reservation,
                                   .requests = 1,
                                   .input_tokens = random.below(60),
                                   .output_tokens = random.below(60)}}};
    return send([&](schema::ClientFrame::Builder builder) { fill_settle(builder, frame); });
  }
  const std::vector<uint64_t> ids{reservation};
  const bool extends = random.chance(0.4);
  send([&](schema::ClientFrame::Builder frame) {
    frame.setId(last_id_);
    if (extends) {
      frame.initExtend().setLifetimeMs(static_cast<uint32_t>(random.between(10, 600'000)));
      fill_numbers(frame.getExtend().initReservations(1), ids);
    } else {
      fill_numbers(frame.initCancel().initReservations(1), ids);
    }
  });
}

void StateClient::ask_change() {
  Asked& asked = expect();
  asked.changed = world_.books.draw_subject();
  QuotaHistory& history = world_.books.history(asked.changed);
  const bool removes = world_.random.chance(0.4);
  const api::Quota quota = removes ? api::Quota{} : world_.books.draw_quota();
  asked.change = history.asked(removes ? StateBooks::first_mark : StateBooks::mark_of(quota));
  send([&](schema::ClientFrame::Builder frame) {
    frame.setId(last_id_);
    auto change = frame.initQuota();
    change.setSubject(data_of(asked.changed));
    if (removes) {
      change.setRemove(true);
    } else {
      fill_quota(change.initQuota(), quota);
    }
  });
}

void StateClient::ask_reset() {
  expect();
  const bool all = world_.random.chance(0.3);
  const std::string& subject = world_.books.draw_subject();
  send([&](schema::ClientFrame::Builder frame) {
    frame.setId(last_id_);
    auto reset = frame.initReset();
    reset.setAll(all);
    if (!all) reset.setSubject(data_of(subject));
  });
}

void StateClient::receive() {
  if (over_) return;
  over_ = client_.refused() || client_.was_reset();
  if (over_) return;
  client_.read(inbox_, SIZE_MAX);
  while (take_frame(inbox_, [&](auto frame) { on_frame(frame); })) {
  }
  if (!client_.end_of_stream()) return;
  world_.failure.report("a connection was ended for no reason");
}

void StateClient::on_frame(schema::ServerFrame::Reader frame) {
  const auto found = asked_.find(frame.getId());
  if (found == asked_.end()) {
    return world_.failure.report("got frame " + std::to_string(frame.getId()) + " of kind " +
                                 std::to_string(frame.which()) + ", and asked for nothing");
  }
  switch (frame.which()) {
    case schema::ServerFrame::WELCOME:
      is_welcome_ = true;
      break;
    case schema::ServerFrame::QUOTA_ANSWERS:
      on_answers(found->second, frame.getQuotaAnswers());
      break;
    default:
      return world_.failure.report("got a frame of kind " + std::to_string(frame.which()));
  }
  asked_.erase(found);
}

void StateClient::on_answers(const Asked& asked, schema::QuotaAnswers::Reader answers) {
  if (!asked.changed.empty()) return on_changed(asked, code_at(answers, 0));
  const auto reservations = answers.getReservations();
  for (uint32_t index = 0; index < asked.reserved.size(); ++index) {
    if (!api::admits(code_at(answers, index))) continue;
    world_.books.reserved(reservations[index], asked.reserved[index]);
  }
}

void StateClient::on_changed(const Asked& asked, QuotaCode code) {
  QuotaHistory& history = world_.books.history(asked.changed);
  switch (code) {
    case QuotaCode::ok:
    case QuotaCode::no_such_quota:
      return history.done(asked.change);
    case QuotaCode::not_durable:
      ++world_.events[static_cast<uint32_t>(StateEvent::not_durable)];
      return history.refused(asked.change);
    case QuotaCode::memory_only:
      ++world_.events[static_cast<uint32_t>(StateEvent::memory_only)];
      return history.half_done(asked.change);
    default:
      world_.failure.report("a change of a quota was answered " +
                            std::string(api::code_name(code)));
  }
}

}  // namespace sluice::simulation
