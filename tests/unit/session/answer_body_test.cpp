// Goal: a body is read once, in order, whatever the sizes of its parts and of what reads them.
// Method: parts and reads of every small size.
#include "session/answer_body.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace sluice::session {
namespace {

std::string read(AnswerBody& body, size_t bytes_max) {
  std::string out(bytes_max, '\0');
  out.resize(body.read(std::as_writable_bytes(std::span(out))));
  return out;
}

TEST(AnswerBody, is_read_whole) {
  AnswerBody body;
  EXPECT_FALSE(body.is_read());
  body.set("answer");
  EXPECT_EQ(read(body, 4), "answ");
  EXPECT_EQ(body.unread_bytes(), 2u);
  EXPECT_FALSE(body.is_read());
  EXPECT_EQ(read(body, 4), "er");
  EXPECT_TRUE(body.is_read());
  EXPECT_EQ(read(body, 4), "");
}

TEST(AnswerBody, without_a_byte_is_read_at_once) {
  AnswerBody body;
  body.set("");
  EXPECT_TRUE(body.is_read());
}

TEST(AnswerBody, grows_while_it_is_read) {
  for (size_t most = 1; most < 8; ++most) {
    AnswerBody body;
    std::string all;
    for (int part = 0; part < 20; ++part) {
      const size_t added = body.append(10, [&](std::span<std::byte> out) {
        EXPECT_EQ(out.size(), 10u);
        out[0] = out[1] = std::byte{static_cast<unsigned char>('a' + part)};
        return size_t{2};
      });
      EXPECT_EQ(added, 2u);
      all += read(body, most);
    }
    body.end();
    while (!body.is_read()) all += read(body, most);
    EXPECT_EQ(all, "aabbccddeeffgghhiijjkkllmmnnooppqqrrsstt") << most;
  }
}

TEST(AnswerBody, has_room_until_too_much_is_unread) {
  AnswerBody body;
  const auto add = [&](size_t bytes) {
    body.append(bytes, [](std::span<std::byte> out) { return out.size(); });
  };
  add(AnswerBody::unread_bytes_max - 1);
  EXPECT_TRUE(body.has_room());
  add(1);
  EXPECT_FALSE(body.has_room());
  read(body, 1);
  EXPECT_TRUE(body.has_room());
}

}  // namespace
}  // namespace sluice::session
