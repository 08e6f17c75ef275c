// Goal: answers are byte for byte those of the library's own builder, within the bounds that
//       callers reserve.
// Method: every server golden file is read from its JSON, encoded and compared; random answers are
//       decoded by the library and compared to the originals.
#include <capnp/schema.h>
#include <capnp/serialize.h>
#include <gtest/gtest.h>
#include <sluicegate.capnp.h>

#include <rapidcheck.h>

#include <cctype>

#include "base/limits.hpp"
#include "tests/support/golden_files.hpp"
#include "tests/support/guarded_buffer.hpp"
#include "wire/capnp_codec.hpp"

namespace sluice::wire {
namespace {

using nlohmann::json;

// An output buffer full of old bytes, as a connection's is, that ends at a guard page.
class Output {
 public:
  explicit Output(size_t bytes_max) : buffer_(bytes_max), out_(buffer_.last(bytes_max)) {
    std::memset(out_.data(), 0xA5, out_.size());
  }
  std::span<std::byte> span() const { return out_; }

 private:
  test::GuardedBuffer buffer_;
  std::span<std::byte> out_;
};

// --------------------------------------------------------------- answers from the JSON of `capnp`

uint64_t u64(const json& number) {
  return std::stoull(number.get<std::string>());
}

std::string bytes_of(const json& numbers) {
  std::string bytes;
  for (const json& number : numbers) bytes.push_back(static_cast<char>(number.get<uint8_t>()));
  return bytes;
}

template <typename Code>
std::vector<Code> codes_of(const json& body, const char* column, size_t count) {
  std::vector<Code> codes;
  if (!body.contains(column)) return codes;
  for (const char byte : bytes_of(body[column])) codes.push_back(static_cast<Code>(byte));
  if (codes.size() == 1) codes.resize(count, codes.front());
  return codes;
}

std::vector<api::Verdict> verdicts_of(const json& body, size_t count) {
  return codes_of<api::Verdict>(body, "verdicts", count);
}

struct DetailColumns {
  std::vector<api::Detail> details;
  uint8_t bits = 0;
};

DetailColumns details_of(const json& body, size_t count) {
  DetailColumns columns{.details = std::vector<api::Detail>(count)};
  if (!body.contains("details")) return columns;
  for (const auto& [name, column] : body["details"].items()) {
    for (size_t index = 0; index < count; ++index) {
      api::Detail& detail = columns.details[index];
      const json& number = column[index];
      if (name == "limit") detail.limit = number, columns.bits |= detail_bit::limit;
      if (name == "remaining") detail.remaining = number, columns.bits |= detail_bit::remaining;
      if (name == "windowMs") detail.window_ms = u64(number), columns.bits |= detail_bit::window;
      if (name == "resetMs") detail.reset_ms = u64(number), columns.bits |= detail_bit::reset;
      if (name == "retryAfterMs")
        detail.retry_after_ms = u64(number), columns.bits |= detail_bit::retry;
      if (name == "position") detail.position = number, columns.bits |= detail_bit::position;
      if (name == "requestId") {
        detail.request_id = u64(number), columns.bits |= detail_bit::request_id;
      }
    }
  }
  return columns;
}

std::vector<uint32_t> entries_of(const json& granted) {
  return granted["entries"];
}

std::vector<Permit> permits_of(const json& granted) {
  if (!granted.contains("permits")) return {};
  const std::string bytes = bytes_of(granted["permits"]);
  std::vector<Permit> permits;
  for (size_t index = 0; index < permits_count(bytes); ++index) {
    // Read and written again, as by the server that grants them.
    const PermitClaim claim = claim_of(nth_permit(bytes, index));
    permits.push_back(permit_of(claim.claim, claim.shard));
  }
  return permits;
}

Topology topology_of(const json& body) {
  Topology topology{.list_digest = u64(body.value("listDigest", json("0"))),
                    .own_node = body.value("ownNode", uint16_t{0}),
                    .nodes = {}};
  const std::string hosts = body.contains("hosts") ? bytes_of(body["hosts"]) : "";
  size_t begin = 0;
  for (size_t node = 0; node < body["hostSizes"].size(); ++node) {
    const size_t bytes = body["hostSizes"][node];
    topology.nodes.push_back({.host = hosts.substr(begin, bytes),
                              .rest_port = body["restPorts"][node],
                              .state = {.native_port = body["nativePorts"][node],
                                        .shards = body["shards"][node],
                                        .routing_seed = u64(body["routingSeeds"][node]),
                                        .instance_id = u64(body["instanceIds"][node])}});
    begin += bytes;
  }
  return topology;
}

std::vector<uint64_t> numbers_of(const json& body, const char* name) {
  std::vector<uint64_t> numbers;
  if (!body.contains(name)) return numbers;
  for (const json& number : body[name]) {
    numbers.push_back(number.is_string()
                          ? static_cast<uint64_t>(std::stoll(number.get<std::string>()))
                          : number.get<uint64_t>());
  }
  return numbers;
}

// Reads the answers, or rows, and their limits from columns.
template <typename Holder>
std::vector<api::LimitReport> limits_of(const json& states, std::span<Holder> holders) {
  std::vector<api::LimitReport> reports;
  const std::string names = states.contains("names") ? bytes_of(states["names"]) : "";
  size_t at = 0;
  const auto entries = numbers_of(states, "entries");
  const auto number = [&](const char* name) { return numbers_of(states, name)[reports.size()]; };
  for (const uint64_t entry : entries) {
    Holder& holder = holders[entry];
    if (holder.limits_count++ == 0) holder.first_limit = static_cast<uint32_t>(reports.size());
    api::LimitReport report{.subject = static_cast<uint8_t>(number("subjects")),
                            .violated = number("violated") == 1,
                            .metric = static_cast<api::Metric>(number("metrics")),
                            .kind = static_cast<api::LimitKind>(number("kinds")),
                            .ceiling = static_cast<api::Ceiling>(number("ceilings")),
                            .name_bytes = static_cast<uint8_t>(number("nameSizes")),
                            .amount = number("amounts"),
                            .used = number("used"),
                            .reserved = number("reserved"),
                            .remaining = number("remaining"),
                            .period_ms = static_cast<int64_t>(number("periodMs")),
                            .reset_ms = static_cast<int64_t>(number("resetMs"))};
    names.copy(report.name, report.name_bytes, at);
    at += report.name_bytes;
    reports.push_back(report);
  }
  return reports;
}

// One of our numbers from the schema's word; the names differ only in their case.
template <typename Value>
Value named(const json& word, std::string_view (*name)(Value) noexcept) {
  std::string snake;
  for (const char letter : word.get<std::string>()) {
    if (std::isupper(static_cast<unsigned char>(letter)) != 0) snake += '_';
    snake += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  for (uint8_t number = 0; number < 10; ++number) {
    if (name(static_cast<Value>(number)) == snake) return static_cast<Value>(number);
  }
  throw std::runtime_error("no value named " + snake);
}

api::Quota quota_from(const json& body) {
  api::Quota quota{.refund_expired = body["refundExpired"],
                   .overtakers_max = body["overtakersMax"]};
  if (body.contains("profile")) quota.profile = body["profile"];
  if (!body.contains("limits")) return quota;
  for (const json& limit : body["limits"]) {
    quota.limits.push_back(
        {.name = limit["name"],
         .metric = named(limit["metric"], api::metric_name),
         .kind = named(limit["kind"], api::kind_name),
         .ceiling = limit["ceiling"] == "block" ? api::Ceiling::block : api::Ceiling::number,
         .amount = u64(limit["amount"]),
         .period_ms = static_cast<int64_t>(u64(limit["periodMs"])),
         .unit = named(limit["unit"], api::unit_name),
         .time_zone = limit.value("timeZone", ""),
         .count_cached = limit["countCached"]});
  }
  return quota;
}

std::vector<api::QuotaAnswer> quota_answers_of(const json& body) {
  std::vector<api::QuotaAnswer> answers(body["count"].get<size_t>());
  const auto codes = numbers_of(body, "codes");
  const auto reservations = numbers_of(body, "reservations");
  const auto retries = numbers_of(body, "retryAfterMs");
  for (size_t index = 0; index < answers.size(); ++index) {
    answers[index].code = static_cast<api::QuotaCode>(codes[codes.size() == 1 ? 0 : index]);
    if (!reservations.empty()) answers[index].reservation = reservations[index];
    if (!retries.empty()) answers[index].retry_after_ms = static_cast<int64_t>(retries[index]);
  }
  return answers;
}

// One answer with all rows, as a page has.
api::QuotaBatch usage_of(const json& body) {
  api::QuotaBatch batch;
  if (body.contains("names")) batch.answer_text = bytes_of(body["names"]);
  uint32_t at = 0;
  for (const uint64_t size : numbers_of(body, "nameSizes")) {
    const size_t index = batch.rows.size();
    const auto number = [&](const char* name) { return numbers_of(body, name)[index]; };
    batch.rows.push_back({.name_begin = at,
                          .name_bytes = static_cast<uint32_t>(size),
                          .source = static_cast<api::QuotaSource>(number("sources")),
                          .quota = static_cast<uint32_t>(index),
                          .open_reservations = static_cast<uint32_t>(number("openReservations")),
                          .waiting = static_cast<uint32_t>(number("waiting"))});
    batch.quotas.push_back(quota_from(body["quotas"][index]));
    at += static_cast<uint32_t>(size);
  }
  if (body.contains("limits")) {
    batch.limits = limits_of(body["limits"], std::span(batch.rows));
  }
  batch.answers.push_back(
      {.rows_count = static_cast<uint32_t>(batch.rows.size()), .next_cursor = u64(body["cursor"])});
  return batch;
}

struct KeyStates {
  std::string keys;
  std::vector<api::KeyState> states;

  explicit KeyStates(const json& body) {
    if (!body.contains("keys")) return;
    keys = bytes_of(body["keys"]);
    size_t offset = 0;
    for (size_t index = 0; index < body["keySizes"].size(); ++index) {
      const size_t size = body["keySizes"][index];
      states.push_back({.key = std::string_view(keys).substr(offset, size),
                        .window_ms = static_cast<int64_t>(u64(body["windowMs"][index])),
                        .reset_ms = static_cast<int64_t>(u64(body["resetMs"][index])),
                        .max_requests = body["maxRequests"][index],
                        .max_requests_in_queue = body["maxRequestsInQueue"][index],
                        .approved = body["approved"][index],
                        .denied = body["denied"][index],
                        .waiting = body["waiting"][index]});
      offset += size;
    }
  }
};

ErrorCode error_named(const std::string& name) {
  for (uint8_t number = 0;; ++number) {
    const auto code = static_cast<ErrorCode>(number);
    if (error_name(code) == name) return code;
    if (number == 0xFF) throw std::runtime_error("no error named " + name);
  }
}

// The answer of `message`, encoded into exactly as much room as its bound.
std::string encoded(const json& message) {
  const uint64_t id = u64(message.at("id"));
  std::string kind;
  for (const auto& [name, body] : message.items()) {
    if (name != "id") kind = name;
  }
  const json& body = message.at(kind);

  const auto write = [](size_t bytes_max, auto encode) {
    const Output output(bytes_max);
    const size_t bytes = encode(output.span());
    return std::string(reinterpret_cast<const char*>(output.span().data()), bytes);
  };
  using Out = std::span<std::byte>;
  if (kind == "welcome") {
    const std::string version = body["serverVersion"];
    const WelcomeAnswer answer{.shard = body["shard"],
                               .shards = body["shards"],
                               .routing_seed = u64(body["routingSeed"]),
                               .instance_id = u64(body["instanceId"]),
                               .waiting_entries_max = body["waitingEntriesMax"],
                               .handles_max = body["handlesMax"],
                               .key_bytes_max = body["keyBytesMax"],
                               .server_version = version,
                               .rest_port = body["restPort"]};
    return write(small_answer_bytes_max, [&](Out out) { return encode_welcome(id, answer, out); });
  }
  if (kind == "verdicts") {
    const uint32_t count = body["count"];
    const auto verdicts = verdicts_of(body, count);
    const auto columns = details_of(body, count);
    return write(verdicts_bytes_max(count, columns.bits), [&](Out out) {
      return encode_verdicts(id, verdicts, columns.details, columns.bits, out);
    });
  }
  if (kind == "granted") {
    const auto entries = entries_of(body);
    const auto verdicts = verdicts_of(body, entries.size());
    const auto columns = details_of(body, entries.size());
    const std::vector<Permit> permits = permits_of(body);
    const size_t bound = granted_bytes_max(static_cast<uint32_t>(entries.size()), columns.bits,
                                           static_cast<uint32_t>(permits.size()));
    if (body.contains("codes")) {
      const auto codes = codes_of<api::QuotaCode>(body, "codes", entries.size());
      const auto reservations = numbers_of(body, "reservations");
      const std::vector<uint64_t> retries = numbers_of(body, "retryAfterMs");
      const std::vector<int64_t> retry_after_ms(retries.begin(), retries.end());
      return write(bound, [&](Out out) {
        return encode_granted(id, {entries, codes, reservations, retry_after_ms}, out);
      });
    }
    return write(bound, [&](Out out) {
      return encode_granted(id, entries, verdicts, columns.details, columns.bits, out, permits);
    });
  }
  if (kind == "interned") {
    const std::vector<api::Handle> handles = body["handles"];
    const auto verdicts = verdicts_of(body, handles.size());
    return write(interned_bytes_max(static_cast<uint32_t>(handles.size())),
                 [&](Out out) { return encode_interned(id, handles, verdicts, out); });
  }
  if (kind == "inspected") {
    const KeyStates keys(body);
    return write(inspected_bytes_max(keys.states), [&](Out out) {
      return encode_inspected(id, keys.states, u64(body["cursor"]), out);
    });
  }
  if (kind == "quotaAnswers") {
    if (body.contains("detail")) {
      const auto detail = body["detail"].get<std::string>();
      return write(invalid_quota_bytes_max(detail),
                   [&](Out out) { return encode_invalid_quota(id, detail, out); });
    }
    auto answers = quota_answers_of(body);
    const auto limits = limits_of(body.value("limits", json::object()), std::span(answers));
    const QuotaColumns columns{.reservations = true, .retries = true, .limits = true};
    return write(quota_answers_bytes_max(answers.size(), columns, limits.size()),
                 [&](Out out) { return encode_quota_answers(id, answers, limits, columns, out); });
  }
  if (kind == "usageReply") {
    const api::QuotaBatch batch = usage_of(body);
    return write(usage_reply_bytes_max(batch),
                 [&](Out out) { return encode_usage_reply(id, batch, out); });
  }
  if (kind == "topologyReply") {
    const Topology topology = topology_of(body);
    return write(topology_bytes_max(topology),
                 [&](Out out) { return encode_topology(id, topology, out); });
  }
  if (kind == "error") {
    const std::string text = body["text"];
    const ErrorAnswer answer{error_named(body["code"]), text};
    return write(small_answer_bytes_max, [&](Out out) { return encode_error(id, answer, out); });
  }
  if (kind == "goAway") {
    const std::string reason = body["reason"];
    return write(small_answer_bytes_max, [&](Out out) { return encode_go_away(reason, out); });
  }
  if (kind == "done") {
    return write(small_answer_bytes_max, [&](Out out) { return encode_done(id, out); });
  }
  if (kind == "pong") {
    return write(small_answer_bytes_max, [&](Out out) { return encode_pong(id, out); });
  }
  throw std::runtime_error("no encoder of " + kind);
}

bool is_made_by_others(const test::Golden& golden) {
  return golden.name.starts_with("newer_") || golden.name.starts_with("segments_") ||
         golden.name == "interned";
}

TEST(CapnpCodecEncode, writes_every_golden_answer_byte_for_byte) {
  size_t written_count = 0;
  for (const test::Golden& golden : test::golden_frames("ServerFrame")) {
    if (is_made_by_others(golden)) continue;
    ++written_count;
    const auto bytes = golden.bytes();
    const std::string expected(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    EXPECT_EQ(encoded(golden.json.at("message")), expected) << golden.name;
  }
  EXPECT_GE(written_count, 40u);
}

TEST(CapnpCodecEncode, has_a_golden_answer_of_every_error) {
  const auto& goldens = test::golden_frames("ServerFrame");
  for (uint8_t number = 1; number <= static_cast<uint8_t>(ErrorCode::bad_subject); ++number) {
    const auto name = std::string(error_name(static_cast<ErrorCode>(number)));
    size_t found_count = 0;
    for (const test::Golden& golden : goldens) {
      const json& message = golden.json.at("message");
      found_count += message.contains("error") && message["error"]["code"] == name;
    }
    EXPECT_EQ(found_count, 1u) << name;
  }
}

TEST(CapnpCodecEncode, cuts_texts_that_exceed_a_small_answer) {
  const std::string text(5'000, 't');
  const Output output(small_answer_bytes_max);
  EXPECT_LE(encode_error(1, {ErrorCode::malformed, text}, output.span()), small_answer_bytes_max);
  EXPECT_LE(encode_go_away(text, output.span()), small_answer_bytes_max);
  EXPECT_LE(encode_welcome(1, {.server_version = text}, output.span()), small_answer_bytes_max);
}

// -------------------------------------------------------------------------------- any answer

schema::ServerFrame::Reader open(capnp::MessageReader& message) {
  return message.getRoot<schema::ServerFrame>();
}

kj::ArrayPtr<const capnp::word> words_of(std::span<const std::byte> frame) {
  return {reinterpret_cast<const capnp::word*>(frame.data()), frame.size() / 8};
}

api::Detail arbitrary_detail() {
  return {.limit = *rc::gen::arbitrary<uint32_t>(),
          .remaining = *rc::gen::arbitrary<uint32_t>(),
          .position = *rc::gen::arbitrary<uint32_t>(),
          .window_ms = *rc::gen::positive<int64_t>(),
          .reset_ms = *rc::gen::positive<int64_t>(),
          .retry_after_ms = *rc::gen::positive<int64_t>(),
          .request_id = *rc::gen::arbitrary<uint64_t>()};
}

struct Answered {
  std::vector<api::Verdict> verdicts;
  std::vector<api::Detail> details;
  std::vector<uint32_t> entries;
  uint8_t bits;
};

Answered arbitrary_answer() {
  Answered answer{.bits = *rc::gen::inRange<uint8_t>(0, detail_bit::all + 1)};
  const size_t count = *rc::gen::inRange<size_t>(0, 40);
  const int kinds = *rc::gen::element(2, 3, 15);  // two: only approved, so that all are equal
  for (size_t index = 0; index < count; ++index) {
    answer.verdicts.push_back(static_cast<api::Verdict>(*rc::gen::inRange(1, kinds)));
    answer.details.push_back(arbitrary_detail());
    answer.entries.push_back(*rc::gen::arbitrary<uint32_t>());
  }
  return answer;
}

void check_verdicts(capnp::Data::Reader bytes, const Answered& answer) {
  RC_ASSERT(bytes.size() == answer.verdicts.size() || bytes.size() == 1);
  for (size_t index = 0; index < answer.verdicts.size(); ++index) {
    RC_ASSERT(bytes[bytes.size() == 1 ? 0 : index] == static_cast<uint8_t>(answer.verdicts[index]));
  }
}

template <typename ColumnList, typename Field>
void check_column(ColumnList column, const Answered& answer, uint8_t bit, Field field) {
  RC_ASSERT(column.size() == ((answer.bits & bit) != 0 ? answer.details.size() : 0));
  for (uint32_t index = 0; index < column.size(); ++index) {
    RC_ASSERT(column[index] == static_cast<decltype(column[index])>(answer.details[index].*field));
  }
}

void check_details(schema::Details::Reader details, const Answered& answer) {
  check_column(details.getLimit(), answer, detail_bit::limit, &api::Detail::limit);
  check_column(details.getWindowMs(), answer, detail_bit::window, &api::Detail::window_ms);
  check_column(details.getRemaining(), answer, detail_bit::remaining, &api::Detail::remaining);
  check_column(details.getResetMs(), answer, detail_bit::reset, &api::Detail::reset_ms);
  check_column(details.getRetryAfterMs(), answer, detail_bit::retry, &api::Detail::retry_after_ms);
  check_column(details.getRequestId(), answer, detail_bit::request_id, &api::Detail::request_id);
  check_column(details.getPosition(), answer, detail_bit::position, &api::Detail::position);
}

TEST(CapnpCodecEncode, encodes_verdicts_within_their_bound) {
  EXPECT_TRUE(rc::check([] {
    const Answered answer = arbitrary_answer();
    const auto count = static_cast<uint32_t>(answer.verdicts.size());
    const Output output(verdicts_bytes_max(count, answer.bits));
    const size_t bytes =
        encode_verdicts(~0ull, answer.verdicts, answer.details, answer.bits, output.span());
    RC_ASSERT(bytes <= output.span().size());

    capnp::FlatArrayMessageReader message(words_of(output.span().first(bytes)));
    RC_ASSERT(open(message).getId() == ~0ull);
    const auto verdicts = open(message).getVerdicts();
    RC_ASSERT(verdicts.getCount() == count);
    check_verdicts(verdicts.getVerdicts(), answer);
    check_details(verdicts.getDetails(), answer);
  }));
}

TEST(CapnpCodecEncode, encodes_grants_within_their_bound) {
  EXPECT_TRUE(rc::check([] {
    const Answered answer = arbitrary_answer();
    const auto count = static_cast<uint32_t>(answer.verdicts.size());
    const Output output(granted_bytes_max(count, answer.bits));
    const size_t bytes = encode_granted(5, answer.entries, answer.verdicts, answer.details,
                                        answer.bits, output.span());
    RC_ASSERT(bytes <= output.span().size());

    capnp::FlatArrayMessageReader message(words_of(output.span().first(bytes)));
    const auto granted = open(message).getGranted();
    RC_ASSERT(granted.getEntries().size() == count);
    for (uint32_t index = 0; index < count; ++index) {
      RC_ASSERT(granted.getEntries()[index] == answer.entries[index]);
    }
    check_verdicts(granted.getVerdicts(), answer);
    Answered shown = answer;
    shown.bits &= detail_bit::of_granted;
    check_details(granted.getDetails(), shown);
  }));
}

TEST(CapnpCodecEncode, encodes_pages_within_their_bound) {
  EXPECT_TRUE(rc::check([](const std::vector<std::string>& keys, uint64_t cursor) {
    std::vector<api::KeyState> states;
    for (const std::string& key : keys) {
      const auto number = static_cast<uint32_t>(states.size());
      states.push_back({.key = key,
                        .window_ms = number + 1,
                        .reset_ms = number + 2,
                        .max_requests = number + 3,
                        .max_requests_in_queue = number + 4,
                        .approved = number + 5,
                        .denied = number + 6,
                        .waiting = number + 7});
    }
    const Output output(inspected_bytes_max(states));
    const size_t bytes = encode_inspected(3, states, cursor, output.span());
    RC_ASSERT(bytes <= output.span().size());

    capnp::FlatArrayMessageReader message(words_of(output.span().first(bytes)));
    const auto page = open(message).getInspected();
    RC_ASSERT(page.getCursor() == cursor);
    RC_ASSERT(page.getKeySizes().size() == keys.size());
    size_t offset = 0;
    for (uint32_t index = 0; index < keys.size(); ++index) {
      const size_t size = page.getKeySizes()[index];
      const auto key = page.getKeys().slice(offset, offset + size);
      RC_ASSERT(std::string(reinterpret_cast<const char*>(key.begin()), size) == keys[index]);
      offset += size;
      RC_ASSERT(page.getWindowMs()[index] == index + 1);
      RC_ASSERT(page.getResetMs()[index] == index + 2);
      RC_ASSERT(page.getMaxRequests()[index] == index + 3);
      RC_ASSERT(page.getMaxRequestsInQueue()[index] == index + 4);
      RC_ASSERT(page.getApproved()[index] == index + 5);
      RC_ASSERT(page.getDenied()[index] == index + 6);
      RC_ASSERT(page.getWaiting()[index] == index + 7);
    }
  }));
}

TEST(CapnpCodecEncode, fits_the_largest_answers_into_a_reply) {
  EXPECT_LE(verdicts_bytes_max(limits::frame_entries_max, detail_bit::all),
            limits::reply_bytes_max);
  EXPECT_LE(granted_bytes_max(limits::frame_entries_max, detail_bit::all), limits::reply_bytes_max);
}

}  // namespace
}  // namespace sluice::wire
