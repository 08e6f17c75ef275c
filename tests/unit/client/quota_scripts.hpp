// Shared by the tests of the client's quotas: the frames that the server's script reads and writes.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "client_scripts.hpp"

namespace sluicegate::test {

using Which = schema::ClientFrame::Which;

inline constexpr uint64_t reservation = 0x0000'0011'89AB'CDEF;

// A copy of a request, which outlives its frame.
struct ReceivedFrame {
  uint64_t id = 0;
  Which kind{};
  uint8_t flags = 0;
  uint32_t wait_limit_ms = 0;
  uint32_t lifetime_ms = 0;
  std::vector<std::string> subjects;
  std::vector<uint8_t> counts;
  std::vector<uint64_t> reservations;
  std::vector<uint64_t> input_tokens;
  std::vector<uint64_t> output_tokens;
  std::vector<uint32_t> requests;
  std::vector<uint32_t> withdrawn;
  std::string owner;
  std::string ids;  // end to end

  size_t entries() const {
    if (!reservations.empty()) return reservations.size();
    return counts.empty() ? subjects.size() : counts.size();
  }
  // The first subject of each entry.
  std::vector<std::string> first_subjects() const {
    if (counts.empty()) return subjects;
    std::vector<std::string> first;
    size_t at = 0;
    for (const uint8_t count : counts) {
      first.push_back(subjects[at]);
      at += count;
    }
    return first;
  }
};

template <typename To, typename List>
std::vector<To> values(const List& list) {
  std::vector<To> to;
  for (const auto value : list) to.push_back(static_cast<To>(value));
  return to;
}

template <typename Reader>
void read_subjects(Reader from, ReceivedFrame& received) {
  const auto bytes = from.getSubjects().asChars();
  size_t at = 0;
  for (const uint16_t size : from.getSubjectSizes()) {
    received.subjects.emplace_back(bytes.begin() + at, size);
    at += size;
  }
}

inline void read_reserve(schema::Reserve::Reader from, ReceivedFrame& received) {
  read_subjects(from, received);
  received.counts = values<uint8_t>(from.getSubjectCounts());
  received.flags = from.getFlags();
  received.wait_limit_ms = from.getWaitLimitMs();
  received.lifetime_ms = from.getLifetimeMs();
  received.requests = values<uint32_t>(from.getRequests());
  received.input_tokens = values<uint64_t>(from.getInputTokens());
  received.output_tokens = values<uint64_t>(from.getMaxOutputTokens());
  received.owner = from.getOwner().cStr();
}

template <typename Used>
void read_used(Used from, ReceivedFrame& received) {
  read_subjects(from, received);
  received.counts = values<uint8_t>(from.getSubjectCounts());
  received.flags = from.getFlags();
  received.input_tokens = values<uint64_t>(from.getInputTokens());
  received.output_tokens = values<uint64_t>(from.getOutputTokens());
  const auto ids = from.getIds();
  received.ids.assign(reinterpret_cast<const char*>(ids.begin()), ids.size());
}

inline std::string text_of(capnp::Data::Reader bytes) {
  return {bytes.asChars().begin(), bytes.size()};
}

inline ReceivedFrame received_of(schema::ClientFrame::Reader frame) {
  ReceivedFrame received{.id = frame.getId(), .kind = frame.which()};
  if (frame.isReserve()) {
    read_reserve(frame.getReserve(), received);
  } else if (frame.isCheck()) {
    read_reserve(frame.getCheck(), received);
  } else if (frame.isSettle()) {
    const auto settle = frame.getSettle();
    received.reservations = values<uint64_t>(settle.getReservations());
    received.requests = values<uint32_t>(settle.getRequests());
    received.input_tokens = values<uint64_t>(settle.getInputTokens());
    received.output_tokens = values<uint64_t>(settle.getOutputTokens());
  } else if (frame.isCancel()) {
    received.flags = frame.getCancel().getFlags();
    received.reservations = values<uint64_t>(frame.getCancel().getReservations());
  } else if (frame.isExtend()) {
    received.lifetime_ms = frame.getExtend().getLifetimeMs();
    received.reservations = values<uint64_t>(frame.getExtend().getReservations());
  } else if (frame.isRecord()) {
    read_used(frame.getRecord(), received);
  } else if (frame.isConsume()) {
    read_used(frame.getConsume(), received);
    received.wait_limit_ms = frame.getConsume().getWaitLimitMs();
  } else if (frame.isUsage()) {
    read_subjects(frame.getUsage(), received);
  } else if (frame.isQuota()) {
    received.subjects.push_back(text_of(frame.getQuota().getSubject()));
  } else if (frame.isReset()) {
    received.subjects.push_back(text_of(frame.getReset().getSubject()));
  } else if (frame.isWithdraw()) {
    received.withdrawn = values<uint32_t>(frame.getWithdraw().getEntries());
  }
  return received;
}

inline ReceivedFrame read_quota(Peer& peer) {
  return received_of(peer.read());
}

inline std::string answers(uint64_t id, size_t count, const std::vector<QuotaCode>& codes,
                           const std::vector<uint64_t>& reservations = {},
                           const std::vector<int64_t>& retry_after_ms = {}) {
  return test::answer(id, [&](auto frame) {
    auto to = frame.initQuotaAnswers();
    to.setCount(static_cast<uint32_t>(count));
    const auto bytes = values<uint8_t>(codes);
    to.setCodes(kj::arrayPtr(bytes.data(), bytes.size()));
    if (!reservations.empty()) {
      to.setReservations(kj::arrayPtr(reservations.data(), reservations.size()));
    }
    if (!retry_after_ms.empty())
      to.setRetryAfterMs(kj::arrayPtr(retry_after_ms.data(), retry_after_ms.size()));
  });
}

inline std::string ok(const ReceivedFrame& received) {
  std::vector<uint64_t> given;
  if (received.kind == Which::RESERVE) {
    for (size_t i = 0; i < received.entries(); ++i) given.push_back(reservation + i);
  }
  return answers(received.id, received.entries(), {QuotaCode::ok}, given);
}

// Subjects with a quota and no usage.
inline std::string usage_of(const ReceivedFrame& received) {
  return test::answer(received.id, [&](auto frame) {
    const auto count = static_cast<unsigned>(received.subjects.size());
    auto reply = frame.initUsageReply();
    std::string names;
    auto sizes = reply.initNameSizes(count);
    auto sources = reply.initSources(count);
    for (unsigned i = 0; i < count; ++i) {
      names += received.subjects[i];
      sizes.set(i, static_cast<uint16_t>(received.subjects[i].size()));
      sources.set(i, 1);
    }
    reply.setNames(kj::StringPtr(names.c_str()).asBytes());
    reply.initOpenReservations(count);
    reply.initWaiting(count);
    reply.initQuotas(count);
  });
}

inline std::string granted(uint64_t id, QuotaCode code, uint64_t given,
                           int64_t retry_after_ms = 0) {
  return test::answer(id, [&](auto frame) {
    auto to = frame.initGranted();
    to.setEntries({0U});
    const auto byte = static_cast<kj::byte>(code);
    to.setCodes(kj::arrayPtr(&byte, 1));
    if (given != 0) to.setReservations({given});
    if (retry_after_ms != 0) to.setRetryAfterMs({retry_after_ms});
  });
}

// Collects the frames that the script reads, for the test to check.
class Frames {
 public:
  void add(ReceivedFrame received) {
    const std::lock_guard lock{mutex_};
    all_.push_back(std::move(received));
    changed_.notify_all();
  }
  std::vector<ReceivedFrame> wait_for(size_t count) {
    std::unique_lock lock{mutex_};
    EXPECT_TRUE(changed_.wait_for(lock, 60s, [&] { return all_.size() >= count; }));
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ReceivedFrame> all_;
};

// Answers ok to every request, and collects the requests.
inline FakeServer::Script answering_ok(Frames& frames) {
  return [&frames](Peer& peer) {
    for (;;) {
      const ReceivedFrame received = read_quota(peer);
      frames.add(received);
      peer.write(received.kind == Which::WITHDRAW ? done(received.id) : ok(received));
    }
  };
}

}  // namespace sluicegate::test
