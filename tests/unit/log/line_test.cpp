// Method: lines of each format, byte for byte; JSON is read back by the library that writes it.
#include "log/line.hpp"

#include <gtest/gtest.h>

namespace sluice::log {
namespace {

const Fields fields{
    {"key", "a b"}, {"n", 5}, {"request", {{"method", "GET"}, {"header", {{"X-Y", {"1", "2"}}}}}}};

std::string line(Format format, std::string_view message = "it happened",
                 const Fields& with = fields) {
  return make_line(format, Level::warning, message, with, nullptr);
}

TEST(LogLine, as_json) {
  EXPECT_EQ(line(Format::json), R"(,"level":"WARN","message":"it happened","key":"a b","n":5,)"
                                R"("request":{"method":"GET","header":{"X-Y":["1","2"]}}})");
  EXPECT_EQ(line(Format::json, "m", Fields::object()), R"(,"level":"WARN","message":"m"})");
}

TEST(LogLine, as_text) {
  EXPECT_EQ(line(Format::text), R"(level=WARN message="it happened" key="a b" n=5 )"
                                R"(request.method=GET request.header.X-Y=["1","2"])");
}

TEST(LogLine, as_system_default) {
  EXPECT_EQ(line(Format::system_default),
            R"(WARN it happened key="a b" n=5 request.method=GET request.header.X-Y=["1","2"])");
}

TEST(LogLine, a_value_that_could_be_misread_is_quoted) {
  const auto value = [](const char* text) {
    return line(Format::system_default, "m", {{"k", text}}).substr(std::string("WARN m k=").size());
  };
  EXPECT_EQ(value("plain-1.2:/x"), "plain-1.2:/x");
  EXPECT_EQ(value("\xC3\xA5"), "\xC3\xA5");
  EXPECT_EQ(value(""), R"("")");
  EXPECT_EQ(value("a b"), R"("a b")");
  EXPECT_EQ(value("a=b"), R"("a=b")");
  EXPECT_EQ(value("\"quoted\""), R"("\"quoted\"")");
  EXPECT_EQ(value("two\nlines"), R"("two\nlines")");
  EXPECT_EQ(value("back\\slash"), R"("back\\slash")");
}

TEST(LogLine, bytes_that_are_no_text_do_not_break_it) {
  const std::string text = line(Format::json, "m", {{"key", "\xFF<\n"}});
  EXPECT_EQ(text, ",\"level\":\"WARN\",\"message\":\"m\",\"key\":\"\xEF\xBF\xBD<\\n\"}");
}

TEST(LogLine, says_which_line_of_code_speaks) {
  const Source here = Source::here();
  const std::string text = make_line(Format::json, Level::info, "m", Fields::object(), &here);
  const Fields read = Fields::parse("{" + text.substr(1));
  EXPECT_EQ(read["source"]["line"], here.line);
  EXPECT_TRUE(read["source"]["file"].get<std::string>().ends_with("line_test.cpp"));
  EXPECT_EQ(read["source"]["function"], "TestBody");
  EXPECT_EQ(read.begin().key(), "level");
  const std::string plain = make_line(Format::text, Level::info, "m", Fields::object(), &here);
  EXPECT_TRUE(plain.starts_with("level=INFO source=")) << plain;
  EXPECT_TRUE(plain.ends_with(":" + std::to_string(here.line) + " message=m")) << plain;
}

TEST(LogLine, names_every_level) {
  EXPECT_EQ(level_name(Level::debug), "DEBUG");
  EXPECT_EQ(level_name(Level::info), "INFO");
  EXPECT_EQ(level_name(Level::warning), "WARN");
  EXPECT_EQ(level_name(Level::error), "ERROR");
}

}  // namespace
}  // namespace sluice::log
