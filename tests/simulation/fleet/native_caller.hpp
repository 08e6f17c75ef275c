// A client that speaks the native protocol: frames of several entries, many under way.
// Lives:  as Caller.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "caller.hpp"

namespace sluice::simulation {

class NativeCaller final : public Caller {
 public:
  NativeCaller(CallerWorld& world, uint32_t node, io::SimClient client);

 private:
  struct Frame {
    std::vector<Call*> calls;
    uint32_t open = 0;  // without their last answer
    bool is_answered = false;
    bool has_details = false;
    bool is_release = false;
  };

  // The server takes it when the frames before it have their answers.
  struct Withdrawal {
    uint64_t id;
    uint64_t target;
  };

  void ask() override;
  void take_answers() override;
  bool awaits_answer() const override { return !frames_.empty(); }
  void leave_calls() override;

  void ask_acquire();
  void ask_release();
  void ask_withdraw();
  void note_withdrawals();
  void send(uint64_t id, Frame frame, const AskedFrame& asked);
  void on_frame(schema::ServerFrame::Reader frame);
  void on_verdicts(Frame& frame, schema::Verdicts::Reader verdicts);
  void on_released(Frame& frame);
  void on_granted(Frame& frame, schema::Granted::Reader granted);

  bool is_welcome_ = false;
  uint64_t next_id_ = 2;
  std::map<uint64_t, Frame> frames_;
  std::vector<Withdrawal> withdrawals_;
};

}  // namespace sluice::simulation
