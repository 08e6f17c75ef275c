// Goal: one send at a time, promises that hold, and an end in two steps.
// Method: a connection over an Io that writes down its calls.
#include "net/connection.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "support/fake_io.hpp"

namespace sluice::net {
namespace {

using Calls = std::vector<std::string>;

class ConnectionTest : public ::testing::Test {
 protected:
  void write(const std::string& text) {
    std::memcpy(connection_.output().room(text.size()).data(), text.data(), text.size());
    connection_.output().commit(text.size());
  }

  support::FakeIo io_;
  ConnectionMemory memory_{2};
  Connection connection_{io_, {1, 7}, memory_};
};

TEST_F(ConnectionTest, sends_all_that_was_written_in_one_send) {
  write("one");
  write("two");
  connection_.flush(0);
  EXPECT_EQ(io_.sent, (Calls{"onetwo"}));
}

TEST_F(ConnectionTest, keeps_one_send_in_flight) {
  write("one");
  connection_.flush(0);
  write("two");
  connection_.flush(0);
  EXPECT_EQ(io_.sent.size(), 1U);
  connection_.on_sent(3);
  connection_.flush(0);
  EXPECT_EQ(io_.sent, (Calls{"one", "two"}));
}

TEST_F(ConnectionTest, starts_and_stops_reading_once) {
  connection_.start_reading();
  connection_.start_reading();
  connection_.stop_reading();
  connection_.stop_reading();
  EXPECT_EQ(io_.calls, (Calls{"receive_start", "receive_stop"}));
}

TEST_F(ConnectionTest, counts_promises_as_output) {
  EXPECT_TRUE(connection_.output_under_low());
  connection_.reserve_output(limits::output_high_bytes + 1);
  EXPECT_TRUE(connection_.output_over_high());
  connection_.release_output(limits::output_high_bytes + 1);
  EXPECT_FALSE(connection_.output_over_high());
}

TEST_F(ConnectionTest, flushes_before_it_ends_its_side) {
  write("bye");
  connection_.finish();
  connection_.flush(0);
  EXPECT_EQ(io_.calls, (Calls{"receive_start", "send"}));
  connection_.on_sent(3);
  connection_.flush(0);
  EXPECT_EQ(io_.calls.back(), "send_finish");
  EXPECT_FALSE(connection_.ready_to_close());
  connection_.on_end_of_stream();
  EXPECT_TRUE(connection_.ready_to_close());
}

TEST_F(ConnectionTest, the_peers_time_to_end_begins_behind_the_last_byte) {
  write("bye");
  connection_.finish();
  connection_.flush(5);
  EXPECT_EQ(connection_.finished_ms(), base::never_ms);
  connection_.on_sent(3);
  connection_.flush(900);
  EXPECT_EQ(connection_.finished_ms(), 900);
  connection_.flush(901);
  EXPECT_EQ(connection_.finished_ms(), 900);
}

TEST_F(ConnectionTest, is_ready_to_close_when_broken) {
  write("lost");
  connection_.flush(0);
  connection_.on_sent(-32);
  EXPECT_TRUE(connection_.broken());
  EXPECT_TRUE(connection_.ready_to_close());
}

TEST_F(ConnectionTest, closes_once) {
  connection_.close();
  connection_.close();
  EXPECT_EQ(io_.calls, (Calls{"close"}));
  connection_.start_reading();
  connection_.flush(0);
  EXPECT_EQ(io_.calls.size(), 1U);
}

TEST_F(ConnectionTest, frees_memory_only_when_idle) {
  write(std::string(100'000, 'x'));
  connection_.trim();
  EXPECT_EQ(connection_.output().unsent_bytes(), 100'000U);
  connection_.flush(0);
  connection_.on_sent(100'000);
  connection_.trim();
  EXPECT_EQ(connection_.output().peak_bytes(), 0U);
  write("still usable");
  connection_.flush(0);
  EXPECT_EQ(io_.sent.back(), "still usable");
}

TEST_F(ConnectionTest, frees_what_received_bytes_have_touched_but_for_those_that_are_unparsed) {
  const std::vector<std::byte> large(100'000, std::byte{'x'});
  net::InputBuffer& input = connection_.input();
  ASSERT_TRUE(input.append(large));
  const std::byte* const memory = input.unparsed().data();
  connection_.trim_input();
  EXPECT_EQ(memory[99'999], std::byte{'x'}) << "it is still to be parsed";
  input.consume(99'000);
  connection_.trim_input();
  EXPECT_EQ(input.unparsed().size(), 1'000U);
  EXPECT_EQ(input.unparsed().data(), memory);
  EXPECT_EQ(memory[999], std::byte{'x'});
  EXPECT_EQ(memory[50'000], std::byte{}) << "its page is the kernel's again";
  EXPECT_EQ(input.peak_bytes(), 1'000U);

  input.consume(1'000);
  ASSERT_TRUE(input.append(large));
  input.consume(100'000);
  connection_.trim_input();
  EXPECT_EQ(memory[50'000], std::byte{}) << "all of it was parsed";
}

TEST_F(ConnectionTest, leaves_no_large_memory_to_the_next_of_its_slot) {
  std::byte* memory = nullptr;
  {
    Connection large(io_, {0, 1}, memory_);
    memory = large.output().room(100'000).data();
    std::memset(memory, 'x', 100'000);
    large.output().commit(100'000);
    large.flush(0);
    large.on_sent(100'000);
  }
  // Freed pages read as zero.
  EXPECT_EQ(memory[50'000], std::byte{0});
}

TEST_F(ConnectionTest, has_memory_of_its_own_for_what_is_undelivered) {
  for (uint32_t index = 0; index < 2; ++index) {
    for (const std::span<uint64_t> words : memory_.undelivered(index)) {
      ASSERT_EQ(words.size(), limits::undelivered_words);
      std::ranges::fill(words, ~uint64_t{0});
    }
  }
  for (const std::byte byte : memory_.output(0).room(limits::output_bytes(1))) {
    ASSERT_EQ(byte, std::byte{0});
  }
  memory_.discard(0);
  EXPECT_EQ(memory_.undelivered(0)[1].back(), 0u);
  EXPECT_EQ(memory_.undelivered(1)[0].front(), ~uint64_t{0});
}

}  // namespace
}  // namespace sluice::net
