// Goal: a lane reads the owner's answers as they were meant, and refuses all others without reading
//       outside of them.
// Method: every server golden file, its end at a guard page, compared to its JSON; answers of the
//         server's own encoder; random mutations, which must be read or refused under ASan and
//         UBSan.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/limits.hpp"
#include "tests/support/golden_files.hpp"
#include "tests/support/guarded_buffer.hpp"
#include "wire/lane_codec.hpp"

namespace sluice::wire {
namespace {

using api::Verdict;
using nlohmann::json;
using OwnerOutcome = tl::expected<OwnerFrame, ErrorCode>;

OwnerOutcome read_golden(const std::string& name) {
  return decode_owner_frame(test::golden_frame("ServerFrame", name).bytes());
}

template <typename Body>
Body body_of(const std::string& name) {
  const OwnerOutcome outcome = read_golden(name);
  if (!outcome || !std::holds_alternative<Body>(outcome->body)) {
    ADD_FAILURE() << name;
    return {};
  }
  return std::get<Body>(outcome->body);
}

// ------------------------------------------------------------------------------ golden answers

uint64_t number_in(const json& value) {
  return value.is_string() ? std::stoull(value.get<std::string>()) : value.get<uint64_t>();
}

api::Detail detail_in(const json& body, size_t index) {
  const auto at = [&](const char* name) {
    const json& details = body.at("details");
    return details.contains(name) ? number_in(details.at(name)[index]) : 0;
  };
  if (!body.contains("details")) return {};
  return {.limit = static_cast<uint32_t>(at("limit")),
          .remaining = static_cast<uint32_t>(at("remaining")),
          .position = static_cast<uint32_t>(at("position")),
          .window_ms = static_cast<int64_t>(at("windowMs")),
          .reset_ms = static_cast<int64_t>(at("resetMs")),
          .retry_after_ms = static_cast<int64_t>(at("retryAfterMs")),
          .request_id = at("requestId")};
}

void expect_detail(const api::Detail& detail, const api::Detail& expected) {
  EXPECT_EQ(detail.limit, expected.limit);
  EXPECT_EQ(detail.remaining, expected.remaining);
  EXPECT_EQ(detail.position, expected.position);
  EXPECT_EQ(detail.window_ms, expected.window_ms);
  EXPECT_EQ(detail.reset_ms, expected.reset_ms);
  EXPECT_EQ(detail.retry_after_ms, expected.retry_after_ms);
  EXPECT_EQ(detail.request_id, expected.request_id);
}

Verdict verdict_in(const json& body, size_t index) {
  const json& verdicts = body.at("verdicts");
  return verdicts[verdicts.size() == 1 ? 0 : index].get<Verdict>();
}

void expect_answer(const VerdictsFrame& frame, const json& message) {
  const json& body = message.at("verdicts");
  ASSERT_EQ(frame.count, body.value("count", 0u));
  std::vector<Verdict> verdicts(frame.count);
  std::vector<api::Detail> details(frame.count, api::Detail{.limit = 4'711});
  frame.copy_to(verdicts);
  frame.copy_to(details);
  EXPECT_EQ(frame.has_details, body.contains("details"));
  for (size_t index = 0; index < frame.count; ++index) {
    EXPECT_EQ(verdicts[index], verdict_in(body, index));
    const api::Detail untouched{.limit = 4'711};
    expect_detail(details[index], frame.has_details ? detail_in(body, index) : untouched);
  }
}

void expect_answer(const GrantedFrame& frame, const json& message) {
  const json& body = message.at("granted");
  size_t index = 0;
  std::string permits;
  frame.each([&](uint32_t entry, Verdict verdict, const api::Detail& detail, const Permit& permit) {
    EXPECT_EQ(entry, body.at("entries")[index]);
    EXPECT_EQ(verdict, verdict_in(body, index));
    expect_detail(detail, detail_in(body, index));
    if (verdict == Verdict::approved) {
      for (const std::byte byte : permit) permits += static_cast<char>(byte);
    } else {
      EXPECT_EQ(permit, Permit{});
    }
    ++index;
  });
  EXPECT_EQ(index, body.at("entries").size());
  if (!body.contains("permits")) return;
  std::string expected;
  for (const json& byte : body.at("permits")) expected += static_cast<char>(byte.get<uint8_t>());
  EXPECT_EQ(permits, expected);
}

void expect_answer(const WelcomeFrame& frame, const json& message) {
  const json& body = message.at("welcome");
  EXPECT_EQ(frame.version, number_in(body.at("version")));
  EXPECT_EQ(frame.shard, number_in(body.at("shard")));
  EXPECT_EQ(frame.shards, number_in(body.at("shards")));
  EXPECT_TRUE(frame.routing_known);
  EXPECT_EQ(frame.routing_seed, number_in(body.at("routingSeed")));
  EXPECT_EQ(frame.bounds.frame_bytes_max, number_in(body.at("frameBytesMax")));
  EXPECT_EQ(frame.bounds.frame_entries_max, number_in(body.at("frameEntriesMax")));
  EXPECT_EQ(frame.outstanding_frames_max, number_in(body.at("outstandingFramesMax")));
  EXPECT_EQ(frame.outstanding_bytes_max, number_in(body.at("outstandingBytesMax")));
  EXPECT_EQ(frame.waiting_entries_max, number_in(body.at("waitingEntriesMax")));
  EXPECT_EQ(frame.key_bytes_max, number_in(body.at("keyBytesMax")));
  EXPECT_EQ(frame.instance_id, number_in(body.at("instanceId")));
  EXPECT_EQ(frame.features, number_in(body.at("features")));
  EXPECT_NE(frame.features & feature_bit::forward, 0u);
  EXPECT_EQ(frame.rest_port, number_in(body.at("restPort")));
  EXPECT_EQ(frame.server_version, body.at("serverVersion"));
}

void expect_answer(const DoneFrame&, const json& message) {
  EXPECT_TRUE(message.contains("done"));
}
void expect_answer(const PongFrame&, const json& message) {
  EXPECT_TRUE(message.contains("pong"));
}
void expect_answer(const ErrorFrame& frame, const json& message) {
  EXPECT_EQ(error_name(frame.code), message.at("error").at("code").get<std::string>());
  EXPECT_EQ(frame.text, message.at("error").at("text").get<std::string>());
}
void expect_answer(const GoAwayFrame& frame, const json& message) {
  EXPECT_EQ(frame.reason, message.at("goAway").at("reason").get<std::string>());
}
void expect_answer(const QuotaOutcomesFrame&, const json& message) {
  EXPECT_TRUE(message.contains("quotaOutcomes"));
}
void expect_answer(const OtherFrame&, const json& message) {
  const bool other = message.contains("interned") || message.contains("inspected") ||
                     message.contains("quotaAnswers") || message.contains("usageReply") ||
                     message.contains("topologyReply");
  EXPECT_TRUE(other) << message;
}

TEST(LaneCodecDecode, reads_every_golden_answer) {
  for (const test::Golden& golden : test::golden_frames("ServerFrame")) {
    SCOPED_TRACE(golden.name);
    // Of a Reserve: its outcomes are no verdicts, and no lane reserves yet.
    if (golden.name == "granted_reservations") continue;
    test::GuardedBuffer buffer(golden.bytes().size());
    const OwnerOutcome outcome = decode_owner_frame(buffer.place(golden.bytes()));
    ASSERT_TRUE(outcome);
    const json& message = golden.json.at("message");
    EXPECT_EQ(std::to_string(outcome->id), message.at("id"));
    std::visit([&](const auto& body) { expect_answer(body, message); }, outcome->body);
  }
}

TEST(LaneCodecDecode, refuses_a_granted_without_verdicts) {
  EXPECT_EQ(read_golden("granted_reservations").error(), ErrorCode::bad_columns);
}

// --------------------------------------------------------------------------- wrong answers

// A golden answer with another word; words count from the segment table on.
std::vector<uint64_t> changed(const std::string& name, size_t word, uint64_t value) {
  const auto golden = test::golden_frame("ServerFrame", name).bytes();
  std::vector<uint64_t> words(golden.size() / word_bytes);
  std::memcpy(words.data(), golden.data(), golden.size());
  words.at(word) = value;
  return words;
}

OwnerOutcome read(std::span<const uint64_t> words) {
  return decode_owner_frame(std::as_bytes(words));
}

// Whether it is taken; what it says would lie in freed memory.
tl::expected<void, ErrorCode> take_changed(const std::string& name, size_t word, uint64_t value) {
  return read(changed(name, word, value)).map([](const OwnerFrame&) {});
}

// The word in which a golden answer has its last column.
size_t last_word(const std::string& name) {
  return test::golden_frame("ServerFrame", name).bytes().size() / word_bytes - 1;
}

constexpr size_t verdicts_count_word = 5;

TEST(LaneCodecDecode, refuses_columns_of_the_wrong_length) {
  EXPECT_TRUE(take_changed("verdicts", verdicts_count_word, 3));
  for (const uint64_t count : {uint64_t{0}, uint64_t{2}, uint64_t{4}}) {
    EXPECT_EQ(take_changed("verdicts", verdicts_count_word, count).error(), ErrorCode::bad_columns);
    EXPECT_EQ(take_changed("verdicts_details", verdicts_count_word, count == 2 ? 1 : count).error(),
              ErrorCode::bad_columns);
  }
  // One byte may stand for many entries, but not for more than a frame has.
  EXPECT_TRUE(take_changed("verdicts_agree", verdicts_count_word, limits::frame_entries_max));
  EXPECT_EQ(
      take_changed("verdicts_agree", verdicts_count_word, limits::frame_entries_max + 1).error(),
      ErrorCode::bad_columns);
}

TEST(LaneCodecDecode, refuses_a_verdict_that_is_never_sent) {
  EXPECT_EQ(take_changed("verdicts", last_word("verdicts"), 0x01'00'01).error(),
            ErrorCode::malformed);
}

TEST(LaneCodecDecode, reads_a_verdict_of_a_newer_owner_as_a_refusal) {
  const std::vector<uint64_t> words = changed("verdicts", last_word("verdicts"), 0x01'C8'01);
  const OwnerOutcome outcome = read(words);
  ASSERT_TRUE(outcome);
  std::vector<Verdict> verdicts(3);
  std::get<VerdictsFrame>(outcome->body).copy_to(verdicts);
  EXPECT_EQ(verdicts,
            (std::vector{Verdict::approved, Verdict::owner_unreachable, Verdict::approved}));
}

TEST(LaneCodecDecode, refuses_an_outcome_that_is_none) {
  const uint64_t queued_first = 0x0A'03;
  EXPECT_EQ(take_changed("granted", last_word("granted"), queued_first).error(),
            ErrorCode::malformed);
}

// What the server's own encoder writes.
OwnerOutcome read_granted(std::vector<uint64_t>& words, const std::vector<Verdict>& verdicts,
                          size_t permits_count) {
  const std::vector<uint32_t> entries(verdicts.size(), 1);
  const std::vector<api::Detail> details(verdicts.size());
  const std::vector<Permit> permits(permits_count, permit_of({.key_tag = 7, .cost = 1}, 3));
  const auto count = static_cast<uint32_t>(verdicts.size());
  words.assign(granted_bytes_max(count, 0, static_cast<uint32_t>(permits_count)) / 8, 0);
  const size_t bytes = encode_granted(9, entries, verdicts, details, 0,
                                      std::as_writable_bytes(std::span(words)), permits);
  return decode_owner_frame(std::as_bytes(std::span(words)).first(bytes));
}

TEST(LaneCodecDecode, requires_a_permit_for_each_approved_entry_or_none_at_all) {
  std::vector<uint64_t> words;
  const std::vector mixed{Verdict::approved, Verdict::wait_limit, Verdict::approved};
  const std::vector agreed{Verdict::approved, Verdict::approved};
  for (size_t permits = 0; permits <= 4; ++permits) {
    const bool fits = permits == 0 || permits == 2;
    EXPECT_EQ(read_granted(words, mixed, permits).has_value(), fits) << permits;
    EXPECT_EQ(read_granted(words, agreed, permits).has_value(), fits) << permits;
  }
  EXPECT_FALSE(read_granted(words, {Verdict::draining}, 1));
}

TEST(LaneCodecDecode, reads_an_error_of_a_newer_owner_as_unsupported) {
  constexpr size_t code_word = 5;
  const std::vector<uint64_t> words = changed("error_draining", code_word, 999);
  const OwnerOutcome outcome = read(words);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(std::get<ErrorFrame>(outcome->body).code, ErrorCode::unsupported);
}

TEST(LaneCodecDecode, reads_the_largest_answer_of_the_server) {
  const std::vector<Verdict> verdicts(limits::frame_entries_max, Verdict::denied);
  const std::vector<api::Detail> details(verdicts.size(), api::Detail{.reset_ms = 11});
  std::vector<uint64_t> words(verdicts_bytes_max(limits::frame_entries_max, detail_bit::all) /
                              word_bytes);
  const size_t bytes = encode_verdicts(3, verdicts, details, detail_bit::all,
                                       std::as_writable_bytes(std::span(words)));
  const OwnerOutcome outcome = decode_owner_frame(std::as_bytes(std::span(words)).first(bytes));
  ASSERT_TRUE(outcome);
  const auto& frame = std::get<VerdictsFrame>(outcome->body);
  EXPECT_EQ(frame.count, limits::frame_entries_max);
  EXPECT_EQ(frame.details[8'191].reset_ms, 11);
}

// ------------------------------------------------------------------------------------ mutations

// Reads all that a frame points to.
struct TouchAnswer {
  uint64_t operator()(const VerdictsFrame& frame) const {
    std::vector<Verdict> verdicts(frame.count);
    std::vector<api::Detail> details(frame.count);
    frame.copy_to(verdicts);
    frame.copy_to(details);
    uint64_t sum = 0;
    for (const api::Detail& detail : details) sum += detail.limit + detail.request_id;
    return sum + static_cast<uint64_t>(std::ranges::count(verdicts, Verdict::approved));
  }
  uint64_t operator()(const GrantedFrame& frame) const {
    uint64_t sum = 0;
    frame.each([&](uint32_t entry, Verdict verdict, const api::Detail& detail,
                   const Permit& permit) {
      sum += entry + static_cast<uint64_t>(verdict) + detail.request_id + claim_of(permit).shard;
    });
    return sum;
  }
  uint64_t operator()(const WelcomeFrame& frame) const { return length(frame.server_version); }
  uint64_t operator()(const ErrorFrame& frame) const { return length(frame.text); }
  uint64_t operator()(const GoAwayFrame& frame) const { return length(frame.reason); }
  template <typename Bare>
  uint64_t operator()(const Bare&) const {
    return 0;
  }
  static uint64_t length(std::string_view text) {
    return static_cast<uint64_t>(std::ranges::count(text, 'a'));
  }
};

TEST(LaneCodecDecode, reads_or_refuses_any_mutation) {
  const char* given = std::getenv("SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  SCOPED_TRACE("SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  volatile uint64_t sum = 0;
  for (const test::Golden& golden : test::golden_frames("ServerFrame")) {
    for (int round = 0; round < 200; ++round) {
      std::vector<uint64_t> words(golden.bytes().size() / word_bytes);
      std::memcpy(words.data(), golden.bytes().data(), golden.bytes().size());
      for (size_t change = 1 + random() % 3; change > 0; --change) {
        words[1 + random() % (words.size() - 1)] ^= uint64_t{1} << random() % 64;
      }
      const auto cut = read_frame(std::as_bytes(std::span(words)), limits::reply_bytes_max);
      const auto* whole = std::get_if<base::Complete<Frame>>(&cut);
      if (whole == nullptr) continue;
      const OwnerOutcome outcome = decode_owner_frame(whole->value);
      if (outcome) {
        sum = sum + std::visit(TouchAnswer{}, outcome->body);
      } else {
        EXPECT_NE(outcome.error(), ErrorCode::none);
      }
    }
  }
}

}  // namespace
}  // namespace sluice::wire
