// The requests of one client of the REST dialect under /v1/, and what their answers must be,
// whichever version of HTTP carries them: it reserves, waits, ends reservations, changes quotas and
// reads usage.
// Flow:   QuotaHttpPeer, Http2Peer -> draw() -> the server; its answer -> take() -> the books.
// Lives:  as its peer. A call that was drawn needs no answer: it may have been executed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "peer.hpp"
#include "quota_books.hpp"

namespace sluice::simulation {

struct QuotaRestCall {
  using OnAnswer = std::function<void(int status, const std::string& body)>;

  std::string text() const { return method + " " + target + " " + body; }

  std::string method;
  std::string target;
  std::string body;           // empty: none
  std::vector<int> statuses;  // of allowed answers, beside those of full tables and of a drain
  OnAnswer on_answer = [](int, const std::string&) {};
  std::string owner;      // of a reserve
  bool may_wait = false;  // likewise
  bool consumes = false;
};

class QuotaRestCalls {
 public:
  QuotaRestCalls(World& world, uint32_t link) : world_(world), books_(*world.books), link_(link) {}

  QuotaRestCall draw();

  // Of the connection, when an answer arrives.
  struct State {
    bool drains = false;      // its shard
    bool any_drains = false;  // of all shards
    bool has_others = false;  // more than one of its requests may wait at a time
  };
  // Enters an answer. Returns what is wrong with it; empty: nothing.
  std::string take(const QuotaRestCall& call, int status, const std::string& body,
                   const State& state);
  // Whether it is an answer of a shard that drains.
  static bool is_drained(int status, const std::string& body);

  bool waits(const QuotaRestCall& call) const { return books_.waits(call.owner); }
  bool was_queued(const QuotaRestCall& call) const { return books_.was_queued(call.owner); }

 private:
  struct Reserve {
    ChargePtr charge;
    std::string client_id;
    int64_t asked_ns = 0;
    uint32_t lifetime_ms = 0;
  };

  QuotaRestCall reserve();
  QuotaRestCall settle();
  QuotaRestCall cancel();
  QuotaRestCall extend();
  QuotaRestCall record();
  QuotaRestCall consume();
  QuotaRestCall charge(const std::string& target, api::QuotaOp op);
  QuotaRestCall position();
  void check_positions(const std::vector<std::string>& subjects, const std::string& body);
  QuotaRestCall check();
  QuotaRestCall usage();
  QuotaRestCall change();
  QuotaRestCall reset();
  QuotaRestCall end(const std::string& way, uint64_t reservation, const std::string& body,
                    const std::string& end_key);
  static std::string code_of(const std::string& body);
  bool is_refusal(const QuotaRestCall& call, const std::string& code, const State& state) const;
  void on_reserved(const Reserve& asked, int status, const std::string& body);
  void on_usage(const QuestionPtr& question, int status, const std::string& body);
  int64_t now_ns() const { return world_.network->clock().monotonic_ns; }

  World& world_;
  QuotaBooks& books_;
  const uint32_t link_;
  uint64_t reserves_ = 0;
};

}  // namespace sluice::simulation
