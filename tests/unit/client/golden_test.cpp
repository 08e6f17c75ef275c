// Goal: the client decodes every golden answer to the values of its JSON, wherever the network cuts
// it. Method: compares each field with the JSON file of the frame; sends each frame through a
// socket in two pieces, cut at every byte.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sluicegate/frame_stream.hpp"
#include "sluicegate/frames.hpp"
#include "sluicegate/link.hpp"
#include "tests/support/golden_files.hpp"

namespace sluicegate {
namespace {

using Json = nlohmann::json;
using sluice::test::Golden;

std::vector<uint64_t> words_of(const Golden& golden) {
  std::vector<uint64_t> words(golden.bytes().size() / 8);
  std::memcpy(words.data(), golden.bytes().data(), golden.bytes().size());
  return words;
}

// `capnp convert` writes 64-bit numbers as text, and omits absent fields.
uint64_t number(const Json& value) {
  return value.is_string() ? std::stoull(value.get<std::string>()) : value.get<uint64_t>();
}

std::vector<uint64_t> numbers(const Json& parent, const char* column) {
  std::vector<uint64_t> values;
  if (!parent.contains(column)) return values;
  for (const Json& value : parent.at(column)) values.push_back(number(value));
  return values;
}

template <typename Column>
std::vector<uint64_t> numbers(const Column& column) {
  std::vector<uint64_t> values;
  for (size_t i = 0; i < column.size(); ++i) values.push_back(static_cast<uint64_t>(column[i]));
  return values;
}

void expect_details(const Details& details, const Json& parent) {
  const Json json = parent.contains("details") ? parent.at("details") : Json::object();
  EXPECT_EQ(numbers(details.limit), numbers(json, "limit"));
  EXPECT_EQ(numbers(details.window_ms), numbers(json, "windowMs"));
  EXPECT_EQ(numbers(details.remaining), numbers(json, "remaining"));
  EXPECT_EQ(numbers(details.reset_ms), numbers(json, "resetMs"));
  EXPECT_EQ(numbers(details.retry_after_ms), numbers(json, "retryAfterMs"));
  EXPECT_EQ(numbers(details.request_id), numbers(json, "requestId"));
  EXPECT_EQ(numbers(details.position), numbers(json, "position"));
}

// One byte on the wire stands for all entries.
void expect_verdicts(const VerdictColumn& verdicts, const Json& json, size_t count) {
  auto expected = numbers(json, "verdicts");
  if (expected.size() == 1) expected.assign(count, expected[0]);
  EXPECT_EQ(numbers(verdicts), expected);
}

void expect(const Welcome& welcome, const Json& message) {
  const Json& json = message.at("welcome");
  EXPECT_EQ(welcome.version, number(json.at("version")));
  EXPECT_EQ(welcome.shard, number(json.at("shard")));
  EXPECT_EQ(welcome.shards, number(json.at("shards")));
  EXPECT_EQ(welcome.routing_known, json.at("routingHash") == "xxh3");
  EXPECT_EQ(welcome.routing_seed, number(json.at("routingSeed")));
  EXPECT_EQ(welcome.frame_bytes_max, number(json.at("frameBytesMax")));
  EXPECT_EQ(welcome.frame_entries_max, number(json.at("frameEntriesMax")));
  EXPECT_EQ(welcome.outstanding_frames_max, number(json.at("outstandingFramesMax")));
  EXPECT_EQ(welcome.outstanding_bytes_max, number(json.at("outstandingBytesMax")));
  EXPECT_EQ(welcome.waiting_entries_max, number(json.at("waitingEntriesMax")));
  EXPECT_EQ(welcome.handles_max, number(json.at("handlesMax")));
  EXPECT_EQ(welcome.key_bytes_max, number(json.at("keyBytesMax")));
  EXPECT_EQ(welcome.instance_id, number(json.at("instanceId")));
  EXPECT_EQ(welcome.features, number(json.at("features")));
  EXPECT_EQ(welcome.server_version, json.at("serverVersion"));
  EXPECT_EQ(welcome.rest_port, number(json.at("restPort")));
}

void expect(const Verdicts& verdicts, const Json& message) {
  const Json& json = message.at("verdicts");
  const uint64_t count = json.contains("count") ? number(json.at("count")) : 0;
  EXPECT_EQ(verdicts.verdicts.size(), count);
  expect_verdicts(verdicts.verdicts, json, count);
  expect_details(verdicts.details, json);
}

void expect(const Granted& granted, const Json& message) {
  const Json& json = message.at("granted");
  EXPECT_EQ(numbers(granted.entries), numbers(json, "entries"));
  expect_verdicts(granted.verdicts, json, granted.entries.size());
  expect_details(granted.details, json);
  EXPECT_EQ(numbers(granted.reservations), numbers(json, "reservations"));
}

void expect(const Interned& interned, const Json& message) {
  const Json& json = message.at("interned");
  EXPECT_EQ(numbers(interned.handles), numbers(json, "handles"));
  expect_verdicts(interned.verdicts, json, interned.handles.size());
}

void expect(const Inspected& inspected, const Json& message) {
  const Json& json = message.at("inspected");
  EXPECT_EQ(inspected.cursor, json.contains("cursor") ? number(json.at("cursor")) : 0);
  std::string text;
  for (const uint64_t byte : numbers(json, "keys")) text += static_cast<char>(byte);
  const auto sizes = numbers(json, "keySizes");
  ASSERT_EQ(inspected.keys.size(), sizes.size());
  size_t at = 0;
  for (size_t i = 0; i < sizes.size(); at += sizes[i++]) {
    const InspectedKey& key = inspected.keys[i];
    EXPECT_EQ(key.key, text.substr(at, sizes[i]));
    EXPECT_EQ(key.window_ms, numbers(json, "windowMs")[i]);
    EXPECT_EQ(key.reset_ms, numbers(json, "resetMs")[i]);
    EXPECT_EQ(key.max_requests, numbers(json, "maxRequests")[i]);
    EXPECT_EQ(key.max_requests_in_queue, numbers(json, "maxRequestsInQueue")[i]);
    EXPECT_EQ(key.approved, numbers(json, "approved")[i]);
    EXPECT_EQ(key.denied, numbers(json, "denied")[i]);
    EXPECT_EQ(key.waiting, numbers(json, "waiting")[i]);
  }
}

// badCost in the schema, bad_cost in the client.
std::string in_snake_case(const std::string& name) {
  std::string snake;
  for (const char letter : name) {
    if (std::isupper(static_cast<unsigned char>(letter)) != 0) snake += '_';
    snake += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return snake;
}

void expect(const Refusal& refusal, const Json& message) {
  EXPECT_EQ(name(refusal.code), in_snake_case(message.at("error").at("code")));
  EXPECT_EQ(refusal.text, message.at("error").at("text").get<std::string>());
}

void expect(const GoAway& go_away, const Json& message) {
  EXPECT_EQ(go_away.reason, message.at("goAway").at("reason").get<std::string>());
}

void expect(const Done&, const Json& message) {
  EXPECT_TRUE(message.contains("done"));
}
void expect(const Pong&, const Json& message) {
  EXPECT_TRUE(message.contains("pong"));
}
void expect(const UnknownAnswer&, const Json& message) {
  FAIL() << "not read: " << message;
}

std::string bytes_of(const Json& parent, const char* column) {
  std::string text;
  for (const uint64_t byte : numbers(parent, column)) text += static_cast<char>(byte);
  return text;
}

void expect_limits(const std::vector<LimitState>& states, const Json& json) {
  const auto expect_column = [&](const char* column, auto value_of) {
    std::vector<uint64_t> values;
    for (const LimitState& state : states) values.push_back(static_cast<uint64_t>(value_of(state)));
    EXPECT_EQ(values, numbers(json, column)) << column;
  };
  std::string names;
  for (const LimitState& state : states) names += state.name;
  EXPECT_EQ(names, bytes_of(json, "names"));
  expect_column("entries", [](const LimitState& state) { return state.entry; });
  expect_column("subjects", [](const LimitState& state) { return state.subject; });
  expect_column("nameSizes", [](const LimitState& state) { return state.name.size(); });
  expect_column("metrics", [](const LimitState& state) { return state.metric; });
  expect_column("kinds", [](const LimitState& state) { return state.kind; });
  expect_column("ceilings", [](const LimitState& state) { return state.ceiling; });
  expect_column("violated", [](const LimitState& state) { return state.violated; });
  expect_column("amounts", [](const LimitState& state) { return state.amount; });
  expect_column("used", [](const LimitState& state) { return state.used; });
  expect_column("reserved", [](const LimitState& state) { return state.reserved; });
  expect_column("remaining", [](const LimitState& state) { return state.remaining; });
  expect_column("periodMs", [](const LimitState& state) { return state.period_ms; });
  expect_column("resetMs", [](const LimitState& state) { return state.reset_ms; });
}

// `retryAfterMs` may be negative.
std::vector<int64_t> signed_numbers(const Json& parent, const char* column) {
  std::vector<int64_t> values;
  if (!parent.contains(column)) return values;
  for (const Json& value : parent.at(column))
    values.push_back(std::stoll(value.get<std::string>()));
  return values;
}

Json limits_of(const Json& json) {
  return json.contains("limits") ? json.at("limits") : Json::object();
}

uint64_t number_or_zero(const Json& parent, const char* field) {
  return parent.contains(field) ? number(parent.at(field)) : 0;
}

void expect(const QuotaAnswers& answers, const Json& message) {
  const Json& json = message.at("quotaAnswers");
  const uint64_t count = number_or_zero(json, "count");
  auto codes = numbers(json, "codes");
  if (codes.size() == 1) codes.assign(count, codes[0]);
  EXPECT_EQ(numbers(answers.codes), codes);
  EXPECT_EQ(numbers(answers.reservations), numbers(json, "reservations"));
  EXPECT_EQ((std::vector<int64_t>{answers.retry_after_ms.begin(), answers.retry_after_ms.end()}),
            signed_numbers(json, "retryAfterMs"));
  expect_limits(answers.limits, limits_of(json));
  EXPECT_EQ(answers.limits_left_out, number_or_zero(limits_of(json), "leftOut"));
}

void expect_quota(const Quota& quota, const Json& json) {
  EXPECT_EQ(quota.refund_expired, json.at("refundExpired"));
  EXPECT_EQ(quota.overtakers_max, json.at("overtakersMax"));
  EXPECT_EQ(quota.profile, json.value("profile", ""));
  const Json limits = json.contains("limits") ? json.at("limits") : Json::array();
  ASSERT_EQ(quota.limits.size(), limits.size());
  for (size_t i = 0; i < limits.size(); ++i) {
    EXPECT_EQ(quota.limits[i].name, limits[i].at("name"));
    EXPECT_EQ(name(quota.limits[i].metric), limits[i].at("metric"));
    EXPECT_EQ(name(quota.limits[i].kind), limits[i].at("kind"));
    EXPECT_EQ(name(quota.limits[i].ceiling), limits[i].at("ceiling"));
    EXPECT_EQ(name(quota.limits[i].unit), limits[i].at("unit"));
    EXPECT_EQ(quota.limits[i].amount, number(limits[i].at("amount")));
    EXPECT_EQ(quota.limits[i].period_ms, number(limits[i].at("periodMs")));
    EXPECT_EQ(quota.limits[i].time_zone, limits[i].value("timeZone", ""));
    EXPECT_EQ(quota.limits[i].count_cached, limits[i].at("countCached"));
  }
}

void expect(const UsageReply& reply, const Json& message) {
  const Json& json = message.at("usageReply");
  const auto sizes = numbers(json, "nameSizes");
  ASSERT_EQ(reply.page.subjects.size(), sizes.size());
  std::vector<LimitState> states;
  size_t at = 0;
  for (size_t i = 0; i < sizes.size(); at += sizes[i++]) {
    const SubjectState& subject = reply.page.subjects[i];
    EXPECT_EQ(subject.name, bytes_of(json, "names").substr(at, sizes[i]));
    EXPECT_EQ(static_cast<uint64_t>(subject.source), numbers(json, "sources")[i]);
    EXPECT_EQ(subject.open_reservations, numbers(json, "openReservations")[i]);
    EXPECT_EQ(subject.waiting, numbers(json, "waiting")[i]);
    expect_quota(subject.quota, json.at("quotas")[i]);
    states.insert(states.end(), subject.limits.begin(), subject.limits.end());
  }
  expect_limits(states, limits_of(json));
  EXPECT_EQ(reply.page.cursor, number_or_zero(json, "cursor"));
  EXPECT_EQ(reply.page.left_out, number_or_zero(limits_of(json), "leftOut"));
}

void expect(const Topology& topology, const Json& message) {
  const Json& json = message.at("topologyReply");
  EXPECT_EQ(topology.list_digest, number_or_zero(json, "listDigest"));
  EXPECT_TRUE(topology.node_hash_known);
  EXPECT_EQ(topology.own_node, number_or_zero(json, "ownNode"));
  const auto sizes = numbers(json, "hostSizes");
  ASSERT_EQ(topology.nodes.size(), sizes.size());
  const std::string hosts = json.contains("hosts") ? bytes_of(json, "hosts") : "";
  size_t at = 0;
  for (size_t i = 0; i < sizes.size(); at += sizes[i++]) {
    const TopologyNode& node = topology.nodes[i];
    EXPECT_EQ(node.host, hosts.substr(at, sizes[i]));
    EXPECT_EQ(node.rest_port, numbers(json, "restPorts")[i]);
    EXPECT_EQ(node.native_port, numbers(json, "nativePorts")[i]);
    EXPECT_EQ(node.shards, numbers(json, "shards")[i]);
    EXPECT_EQ(node.routing_seed, numbers(json, "routingSeeds")[i]);
    EXPECT_EQ(node.instance_id, numbers(json, "instanceIds")[i]);
  }
}

TEST(Golden, answers_decode_to_the_values_of_their_json) {
  for (const Golden& golden : sluice::test::golden_frames("ServerFrame")) {
    SCOPED_TRACE(golden.name);
    const auto words = words_of(golden);
    const Answer answer = decode(words);
    const Json& message = golden.json.at("message");
    if (!std::holds_alternative<Welcome>(answer)) {
      EXPECT_EQ(id_of(answer), number(message.at("id")));
    }
    std::visit([&](const auto& one) { expect(one, message); }, answer);
  }
}

// A pair of connected sockets; the reading one is non-blocking.
struct Sockets {
  Sockets() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
  }
  ~Sockets() {
    close(ends[0]);
    close(ends[1]);
  }
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;

  void write(const std::byte* bytes, size_t count) {
    if (count == 0) return;
    EXPECT_EQ(::write(ends[1], bytes, count), static_cast<ssize_t>(count));
  }

  int ends[2];
};

TEST(Golden, reads_frames_cut_at_every_byte) {
  for (const Golden& golden : sluice::test::golden_frames("ServerFrame")) {
    SCOPED_TRACE(golden.name);
    const auto expected = words_of(golden);
    const size_t size = golden.bytes().size();
    Sockets sockets;
    FrameReader reader{"the test"};
    Traffic traffic;
    for (size_t cut = 0; cut < size; ++cut) {
      sockets.write(golden.bytes().data(), cut);
      EXPECT_EQ(reader.read_some(real_platform(), sockets.ends[0], traffic), cut > 0);
      EXPECT_FALSE(reader.next_frame()) << cut;
      sockets.write(golden.bytes().data() + cut, size - cut);
      EXPECT_TRUE(reader.read_some(real_platform(), sockets.ends[0], traffic));
      const auto frame = reader.next_frame();
      ASSERT_TRUE(frame) << cut;
      EXPECT_TRUE(std::equal(frame->begin(), frame->end(), expected.begin(), expected.end()));
      EXPECT_FALSE(reader.next_frame());
    }
  }
}

}  // namespace
}  // namespace sluicegate
