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

TEST(LogLine, writes_json) {
  EXPECT_EQ(line(Format::json), R"(,"level":"WARN","message":"it happened","key":"a b","n":5,)"
                                R"("request":{"method":"GET","header":{"X-Y":["1","2"]}}})");
  EXPECT_EQ(line(Format::json, "m", Fields::object()), R"(,"level":"WARN","message":"m"})");
}

TEST(LogLine, writes_text) {
  EXPECT_EQ(line(Format::text), R"(level=WARN message="it happened" key="a b" n=5 )"
                                R"(request.method=GET request.header.X-Y="[1 2]")");
}

TEST(LogLine, writes_system_default) {
  EXPECT_EQ(line(Format::system_default),
            R"(WARN it happened key="a b" n=5 request.method=GET request.header.X-Y="[1 2]")");
}

TEST(LogLine, quotes_values_that_could_be_misread) {
  EXPECT_EQ(line(Format::text, "m", {{"k", "a=b"}, {"list", {"a b", "c"}}, {"n", {1, 2}}}),
            R"(level=WARN message=m k="a=b" list="[a b c]" n="[1 2]")");
}

TEST(LogLine, writes_maps_durations_and_times_as_go_does) {
  const Fields pairs{{"id", "7"}, {"code", 404}, {"internal", nullptr}};
  EXPECT_EQ(map_value(Format::json, pairs), pairs);
  EXPECT_EQ(map_value(Format::text, pairs), "map[code:404 id:7 internal:<nil>]");
  EXPECT_EQ(map_value(Format::system_default, Fields::object()), "map[]");

  EXPECT_EQ(duration_value(Format::json, 86'990), 86'990);
  const auto duration = [](int64_t ns) {
    return duration_value(Format::text, ns).get<std::string>();
  };
  EXPECT_EQ(duration(0), "0s");
  EXPECT_EQ(duration(999), "999ns");
  EXPECT_EQ(duration(86'990), "86.99\u00b5s");
  EXPECT_EQ(duration(5'000'000), "5ms");
  EXPECT_EQ(duration(42'310'625), "42.310625ms");
  EXPECT_EQ(duration(1'500'000'000), "1.5s");
  EXPECT_EQ(duration(90'000'000'000), "1m30s");
  EXPECT_EQ(duration(3'723'000'000'001), "1h2m3.000000001s");

  EXPECT_EQ(time_value(Format::json, 1'234'567'890), "1970-01-01T00:00:01.234567890Z");
  EXPECT_EQ(time_value(Format::text, 1'234'567'890), "1970-01-01T00:00:01.234Z");
}

TEST(LogLine, replaces_bytes_that_are_not_utf8) {
  const std::string text = line(Format::json, "m", {{"key", "\xFF<\n"}});
  EXPECT_EQ(text, ",\"level\":\"WARN\",\"message\":\"m\",\"key\":\"\\ufffd<\\n\"}");
}

TEST(LogLine, escapes_line_separators) {
  EXPECT_EQ(line(Format::json, "a\xE2\x80\xA8\xE2\x80\xA9\xE2\x80\xA6", Fields::object()),
            ",\"level\":\"WARN\",\"message\":\"a\\u2028\\u2029\xE2\x80\xA6\"}");
}

TEST(LogLine, shows_the_line_of_code_that_logs) {
  const Source here = Source::here();
  const std::string text = make_line(Format::json, Level::info, "m", Fields::object(), &here);
  const Fields read = Fields::parse(std::string{"{"}.append(text, 1));
  EXPECT_EQ(read["source"]["line"], here.line);
  EXPECT_TRUE(read["source"]["file"].get<std::string>().ends_with("line_test.cpp"));
  EXPECT_EQ(read["source"]["function"], "TestBody");
  EXPECT_EQ(read.begin().key(), "level");
  const std::string plain = make_line(Format::text, Level::info, "m", Fields::object(), &here);
  EXPECT_TRUE(plain.starts_with("level=INFO source=")) << plain;
  const std::string line = std::to_string(here.line);
  EXPECT_TRUE(plain.ends_with(std::string{":"}.append(line).append(" message=m"))) << plain;
}

TEST(LogLine, names_every_level) {
  EXPECT_EQ(level_name(Level::debug), "DEBUG");
  EXPECT_EQ(level_name(Level::info), "INFO");
  EXPECT_EQ(level_name(Level::warning), "WARN");
  EXPECT_EQ(level_name(Level::error), "ERROR");
}

}  // namespace
}  // namespace sluice::log
