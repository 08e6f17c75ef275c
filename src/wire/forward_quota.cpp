#include "wire/forward_quota.hpp"

#include <sluicegate.capnp.h>

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "base/assert.hpp"
#include "base/limits.hpp"
#include "policy/quota_text.hpp"
#include "wire/frame_message.hpp"
#include "wire/quota_visit.hpp"

namespace sluice::wire {
namespace {

using api::QuotaBatch;
using api::QuotaCall;
using api::QuotaOp;
using Operation = schema::QuotaOperation;

struct OperationRow {
  QuotaOp op;
  Operation operation;
};
constexpr std::array operations{
    OperationRow{QuotaOp::reserve, Operation::RESERVE},
    OperationRow{QuotaOp::check, Operation::CHECK},
    OperationRow{QuotaOp::settle, Operation::SETTLE},
    OperationRow{QuotaOp::cancel, Operation::CANCEL},
    OperationRow{QuotaOp::extend, Operation::EXTEND},
    OperationRow{QuotaOp::record, Operation::RECORD},
    OperationRow{QuotaOp::consume, Operation::CONSUME},
    OperationRow{QuotaOp::show, Operation::SHOW},
    OperationRow{QuotaOp::usage, Operation::USAGE},
    OperationRow{QuotaOp::put, Operation::PUT},
    OperationRow{QuotaOp::remove, Operation::REMOVE},
    OperationRow{QuotaOp::position, Operation::POSITION},
    OperationRow{QuotaOp::holders, Operation::HOLDERS},
    OperationRow{QuotaOp::reset, Operation::RESET},
    OperationRow{QuotaOp::end_binding, Operation::END_BINDING},
    OperationRow{QuotaOp::end_part, Operation::END_PART},
    OperationRow{QuotaOp::extend_part, Operation::EXTEND_PART},
    OperationRow{QuotaOp::expire_part, Operation::EXPIRE_PART},
    OperationRow{QuotaOp::part_fits, Operation::PART_FITS},
    OperationRow{QuotaOp::part_is_out, Operation::PART_IS_OUT},
    OperationRow{QuotaOp::leave_node, Operation::LEAVE_NODE},
};

// A flag of a call, and of which operation. Some bits of api::quota_flag have several meanings.
struct FlagRow {
  uint8_t in_call;
  uint8_t in_frame;
  std::optional<QuotaOp> only_of = std::nullopt;
};
constexpr std::array flags{
    FlagRow{api::quota_flag::may_wait, call_bit::may_wait},
    FlagRow{api::quota_flag::waiters_full, call_bit::waiters_full},
    FlagRow{api::quota_flag::connection_waiters_full, call_bit::connection_waiters_full},
    FlagRow{api::quota_flag::wants_limits, call_bit::wants_limits},
    FlagRow{api::quota_flag::wants_violated, call_bit::wants_violated},
    FlagRow{api::quota_flag::keep_requests, call_bit::keep_requests, QuotaOp::cancel},
    FlagRow{api::quota_flag::undelivered, call_bit::undelivered, QuotaOp::cancel},
    FlagRow{api::quota_flag::cancels, call_bit::cancels, QuotaOp::end_part},
    FlagRow{api::quota_flag::handed_over, call_bit::handed_over, QuotaOp::put},
};

uint8_t frame_flags(const QuotaCall& call) noexcept {
  uint8_t bits = 0;
  for (const FlagRow& row : flags) {
    const bool is_of_it = !row.only_of || *row.only_of == call.op;
    if (is_of_it && (call.flags & row.in_call) != 0) bits |= row.in_frame;
  }
  return bits;
}

uint8_t call_flags(uint8_t bits, QuotaOp op) noexcept {
  uint8_t of_call = 0;
  for (const FlagRow& row : flags) {
    const bool is_of_it = !row.only_of || *row.only_of == op;
    if (is_of_it && (bits & row.in_frame) != 0) of_call |= row.in_call;
  }
  return of_call;
}

kj::ArrayPtr<const kj::byte> bytes_of(std::string_view text) noexcept {
  return {reinterpret_cast<const kj::byte*>(text.data()), text.size()};
}

std::string_view view(capnp::Data::Reader data) noexcept {
  return {reinterpret_cast<const char*>(data.begin()), data.size()};
}

size_t list_bytes(size_t bytes) noexcept {
  return (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
}

std::string quota_text(const QuotaBatch& batch, size_t index) {
  if (batch.calls[index].op != QuotaOp::put) return {};
  return policy::quota_json(batch.new_quotas[index]).dump();
}

// ------------------------------------------------------------------------------------ writing

void fill_call(schema::QuotaCall::Builder to, const QuotaBatch& batch, size_t index) {
  const QuotaCall& call = batch.calls[index];
  const auto row = std::ranges::find(operations, call.op, &OperationRow::op);
  ASSERT(row != operations.end());
  const bool wants_outcome =
      index < batch.wait_answers.size() && batch.wait_answers[index] != nullptr;
  to.setOperation(row->operation);
  to.setFlags(frame_flags(call) | (wants_outcome ? call_bit::wants_outcome : 0));
  to.setGiven(call.given_bits);
  to.setPlace(call.place);
  to.setLifetimeMs(call.lifetime_ms);
  to.setWaitLimitMs(call.wait_ms_max);
  to.setRows(call.limit);
  to.setRequests(call.amounts.requests);
  to.setInputTokens(call.amounts.input_tokens);
  to.setCachedInputTokens(call.cached_input_tokens);
  to.setOutputTokens(call.amounts.output_tokens);
  to.setCost(call.amounts.cost);
  to.setReservation(call.reservation);
  to.setBinding(call.binding);
  to.setCursor(call.cursor);
  to.setHomeShard(call.home_shard);
  if (api::concerns_waiter(call.op)) to.setWaiter(call.waiter);
  to.setArrivalNs(static_cast<uint64_t>(call.arrival_ns));
  auto names = to.initSubjects(call.subjects_count);
  for (uint32_t i = 0; i < call.subjects_count; ++i) {
    names.set(i, bytes_of(batch.subjects[call.first_subject + i]));
  }
  if (!call.client_id.empty()) to.setClientId(bytes_of(call.client_id));
  if (!call.owner.empty()) to.setOwner(bytes_of(call.owner));
  if (call.op == QuotaOp::put) to.setQuota(quota_text(batch, index));
}

// ------------------------------------------------------------------------------------ reading

// Of a part: what is left of one.
bool is_lifetime(const QuotaCall& call) noexcept {
  const uint32_t least = api::concerns_part(call.op) ? 0 : limits::lifetime_ms_min;
  return call.lifetime_ms == 0 ||
         (call.lifetime_ms >= least && call.lifetime_ms <= limits::lifetime_ms_max);
}

bool is_within_bounds(const QuotaCall& call) noexcept {
  const uint64_t most = std::max({call.amounts.requests, call.amounts.input_tokens,
                                  call.amounts.output_tokens, call.amounts.cost});
  constexpr uint8_t given_bits = api::given::requests | api::given::input_tokens |
                                 api::given::output_tokens | api::given::cost;
  const bool is_end = call.op == QuotaOp::settle || call.op == QuotaOp::end_part;
  const bool has_cached = call.cached_input_tokens > 0 && !is_end;
  return most <= limits::amount_max && call.cached_input_tokens <= limits::amount_max &&
         !(has_cached && call.cached_input_tokens > call.amounts.input_tokens) &&
         call.given_bits <= given_bits && is_lifetime(call) &&
         call.wait_ms_max <= limits::wait_ms_max &&
         call.client_id.size() <= limits::client_id_bytes_max &&
         call.owner.size() <= limits::client_id_bytes_max &&
         (call.binding == 0 || (call.binding & binding_of_node) != 0);
}

bool names_its_subjects(const QuotaCall& call) noexcept {
  const bool names_none = api::names_reservation(call.op) || call.op == QuotaOp::end_binding ||
                          api::concerns_part(call.op) || api::concerns_waiter(call.op);
  if (names_none) return call.subjects_count == 0 && call.place < limits::call_subjects_max;
  return call.place < std::max<uint8_t>(call.subjects_count, 1);
}

// One whose time zones are missing here is a quota all the same: the store refuses it.
bool read_quota(schema::QuotaCall::Reader from, const QuotaCall& call, QuotaBatch& batch) {
  if (call.op != QuotaOp::put) return true;
  const auto text = from.getQuota();
  policy::ParsedQuota parsed = policy::parse_quota({text.begin(), text.size()}, policy::Form::sent);
  if (!parsed.is_json || !parsed.complaints.empty()) return false;
  batch.new_quotas.resize(batch.calls.size());
  batch.new_quotas.back() = std::move(parsed.quota);
  return true;
}

bool read_call(schema::QuotaCall::Reader from, QuotaBatch& batch) {
  const auto row = std::ranges::find(operations, from.getOperation(), &OperationRow::operation);
  const auto names = from.getSubjects();
  if (row == operations.end() || names.size() > UINT8_MAX) return false;
  const QuotaCall& call = batch.calls.emplace_back(
      QuotaCall{.op = row->op,
                .flags = call_flags(from.getFlags(), row->op),
                .given_bits = from.getGiven(),
                .subjects_count = static_cast<uint8_t>(names.size()),
                .place = from.getPlace(),
                .shard = from.getHomeShard(),
                .first_subject = static_cast<uint32_t>(batch.subjects.size()),
                .lifetime_ms = from.getLifetimeMs(),
                .wait_ms_max = from.getWaitLimitMs(),
                .limit = from.getRows(),
                .waiter = api::concerns_waiter(row->op) ? from.getWaiter() : api::no_waiter,
                .amounts = {.requests = from.getRequests(),
                            .input_tokens = from.getInputTokens(),
                            .output_tokens = from.getOutputTokens(),
                            .cost = from.getCost()},
                .cached_input_tokens = from.getCachedInputTokens(),
                .reservation = from.getReservation(),
                .binding = from.getBinding(),
                .cursor = from.getCursor(),
                .arrival_ns = static_cast<int64_t>(from.getArrivalNs()),
                .client_id = view(from.getClientId()),
                .owner = view(from.getOwner())});
  for (const auto name : names) batch.subjects.push_back(view(name));
  return is_within_bounds(call) && names_its_subjects(call) && read_quota(from, call, batch);
}

}  // namespace

bool may_forward(QuotaOp op) noexcept {
  return std::ranges::find(operations, op, &OperationRow::op) != operations.end();
}

size_t forwarded_call_bytes(const QuotaBatch& batch, size_t index) {
  const QuotaCall& call = batch.calls[index];
  constexpr size_t struct_bytes = (capnp::_::structSize<schema::QuotaCall>().data +
                                   capnp::_::structSize<schema::QuotaCall>().pointers) *
                                  sizeof(uint64_t);
  size_t bytes = struct_bytes + list_bytes(call.client_id.size()) + list_bytes(call.owner.size());
  for (const std::string_view name :
       std::span(batch.subjects).subspan(call.first_subject, call.subjects_count)) {
    bytes += sizeof(uint64_t) + list_bytes(name.size());
  }
  return call.op == QuotaOp::put ? bytes + list_bytes(quota_text(batch, index).size() + 1) : bytes;
}

size_t forward_quota_bytes(const QuotaBatch& batch) {
  size_t bytes = forward_quota_head_bytes;
  if (batch.visit.is_set()) bytes += visit_bytes(batch.calls.size());
  for (size_t index = 0; index < batch.calls.size(); ++index) {
    bytes += forwarded_call_bytes(batch, index);
  }
  return bytes;
}

FrameWords encode_forward_quota(uint64_t id, uint64_t sender, const QuotaBatch& batch) {
  const size_t bytes = forward_quota_bytes(batch);
  capnp::MallocMessageBuilder message(static_cast<kj::uint>(bytes / sizeof(uint64_t) + 1));
  auto root = message.initRoot<schema::ClientFrame>();
  root.setId(id);
  auto body = root.initForwardQuota();
  body.setSender(sender);
  if (batch.visit.is_set()) fill_visit(body.initVisit(), batch);
  if (!batch.calls.empty()) {
    auto calls = body.initCalls(static_cast<kj::uint>(batch.calls.size()));
    for (size_t index = 0; index < batch.calls.size(); ++index) {
      fill_call(calls[static_cast<kj::uint>(index)], batch, index);
    }
  }
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(message);
  FrameWords frame(words.size());
  std::memcpy(frame.data(), words.begin(), words.size() * sizeof(uint64_t));
  return frame;
}

bool read_calls(const ForwardQuotaRequest& request, QuotaBatch& batch,
                std::vector<bool>& wants_outcome) noexcept {
  try {
    FrameMessage message(request.frame);
    const auto body = message.root<schema::ClientFrame>().getForwardQuota();
    const auto calls = body.getCalls();
    if (calls.size() > forwarded_calls_max) return false;
    for (const auto call : calls) {
      if (!read_call(call, batch)) return false;
      wants_outcome.push_back((call.getFlags() & call_bit::wants_outcome) != 0);
    }
    if (!batch.new_quotas.empty()) batch.new_quotas.resize(batch.calls.size());
    if (body.hasVisit() && !read_visit(body.getVisit(), batch)) return false;
  } catch (...) {
    return false;
  }
  return true;
}

}  // namespace sluice::wire
