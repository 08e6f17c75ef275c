// A REST client of the requests under /v1/, pipelined. Answers arrive in the order of the requests.
// Lives:  as Peer.
#pragma once

#include <deque>

#include "peer.hpp"
#include "quota_rest_calls.hpp"

namespace sluice::simulation {

class QuotaHttpPeer final : public Peer {
 public:
  explicit QuotaHttpPeer(World& world);
  std::string describe() const override { return "(http, quotas)"; }

 private:
  struct Asked {
    QuotaRestCall call;
    uint64_t end = 0;  // in the stream
  };

  void ask() override;
  void take_answers() override;
  bool awaits_answer() const override { return !asked_.empty(); }
  uint64_t open_end() const override { return asked_.empty() ? no_offset : asked_.front().end; }
  bool has_waiter() override { return !asked_.empty() && calls_.waits(asked_.front().call); }
  void check_graceful_end() override;

  bool take_answer();
  void on_answer(const QuotaRestCall& call, int status, const std::string& body, bool closes);

  QuotaRestCalls calls_;
  std::deque<Asked> asked_;
};

}  // namespace sluice::simulation
