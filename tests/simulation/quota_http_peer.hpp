// A REST client of the requests under /v1/, pipelined: it reserves, waits, ends reservations,
// changes quotas and reads usage. Answers arrive in the order of the requests.
// Lives:  as Peer.
#pragma once

#include <deque>
#include <functional>

#include "peer.hpp"
#include "quota_books.hpp"

namespace sluice::simulation {

class QuotaHttpPeer final : public Peer {
 public:
  explicit QuotaHttpPeer(World& world);
  std::string describe() const override { return "(http, quotas)"; }

 private:
  using OnAnswer = std::function<void(int status, const std::string& body)>;

  struct Asked {
    std::string what;
    std::vector<int> statuses;  // of allowed answers, beside those of full tables and of a drain
    OnAnswer on_answer;
    std::string owner;      // of a reserve
    bool may_wait = false;  // likewise
    uint64_t end = 0;       // in the stream
  };

  struct Reserve {
    ChargePtr charge;
    std::string client_id;
    int64_t asked_ns = 0;
    uint32_t lifetime_ms = 0;
  };

  void ask() override;
  void take_answers() override;
  bool awaits_answer() const override { return !asked_.empty(); }
  uint64_t open_end() const override { return asked_.empty() ? no_offset : asked_.front().end; }
  bool has_waiter() override { return !asked_.empty() && books_.waits(asked_.front().owner); }
  void check_graceful_end() override;

  void ask_reserve();
  void ask_settle();
  void ask_cancel();
  void ask_extend();
  void ask_record();
  void ask_check();
  void ask_usage();
  void ask_change();
  void ask_reset();
  void end(const std::string& way, uint64_t reservation, const std::string& body,
           const std::string& end_key);
  void send_request(const std::string& method, const std::string& target, const std::string& body,
                    std::vector<int> statuses, OnAnswer on_answer);
  bool take_answer();
  void check_refusal(const Asked& asked, const std::string& body, bool closes);
  void on_reserved(const Reserve& asked, int status, const std::string& body);
  void on_usage(const QuestionPtr& question, int status, const std::string& body);
  int64_t now_ns() const { return world_.network->clock().monotonic_ns; }

  QuotaBooks& books_;
  std::deque<Asked> asked_;
  uint64_t reserves_ = 0;
};

}  // namespace sluice::simulation
