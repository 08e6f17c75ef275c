// Goal: the schema and our name functions have the same names for the same numbers, and neither
//       misses one. Method: the schema's own reflection is compared with the functions.
#include "wire/capnp_codec.hpp"

#include <capnp/schema.h>
#include <gtest/gtest.h>
#include <sluicegate.capnp.h>

#include <cctype>
#include <string>

namespace sluice::wire {
namespace {

std::string snake_case(std::string_view camel_case) {
  std::string name;
  for (const char letter : camel_case) {
    if (std::isupper(static_cast<unsigned char>(letter))) name += '_';
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return name;
}

TEST(CapnpCodec, has_the_schemas_name_of_every_verdict) {
  const auto enumerants = capnp::Schema::from<schema::Verdict>().getEnumerants();
  EXPECT_EQ(enumerants.size(), api::verdicts_count);
  for (const auto enumerant : enumerants) {
    EXPECT_EQ(snake_case(enumerant.getProto().getName().cStr()),
              api::verdict_name(static_cast<api::Verdict>(enumerant.getOrdinal())));
  }
}

TEST(CapnpCodec, has_the_schemas_name_of_every_error) {
  const auto enumerants = capnp::Schema::from<schema::ErrorCode>().getEnumerants();
  EXPECT_EQ(enumerants.size(), static_cast<size_t>(ErrorCode::secret_expected) + 1);
  for (const auto enumerant : enumerants) {
    EXPECT_EQ(std::string_view(enumerant.getProto().getName().cStr()),
              error_name(static_cast<ErrorCode>(enumerant.getOrdinal())));
  }
}

}  // namespace
}  // namespace sluice::wire
