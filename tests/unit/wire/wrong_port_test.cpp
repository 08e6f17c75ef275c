// HTTP on the native port: what counts as such, and the whole answer.
#include "wire/wrong_port.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>

namespace sluice::wire {
namespace {

bool is_http(std::string_view text) {
  return is_http_request(std::as_bytes(std::span(text)));
}

std::string wrong_port_answer(std::string_view request, uint16_t rest_port) {
  std::array<std::byte, wrong_port_bytes_max> out;
  const size_t size =
      encode_wrong_port(std::as_bytes(std::span(request)), rest_port, 784'111'777'000'000'000, out);
  return {reinterpret_cast<const char*>(out.data()), size};
}

constexpr std::string_view wrong_port_head =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=UTF-8\r\n"
    "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";

TEST(WrongPort, knows_the_methods_of_http) {
  for (const char* head : {"GET / HTTP/1.1", "PUT", "POST /", "OPTIONS *", "DELETE /x"}) {
    EXPECT_TRUE(is_http(head)) << head;
  }
}

TEST(WrongPort, is_nothing_else) {
  for (const char* head : {"", "GE", "get / HTTP/1.1", "G@T", "GE\x7b", "PRI * HTTP/2.0"}) {
    EXPECT_FALSE(is_http(head)) << head;
  }
}

TEST(WrongPort, answers_with_the_other_one) {
  EXPECT_EQ(wrong_port_answer("GET /", 65'535),
            std::string(wrong_port_head) +
                "Content-Length: 63\r\nConnection: close\r\n\r\n"
                "this is the port of the native protocol: REST is on port 65535\n");
}

TEST(WrongPort, answers_head_without_a_body) {
  EXPECT_EQ(wrong_port_answer("HEAD /", 65'535),
            std::string(wrong_port_head) + "Connection: close\r\n\r\n");
}

}  // namespace
}  // namespace sluice::wire
