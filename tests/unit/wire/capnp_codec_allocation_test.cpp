// Goal: decoding a frame of one segment and encoding any answer do not allocate.
// Method: this program's operator new counts, while golden frames are decoded and encoded.
#include <gtest/gtest.h>

#include <vector>

#include "base/limits.hpp"
#include "support/allocation_guard.hpp"
#include "tests/support/golden_files.hpp"
#include "wire/capnp_codec.hpp"
#include "wire/frame_reader.hpp"

namespace sluice::wire {
namespace {

template <typename Work>
size_t allocations_of(Work work) {
  const size_t before = support::allocations_of_thread();
  work();
  return support::allocations_of_thread() - before;
}

TEST(CapnpCodecAllocation, counts_allocations) {
  EXPECT_GT(allocations_of([] {
              std::vector<int> numbers(100);
              ASSERT_TRUE(numbers.data());
            }),
            0u);
}

TEST(CapnpCodecAllocation, decodes_one_segment_without_allocation) {
  size_t decoded_count = 0;
  for (const test::Golden& golden : test::golden_frames("ClientFrame")) {
    // The library allocates for further segments, and to throw for malformed ones.
    if (golden.bytes()[0] != std::byte{0}) continue;
    if (golden.is_refused() && (golden.error() == "malformed" || golden.error() == "frameTooLarge"))
      continue;
    ++decoded_count;
    EXPECT_EQ(allocations_of([&] {
                const auto cut = read_frame(golden.bytes(), limits::frame_bytes_max);
                const auto outcome = decode(std::get<base::Complete<Frame>>(cut).value);
                ASSERT_EQ(outcome.has_value(),
                          !golden.is_refused() || golden.error() == "unsupported");
              }),
              0u)
        << golden.name;
  }
  EXPECT_GE(decoded_count, 130u);
}

TEST(CapnpCodecAllocation, encodes_without_allocation) {
  alignas(8) std::byte out[8'192];
  const api::Verdict verdicts[] = {api::Verdict::approved, api::Verdict::queued};
  const api::Detail details[2] = {};
  const uint32_t entries[] = {0, 1};
  const api::QuotaCode codes[] = {api::QuotaCode::ok, api::QuotaCode::wait_limit};
  const uint64_t reservations[] = {7, 0};
  const int64_t retries[] = {0, 250};
  const api::KeyState keys[] = {{.key = "a"}, {.key = "b"}};
  const api::QuotaAnswer answers[] = {
      {.code = api::QuotaCode::ok, .limits_count = 1, .reservation = 7},
      {.code = api::QuotaCode::blocked, .retry_after_ms = api::retry_never}};
  const api::LimitReport limits[1] = {};
  api::QuotaBatch usage;
  usage.answers = {{.rows_count = 1}};
  usage.rows = {{.source = api::QuotaSource::file, .limits_count = 1}};
  usage.quotas = {{.limits = {{.name = "tpm"}}}};
  usage.limits.resize(1);
  size_t bytes = 0;
  EXPECT_EQ(allocations_of([&] {
              bytes += encode_welcome(1, {.server_version = "0.1.0"}, out);
              bytes += encode_verdicts(1, verdicts, details, detail_bit::all, out);
              bytes += encode_granted(1, entries, verdicts, details, detail_bit::all, out);
              bytes += encode_granted(1, {entries, codes, reservations, retries}, out);
              bytes += encode_quota_answers(1, answers, limits, {true, true, true}, out);
              bytes += encode_usage_reply(1, usage, out);
              bytes += encode_inspected(1, keys, 0, out);
              bytes += encode_error(1, {ErrorCode::bad_cost, "text"}, out);
              bytes += encode_go_away("reason", out);
              bytes += encode_done(1, out) + encode_pong(1, out);
            }),
            0u);
  EXPECT_GT(bytes, 0u);
}

}  // namespace
}  // namespace sluice::wire
