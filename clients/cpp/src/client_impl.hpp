// The implementation of a Client: its lanes, the connector, and the calls over the lanes.
// Lives:  as long as its Client; the destructor waits until no blocking call is inside.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "batch.hpp"
#include "connector.hpp"
#include "handle_table.hpp"
#include "io_thread.hpp"
#include "lane_set.hpp"
#include "node_table.hpp"
#include "patience.hpp"
#include "renewals.hpp"
#include "routing.hpp"
#include "settle_keeper.hpp"
#include "sluicegate/address.hpp"

namespace sluicegate {

class ClientImpl {
 public:
  // `to`: the address of one server, or those of nodes that share their keys.
  template <typename To>
  ClientImpl(To to, ClientOptions given, Platform& platform = real_platform())
      : platform_{platform},
        options_{std::move(given)},
        io_{platform},
        connector_{{.platform = platform_,
                    .options = options_,
                    .lanes = lanes_,
                    .routing = routing_,
                    .nodes = nodes_,
                    .handles = handles_,
                    .io = io_},
                   std::move(to)} {
    connector_.add_lane();
    io_.start(lanes_, [this] { return std::min(settles_.repeat_due(), renewals_.renew_due()); });
    connector_.start();
  }
  ~ClientImpl() {
    close();
    // Callers whose calls close() completed may still be inside them.
    while (callers_.load() > 0) platform_.pause(std::chrono::microseconds{100});
  }
  ClientImpl(const ClientImpl&) = delete;
  ClientImpl& operator=(const ClientImpl&) = delete;

  void close() {
    if (io_.is_current()) throw std::logic_error("a callback must not close its client");
    if (is_closed_.exchange(true)) return;
    settles_.drain();
    connector_.stop();
    for (uint32_t i = 0; i < lanes_.count(); ++i) lanes_[i].close();
    io_.stop();
    settles_.close();
  }

  Outcome call(const Call& call, const std::stop_token& stop);
  Ticket call_async(const Call& call, Client::Callback done);
  BatchOutcome batch(std::span<const std::string_view> keys, const AcquireOptions& options);
  BatchOutcome batch(std::span<const uint32_t> handles, const AcquireOptions& options);
  std::vector<uint32_t> intern(std::span<const std::string_view> keys);
  void ask(uint32_t lane, Question::Encode encode, Question::Take take,
           const uint32_t** link_tag = nullptr);
  void ping();
  // Asks the key's owner and no other node; throws ConnectionLost while that is out of reach.
  void ask_owner(std::string_view key, Question::Encode encode, Question::Take take);
  void cancel(const Ticket& ticket) { lanes_[ticket.lane].cancel(ticket); }

  size_t pending() {
    size_t sum = 0;
    for (uint32_t i = 0; i < lanes_.count(); ++i) sum += lanes_[i].pending();
    return sum;
  }

  uint32_t lanes_count() const noexcept { return lanes_.count(); }
  Lane::Counts counts_of_lane(uint32_t lane) { return lanes_[lane].counts(); }

  size_t connections() {
    size_t sum = 0;
    for (uint32_t i = 0; i < lanes_.count(); ++i) sum += lanes_[i].is_connected() ? 1 : 0;
    return sum;
  }

  // ---------------------------------------------------------------------------------- quotas
  // See client_quota.cpp. The first two throw std::invalid_argument.
  QuotaOutcome call(const QuotaCall& call, const std::stop_token& stop);
  using QuotaDone = std::function<void(QuotaOutcome)>;
  Ticket call_async(const QuotaCall& call, QuotaDone done);
  void send_detached(const QuotaCall& call);
  Reservation guard(QuotaOutcome outcome, std::shared_ptr<const ReservedCall> reserved);
  // See client_settle.cpp: what may be kept.
  QuotaOutcome settle(KeptSettle settle);
  void settle_async(KeptSettle settle, QuotaDone done);
  void settle_nowait(KeptSettle settle);
  void settle_at_end(KeptSettle settle);
  SettleKeeper& settles() noexcept { return settles_; }
  Renewals& renewals() noexcept { return renewals_; }
  Platform& platform() noexcept { return platform_; }
  // For usage that no reservation names.
  std::string new_settle_id() {
    const auto number = [this] {
      return (uint64_t{platform_.random_seed()} << 32) | platform_.random_seed();
    };
    const uint64_t high = number();
    return settle_id(high) + settle_id(number()).substr(settle_id_prefix.size());
  }
  QuotaBatchOutcome batch(std::span<const ReserveEntry> entries, const ReserveOptions& shared);
  QuotaBatchOutcome batch(std::span<const SettleEntry> entries);
  SubjectPage ask_usage(uint32_t lane, const AskUsage& question);
  std::vector<SubjectState> usage_of(std::span<const std::string_view> subjects);
  template <typename Change>
  QuotaCode ask_change(const Change& change);

  // Of the first subject's owner, which decides for the others' owners.
  Lane& lane_of(const QuotaCall& call) {
    return lanes_[call.names_subjects() ? quota_lane(call.subjects.front())
                                        : quota_lane(call.reservation)];
  }
  uint32_t lane_index(const KeptSettle& settle) noexcept {
    return settle.stage == KeptSettle::Stage::settle
               ? quota_lane(settle.reservation)
               : quota_lane(std::string_view{settle.reserved->subjects.front()});
  }
  Lane& lane_of(std::string_view key) { return lanes_[lane_index(key)]; }
  // The lane of the shard that owns the key.
  uint32_t lane_index(std::string_view key) noexcept {
    return nodes_.count() == 0 ? usable_lane(routing_.shard_of(key)) : owner_lane(key);
  }
  // The lane of the shard that has the subject or the reservation.
  template <typename SubjectOrReservation>
  uint32_t quota_lane(SubjectOrReservation wanted) noexcept {
    return nodes_.count() == 0 ? usable_lane(routing_.shard_of(wanted))
                               : lane_of_node(nodes_.quota_place(wanted), wanted);
  }
  // The longest name that the server at home allows.
  uint32_t name_bytes_max() noexcept {
    const Routing& home = nodes_.count() == 0 ? routing_ : nodes_[nodes_.home()].routing;
    return home.key_bytes_max.load(std::memory_order_relaxed);
  }
  // Of the start of the server that has the reservation, as the last connection to it said; 0: not
  // known, as the reservation may be of another node than those that the client connects to.
  uint64_t instance_of(uint64_t reservation) noexcept {
    if (!nodes_.has_place_of(reservation)) return 0;
    return (nodes_.count() == 0 ? routing_ : nodes_[nodes_.quota_place(reservation)].routing)
        .instance_id.load(std::memory_order_relaxed);
  }
  // For whatever has no owner.
  uint32_t home_lane() noexcept {
    return usable_lane(nodes_.count() == 0 ? 0 : nodes_[nodes_.home()].lane(0));
  }
  // The lane itself, or while it has no connection the first lane, if that has one: the server also
  // decides keys that the connection's shard does not own.
  uint32_t usable_lane(uint32_t lane) noexcept {
    if (lanes_.is_connected(lane)) return lane;
    if (nodes_.count() > 0) return stand_in(lane, nodes_.home());
    return lane < lanes_.count() && !lanes_[0].is_connected() ? lane : 0;
  }
  // Of several nodes.
  uint32_t owner_lane(std::string_view key) noexcept {
    return lane_of_node(sluice::proto::key_node(key, nodes_.count()), key);
  }
  // Of the node at this place; while the client has no connection there, of another node, which
  // forwards.
  template <typename NameOrReservation>
  uint32_t lane_of_node(uint32_t place, NameOrReservation wanted) noexcept {
    const uint32_t lane = nodes_[place].lane_of(wanted);
    return lanes_.is_connected(lane) ? lane : stand_in(lane, place);
  }
  uint32_t stand_in(uint32_t lane, uint32_t place) noexcept;
  Lane::Deadline deadline_of(const AcquireOptions& options) const {
    const auto limit = patience(options, options_.call_timeout);
    return limit ? Lane::Deadline{platform_.now() + *limit} : std::nullopt;
  }

 private:
  // Counts a blocking call, and throws in a callback, which would wait for itself.
  class BlockingCall {
   public:
    explicit BlockingCall(ClientImpl& impl) : impl_{impl} {
      if (impl.io_.is_current()) {
        throw std::logic_error("a callback must not make a blocking call: others wait for it");
      }
      ++impl_.callers_;
    }
    ~BlockingCall() { --impl_.callers_; }
    BlockingCall(const BlockingCall&) = delete;
    BlockingCall& operator=(const BlockingCall&) = delete;

   private:
    ClientImpl& impl_;
  };

  using Jobs = std::vector<std::unique_ptr<Job>>;

  // Over one lane; returns when the outcome has arrived.
  template <typename AnyCall>
  void call_on(Lane& lane, AnyCall call, const AcquireOptions& options, Target target,
               const std::stop_token& stop);
  // For blocking calls, by the failure policy.
  void throw_if_failed(const Waiter& waiter, const Lane& lane) const;
  uint32_t connected_owner_lane(std::string_view key);
  bool is_draining(uint32_t lane) noexcept {
    return lane < lanes_.count() && lanes_[lane].is_draining();
  }
  void run_question(uint32_t lane, std::unique_ptr<Job> question, Waiter& waiter);
  template <typename SliceType, typename Entry, typename LaneOf, typename TextBytes, typename Make>
  QuotaBatchOutcome ask_batch(std::span<const Entry> entries, const AcquireOptions& options,
                              LaneOf lane_of, TextBytes text_bytes_of, Make make_slice);
  QuotaBatchOutcome result(QuotaBatchOutcome outcome) const;
  QuotaBatchOutcome one_by_one(std::span<const ReserveEntry> entries, const ReserveOptions& shared);

  [[noreturn]] void throw_failure(Failure failure, const Lane& lane) const;
  void renew(const Tenure& tenure, std::chrono::milliseconds timeout, QuotaDone done);
  bool keeps_settles() const noexcept { return options_.on_failure != OnFailure::error; }
  void run(Waiter& waiter, std::vector<Jobs> jobs_by_lane, Lane::Deadline deadline);
  void wait_for(Waiter& waiter, Lane::Deadline deadline);
  void intern_on(uint32_t lane, std::span<const uint32_t> handles, std::vector<Verdict>& verdicts);
  BatchOutcome result(BatchOutcome outcome) const;
  BatchOutcome ask(std::span<const std::string_view> keys, const AcquireOptions& options);
  std::vector<Share<std::string_view>> share_out_keys(std::span<const std::string_view> keys);
  BatchOutcome ask_rest_by_key(std::span<const uint32_t> handles, BatchOutcome outcome,
                               const AcquireOptions& options);
  BatchOutcome one_by_one(std::span<const std::string_view> keys, const AcquireOptions& options);

  Platform& platform_;
  const ClientOptions options_;
  Routing routing_;  // of a single server
  NodeTable nodes_;  // of several
  HandleTable handles_;
  IoThread io_;
  Connector connector_;
  LaneSet lanes_;
  SettleKeeper settles_{
      {.platform = platform_,
       .options = options_,
       .lanes = lanes_,
       .io = io_,
       .lane_of = [this](const KeptSettle& settle) { return lane_index(settle); }}};
  Renewals renewals_{{.now = [this] { return platform_.now(); },
                      .extend = [this](const auto& tenure, auto timeout,
                                       auto done) { renew(tenure, timeout, std::move(done)); },
                      .wake = [this] { io_.signal(); }}};
  std::atomic<uint32_t> callers_{0};
  std::atomic<bool> is_closed_{false};
};

template <typename AnyCall>
void ClientImpl::call_on(Lane& lane, AnyCall call, const AcquireOptions& options, Target target,
                         const std::stop_token& stop) {
  Waiter& waiter = *target.waiter;
  const auto deadline = deadline_of(options);
  if (deadline) call.deadline = *deadline;
  const Ticket ticket = lane.add(call, std::move(target));
  {
    std::optional<std::stop_callback<std::function<void()>>> canceller;
    if (stop.stop_possible()) canceller.emplace(stop, [&] { lane.cancel(ticket); });
    lane.await(waiter, deadline);
  }
  throw_if_failed(waiter, lane);
}

}  // namespace sluicegate
