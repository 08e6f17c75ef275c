// One worker's side towards another node, over a FakeIo: the test plays that node.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/connection.hpp"
#include "peer/context.hpp"
#include "peer/peer_target.hpp"
#include "route/mailboxes.hpp"
#include "route/mesh.hpp"
#include "tests/support/fake_io.hpp"
#include "tests/unit/peer/owner_side.hpp"

namespace sluice::peer {

struct Answer {
  api::Verdict verdict;
  api::Detail detail;
  api::WaiterId waiter;
};

// What a worker is handed.
struct Delivered {
  void on_returned(route::TargetId, route::ShardMessage& message) {
    ++messages;
    for (const route::MessageRun& run : message.runs()) {
      for (uint32_t i = 0; i < run.entries_count; ++i) {
        const uint32_t entry = run.first_entry + i;
        answers.push_back({message.verdicts(entry, 1)[0], message.details(entry, 1)[0],
                           message.waiters(entry, 1)[0]});
      }
    }
  }
  void on_stranded(PeerTarget& target, Outgoing& outgoing) {
    ++stranded;
    target.on_stood_in(outgoing);
  }
  void on_notice_returned(const route::Notice& notice) { notices.push_back(notice); }
  void on_grant(const api::Grant& grant) { grants.push_back(grant); }
  void on_parcel(QuotaParcel& parcel) { parcels.push_back(&parcel); }
  void on_unclaimed(uint64_t reservation) { unclaimed.push_back(reservation); }

  std::vector<api::Verdict> verdicts() const {
    std::vector<api::Verdict> all;
    for (const Answer& answer : answers) all.push_back(answer.verdict);
    return all;
  }

  int messages = 0;
  int stranded = 0;
  std::vector<Answer> answers;
  std::vector<route::Notice> notices;
  std::vector<api::Grant> grants;
  std::vector<QuotaParcel*> parcels;
  std::vector<uint64_t> unclaimed;
};

inline std::vector<api::Verdict> several(size_t count, api::Verdict verdict) {
  return std::vector<api::Verdict>(count, verdict);
}

class PeerFixture : public ::testing::Test {
 protected:
  static constexpr uint32_t waiters_max = 4;
  static constexpr uint32_t sockets_max = 16;

  static FleetOptions fleet(base::PeerFailure on_failure = base::PeerFailure::error) {
    FleetOptions options{.on_failure = on_failure, .secret = "shared"};
    options.instances = {{"http://10.0.0.1:8080", "10.0.0.1", 8080},
                         {"http://10.0.0.2:8080", "10.0.0.2", 8080}};
    return options;
  }
  explicit PeerFixture(const FleetOptions& options = fleet(), uint32_t waiters = waiters_max)
      : options_(options), context_(io_, mailboxes_, options, {waiters, sockets_max}) {
    context_.now_ms = 1'000'000;
  }

  // A request of plain entries.
  static void post(PeerTarget& target, const std::vector<std::string>& keys) {
    std::string text;
    std::vector<uint16_t> sizes;
    for (const std::string& key : keys) {
      text += key;
      sizes.push_back(static_cast<uint16_t>(key.size()));
    }
    const auto count = static_cast<uint32_t>(keys.size());
    route::ShardMessage& message = target.open(count, text.size());
    message.begin_part(0, route::Form::plain, count, true);
    message.add(route::KeyColumn{.text = text, .sizes = sizes});
    target.end_part();
  }
  // A request of detailed entries.
  static void post(PeerTarget& target, const std::vector<api::Entry>& entries) {
    size_t text_bytes = 0;
    for (const api::Entry& entry : entries) text_bytes += entry.key_bytes;
    const auto count = static_cast<uint32_t>(entries.size());
    route::ShardMessage& message = target.open(count, text_bytes);
    message.begin_part(0, route::Form::detailed, count, true);
    for (uint32_t i = 0; i < count; ++i) message.add(entries[i], i);
    target.end_part();
  }
  static void send(PeerTarget& target, const std::vector<std::string>& keys) {
    post(target, keys);
    target.flush();
  }
  static void send(PeerTarget& target, const std::vector<api::Entry>& entries) {
    post(target, entries);
    target.flush();
  }
  static api::Entry entry_of(std::string_view key) {
    return {.key_data = key.data(), .key_bytes = static_cast<uint16_t>(key.size())};
  }
  static api::Entry waiting_entry(std::string_view key, api::Ticket ticket,
                                  uint32_t wait_ms_max = 0) {
    api::Entry entry = entry_of(key);
    entry.flags = api::flag::may_wait | api::flag::wants_details | api::flag::shows_id;
    entry.ticket = ticket;
    entry.wait_ms_max = wait_ms_max;
    return entry;
  }

  // As Peers::deliver(), for one target.
  void deliver(PeerTarget& target) {
    context_.returned.clear();
    target.deliver(delivered_);
    for (const route::Notice& notice : std::exchange(context_.notices_done, {})) {
      delivered_.on_notice_returned(notice);
    }
    for (const api::Grant& grant : std::exchange(context_.grants, {})) delivered_.on_grant(grant);
    for (QuotaParcel* const parcel : std::exchange(context_.parcels_done, {})) {
      delivered_.on_parcel(*parcel);
    }
    for (const uint64_t id : std::exchange(context_.unclaimed, {})) delivered_.on_unclaimed(id);
  }

  const FleetOptions options_;
  support::FakeIo io_;
  route::Mesh mesh_{{.shards = 1, .messages = 1, .entries_max = 4}};
  route::Mailboxes mailboxes_{mesh_, 0, {{2, 0}, 1}};
  Context context_;
  net::ConnectionMemory memory_{4};
  PeerCounts counts_;
  Delivered delivered_;
};

// The event of a socket.
inline io::Event event_of(uint32_t socket, io::EventKind kind, int32_t result = 0) {
  io::Event event{.kind = kind, .result = result};
  event.socket.index = socket;
  return event;
}

// Delivers `bytes` as one receive.
inline io::Event received_event(uint32_t socket, std::span<std::byte> bytes) {
  io::Event event = event_of(socket, io::EventKind::received);
  event.bytes = bytes;
  return event;
}

}  // namespace sluice::peer
