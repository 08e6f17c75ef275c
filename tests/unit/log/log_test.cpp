// Method: the log writes into a pipe; the tests compare the text read from the pipe.
#include "log/log.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace sluice::log {
namespace {

using std::chrono::milliseconds;

class Pipe {
 public:
  Pipe() {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    out_ = ends[0];
    in_ = ::fdopen(ends[1], "w");
  }
  ~Pipe() { ::close(out_); }  // a log that was not stopped in time may still write at the other end

  std::FILE* in() noexcept { return in_; }

  // Reads up to a line with `end` in it.
  std::string read_until(const std::string& end) {
    std::string text;
    while (text.find(end) == std::string::npos || text.back() != '\n') {
      char bytes[4'096];
      const ssize_t count = ::read(out_, bytes, sizeof bytes);
      EXPECT_GT(count, 0);
      if (count <= 0) break;
      text.append(bytes, static_cast<size_t>(count));
    }
    return text;
  }

 private:
  int out_ = -1;
  std::FILE* in_ = nullptr;
};

// Times always have the same length.
std::string without_time(std::string line) {
  const std::string before = R"({"time":")";
  EXPECT_TRUE(line.starts_with(before)) << line;
  EXPECT_EQ(line.at(before.size() + 23), 'Z') << line;
  return line.erase(1, before.size() + 25);
}

TEST(Log, wants_nothing_before_it_starts) {
  EXPECT_FALSE(wants(Level::error));
  error("dropped");
  EXPECT_EQ(lines_lost(), 0u);
  EXPECT_TRUE(stop(milliseconds(1)));
}

TEST(Log, writes_wanted_lines_in_order) {
  Pipe pipe;
  start({.level = Level::warning, .includes_source = false, .stream = pipe.in()});
  EXPECT_FALSE(wants(Level::info));
  EXPECT_TRUE(wants(Level::warning));
  info("not wanted");
  warning("one", {{"n", 1}});
  error("two");
  ASSERT_TRUE(stop(milliseconds(10'000)));
  error("too late");
  const std::string text = pipe.read_until("two");
  const size_t end = text.find('\n');
  EXPECT_EQ(without_time(text.substr(0, end)), R"({"level":"WARN","message":"one","n":1})");
  EXPECT_EQ(without_time(text.substr(end + 1)), "{\"level\":\"ERROR\",\"message\":\"two\"}\n");
}

TEST(Log, writes_text_for_people_where_it_shall) {
  const auto line_of = [](Format format) {
    Pipe pipe;
    start({.format = format, .includes_source = false, .stream = pipe.in()});
    info("one", {{"n", 1}});
    EXPECT_TRUE(stop(milliseconds(10'000)));
    return pipe.read_until("\n");
  };
  const std::string text = line_of(Format::text);
  EXPECT_TRUE(text.starts_with("time=20")) << text;
  EXPECT_EQ(text.substr(29), " level=INFO message=one n=1\n");
  const std::string plain = line_of(Format::system_default);
  EXPECT_EQ(plain.at(4), '/') << plain;
  EXPECT_EQ(plain.substr(19), " INFO one n=1\n");
}

TEST(Log, counts_lines_that_the_system_does_not_take) {
  std::FILE* full = std::fopen("/dev/full", "w");
  start({.stream = full});
  info("one");
  info("two");
  ASSERT_TRUE(stop(milliseconds(10'000)));
  EXPECT_EQ(lines_lost(), 2u);
  std::fclose(full);
}

TEST(Log, overwrites_the_oldest_lines_while_its_reader_does_not_read) {
  Pipe pipe;
  start({.includes_source = false, .stream = pipe.in()});
  const std::string long_text(1'000, 'x');  // a pipe holds 64 KiB
  info("the first", {{"n", "first"}});
  EXPECT_NE(pipe.read_until("first").find("the first"), std::string::npos) << "it is writing";
  for (uint32_t i = 0; i < queue_lines_max + 500; ++i) info(long_text, {{"n", i}});
  EXPECT_GT(lines_lost(), 0u);
  EXPECT_LT(lines_lost(), 600u);
  EXPECT_FALSE(stop(milliseconds(50)));
  // A late reader gets the newest lines, and those that were already in the pipe.
  const std::string text = pipe.read_until("\"n\":" + std::to_string(queue_lines_max + 499) + "}");
  EXPECT_EQ(text.find("\"n\":200}"), std::string::npos) << "a pipe holds 64 lines of these";
}

}  // namespace
}  // namespace sluice::log
