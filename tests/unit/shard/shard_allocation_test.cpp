// Nothing that a worker calls on a shard allocates: decisions, growth, waiting, serving, sweeping,
// refusing in a full table. Method: operator new aborts meanwhile.
#include <gtest/gtest.h>

#include <cstdio>
#include <vector>

#include "support/allocation_guard.hpp"
#include "unit/shard/shard_driver.hpp"

namespace sluice::shard {
namespace {

TEST(ShardAllocation, there_is_none_after_construction) {
  Options options = test_options();
  options.keys_max = 6'000;
  options.waiters_max = 500;
  ShardDriver driver(options);
  uint64_t granted = 0;
  const support::ForbidAllocation forbidden;
  char key[16];
  for (uint32_t step = 0; step < 20'000; ++step) {
    const int length = std::snprintf(key, sizeof key, "k%u", step % 7 == 0 ? step % 50 : step);
    const std::string_view name(key, static_cast<size_t>(length));
    driver.acquire(name, {.cost = 1 + step % 10,
                          .may_wait = true,
                          .max_requests = step % 11 == 0 ? 10 + step % 3 : api::keep,
                          .window_ms = step % 23 == 0 ? 10 + step % 3 : api::keep_window,
                          .ticket = step,
                          .wait_ms_max = step % 3 * 700});
    if (step % 13 == 0) driver.release(name);
    if (step % 17 == 0) driver.shard.withdraw(driver.waiter, step, driver.now());
    if (step % 19 == 0) driver.shard.page(step * 7'919ULL, 100, driver.now());
    if (step % 10 == 0) driver.advance_ms(1);
    granted += driver.shard.grants().size();
    driver.shard.keep_grants(0);
  }
  driver.shard.drain(driver.now());
  EXPECT_GT(granted, 0U);
  EXPECT_GT(driver.decided(api::Verdict::table_full) + driver.shard.statistics().keys_evicted, 0U);
}

}  // namespace
}  // namespace sluice::shard
