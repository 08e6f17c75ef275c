// What the tests of the client's quotas share: what the server's script reads, and says.
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

// A frame, out of its lifetime.
struct Asked {
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

  size_t entries() const {
    if (!reservations.empty()) return reservations.size();
    return counts.empty() ? subjects.size() : counts.size();
  }
};

template <typename To, typename List>
std::vector<To> values(const List& list) {
  std::vector<To> to;
  for (const auto value : list) to.push_back(static_cast<To>(value));
  return to;
}

template <typename Reader>
void read_subjects(Reader from, Asked& asked) {
  const auto bytes = from.getSubjects().asChars();
  size_t at = 0;
  for (const uint16_t size : from.getSubjectSizes()) {
    asked.subjects.emplace_back(bytes.begin() + at, size);
    at += size;
  }
}

inline void read_reserve(schema::Reserve::Reader from, Asked& asked) {
  read_subjects(from, asked);
  asked.counts = values<uint8_t>(from.getSubjectCounts());
  asked.flags = from.getFlags();
  asked.wait_limit_ms = from.getWaitLimitMs();
  asked.lifetime_ms = from.getLifetimeMs();
  asked.requests = values<uint32_t>(from.getRequests());
  asked.input_tokens = values<uint64_t>(from.getInputTokens());
  asked.output_tokens = values<uint64_t>(from.getMaxOutputTokens());
  asked.owner = from.getOwner().cStr();
}

inline Asked read_quota(Peer& peer) {
  const auto frame = peer.read();
  Asked asked{.id = frame.getId(), .kind = frame.which()};
  if (frame.isReserve()) {
    read_reserve(frame.getReserve(), asked);
  } else if (frame.isCheck()) {
    read_reserve(frame.getCheck(), asked);
  } else if (frame.isSettle()) {
    const auto settle = frame.getSettle();
    asked.reservations = values<uint64_t>(settle.getReservations());
    asked.requests = values<uint32_t>(settle.getRequests());
    asked.input_tokens = values<uint64_t>(settle.getInputTokens());
    asked.output_tokens = values<uint64_t>(settle.getOutputTokens());
  } else if (frame.isCancel()) {
    asked.flags = frame.getCancel().getFlags();
    asked.reservations = values<uint64_t>(frame.getCancel().getReservations());
  } else if (frame.isExtend()) {
    asked.lifetime_ms = frame.getExtend().getLifetimeMs();
    asked.reservations = values<uint64_t>(frame.getExtend().getReservations());
  } else if (frame.isRecord()) {
    read_subjects(frame.getRecord(), asked);
    asked.output_tokens = values<uint64_t>(frame.getRecord().getOutputTokens());
  } else if (frame.isUsage()) {
    read_subjects(frame.getUsage(), asked);
  } else if (frame.isWithdraw()) {
    asked.withdrawn = values<uint32_t>(frame.getWithdraw().getEntries());
  }
  return asked;
}

inline std::string answers(uint64_t id, size_t count, const std::vector<QuotaCode>& codes,
                           const std::vector<uint64_t>& reservations = {},
                           const std::vector<int64_t>& retry_ms = {}) {
  return test::answer(id, [&](auto frame) {
    auto to = frame.initQuotaAnswers();
    to.setCount(static_cast<uint32_t>(count));
    const auto bytes = values<uint8_t>(codes);
    to.setCodes(kj::arrayPtr(bytes.data(), bytes.size()));
    if (!reservations.empty()) {
      to.setReservations(kj::arrayPtr(reservations.data(), reservations.size()));
    }
    if (!retry_ms.empty()) to.setRetryMs(kj::arrayPtr(retry_ms.data(), retry_ms.size()));
  });
}

inline std::string ok(const Asked& asked) {
  std::vector<uint64_t> given;
  if (asked.kind == Which::RESERVE) {
    for (size_t i = 0; i < asked.entries(); ++i) given.push_back(reservation + i);
  }
  return answers(asked.id, asked.entries(), {QuotaCode::ok}, given);
}

inline std::string granted(uint64_t id, Verdict verdict, uint64_t given) {
  return test::answer(id, [&](auto frame) {
    auto to = frame.initGranted();
    to.setEntries({0U});
    const auto byte = static_cast<kj::byte>(verdict);
    to.setVerdicts(kj::arrayPtr(&byte, 1));
    if (given != 0) to.setReservations({given});
  });
}

// Frames as the script reads them, for the test to look at.
class Frames {
 public:
  void add(Asked asked) {
    const std::lock_guard lock{mutex_};
    all_.push_back(std::move(asked));
    changed_.notify_all();
  }
  std::vector<Asked> wait_for(size_t count) {
    std::unique_lock lock{mutex_};
    EXPECT_TRUE(changed_.wait_for(lock, 60s, [&] { return all_.size() >= count; }));
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Asked> all_;
};

// Says ok to all, and keeps what it was asked.
inline FakeServer::Script agreeing(Frames& frames) {
  return [&frames](Peer& peer) {
    for (;;) {
      const Asked asked = read_quota(peer);
      frames.add(asked);
      peer.write(asked.kind == Which::WITHDRAW ? done(asked.id) : ok(asked));
    }
  };
}

}  // namespace sluicegate::test
