#include "quota_talk.hpp"

#include <span>

#include "wire/capnp_codec_quota.hpp"

namespace sluice::simulation {

using api::QuotaCode;
using api::QuotaOp;

namespace {

// One byte for all calls, or one for each.
std::vector<QuotaOutcome> outcomes_of(capnp::Data::Reader codes,
                                      capnp::List<uint64_t>::Reader reservations, uint32_t count) {
  std::vector<QuotaOutcome> outcomes(count);
  for (uint32_t call = 0; call < count; ++call) {
    outcomes[call].code = static_cast<QuotaCode>(codes[codes.size() == 1 ? 0 : call]);
    if (call < reservations.size()) outcomes[call].reservation = reservations[call];
  }
  return outcomes;
}

void fill(schema::ClientFrame::Builder frame, const QuotaQuestion& question, uint64_t number) {
  const bool may_wait = question.wait_limit_ms > 0;
  const ReserveFrame asked{
      .id = number,
      .entries = question.calls,
      .flags = static_cast<uint8_t>((may_wait ? wire::quota_bit::may_wait : 0) |
                                    (question.is_bound ? wire::quota_bit::connection_bound : 0)),
      .wait_limit_ms = question.wait_limit_ms,
      .lifetime_ms = question.lifetime_ms,
      .checks = question.op == QuotaOp::check};
  switch (question.op) {
    case QuotaOp::record:
      return fill_record(frame, asked);
    case QuotaOp::consume:
      return fill_consume(frame, asked);
    case QuotaOp::settle:
      return fill_settle(frame, {.id = number,
                                 .settled = {{.reservation = question.reservation,
                                              .requests = 1,
                                              .input_tokens = question.settled_tokens}}});
    case QuotaOp::cancel:
      frame.setId(number);
      return frame.initCancel().setReservations({question.reservation});
    case QuotaOp::extend: {
      frame.setId(number);
      auto extend = frame.initExtend();
      extend.setReservations({question.reservation});
      return extend.setLifetimeMs(question.lifetime_ms);
    }
    default:
      return fill_reserve(frame, asked);
  }
}

}  // namespace

void QuotaTalk::read() {
  client_.read(inbox_);
  while (take_answer()) {
  }
}

NativeQuotaTalk::NativeQuotaTalk(io::SimClient client, QuotaListener& listener)
    : QuotaTalk(client, listener) {
  send([](schema::ClientFrame::Builder frame) { frame.initHello().setVersion(1); });
}

void NativeQuotaTalk::send(const Fill& fill) {
  ++last_number_;
  client_.write(build_frame(1'024, fill));
}

uint64_t NativeQuotaTalk::ask(const QuotaQuestion& question) {
  send([&](schema::ClientFrame::Builder frame) { fill(frame, question, last_number_); });
  return last_number_;
}

void NativeQuotaTalk::ask_usage(const std::vector<std::string>& subjects) {
  send([&](schema::ClientFrame::Builder frame) {
    frame.setId(last_number_);
    fill_names(frame.initUsage(), subjects);
  });
}

bool NativeQuotaTalk::take_answer() {
  return take_frame(inbox_, [this](schema::ServerFrame::Reader frame) { on_frame(frame); });
}

void NativeQuotaTalk::on_frame(schema::ServerFrame::Reader frame) {
  if (frame.isError()) return listener_.on_error(frame.getError().getText().cStr());
  if (frame.isUsageReply()) return on_usage(frame.getUsageReply());
  std::vector<QuotaOutcome> outcomes;
  if (frame.isQuotaAnswers()) {
    const auto answers = frame.getQuotaAnswers();
    outcomes = outcomes_of(answers.getCodes(), answers.getReservations(), answers.getCount());
  } else if (frame.isGranted()) {
    const auto granted = frame.getGranted();
    outcomes = outcomes_of(granted.getCodes(), granted.getReservations(), 1);
  } else {
    return;
  }
  if (outcomes.front().code == QuotaCode::queued) return listener_.on_queued(frame.getId());
  listener_.on_answered(frame.getId(), outcomes);
}

void NativeQuotaTalk::on_usage(schema::UsageReply::Reader reply) {
  const auto sizes = reply.getNameSizes();
  std::string_view names(reinterpret_cast<const char*>(reply.getNames().begin()),
                         reply.getNames().size());
  std::vector<SubjectUsage> all(sizes.size());
  for (uint32_t row = 0; row < sizes.size(); ++row) {
    all[row] = {.name = std::string(names.substr(0, sizes[row])),
                .open_reservations = reply.getOpenReservations()[row],
                .waiting = reply.getWaiting()[row]};
    names.remove_prefix(sizes[row]);
  }
  const auto limits = reply.getLimits();
  for (uint32_t limit = 0; limit < limits.getEntries().size(); ++limit) {
    if (limits.getKinds()[limit] == static_cast<uint8_t>(api::LimitKind::concurrency)) continue;
    SubjectUsage& usage = all[limits.getEntries()[limit]];
    usage.used = limits.getUsed()[limit];
    usage.reserved = limits.getReserved()[limit];
  }
  for (const SubjectUsage& usage : all) listener_.on_usage(usage);
}

}  // namespace sluice::simulation
