// A client of the native protocol that uses quotas: frames of every kind, with entries of several
// shards, connection-bound or not, and repeats of earlier calls.
// Lives:  as Peer.
#pragma once

#include <map>
#include <set>

#include "peer.hpp"
#include "quota_books.hpp"

namespace sluice::simulation {

class QuotaPeer final : public Peer {
 public:
  // `audits`: asks once for the usage of every subject; no slot may be held, and no call may wait.
  explicit QuotaPeer(World& world, bool audits = false);
  std::string describe() const override { return "(native, quotas)"; }

 private:
  enum class Kind : uint8_t {
    hello,
    reserve,
    check,
    end,  // settle or cancel
    extend,
    record,
    consume,
    usage,
    page,
    change,  // changes a quota, or resets
    withdraw,
    ping
  };

  struct Entry {
    std::vector<std::string> subjects;
    api::Amounts amounts;
    std::string client_id;
    bool is_repeat = false;  // of a charge under the id
    uint64_t reservation = 0;
    ChargePtr charge;
  };

  struct Asked {
    Kind kind = Kind::ping;
    std::vector<Entry> entries;
    uint32_t lifetime_ms = 0;
    bool connection_bound = false;
    bool waits = false;          // if it has to
    bool answered = false;       // a reserve with entries that wait
    std::set<uint32_t> waiting;  // entries
    int64_t asked_ns = 0;
    std::vector<QuestionPtr> questions;
    uint64_t end = 0;  // of the frame in the stream
  };

  void ask() override;
  void take_answers() override;
  bool awaits_answer() const override { return !asked_.empty(); }
  uint64_t open_end() const override {
    return asked_.empty() ? no_offset : asked_.begin()->second.end;
  }
  uint64_t undecided_end() const override;
  void check_graceful_end() override;

  void send_hello();
  void ask_reserve();
  void ask_check();
  void ask_settle();
  void ask_cancel();
  void ask_extend();
  void ask_record();
  void ask_consume();
  void ask_usage();
  void ask_page();
  void ask_change();
  void ask_reset();
  void ask_withdraw();
  void ask_ping();
  Entry draw_entry();
  Entry draw_named();
  Entry draw_charge(api::QuotaOp op);
  std::vector<uint64_t> draw_reservations();
  Asked& expect(Kind kind);
  void send_frame(const Fill& fill);
  int64_t now_ns() const;

  void on_frame(schema::ServerFrame::Reader frame);
  void on_answers(uint64_t id, schema::QuotaAnswers::Reader answers);
  void note_undurable(api::QuotaCode code);
  bool may_be_drained(const Asked& asked) const;
  void on_consumed(Asked& asked, uint32_t index, api::QuotaCode code);
  void on_charged(const Entry& entry);
  void on_reserved(Asked& asked, uint32_t index, api::QuotaCode code, uint64_t reservation);
  void on_admitted(const Asked& asked, const Entry& entry, uint64_t reservation);
  void on_denied(const Asked& asked, const Entry& entry);
  void on_granted(uint64_t id, schema::Granted::Reader granted);
  void on_usage(uint64_t id, schema::UsageReply::Reader reported);
  void on_error(schema::Error::Reader error);
  Asked* find(uint64_t id);

  QuotaBooks& books_;
  std::map<uint64_t, Asked> asked_;  // by frame id
  uint64_t last_id_ = 0;
  bool sent_hello_ = false;
  bool welcomed_ = false;
  const bool audits_;
};

}  // namespace sluice::simulation
