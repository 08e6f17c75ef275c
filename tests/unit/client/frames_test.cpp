// Goal: the client's frames follow the schema, and it decodes the library's frames, also hostile
// ones and those in several segments. Method: the Cap'n Proto library as the other side.
#include "sluicegate/frames.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "fake_server.hpp"
#include "tests/support/golden_files.hpp"

namespace sluicegate {
namespace {

std::vector<uint64_t> words_of(const std::string& bytes) {
  std::vector<uint64_t> words(bytes.size() / 8);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

struct Decoded {
  explicit Decoded(const std::vector<uint64_t>& words)
      : message{kj::ArrayPtr<const capnp::word>(reinterpret_cast<const capnp::word*>(words.data()),
                                                words.size())} {}
  auto root() { return message.getRoot<test::schema::ClientFrame>(); }
  capnp::FlatArrayMessageReader message;
};

// The options of the requests by key and by handle in the two tests below.
template <typename Reader>
void expect_common_terms(Reader acquire) {
  EXPECT_EQ(acquire.getCosts()[1], 7u);
  EXPECT_EQ(acquire.getEntryFlags()[1], test::schema::ENTRY_MAY_WAIT);
  EXPECT_EQ(acquire.getWindowMs()[0], test::schema::KEEP_WINDOW);
  EXPECT_EQ(acquire.getWindowMs()[1], 60'000u);
  EXPECT_EQ(acquire.getWaitLimitMs(), 50u);
  EXPECT_EQ(acquire.getDetails(), detail::remaining);
}

TEST(Encode, acquire_holds_all_columns) {
  const std::array<std::string_view, 2> keys{"a", "bcd"};
  const std::array<uint32_t, 2> costs{1, 7}, limits{keep, 9};
  const std::array<uint8_t, 2> may_wait{0, 1};
  const std::array<uint64_t, 2> windows{keep_window, 60'000};
  std::vector<uint64_t> frame;
  encode(42,
         Acquire{.keys = keys,
                 .costs = costs,
                 .max_requests = limits,
                 .may_wait = may_wait,
                 .window_ms = windows,
                 .wait_limit_ms = 50,
                 .details = detail::remaining},
         frame);
  Decoded decoded{frame};
  ASSERT_EQ(decoded.root().getId(), 42u);
  const auto acquire = decoded.root().getAcquire();
  EXPECT_EQ(std::string(acquire.getKeys().asChars().begin(), acquire.getKeys().size()), "abcd");
  EXPECT_EQ(acquire.getKeySizes()[1], 3);
  EXPECT_EQ(acquire.getMaxRequests()[0], keep);
  EXPECT_FALSE(acquire.hasMaxRequestsInQueue());
  expect_common_terms(acquire);
}

TEST(Encode, appends_frames_of_one_segment_back_to_back) {
  const std::vector<std::string_view> keys(4000, "a key of 20 bytes...");
  std::vector<uint64_t> frames;
  encode(1, Acquire{.keys = keys}, frames);
  const size_t first_words = frames.size();
  encode(2, Ping{}, frames);
  EXPECT_EQ(frame_words(frames), first_words);
  EXPECT_EQ(frames[0] & 0xFFFF'FFFF, 0u) << "more than one segment";
  EXPECT_EQ(frame_words(std::span{frames}.subspan(first_words)), frames.size() - first_words);
}

TEST(Encode, refuses_a_column_of_another_length) {
  const std::array<std::string_view, 2> keys{"a", "b"};
  const std::array<uint32_t, 1> costs{1};
  std::vector<uint64_t> frame;
  EXPECT_THROW(encode(1, Acquire{.keys = keys, .costs = costs}, frame), LimitExceeded);
  const std::array<uint64_t, 3> windows{1'000, 1'000, 1'000};
  EXPECT_THROW(encode(1, Acquire{.keys = keys, .window_ms = windows}, frame), LimitExceeded);
  EXPECT_TRUE(frame.empty());
}

TEST(Encode, acquire_by_handle_holds_all_columns) {
  const std::array<uint32_t, 2> handles{4, 0};
  const std::array<uint32_t, 2> costs{1, 7}, limits{keep, 9};
  const std::array<uint8_t, 2> may_wait{0, 1};
  const std::array<uint64_t, 2> windows{keep_window, 60'000};
  std::vector<uint64_t> frame;
  encode(42,
         AcquireByHandle{.handles = handles,
                         .costs = costs,
                         .max_requests_in_queue = limits,
                         .may_wait = may_wait,
                         .window_ms = windows,
                         .all_may_wait = true,
                         .wait_limit_ms = 50,
                         .details = detail::remaining},
         frame);
  Decoded decoded{frame};
  ASSERT_EQ(decoded.root().getId(), 42u);
  const auto acquire = decoded.root().getAcquireByHandle();
  ASSERT_EQ(acquire.getHandles().size(), 2u);
  EXPECT_EQ(acquire.getHandles()[0], 4u);
  EXPECT_FALSE(acquire.hasMaxRequests());
  EXPECT_EQ(acquire.getMaxRequestsInQueue()[1], 9u);
  EXPECT_EQ(acquire.getFlags(), test::schema::FRAME_MAY_WAIT);
  expect_common_terms(acquire);
}

TEST(Encode, keys_of_every_length_arrive_whole) {
  std::vector<std::string> texts;
  for (size_t size = 0; size < 80; ++size) texts.emplace_back(size, static_cast<char>('!' + size));
  const std::vector<std::string_view> keys{texts.begin(), texts.end()};
  std::vector<uint64_t> frame;
  encode(1, Acquire{.keys = keys}, frame);
  Decoded decoded{frame};
  const auto acquire = decoded.root().getAcquire();
  const char* at = acquire.getKeys().asChars().begin();
  for (unsigned i = 0; i < texts.size(); ++i) {
    ASSERT_EQ(acquire.getKeySizes()[i], texts[i].size());
    EXPECT_EQ(std::string(at, texts[i].size()), texts[i]);
    at += texts[i].size();
  }
}

// Compares with the bytes that `capnp` made of the same request.
template <typename Request>
void expect_golden(const std::string& name, uint64_t id, const Request& request) {
  std::vector<uint64_t> frame;
  encode(id, request, frame);
  const auto expected = sluice::test::golden_frame("ClientFrame", name).bytes();
  const auto bytes = std::as_bytes(std::span{frame});
  EXPECT_TRUE(std::ranges::equal(bytes, expected)) << name;
}

TEST(Encode, frames_equal_the_golden_files) {
  const std::array<std::string_view, 2> users{"user:1", "user:22"};
  const std::array<std::string_view, 3> one_empty{"user:1", "", "user:2"};
  const std::array<uint32_t, 2> requested{0, 65'536}, forgotten{1, 2}, entries{0, 5},
      released{3, 4};
  const std::array<uint32_t, 2> costs{1, 1'000'000'000}, look{0, 1'000'000'000};
  const std::array<uint32_t, 2> limits{10, keep}, queues{0, keep};
  const std::array<uint8_t, 2> may_wait{0, 1};
  const std::array<uint64_t, 2> windows{60'000, keep_window};
  expect_golden("hello", 1, Hello{.client_name = "golden/1.0", .wanted_shard = 2});
  expect_golden("acquire_one", 7, Acquire{.keys = std::span{users}.first(1)});
  const std::array<std::string_view, 3> mixed{"a\u00e9\u20ac\U0001f600", "\U0001f600", "z"};
  expect_golden("acquire_mixed_width", 7, Acquire{.keys = mixed});
  const std::array<std::string_view, 3> bytes{"k\u00e4se", "{\u0448\u043b\u044e\u0437}:1",
                                              std::string_view{"\xff\0\xfe", 3}};
  expect_golden("acquire_utf8", 7, Acquire{.keys = bytes});
  expect_golden("acquire_empty_key", 7, Acquire{.keys = one_empty});
  expect_golden("acquire_may_wait", 7,
                Acquire{.keys = users, .all_may_wait = true, .wait_limit_ms = 250});
  expect_golden("acquire_columns", 7,
                Acquire{.keys = users,
                        .costs = look,
                        .max_requests = limits,
                        .max_requests_in_queue = queues,
                        .may_wait = may_wait,
                        .window_ms = windows,
                        .wait_limit_ms = 500,
                        .details = detail::all});
  expect_golden("acquire_by_handle", 7, AcquireByHandle{.handles = requested});
  expect_golden("acquire_by_handle_columns", 7,
                AcquireByHandle{.handles = forgotten,
                                .costs = costs,
                                .max_requests = limits,
                                .max_requests_in_queue = queues,
                                .may_wait = may_wait,
                                .window_ms = windows,
                                .wait_limit_ms = 500,
                                .details = detail::all});
  expect_golden("release_costs", 7, Release{.keys = users, .costs = released});
  expect_golden("withdraw", 8, Withdraw{.target = 7, .entries = entries});
  expect_golden("inspect_page", 7, Inspect{.cursor = 1'099'511'627'777, .limit = 100});
  expect_golden("intern", 7, Intern{.keys = users});
  expect_golden("forget", 7, Forget{.handles = forgotten});
  expect_golden("ping", 7, Ping{});
  expect_golden("topology", 7, AskTopology{});
}

TEST(Decode, interned_golden_holds_handles_and_one_verdict_for_all) {
  const auto bytes = sluice::test::golden_frame("ServerFrame", "interned").bytes();
  const auto answer = decode({reinterpret_cast<const uint64_t*>(bytes.data()), bytes.size() / 8});
  const auto& interned = std::get<Interned>(answer);
  EXPECT_EQ(interned.id, 7u);
  ASSERT_EQ(interned.handles.size(), 2u);
  EXPECT_EQ(interned.handles[1], 2u);
  ASSERT_EQ(interned.verdicts.size(), 2u);
  EXPECT_EQ(interned.verdicts[1], Verdict::approved);
}

TEST(Decode, refuses_fewer_verdicts_than_handles) {
  EXPECT_THROW(decode(words_of(test::interned(1, {1, 2, 3}, {1, 1}))), ProtocolError);
}

TEST(Decode, verdicts_are_copied_to_the_callers_places) {
  std::array<Verdict, 3> places{};
  const auto agree = words_of(test::verdicts(5, 3, {2}));
  std::get<Verdicts>(decode(agree)).verdicts.copy_to(places);
  EXPECT_EQ(places, (std::array{Verdict::denied, Verdict::denied, Verdict::denied}));
  const auto mixed = words_of(test::verdicts(5, 3, {1, 2, 4}));
  std::get<Verdicts>(decode(mixed)).verdicts.copy_to(places);
  EXPECT_EQ(places, (std::array{Verdict::approved, Verdict::denied, Verdict::table_full}));
}

TEST(Decode, one_byte_stands_for_all_verdicts) {
  const auto frame = words_of(test::verdicts(5, 3, {1}));
  const auto answer = std::get<Verdicts>(decode(frame));
  ASSERT_EQ(answer.verdicts.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(answer.verdicts[i], Verdict::approved);
  EXPECT_EQ(answer.id, 5u);
}

TEST(Decode, reads_details_from_an_answer_in_many_segments) {
  const auto bytes = test::answer(
      9,
      [](auto frame) {
        auto to = frame.initVerdicts();
        to.setCount(2);
        const std::array<uint8_t, 2> column{1, 2};
        to.setVerdicts(kj::arrayPtr(column.data(), column.size()));
        auto retry = to.initDetails().initRetryAfterMs(2);
        retry.set(1, 250);
      },
      8);
  const auto frame = words_of(bytes);
  ASSERT_GT(frame[0] & 0xFFFF'FFFF, 0u) << "the test needs several segments";
  ASSERT_EQ(frame_words(frame), frame.size());
  const auto answer = std::get<Verdicts>(decode(frame));
  EXPECT_EQ(answer.verdicts[1], Verdict::denied);
  ASSERT_EQ(answer.details.retry_after_ms.size(), 2u);
  EXPECT_EQ(answer.details.retry_after_ms[1], 250u);
  EXPECT_TRUE(answer.details.limit.empty());
}

TEST(Decode, refuses_fewer_verdicts_than_entries) {
  EXPECT_THROW(decode(words_of(test::verdicts(1, 3, {1, 1}))), ProtocolError);
}

TEST(Decode, refuses_a_frame_cut_short) {
  auto frame = words_of(test::verdicts(1, 200, std::vector<uint8_t>(200, 1)));
  frame.resize(frame.size() - 8);
  EXPECT_THROW(decode(frame), ProtocolError);
}

TEST(Decode, refuses_inspected_keys_with_sizes_beyond_the_text) {
  const auto bytes = test::answer(1, [](auto frame) {
    auto to = frame.initInspected();
    to.initKeys(3);
    to.initKeySizes(1).set(0, 4);
  });
  EXPECT_THROW(decode(words_of(bytes)), ProtocolError);
}

TEST(FrameWords, waits_for_the_whole_segment_table) {
  const std::array<uint64_t, 2> table{uint64_t{10} << 32 | 2, uint64_t{3} << 32 | 5};
  EXPECT_EQ(frame_words({}), std::nullopt);
  EXPECT_EQ(frame_words(std::span{table}.first(1)), std::nullopt);
  EXPECT_EQ(frame_words(table), 2u + 10 + 5 + 3);
}

TEST(FrameWords, refuses_bytes_that_are_no_frame) {
  const std::array<uint64_t, 1> text{0x312E312F50545448};  // "HTTP/1.1"
  EXPECT_THROW(frame_words(text), ProtocolError);
}

}  // namespace
}  // namespace sluicegate
