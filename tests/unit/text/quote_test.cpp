// Method: examples, compared with the output of Go's log/slog for the same values.
#include "text/quote.hpp"

#include <gtest/gtest.h>

namespace sluice::text {
namespace {

TEST(Quote, quotes_values_that_could_be_misread) {
  for (const char* plain : {"plain", "a:b@c/d-1.2", "\\", "a\\b", "\xC3\xA5", "\xF0\x9F\x9A\xA6",
                            "\x7F", "[1]", "{}"}) {
    EXPECT_FALSE(needs_quotes(plain)) << plain;
  }
  for (const char* odd : {"", " ", "a b", "a=b", "\"", "a\nb", "\x01", "\xFF", "a\xC2\xA0z", "\xC3",
                          "\xE2\x80\xA8", "\xC0\x80", "\xED\xA0\x80", "\xEF\xBB\xBF"}) {
    EXPECT_TRUE(needs_quotes(odd)) << odd;
  }
}

TEST(Quote, escapes_as_go_does) {
  EXPECT_EQ(in_quotes(""), R"("")");
  EXPECT_EQ(in_quotes("a b"), R"("a b")");
  EXPECT_EQ(in_quotes("say \"a\\b\""), R"("say \"a\\b\"")");
  EXPECT_EQ(in_quotes("\a\b\f\n\r\t\v"), R"("\a\b\f\n\r\t\v")");
  EXPECT_EQ(in_quotes("\x01\x7F"), R"("\x01\x7f")");
  EXPECT_EQ(in_quotes("\xFF\xC3"), R"("\xff\xc3")");
  EXPECT_EQ(in_quotes("\xC3\xA5\xE2\x82\xAC"), "\"\xC3\xA5\xE2\x82\xAC\"");
  EXPECT_EQ(in_quotes("a\xC2\xA0z\xE2\x80\xA8"), R"("a\u00a0z\u2028")");
  EXPECT_EQ(in_quotes("\xF3\xB0\x80\x80"), R"("\U000f0000")");
  EXPECT_EQ(in_quotes("\xED\xA0\x80"), R"("\xed\xa0\x80")") << "a surrogate is no character";
}

TEST(Quote, quotes_and_cuts_an_excerpt) {
  EXPECT_EQ(quoted_excerpt("a\n"), R"("a\n")");
  EXPECT_EQ(quoted_excerpt(std::string(60, 'x')), '"' + std::string(60, 'x') + '"');
  EXPECT_EQ(quoted_excerpt(std::string(61, 'x')), '"' + std::string(60, 'x') + "\u2026\"");
}

TEST(Quote, shortens_by_whole_characters) {
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("abcd", 3), "abc\u2026");
  EXPECT_EQ(shortened("\u00e5\u20ac", 5), "\u00e5\u20ac");
  for (const size_t bytes_max : {2, 3, 4}) {
    EXPECT_EQ(shortened("\u00e5\u20acz", bytes_max), "\u00e5\u2026") << bytes_max;
  }
  EXPECT_EQ(shortened("\u00e5\u20acz", 5), "\u00e5\u20ac\u2026");
  EXPECT_EQ(shortened("ab\U0001F642z", 5), "ab\u2026");
  EXPECT_EQ(shortened("\U0001F642", 1), "\u2026");
  EXPECT_EQ(shortened("abc", 0), "\u2026");
}

TEST(Quote, shortens_bytes_that_are_not_utf8_at_the_bound) {
  EXPECT_EQ(shortened("a\x80\x80\x80\x80\x80", 4), "a\x80\x80\x80\u2026");
  EXPECT_EQ(shortened("\xF0\x9F\x9Fz", 3), "\xF0\x9F\x9F\u2026");
  EXPECT_EQ(shortened("ab\xC3", 2), "ab\u2026");
}

}  // namespace
}  // namespace sluice::text
