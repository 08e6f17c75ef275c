// Goal: the schema and our name functions have the same names for the numbers of quotas, and
//       neither misses one. Method: the schema's own reflection is compared with the functions.
#include "wire/capnp_codec_quota.hpp"

#include <capnp/schema.h>
#include <gtest/gtest.h>
#include <sluicegate.capnp.h>

#include <cctype>
#include <string>

namespace sluice::wire {
namespace {

std::string snake_case_name(std::string_view camel_case) {
  std::string name;
  for (const char letter : camel_case) {
    if (std::isupper(static_cast<unsigned char>(letter)) != 0) name += '_';
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return name;
}

template <typename Schemas, typename Ours>
void expect_same(size_t count, std::string_view (*name)(Ours) noexcept) {
  const auto enumerants = capnp::Schema::from<Schemas>().getEnumerants();
  EXPECT_EQ(enumerants.size(), count);
  for (const auto enumerant : enumerants) {
    EXPECT_EQ(snake_case_name(enumerant.getProto().getName().cStr()),
              name(static_cast<Ours>(enumerant.getOrdinal())));
  }
}

TEST(CapnpCodecQuota, has_the_schemas_name_of_every_code) {
  expect_same<schema::QuotaCode>(api::quota_codes_count, api::code_name);
}

TEST(CapnpCodecQuota, has_the_schemas_names_of_metrics_and_kinds) {
  expect_same<schema::Metric>(api::metrics_count, api::metric_name);
  expect_same<schema::LimitKind>(api::limit_kinds_count, api::kind_name);
  expect_same<schema::CalendarUnit>(5, api::unit_name);
}

TEST(CapnpCodecQuota, has_the_schemas_numbers_of_ceilings_and_sources) {
  EXPECT_EQ(static_cast<int>(schema::Ceiling::UNLIMITED),
            static_cast<int>(api::Ceiling::unlimited));
  EXPECT_EQ(static_cast<int>(schema::Ceiling::BLOCK), static_cast<int>(api::Ceiling::block));
  using api::QuotaSource;
  EXPECT_EQ(static_cast<int>(schema::QuotaSource::RUN_TIME),
            static_cast<int>(QuotaSource::run_time));
  EXPECT_EQ(static_cast<int>(schema::QuotaSource::FILE), static_cast<int>(QuotaSource::file));
  EXPECT_EQ(static_cast<int>(schema::QuotaSource::PROFILE), static_cast<int>(QuotaSource::profile));
  EXPECT_EQ(static_cast<int>(schema::QuotaSource::FILE_DEFAULT),
            static_cast<int>(QuotaSource::file_default));
}

}  // namespace
}  // namespace sluice::wire
