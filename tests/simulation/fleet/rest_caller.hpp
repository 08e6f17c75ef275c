// A client that speaks REST over HTTP/1.1, one request at a time.
// Lives:  as Caller.
#pragma once

#include "caller.hpp"
#include "rest_answer.hpp"

namespace sluice::simulation {

class RestCaller final : public Caller {
 public:
  using Caller::Caller;

 private:
  void ask() override;
  void take_answers() override;
  bool awaits_answer() const override { return call_ != nullptr; }
  void leave_calls() override;
  void on_response(const RestAnswer& response);

  Call* call_ = nullptr;  // under way
};

}  // namespace sluice::simulation
