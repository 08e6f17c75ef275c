// A client of the REST dialect: keep-alive, pipelined, waiting, with and without bodies, sometimes
// wrong. Answers arrive in the order of the requests, so one queue of open requests is enough.
// Lives:  as Peer.
#pragma once

#include <deque>

#include "peer.hpp"
#include "rest_answers.hpp"

namespace sluice::simulation {

class HttpPeer final : public Peer {
 public:
  explicit HttpPeer(World& world, bool is_bystander = false);
  std::string describe() const override { return "(http)"; }

 private:
  enum class Kind : uint8_t { acquire, look, release, health, shown, other };

  struct Asked {
    Kind kind = Kind::other;
    int status = 200;  // of the kind `other`
    std::string key;
    bool json = false;
    bool walks = false;      // through all keys: a shard has room for few that do
    bool head = false;       // the answer has no body
    bool last = false;       // the server ends the connection behind its answer
    bool continues = false;  // may be answered with `100 Continue` first
    uint64_t head_end = 0;   // in the stream
    uint64_t end = 0;        // likewise
  };

  void ask() override;
  void take_answers() override;
  bool awaits_answer() const override { return !asked_.empty(); }
  uint64_t open_end() const override { return asked_.empty() ? no_offset : asked_.front().end; }
  bool has_waiter() override;
  void check_graceful_end() override;

  void ask_acquire();
  void ask_release();
  void ask_other();
  void ask_wrong();
  void send_request(const std::string& method, const std::string& target, Asked asked);
  void send_text(std::string_view text, Asked& asked);
  bool is_behind_drain(const Asked& asked) const { return asked.head_end > record().drains_from; }

  bool take_response();
  bool read_body(const std::string& text, size_t start, RestAnswer& response, size_t& end) const;
  void on_response(const RestAnswer& response);
  // Whether the request was refused because its shard had no free task.
  bool is_busy(const Asked& asked, const RestAnswer& response) const;
  void check_closing(const Asked& asked, const RestAnswer& response, bool closes);
  void on_decided(const Asked& asked, const RestAnswer& response);

  std::deque<Asked> asked_;
  bool sent_last_ = false;
};

}  // namespace sluice::simulation
