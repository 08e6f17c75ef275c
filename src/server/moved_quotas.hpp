// Hands over quotas that were put at run time for subjects which other nodes own by this start's
// list: each to its owner, and out of this node's state when the owner has it.
// Flow:   begin(), with what the state had -> send(), in a turn when it is due -> a parcel of puts
//         -> peer::Peers -> on_parcel().
// Shape:  of each node a queue, and one parcel under way with the first of it. The owner answers
//         when they are durable there, and keeps a quota that it has got since then.
// Errors: what a node has not taken goes to the end of its queue, and again after a pause, for as
//         long as this node runs. What it calls invalid, because its machine lacks a time zone,
//         keeps nothing else waiting: it is put aside for a minute. Without a secret nothing is
//         sent: no node would take it.
// Bounds: as many in a parcel as a frame may have.
// Lives:  one per worker, one thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.hpp"
#include "peer/fleet_options.hpp"
#include "peer/quota_parcel.hpp"
#include "quota/quota_decider.hpp"
#include "route/mailboxes.hpp"
#include "server/moved_quota_log.hpp"
#include "session/context.hpp"

namespace sluice::server {

class MovedQuotas {
 public:
  static constexpr int64_t pause_ms_min = 50;
  static constexpr int64_t pause_ms_max = 1'000;
  // So long a node may not take any before the log says so.
  static constexpr int64_t patience_ms = 10'000;
  // After which a quota that its owner calls invalid is handed over again.
  static constexpr int64_t invalid_pause_ms = 60'000;

  MovedQuotas(const session::Context& context, const route::Mailboxes& mailboxes,
              quota::QuotaDecider& quotas, const peer::FleetOptions& fleet, MovedQuotaLog& log);

  // There are other nodes.
  void attach(peer::ParcelSender& sender) noexcept { sender_ = &sender; }

  void begin(std::vector<quota::MovedQuota> moved);
  void send();
  void on_parcel(peer::QuotaParcel& parcel) noexcept;
  // When send() has something to do.
  int64_t due_ms() const noexcept;

 private:
  struct Left {
    quota::MovedQuota moved;
    bool is_logged = false;  // that its owner calls it invalid
  };
  struct Owner : peer::QuotaParcel {
    uint32_t node = 0;
    std::deque<Left> left;      // the first are those of the parcel, if it is under way
    std::vector<Left> invalid;  // put aside
    bool is_under_way = false;
    int64_t due_ms = 0;          // of what is left
    int64_t invalid_due_ms = 0;  // when those put aside are left again
    int64_t pause_ms = pause_ms_min;
    int64_t refuses_since_ms = base::never_ms;
  };

  static int64_t due_ms_of(const Owner& owner) noexcept;
  Owner& owner_of(uint32_t node);
  static void take_back_invalid(Owner& owner, int64_t now_ms);
  static void fill(Owner& owner);
  void take_answers(Owner& owner) noexcept;
  void put_aside(Owner& owner, std::vector<Left> invalid) noexcept;
  void wait(Owner& owner, std::string_view reason) noexcept;

  const session::Context& context_;
  const route::Mailboxes& mailboxes_;
  quota::QuotaDecider& quotas_;
  MovedQuotaLog& log_;
  const int64_t timeout_ms_;
  const bool has_secret_;
  std::vector<std::string> names_;  // of all nodes, for the log
  peer::ParcelSender* sender_ = nullptr;
  std::vector<std::unique_ptr<Owner>> owners_;  // those that get some
};

}  // namespace sluice::server
