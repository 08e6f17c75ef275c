// A native client of a server that keeps its state: reserves, ends, records, puts and removes
// quotas, and enters the answers in the books.
// Lives:  one connection, of one start of the server.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "../failure.hpp"
#include "../frames.hpp"
#include "../quota_frames.hpp"
#include "../state_events.hpp"
#include "io/sim/sim_io.hpp"
#include "state_books.hpp"

namespace sluice::simulation {

// What all clients of a run share.
struct StateWorld {
  io::Random& random;
  Failure& failure;
  StateBooks& books;
  uint64_t calls = 0;
  StateCounts events{};
};

class StateClient {
 public:
  StateClient(StateWorld& world, io::SimIo& io);

  void act();
  void receive();
  // The connection has ended.
  bool over() const { return over_; }
  bool awaits_answer() const { return !asked_.empty(); }
  // Subjects of calls without an answer, which several shards may have.
  void add_busy(std::set<std::string>& names) const;

 private:
  struct Asked {
    std::vector<std::vector<std::string>> reserved;  // subjects of each entry
    std::vector<std::string> busy;
    bool may_be_spread = false;
    std::string changed;  // the subject; empty: no quota
    uint64_t change = 0;  // its number
  };

  Asked& expect() { return asked_[++last_id_]; }
  void send(const Fill& fill);
  void send_hello();
  static void note_busy(Asked& asked, const std::vector<std::string>& subjects);
  ReserveEntry draw_entry(Asked& asked);
  void ask_reserve();
  void ask_charge();
  void ask_end();
  void ask_change();
  void ask_reset();
  void on_frame(schema::ServerFrame::Reader frame);
  void on_answers(const Asked& asked, schema::QuotaAnswers::Reader answers);
  void on_changed(const Asked& asked, api::QuotaCode code);

  StateWorld& world_;
  io::SimClient client_;
  Bytes inbox_;
  std::map<uint64_t, Asked> asked_;  // by frame
  uint64_t last_id_ = 0;
  bool is_welcome_ = false;
  bool over_ = false;
};

}  // namespace sluice::simulation
