// Every error code has a name, a sentence, and an answer to whether the connection goes on. Method:
// all numbers in turn; docs/protocol.md is compared in tests/unit/proto.
#include "base/error_code.hpp"

#include <gtest/gtest.h>

#include <set>

namespace sluice {
namespace {

constexpr int last_code = static_cast<int>(ErrorCode::secret_expected);

TEST(ErrorCode, has_a_name_of_its_own_and_a_text) {
  std::set<std::string_view> names;
  for (int number = 1; number <= last_code; ++number) {
    const auto code = static_cast<ErrorCode>(number);
    EXPECT_TRUE(names.insert(error_name(code)).second) << error_name(code);
    EXPECT_FALSE(error_text(code).empty()) << error_name(code);
  }
}

TEST(ErrorCode, of_a_single_request_lets_the_connection_go_on) {
  for (const ErrorCode code :
       {ErrorCode::unsupported, ErrorCode::bad_columns, ErrorCode::too_many_entries,
        ErrorCode::bad_cost, ErrorCode::bad_override, ErrorCode::bad_wait_limit,
        ErrorCode::id_in_use, ErrorCode::draining, ErrorCode::bad_flag, ErrorCode::bad_amount,
        ErrorCode::bad_lifetime, ErrorCode::bad_subject}) {
    EXPECT_FALSE(ends_connection(code)) << error_name(code);
  }
}

TEST(ErrorCode, of_the_stream_ends_the_connection) {
  for (const ErrorCode code :
       {ErrorCode::malformed, ErrorCode::frame_too_large, ErrorCode::hello_expected,
        ErrorCode::unexpected_hello, ErrorCode::unsupported_version,
        ErrorCode::too_many_outstanding, ErrorCode::too_many_connections, ErrorCode::hello_timeout,
        ErrorCode::frame_timeout, ErrorCode::secret_expected}) {
    EXPECT_TRUE(ends_connection(code)) << error_name(code);
  }
}

TEST(ErrorCode, beyond_the_last_is_none) {
  EXPECT_EQ(error_name(static_cast<ErrorCode>(last_code + 1)), "none");
  EXPECT_EQ(error_name(static_cast<ErrorCode>(255)), "none");
}

}  // namespace
}  // namespace sluice
