// Goal: characters that YAML does not allow are found; a reader that runs ahead is stopped.
// Method: texts with one such character, and direct reads.
#include "transfer/yaml_source.hpp"

#include <gtest/gtest.h>

#include <istream>
#include <string>

namespace sluice::transfer {
namespace {

std::string place_in(std::string_view text) {
  const std::optional<TextPosition> bad = find_bad_character(text);
  return bad ? place_of(*bad) : "";
}

TEST(YamlSource, finds_the_first_bad_character) {
  EXPECT_EQ(place_in(""), "");
  EXPECT_EQ(place_in("a: b\r\n\tc\n\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80 \xC2\x85\n"), "");
  EXPECT_EQ(place_in("\xEF\xBB\xBF a: b\n"), "") << "a byte order mark at the begin";
  for (const std::string_view bad :
       {std::string_view("\0", 1), std::string_view("\x04"), std::string_view("\x1B"),
        std::string_view("\x7F"), std::string_view("\xC2\x80"), std::string_view("\xEF\xBB\xBF"),
        std::string_view("\xEF\xBF\xBE"), std::string_view("\xEF\xBF\xBF"),
        std::string_view("\xFF"), std::string_view("\xC3"), std::string_view("\xED\xA0\x80")}) {
    EXPECT_EQ(place_in("a: b\nab" + std::string(bad) + "c\n"), "line 2, column 3") << bad;
  }
}

TEST(YamlSource, hands_out_the_whole_text_that_is_reported) {
  const std::string text(yaml_ahead_bytes_max * 2, 'x');
  YamlSource source(text);
  std::istream stream(&source);
  std::string read(yaml_ahead_bytes_max, '\0');
  ASSERT_TRUE(stream.read(read.data(), static_cast<std::streamsize>(read.size())));
  source.reported_up_to(yaml_ahead_bytes_max);
  ASSERT_TRUE(stream.read(read.data(), static_cast<std::streamsize>(read.size())));
  EXPECT_FALSE(stream.get() != std::istream::traits_type::eof());
  EXPECT_FALSE(source.is_too_far());
}

TEST(YamlSource, ends_when_it_is_read_too_far_ahead) {
  const std::string text(yaml_ahead_bytes_max * 2, 'x');
  YamlSource source(text);
  std::istream stream(&source);
  std::string read(text.size(), '\0');
  stream.read(read.data(), static_cast<std::streamsize>(read.size()));
  EXPECT_TRUE(source.is_too_far());
  EXPECT_LE(static_cast<size_t>(stream.gcount()), yaml_ahead_bytes_max + 8'192);
}

}  // namespace
}  // namespace sluice::transfer
