// Goal: the frames of a lane are byte for byte those of the library's own builder; the owner reads
//       the entries that were forwarded, on its fast path, and no frame is longer than it accepts.
// Method: golden files of the `capnp` tool; random messages are encoded, decoded by the server's
//         decoder, and compared entry by entry.
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
#include "wire/standard_frame.hpp"

namespace sluice::wire {
namespace {

constexpr FrameBounds owners_bounds{limits::frame_bytes_max, limits::frame_entries_max};

// The frame that `encode` writes into room of exactly this size, which was full of old bytes.
template <typename Encode>
std::vector<uint64_t> frame_of(size_t bytes, Encode encode) {
  test::GuardedBuffer buffer(bytes);
  const std::span<std::byte> out = buffer.last(bytes);
  std::memset(out.data(), 0xA5, out.size());
  EXPECT_EQ(encode(out), bytes);
  std::vector<uint64_t> words(bytes / word_bytes);
  std::memcpy(words.data(), out.data(), bytes);
  return words;
}

std::vector<uint64_t> forward_frame(uint64_t id, std::span<const ForwardRun> runs,
                                    const ForwardCut& cut) {
  return frame_of(cut.frame_bytes, [&](auto out) { return encode_forward(id, runs, cut, out); });
}

void expect_golden(const std::string& name, const std::vector<uint64_t>& words) {
  const auto golden = test::golden_frame("ClientFrame", name).bytes();
  ASSERT_EQ(words.size() * word_bytes, golden.size()) << name;
  EXPECT_EQ(std::memcmp(words.data(), golden.data(), golden.size()), 0) << name;
}

const std::vector<uint16_t> two_sizes{6, 7};
constexpr std::string_view two_keys = "user:1user:22";

TEST(LaneCodecEncode, writes_the_golden_hellos) {
  const auto write = [](uint64_t id, const LaneHello& hello) {
    return frame_of(hello_bytes(hello), [&](auto out) { return encode_hello(id, hello, out); });
  };
  expect_golden("hello", write(1, {.client_name = "golden/1.0", .wanted_shard_plus_one = 3}));
  expect_golden("hello_minimal", write(0, {}));
  expect_golden("hello_token", write(1, {.client_name = "golden", .token = "secret"}));
}

TEST(LaneCodecEncode, cuts_a_long_name_as_the_server_would) {
  const std::string name(limits::client_name_bytes_max + 9, 'n');
  const LaneHello hello{.client_name = name};
  const auto words =
      frame_of(hello_bytes(hello), [&](auto out) { return encode_hello(1, hello, out); });
  const auto request = decode(std::as_bytes(std::span(words)));
  EXPECT_EQ(std::get<HelloRequest>(request->body).client_name.size(),
            limits::client_name_bytes_max);
}

TEST(LaneCodecEncode, writes_the_golden_forwards_of_plain_entries) {
  const std::vector<ForwardRun> two{{.text = two_keys, .key_sizes = two_sizes}};
  expect_golden("forward", forward_frame(7, two, cut_forward(two, 0, owners_bounds)));

  std::string text;
  for (int index = 0; index < 256; ++index) {
    const std::string digits = std::to_string(100'000 + index).substr(1);
    text += "customer:" + digits;
  }
  const std::vector<uint16_t> sizes(256, 14);
  // However the entries are spread over runs.
  for (const size_t first : {0, 1, 100, 256}) {
    const std::vector<ForwardRun> runs{{.text = std::string_view(text).substr(0, 14 * first),
                                        .key_sizes = std::span(sizes).first(first)},
                                       {.text = std::string_view(text).substr(14 * first),
                                        .key_sizes = std::span(sizes).subspan(first)}};
    expect_golden("forward_256",
                  forward_frame(uint64_t{1} << 63, runs, cut_forward(runs, 0, owners_bounds)));
  }
}

std::vector<api::Entry> two_entries(const api::Entry& terms) {
  std::vector<api::Entry> entries(2, terms);
  entries[0].key_data = two_keys.data();
  entries[0].key_bytes = 6;
  entries[1].key_data = two_keys.data() + 6;
  entries[1].key_bytes = 7;
  return entries;
}

// What all entries have is a field, no column.
TEST(LaneCodecEncode, writes_the_golden_forward_of_entries_that_may_wait) {
  const auto entries =
      two_entries({.flags = api::flag::may_wait | api::flag::wants_details, .wait_ms_max = 250});
  const std::vector<ForwardRun> runs{{.entries = entries}};
  expect_golden("forward_waits", forward_frame(7, runs, cut_forward(runs, 0, owners_bounds)));
}

TEST(LaneCodecEncode, writes_detailed_entries_without_wishes_as_plain_ones) {
  const auto entries = two_entries({});
  const std::vector<ForwardRun> runs{{.entries = entries}};
  expect_golden("forward", forward_frame(7, runs, cut_forward(runs, 0, owners_bounds)));
}

TEST(LaneCodecEncode, writes_the_golden_withdraws_and_ping) {
  const std::vector<uint32_t> entries{0, 5};
  const auto write = [](uint64_t target, std::span<const uint32_t> positions) {
    return frame_of(withdraw_bytes(positions.size()),
                    [&](auto out) { return encode_withdraw(8, target, positions, out); });
  };
  expect_golden("withdraw", write(7, entries));
  expect_golden("withdraw_all", write(7, {}));
  expect_golden("ping", frame_of(ping_bytes, [](auto out) { return encode_ping(7, out); }));
}

TEST(LaneCodecEncode, writes_the_golden_refunds) {
  const std::vector<Permit> permits{permit_of({.key_tag = 0x0123'4567'89AB'CDEF,
                                               .window_end_ms = 12'345,
                                               .key_position = 67'890,
                                               .cost = 3},
                                              2),
                                    permit_of({.key_tag = UINT64_MAX,
                                               .window_end_ms = int64_t{1} << 40,
                                               .key_position = uint32_t{1} << 31,
                                               .cost = 1},
                                              0)};
  expect_golden("refund", frame_of(refund_bytes(permits),
                                   [&](auto out) { return encode_refund(7, permits, out); }));
  const std::vector<LateApproval> late{{.key = "user:1", .cost = 1}, {.key = "user:22", .cost = 3}};
  expect_golden("refund_late", frame_of(refund_bytes(late),
                                        [&](auto out) { return encode_refund(8, 7, late, out); }));
}

TEST(LaneCodecEncode, fits_the_most_permits_into_a_frame) {
  const std::vector<Permit> most(refund_permits_max);
  EXPECT_LE(refund_bytes(most), limits::frame_bytes_max);
}

// ------------------------------------------------------------------------------ random messages

uint64_t seed_of_messages() {
  const char* given = std::getenv("SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

// Entries of random forms and wishes, in runs, as a message has them.
class Message {
 public:
  Message(std::mt19937_64& random, size_t entries_count) {
    entries_.reserve(entries_count);
    overrides_.reserve(entries_count);
    text_.reserve(entries_count * 40);
    const bool only_plain = random() % 3 == 0;
    const bool alike = random() % 3 == 0;
    bool plain = true;
    for (size_t index = 0; index < entries_count; ++index) {
      if (random() % 8 == 0) plain = !plain;
      if (alike && index > 0) {
        add(copy_of(entries_.front(), random), plain_.front());
      } else {
        add(only_plain || plain ? plain_entry(random) : detailed_entry(random),
            only_plain || plain);
      }
    }
    cut_into_runs();
  }

  std::span<const ForwardRun> runs() const { return runs_; }
  std::span<const api::Entry> entries() const { return entries_; }

 private:
  void give_key(api::Entry& entry, std::mt19937_64& random) {
    entry.key_bytes = static_cast<uint16_t>(random() % 40);
    entry.key_data = text_.data() + text_.size();
    for (size_t byte = 0; byte < entry.key_bytes; ++byte) {
      text_ += static_cast<char>('a' + random() % 26);
    }
  }
  api::Entry plain_entry(std::mt19937_64& random) {
    api::Entry entry;
    give_key(entry, random);
    return entry;
  }
  api::Entry copy_of(api::Entry entry, std::mt19937_64& random) {
    give_key(entry, random);
    return entry;
  }
  api::Entry detailed_entry(std::mt19937_64& random) {
    api::Entry entry = plain_entry(random);
    entry.op = static_cast<api::Op>(random() % 3);
    entry.cost = 1 + static_cast<uint32_t>(random() % 3);
    if (entry.op == api::Op::look && random() % 2 == 0) entry.cost = 0;
    if (random() % 2 == 0) {
      overrides_.push_back({.max_requests = random() % 2 == 0 ? api::keep : 5,
                            .max_requests_in_queue = random() % 2 == 0 ? api::keep : 0,
                            .window_ms = random() % 2 == 0 ? api::keep_window : 60'000});
      entry.given_overrides = &overrides_.back();
    }
    namespace flag = api::flag;
    if (random() % 2 == 0) entry.flags |= flag::wants_details;
    if ((entry.flags & flag::wants_details) != 0 && random() % 2 == 0)
      entry.flags |= flag::shows_id;
    if (random() % 2 == 0) {
      entry.flags |= flag::may_wait;
      entry.wait_ms_max = random() % 2 == 0 ? 0 : 750;
      if (random() % 4 == 0) entry.flags |= flag::waiters_full;
      if (random() % 4 == 0) entry.flags |= flag::connection_waiters_full;
    }
    return entry;
  }
  void add(const api::Entry& entry, bool plain) {
    entries_.push_back(entry);
    sizes_.push_back(entry.key_bytes);
    plain_.push_back(plain);
  }
  void cut_into_runs() {
    for (size_t first = 0, end = 0; first < entries_.size(); first = end) {
      size_t bytes = 0;
      while (end < entries_.size() && plain_[end] == plain_[first]) bytes += sizes_[end++];
      const size_t count = end - first;
      if (plain_[first]) {
        runs_.push_back({.text = {entries_[first].key_data, bytes},
                         .key_sizes = std::span(sizes_).subspan(first, count)});
      } else {
        runs_.push_back({.entries = std::span(entries_).subspan(first, count)});
      }
    }
  }

  std::string text_;
  std::vector<api::Entry> entries_;
  std::vector<api::Overrides> overrides_;
  std::vector<uint16_t> sizes_;
  std::vector<bool> plain_;
  std::vector<ForwardRun> runs_;
};

// What the owner reads of one entry.
void expect_entry(const ForwardRequest& forward, size_t index, const api::Entry& entry) {
  namespace flag = api::flag;
  const auto has = [&](uint8_t bit) { return (entry.flags & bit) != 0; };
  EXPECT_EQ(forward.key_sizes[index], entry.key_bytes);
  EXPECT_EQ(forward.costs.empty() ? 1 : forward.costs[index], entry.cost);
  EXPECT_EQ(forward.operations.empty() ? 0 : forward.operations[index],
            static_cast<uint8_t>(entry.op));
  EXPECT_EQ(forward.overrides(index), entry.overrides());
  const uint8_t waits = forward.wait_bits(index);
  EXPECT_EQ((waits & entry_bit::may_wait) != 0, has(flag::may_wait));
  EXPECT_EQ((waits & entry_bit::waiters_full) != 0, has(flag::waiters_full));
  EXPECT_EQ((waits & entry_bit::connection_waiters_full) != 0, has(flag::connection_waiters_full));
  if (has(flag::may_wait)) {
    EXPECT_EQ(forward.wait_limit(index), entry.wait_ms_max);
  }
  const uint8_t wishes = forward.detail_wishes(index);
  EXPECT_EQ((wishes & entry_detail_bit::wants_details) != 0, has(flag::wants_details));
  EXPECT_EQ((wishes & entry_detail_bit::takes_id) != 0, has(flag::shows_id));
}

// Returns how many entries the frame has.
uint32_t expect_frame(const Message& message, uint32_t first, const FrameBounds& bounds) {
  const ForwardCut cut = cut_forward(message.runs(), first, bounds);
  EXPECT_GE(cut.entries_count, 1u);
  EXPECT_LE(cut.entries_count, bounds.frame_entries_max);
  if (cut.entries_count > 1) {
    EXPECT_LE(cut.frame_bytes, bounds.frame_bytes_max);
  }
  const auto words = forward_frame(77, message.runs(), cut);
  const auto bytes = std::as_bytes(std::span(words));
  EXPECT_TRUE(read_standard_frame(bytes));
  const auto request = decode(bytes);
  if (!request) {
    ADD_FAILURE() << error_name(request.error().code);
    return cut.entries_count;
  }
  EXPECT_EQ(request->id, 77u);
  const auto& forward = std::get<ForwardRequest>(request->body);
  const auto entries = message.entries().subspan(first, cut.entries_count);
  std::string text;
  for (const api::Entry& entry : entries) text += entry.key();
  EXPECT_EQ(forward.keys, text);
  EXPECT_EQ(forward.key_sizes.size(), entries.size());
  for (size_t index = 0; index < entries.size(); ++index) {
    expect_entry(forward, index, entries[index]);
  }
  return cut.entries_count;
}

TEST(LaneCodecEncode, forwards_every_entry_as_it_is) {
  const uint64_t seed = seed_of_messages();
  SCOPED_TRACE("SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    const Message message(random, 1 + random() % 60);
    EXPECT_EQ(expect_frame(message, 0, owners_bounds), message.entries().size());
    if (HasFailure()) return;
  }
}

TEST(LaneCodecEncode, cuts_what_is_too_long_into_several_frames) {
  const uint64_t seed = seed_of_messages();
  SCOPED_TRACE("SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 100; ++round) {
    const Message message(random, 1 + random() % 100);
    const FrameBounds bounds{200 + random() % 2'000, 1 + static_cast<uint32_t>(random() % 60)};
    for (uint32_t first = 0; first < message.entries().size();) {
      first += expect_frame(message, first, bounds);
    }
    if (HasFailure()) return;
  }
}

// The longest frame of plain entries that a client may send has a few bytes more as a Forward.
TEST(LaneCodecEncode, forwards_the_longest_acquire_in_two_frames) {
  const std::vector<uint16_t> sizes(4, 65'508);
  const std::string text(size_t{4} * 65'508, 'k');
  const std::vector<ForwardRun> runs{{.text = text, .key_sizes = sizes}};
  const ForwardCut first = cut_forward(runs, 0, owners_bounds);
  EXPECT_EQ(first.entries_count, 2u);
  const ForwardCut second = cut_forward(runs, first.entries_count, owners_bounds);
  EXPECT_EQ(second.entries_count, 2u);
  EXPECT_LE(second.frame_bytes, limits::frame_bytes_max);
}

}  // namespace
}  // namespace sluice::wire
