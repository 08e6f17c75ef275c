// Goal: a chunked body is skipped to its very end and nothing behind it is touched. Method: bodies
// with bytes behind them, split in two at every point.
#include "wire/chunked_body.hpp"

#include <gtest/gtest.h>

#include <string>

#include "base/limits.hpp"

namespace sluice::wire {
namespace {

using Outcome = ChunkedBody::Outcome;

ChunkedBody::Skipped skip(ChunkedBody& body, std::string_view text) {
  return body.skip(std::as_bytes(std::span{text}));
}

Outcome outcome_of(std::string_view text) {
  ChunkedBody body;
  return skip(body, text).outcome;
}

TEST(ChunkedBody, ends_at_the_same_byte_wherever_it_is_cut) {
  const std::string text =
      "5;a=\"b\"\r\nhello\r\n0A \t;c\r\n0123456789\r\n00\r\nA: b\r\nC:\r\n\r\n";
  for (size_t cut = 0; cut < text.size(); ++cut) {
    ChunkedBody body;
    const auto first = skip(body, std::string_view{text}.substr(0, cut));
    EXPECT_EQ(first.outcome, Outcome::need_more) << cut;
    EXPECT_EQ(first.consumed_bytes, cut);
    const auto second = skip(body, text.substr(cut) + "GET / HTTP/1.1\r\n");
    EXPECT_EQ(second.outcome, Outcome::end) << cut;
    EXPECT_EQ(cut + second.consumed_bytes, text.size());
  }
}

TEST(ChunkedBody, counts_the_data_of_all_chunks) {
  std::string text;
  for (uint32_t i = 0; i < limits::http_body_bytes_max; ++i) text += "1\r\nx\r\n";
  EXPECT_EQ(outcome_of(text), Outcome::need_more);
  EXPECT_EQ(outcome_of(text + "0\r\n\r\n"), Outcome::end);
  EXPECT_EQ(outcome_of(text + "1\r\n"), Outcome::too_much_data);
}

TEST(ChunkedBody, bounds_extensions_and_trailer) {
  std::string text;
  while (text.size() < 20 * limits::http_header_bytes_max) text += "1;x\r\nx\r\n";
  EXPECT_EQ(outcome_of(text), Outcome::too_much_framing);
}

TEST(ChunkedBody, starts_again_after_reset) {
  ChunkedBody body;
  EXPECT_EQ(skip(body, "x").outcome, Outcome::malformed);
  body.reset();
  EXPECT_EQ(skip(body, "0\r\n\r\n").outcome, Outcome::end);
}

}  // namespace
}  // namespace sluice::wire
