// Goal: a frame is decoded to exactly the values that an independent implementation encoded, or
//       refused with the right error and id; nothing is read outside of it.
// Method: every client golden file is decoded, its end at a guard page, and compared to its JSON;
//       random mutations of them must be decoded or refused under ASan and UBSan.
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <numeric>
#include <random>

#include "base/limits.hpp"
#include "policy/quota_text.hpp"
#include "tests/support/golden_files.hpp"
#include "tests/support/guarded_buffer.hpp"
#include "wire/capnp_codec.hpp"
#include "wire/forward_quota.hpp"
#include "wire/frame_reader.hpp"
#include "wire/standard_frame.hpp"

namespace sluice::wire {
namespace {

using nlohmann::json;
using Outcome = tl::expected<ClientRequest, DecodeError>;

// Does what a session does with bytes: cuts a frame, then decodes it.
Outcome decode_bytes(std::span<const std::byte> bytes) {
  const auto cut = read_frame(bytes, limits::frame_bytes_max);
  if (const auto* malformed = std::get_if<base::Malformed>(&cut)) {
    return tl::make_unexpected(DecodeError{malformed->code, 0});
  }
  const auto* complete = std::get_if<base::Complete<Frame>>(&cut);
  if (complete == nullptr) return tl::make_unexpected(DecodeError{ErrorCode::none, 0});
  return decode(complete->value);
}

// ------------------------------------------------------------- requests in the JSON of `capnp`

json bytes_json(std::string_view bytes) {
  json numbers = json::array();
  for (const char byte : bytes) numbers.push_back(static_cast<uint8_t>(byte));
  return numbers;
}

template <typename T>
void add_column(json& body, const char* name, Column<T> column) {
  if (column.empty()) return;
  json numbers = json::array();
  for (const T number : column) {
    if constexpr (sizeof(T) == 8)
      numbers.push_back(std::to_string(number));
    else
      numbers.push_back(number);
  }
  body[name] = numbers;
}

void add_bytes(json& body, const char* name, std::string_view bytes) {
  if (!bytes.empty()) body[name] = bytes_json(bytes);
}

json terms_json(const AcquireCommon& terms) {
  json body{{"details", terms.detail_bits},
            {"flags", terms.all_may_wait() ? 1 : 0},
            {"waitLimitMs", terms.wait_limit_ms}};
  add_column(body, "costs", terms.costs);
  add_column(body, "maxRequests", terms.max_requests);
  add_column(body, "maxRequestsInQueue", terms.max_requests_in_queue);
  add_column(body, "entryFlags", terms.entry_flags);
  add_column(body, "windowMs", terms.window_ms);
  return body;
}

void add_subjects(json& body, const EntrySubjects& entries) {
  add_bytes(body, "subjects", entries.subjects);
  add_column(body, "subjectSizes", entries.subject_sizes);
  add_column(body, "subjectCounts", entries.subject_counts);
}

void add_amounts(json& body, const EntryAmounts& amounts, const char* output = "outputTokens") {
  add_column(body, "requests", amounts.requests);
  add_column(body, "inputTokens", amounts.input_tokens);
  add_column(body, "cachedInputTokens", amounts.cached_input_tokens);
  add_column(body, output, amounts.output_tokens);
  add_column(body, "costs", amounts.costs);
}

void add_ids(json& body, const EntryIds& entries) {
  add_bytes(body, "ids", entries.ids);
  add_column(body, "idSizes", entries.id_sizes);
}

json reserve_json(const ReserveRequest& reserve) {
  json body{{"flags", reserve.flags},
            {"waitLimitMs", reserve.wait_limit_ms},
            {"lifetimeMs", reserve.lifetime_ms}};
  add_subjects(body, reserve);
  add_amounts(body, reserve, "maxOutputTokens");
  add_ids(body, reserve);
  if (!reserve.owner.empty()) body["owner"] = reserve.owner;
  return body;
}

// The schema's word for one of our numbers; the names differ only in their case.
std::string camel_case(std::string_view name) {
  std::string camel;
  for (size_t index = 0; index < name.size(); ++index) {
    const bool begins_word = name[index] == '_';
    if (begins_word) ++index;
    camel += begins_word ? static_cast<char>(std::toupper(name[index])) : name[index];
  }
  return camel;
}

json quota_json(const api::Quota& quota) {
  json body{{"refundExpired", quota.refund_expired}, {"overtakersMax", quota.overtakers_max}};
  for (const api::Limit& limit : quota.limits) {
    const char* const ceilings[] = {"number", "unlimited", "block"};
    json reported{{"name", limit.name},
                  {"metric", camel_case(metric_name(limit.metric))},
                  {"kind", camel_case(kind_name(limit.kind))},
                  {"ceiling", ceilings[static_cast<size_t>(limit.ceiling)]},
                  {"unit", unit_name(limit.unit)},
                  {"amount", std::to_string(limit.amount)},
                  {"periodMs", std::to_string(limit.period_ms)},
                  {"countCached", limit.count_cached}};
    if (!limit.time_zone.empty()) reported["timeZone"] = limit.time_zone;
    body["limits"].push_back(reported);
  }
  return body;
}

json call_json(const api::QuotaBatch& batch, const api::QuotaCall& call) {
  const auto index = static_cast<size_t>(&call - batch.calls.data());
  const char* const ops[] = {"reserve", "check",   "settle", "cancel", "extend",
                             "record",  "consume", "show",   "usage",  "put"};
  json body{{"operation", ops[static_cast<size_t>(call.op)]},
            {"flags", call.flags},  // those of the golden files have the same numbers here
            {"given", call.given_bits},
            {"place", call.place},
            {"lifetimeMs", call.lifetime_ms},
            {"waitLimitMs", call.wait_ms_max},
            {"rows", call.limit},
            {"requests", std::to_string(call.amounts.requests)},
            {"inputTokens", std::to_string(call.amounts.input_tokens)},
            {"cachedInputTokens", std::to_string(call.cached_input_tokens)},
            {"outputTokens", std::to_string(call.amounts.output_tokens)},
            {"cost", std::to_string(call.amounts.cost)},
            {"reservation", std::to_string(call.reservation)},
            {"binding", std::to_string(call.binding)},
            {"cursor", std::to_string(call.cursor)},
            {"homeShard", call.shard},
            {"waiter", call.waiter == api::no_waiter ? 0 : call.waiter},
            {"arrivalNs", std::to_string(call.arrival_ns)}};
  for (uint32_t i = 0; i < call.subjects_count; ++i) {
    body["subjects"].push_back(bytes_json(batch.subjects[call.first_subject + i]));
  }
  add_bytes(body, "clientId", call.client_id);
  add_bytes(body, "owner", call.owner);
  if (call.op == api::QuotaOp::put) {
    body["quota"] = policy::quota_json(batch.new_quotas.at(index)).dump();
  }
  return body;
}

struct ToJson {
  json operator()(const UnsupportedRequest&) const { return {{"unsupported", nullptr}}; }
  json operator()(const PingRequest&) const { return {{"ping", nullptr}}; }
  json operator()(const TopologyRequest&) const { return {{"topology", nullptr}}; }
  json operator()(const HelloRequest& hello) const {
    json body{{"version", hello.version}, {"wantedShard", hello.wanted_shard_plus_one}};
    if (!hello.client_name.empty()) body["clientName"] = hello.client_name;
    if (!hello.token.empty()) body["token"] = hello.token;
    return {{"hello", body}};
  }
  json operator()(const AcquireRequest& acquire) const {
    json body = terms_json(acquire);
    add_bytes(body, "keys", acquire.keys);
    add_column(body, "keySizes", acquire.key_sizes);
    return {{"acquire", body}};
  }
  json operator()(const ForwardRequest& forward) const {
    json body = (*this)(static_cast<const AcquireRequest&>(forward)).at("acquire");
    add_column(body, "operations", forward.operations);
    add_column(body, "waitLimitsMs", forward.wait_limits_ms);
    add_column(body, "entryDetails", forward.entry_details);
    return {{"forward", body}};
  }
  json operator()(const RefundRequest& refund) const {
    json body{{"target", std::to_string(refund.target)}};
    add_bytes(body, "permits", refund.permits);
    add_bytes(body, "keys", refund.keys);
    add_column(body, "keySizes", refund.key_sizes);
    add_column(body, "costs", refund.costs);
    return {{"refund", body}};
  }
  json operator()(const AcquireByHandleRequest& acquire) const {
    json body = terms_json(acquire);
    add_column(body, "handles", acquire.handles);
    return {{"acquireByHandle", body}};
  }
  json operator()(const InternRequest& intern) const {
    json body = json::object();
    add_bytes(body, "keys", intern.keys);
    add_column(body, "keySizes", intern.key_sizes);
    return {{"intern", body}};
  }
  json operator()(const ForgetRequest& forget) const {
    json body = json::object();
    add_column(body, "handles", forget.handles);
    return {{"forget", body}};
  }
  json operator()(const ReleaseRequest& release) const {
    json body = json::object();
    add_bytes(body, "keys", release.keys);
    add_column(body, "keySizes", release.key_sizes);
    add_column(body, "costs", release.costs);
    return {{"release", body}};
  }
  json operator()(const WithdrawRequest& withdraw) const {
    json body{{"target", std::to_string(withdraw.target)}};
    add_column(body, "entries", withdraw.entries);
    return {{"withdraw", body}};
  }
  json operator()(const InspectRequest& inspect) const {
    json body{{"cursor", std::to_string(inspect.cursor)}, {"limit", inspect.limit}};
    add_bytes(body, "key", inspect.key);
    return {{"inspect", body}};
  }
  json operator()(const ReserveRequest& reserve) const {
    return {{"reserve", reserve_json(reserve)}};
  }
  json operator()(const CheckRequest& check) const { return {{"check", reserve_json(check)}}; }
  json operator()(const SettleRequest& settle) const {
    json body{{"flags", settle.flags}};
    add_column(body, "reservations", settle.reservations);
    add_amounts(body, settle);
    return {{"settle", body}};
  }
  json operator()(const CancelRequest& cancel) const {
    json body{{"flags", cancel.flags}};
    add_column(body, "reservations", cancel.reservations);
    return {{"cancel", body}};
  }
  json operator()(const ExtendRequest& extend) const {
    json body{{"flags", extend.flags}, {"lifetimeMs", extend.lifetime_ms}};
    add_column(body, "reservations", extend.reservations);
    return {{"extend", body}};
  }
  json operator()(const RecordRequest& record) const {
    json body{{"flags", record.flags}};
    add_subjects(body, record);
    add_amounts(body, record);
    add_ids(body, record);
    return {{"record", body}};
  }
  json operator()(const ConsumeRequest& consume) const {
    json body{{"flags", consume.flags}, {"waitLimitMs", consume.wait_limit_ms}};
    add_subjects(body, consume);
    add_amounts(body, consume);
    add_ids(body, consume);
    return {{"consume", body}};
  }
  json operator()(const UsageRequest& usage) const {
    json body{{"cursor", std::to_string(usage.cursor)}, {"limit", usage.limit}};
    add_bytes(body, "subjects", usage.subjects);
    add_column(body, "subjectSizes", usage.subject_sizes);
    return {{"usage", body}};
  }
  json operator()(const QuotaChangeRequest& change) const {
    json body{{"remove", change.remove}};
    add_bytes(body, "subject", change.subject);
    if (change.remove) return {{"quota", body}};
    const auto quota = quota_of(change);
    body["quota"] = quota ? quota_json(*quota) : json(nullptr);
    return {{"quota", body}};
  }
  json operator()(const ForwardQuotaRequest& forward) const {
    api::QuotaBatch batch;
    std::vector<bool> wants_outcome;
    EXPECT_TRUE(read_calls(forward, batch, wants_outcome));
    json body{{"sender", std::to_string(forward.sender)}};
    for (const api::QuotaCall& call : batch.calls) body["calls"].push_back(call_json(batch, call));
    return {{"forwardQuota", body}};
  }
  json operator()(const ResetRequest& reset) const {
    json body{{"all", reset.subject.empty()}};
    add_bytes(body, "subject", reset.subject);
    return {{"reset", body}};
  }
};

json to_json(const ClientRequest& request) {
  json message = std::visit(ToJson{}, request.body);
  message["id"] = std::to_string(request.id);
  return message;
}

// Removes the parts of a golden message that decoding leaves out on purpose: fields of newer
// versions, the reserved frame flag, and columns without elements, which count as
// absent.
json as_decoded(json message) {
  message.erase("traceId");
  for (auto& [kind, body] : message.items()) {
    if (!body.is_object()) continue;
    for (const char* ignored : {"locale", "build", "colours", "hurry"}) {
      body.erase(ignored);
    }
    if (kind.starts_with("acquire")) body["flags"] = body["flags"].get<int>() & 1;
    for (auto field = body.begin(); field != body.end();) {
      field = field->is_array() && field->empty() ? body.erase(field) : std::next(field);
    }
  }
  return message;
}

TEST(CapnpCodecDecode, reads_every_valid_golden_frame) {
  size_t read_count = 0;
  for (const test::Golden& golden : test::golden_frames("ClientFrame")) {
    if (golden.is_refused()) continue;
    ++read_count;
    test::GuardedBuffer buffer(golden.bytes().size());
    const Outcome outcome = decode_bytes(buffer.place(golden.bytes()));
    ASSERT_TRUE(outcome) << golden.name << ": " << error_name(outcome.error().code);
    EXPECT_EQ(to_json(*outcome), as_decoded(golden.json.at("message"))) << golden.name;
  }
  EXPECT_GE(read_count, 45u);
}

TEST(CapnpCodecDecode, refuses_every_invalid_golden_frame_with_its_error_and_id) {
  size_t refused_count = 0;
  for (const test::Golden& golden : test::golden_frames("ClientFrame")) {
    if (!golden.is_refused() || golden.error() == "unsupported") continue;
    ++refused_count;
    test::GuardedBuffer buffer(golden.bytes().size());
    const Outcome outcome = decode_bytes(buffer.place(golden.bytes()));
    ASSERT_FALSE(outcome) << golden.name;
    EXPECT_EQ(error_name(outcome.error().code), golden.error()) << golden.name;
    EXPECT_EQ(std::to_string(outcome.error().id), golden.json.at("id")) << golden.name;
  }
  EXPECT_GE(refused_count, 90u);
}

TEST(CapnpCodecDecode, returns_the_id_of_an_unknown_kind) {
  size_t unsupported_count = 0;
  for (const test::Golden& golden : test::golden_frames("ClientFrame")) {
    if (!golden.is_refused() || golden.error() != "unsupported") continue;
    ++unsupported_count;
    const Outcome outcome = decode_bytes(golden.bytes());
    ASSERT_TRUE(outcome) << golden.name;
    EXPECT_TRUE(std::holds_alternative<UnsupportedRequest>(outcome->body)) << golden.name;
    EXPECT_EQ(std::to_string(outcome->id), golden.json.at("id")) << golden.name;
  }
  EXPECT_GE(unsupported_count, 3u);
}

TEST(CapnpCodecDecode, reports_every_error_code_that_it_can_cause) {
  std::vector<std::string> seen;
  for (const test::Golden& golden : test::golden_frames("ClientFrame")) {
    if (golden.is_refused()) seen.push_back(golden.error());
  }
  for (const char* name :
       {"malformed", "frameTooLarge", "unsupported", "badColumns", "badCost", "tooManyEntries",
        "badOverride", "badWaitLimit", "badFlag", "badAmount", "badLifetime", "badSubject"}) {
    EXPECT_NE(std::find(seen.begin(), seen.end(), name), seen.end()) << name;
  }
}

TEST(CapnpCodecDecode, returns_columns_in_place) {
  const test::Golden& golden = test::golden_frame("ClientFrame", "acquire_columns");
  const Outcome outcome = decode_bytes(golden.bytes());
  const auto& acquire = std::get<AcquireRequest>(outcome->body);
  const auto lies_inside = [&](const void* address) {
    const auto* byte = static_cast<const std::byte*>(address);
    return byte >= golden.bytes().data() && byte < golden.bytes().data() + golden.bytes().size();
  };
  EXPECT_TRUE(lies_inside(acquire.keys.data()));
  EXPECT_TRUE(lies_inside(acquire.key_sizes.data()));
  EXPECT_TRUE(lies_inside(acquire.costs.data()));
  EXPECT_TRUE(lies_inside(acquire.max_requests.data()));
  EXPECT_TRUE(lies_inside(acquire.max_requests_in_queue.data()));
  EXPECT_TRUE(lies_inside(acquire.entry_flags.data()));
  EXPECT_TRUE(lies_inside(acquire.window_ms.data()));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(acquire.costs.data()) % 8, 0u);
}

// -------------------------------------------------------------- the fast path and the library

json outcome_json(const Outcome& outcome) {
  if (outcome) return to_json(*outcome);
  return {{"error", error_name(outcome.error().code)}, {"id", outcome.error().id}};
}

TEST(CapnpCodecDecode, reads_golden_frames_as_the_library_does) {
  for (const test::Golden& golden : test::golden_frames("ClientFrame")) {
    const auto cut = read_frame(golden.bytes(), limits::frame_bytes_max);
    const auto* complete = std::get_if<base::Complete<Frame>>(&cut);
    if (complete == nullptr) continue;
    EXPECT_EQ(outcome_json(decode(complete->value)),
              outcome_json(decode_with_library(complete->value)))
        << golden.name;
  }
}

// ------------------------------------------------------------------------------------ mutations

uint64_t random_seed() {
  const char* given = std::getenv("SEED");
  return given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

// Reads everything that a request points to, so that a sanitizer can check it.
struct Touch {
  template <typename T>
  static uint64_t sum(const T& values) {
    return std::accumulate(values.begin(), values.end(), uint64_t{0});
  }
  uint64_t operator()(const UnsupportedRequest&) const { return 0; }
  uint64_t operator()(const PingRequest&) const { return 0; }
  uint64_t operator()(const TopologyRequest&) const { return 0; }
  uint64_t operator()(const HelloRequest& hello) const {
    return sum(hello.client_name) + sum(hello.token);
  }
  uint64_t operator()(const InspectRequest& inspect) const { return sum(inspect.key); }
  uint64_t operator()(const WithdrawRequest& withdraw) const { return sum(withdraw.entries); }
  uint64_t operator()(const ReleaseRequest& release) const {
    return sum(release.keys) + sum(release.key_sizes) + sum(release.costs);
  }
  uint64_t operator()(const AcquireRequest& acquire) const {
    return sum(acquire.keys) + sum(acquire.key_sizes) + terms(acquire);
  }
  uint64_t operator()(const ForwardRequest& forward) const {
    return (*this)(static_cast<const AcquireRequest&>(forward)) + sum(forward.operations) +
           sum(forward.wait_limits_ms) + sum(forward.entry_details);
  }
  uint64_t operator()(const RefundRequest& refund) const {
    return sum(refund.permits) + sum(refund.keys) + sum(refund.key_sizes) + sum(refund.costs);
  }
  uint64_t operator()(const AcquireByHandleRequest& acquire) const {
    return sum(acquire.handles) + terms(acquire);
  }
  uint64_t operator()(const InternRequest& intern) const {
    return sum(intern.keys) + sum(intern.key_sizes);
  }
  uint64_t operator()(const ForgetRequest& forget) const { return sum(forget.handles); }
  uint64_t operator()(const ReserveRequest& reserve) const {
    return subjects(reserve) + amounts(reserve) + ids(reserve) + sum(reserve.owner);
  }
  uint64_t operator()(const SettleRequest& settle) const {
    return sum(settle.reservations) + amounts(settle);
  }
  uint64_t operator()(const CancelRequest& cancel) const { return sum(cancel.reservations); }
  uint64_t operator()(const ExtendRequest& extend) const { return sum(extend.reservations); }
  uint64_t operator()(const RecordRequest& record) const {
    return subjects(record) + amounts(record) + ids(record);
  }
  uint64_t operator()(const ConsumeRequest& consume) const {
    return subjects(consume) + amounts(consume) + ids(consume);
  }
  uint64_t operator()(const UsageRequest& usage) const {
    return sum(usage.subjects) + sum(usage.subject_sizes);
  }
  uint64_t operator()(const QuotaChangeRequest& change) const {
    return sum(change.subject) +
           (change.remove || !quota_of(change) ? 0 : quota_of(change)->limits.size());
  }
  uint64_t operator()(const ResetRequest& reset) const { return sum(reset.subject); }
  uint64_t operator()(const ForwardQuotaRequest& forward) const {
    api::QuotaBatch batch;
    std::vector<bool> wants_outcome;
    if (!read_calls(forward, batch, wants_outcome)) return forward.sender;
    uint64_t total = forward.sender;
    for (const std::string_view name : batch.subjects) total += sum(name);
    for (const api::QuotaCall& call : batch.calls) total += sum(call.client_id) + sum(call.owner);
    return total;
  }
  static uint64_t subjects(const EntrySubjects& entries) {
    return sum(entries.subjects) + sum(entries.subject_sizes) + sum(entries.subject_counts);
  }
  static uint64_t ids(const EntryIds& entries) { return sum(entries.ids) + sum(entries.id_sizes); }
  static uint64_t amounts(const EntryAmounts& amounts) {
    return sum(amounts.requests) + sum(amounts.input_tokens) + sum(amounts.cached_input_tokens) +
           sum(amounts.output_tokens) + sum(amounts.costs);
  }
  static uint64_t terms(const AcquireCommon& terms) {
    return sum(terms.costs) + sum(terms.max_requests) + sum(terms.max_requests_in_queue) +
           sum(terms.entry_flags) + sum(terms.window_ms);
  }
};

void mutate(std::vector<uint64_t>& words, std::mt19937_64& random) {
  const size_t changes = 1 + random() % 4;
  for (size_t change = 0; change < changes; ++change) {
    uint64_t& word = words[random() % words.size()];
    switch (random() % 5) {
      case 0:
        word ^= uint64_t{1} << random() % 64;
        break;
      case 1:
        word = words[random() % words.size()];
        break;  // a pointer to another place
      case 2:
        word += 4 * (random() % 17) - 32;
        break;  // a pointer's offset moves
      case 3:
        word ^= (random() & 0xFF) << 8 * (random() % 8);
        break;
      case 4:
        word = random();
        break;
    }
  }
}

// Whether the fast path recognises the frame.
bool is_standard(std::span<const std::byte> bytes) {
  const auto cut = read_frame(bytes, limits::frame_bytes_max);
  const auto* complete = std::get_if<base::Complete<Frame>>(&cut);
  return complete != nullptr && complete->consumed_bytes == bytes.size() &&
         read_standard_frame(complete->value);
}

TEST(CapnpCodecDecode, decodes_or_refuses_any_mutation) {
  const uint64_t seed = random_seed();
  SCOPED_TRACE("SEED=" + std::to_string(seed) + " replays");
  std::mt19937_64 random(seed);
  size_t decoded_count = 0, refused_count = 0, standard_count = 0;
  uint64_t touched = 0;
  for (const test::Golden& golden : test::golden_frames("ClientFrame")) {
    if (golden.bytes().size() > 4'096) continue;
    test::GuardedBuffer buffer(golden.bytes().size());
    for (int round = 0; round < 300; ++round) {
      std::vector<uint64_t> words(golden.bytes().size() / 8);
      std::memcpy(words.data(), golden.bytes().data(), golden.bytes().size());
      mutate(words, random);
      const auto bytes = buffer.place(std::as_bytes(std::span(words)));
      const Outcome outcome = decode_bytes(bytes);
      outcome ? ++decoded_count : ++refused_count;
      if (is_standard(bytes)) {
        ++standard_count;
        ASSERT_EQ(outcome_json(outcome), outcome_json(decode_with_library(bytes))) << golden.name;
      }
      if (outcome) touched += std::visit(Touch{}, outcome->body);
    }
  }
  EXPECT_GT(decoded_count, 1'000u) << touched;
  EXPECT_GT(refused_count, 1'000u);
  EXPECT_GT(standard_count, 300u);
}

}  // namespace
}  // namespace sluice::wire
