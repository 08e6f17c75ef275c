// One shard's keys: finds or makes the key of each entry, asks the limiter, answers or queues.
// Shape:  key_table (what every key has, hot), key_extra (overrides and waiters, for the few that
//         have them), waiter_queue (FIFO per key), timer wheel (window ends of keys with waiters,
//         wait limits).
// Lives:  as KeyDecider.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "limiter/policy.hpp"
#include "shard/key_decider.hpp"
#include "shard/key_hash.hpp"

namespace sluice::shard {

// Receives every key that expires, before it is forgotten; for the log.
class ExpiryListener {
 public:
  virtual void on_expired(std::string_view key) noexcept = 0;

 protected:
  ~ExpiryListener() = default;
};

inline constexpr uint32_t matches_in_any_turn = 8;
inline constexpr uint32_t matches_unbounded = 0xFFFF'FFFF;  // every key when it is next named

struct Options {
  uint32_t keys_max = 10'000'000;
  uint32_t handles_max = 1'000'000;
  uint32_t waiters_max = 100'000;
  uint32_t key_bytes_max = 1'024;
  bool requests_can_set_rate = true;
  bool requests_can_mod_queue = true;
  bool requests_can_set_window = true;
  uint32_t matches_min = matches_in_any_turn;  // after new rules (match_share.hpp)
  int64_t kept_window_ms = base::never_ms;     // windows that last so long survive a restart
  limiter::Policy policy;  // of every key that no rule matches, unless it brings its own
  HashSecret hash_secret{};
  ExpiryListener* expiry_listener = nullptr;  // outlives the shard
};

class KeyStore;

class KeyShard final : public KeyDecider {
 public:
  explicit KeyShard(const Options& options);
  ~KeyShard() override;

  // As in KeyDecider and api::Decider.
  void decide(std::span<const api::Entry> entries, const Answers& answers, base::Now now,
              api::ShardId origin = 0) noexcept override;
  void decide(std::span<const api::Entry> entries, std::span<const api::KeyHash> hashes,
              const Answers& answers, base::Now now, api::ShardId origin) noexcept override;
  void decide(std::span<const api::Handle> handles, std::span<api::Verdict> verdicts,
              base::Now now) noexcept override;
  api::Handle intern(std::string_view key) noexcept override;
  void drop_handle_reference(api::Handle handle) noexcept override;
  std::string_view key_of(api::Handle handle) const noexcept override;
  size_t look_up(std::span<const api::Handle> handles,
                 const api::HeldKeys& keys) const noexcept override;
  bool withdraw(api::WaiterId waiter, api::Ticket ticket, base::Now now,
                api::ShardId origin = 0) noexcept override;
  bool abandon(api::WaiterId waiter, api::Ticket ticket, base::Now now,
               api::ShardId origin = 0) noexcept override;
  // False when the window of the permits is over: a later one must not be credited.
  bool refund(const api::RefundClaim& claim, base::Now now) noexcept override;
  void drain(base::Now now) noexcept override;
  std::unique_ptr<policy::RuleBook> adopt(std::unique_ptr<policy::RuleBook> rules,
                                          base::Now now) noexcept override;
  // Serves windows that end with waiters, and wait limits; sweeps a slice of the table for expired
  // keys.
  void run_due(base::Now now) noexcept override;
  // base::never_ns when only the sweep is left.
  int64_t next_due_ns() const noexcept override;
  bool is_sweep_behind() const noexcept override;
  std::span<api::Grant> grants() noexcept override;
  void keep_grants(size_t count) noexcept override;
  std::optional<api::KeyState> inspect(std::string_view key, base::Now now) noexcept override;
  Page page(uint64_t cursor, uint32_t keys_max, base::Now now) noexcept override;
  std::span<const HeavyKey> heaviest_keys(uint32_t keys_max, base::Now now) noexcept override;
  bool may_have_kept_windows() const noexcept override;
  uint64_t write_windows(const WindowsToWrite& which, state::WindowSink& sink,
                         base::Now now) noexcept override;
  Restoring restore(const state::WindowRecord& window, base::Now now) noexcept override;
  uint32_t keys_count() const noexcept override;
  uint32_t handles_count() const noexcept override;
  uint32_t waiters_count() const noexcept override;
  const Statistics& statistics() const noexcept override;
  uint64_t reserved_bytes() const noexcept override;
  void check_invariants(base::Now now) const noexcept override;

 private:
  std::unique_ptr<KeyStore> store_;
};

}  // namespace sluice::shard
