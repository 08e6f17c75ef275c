#include "caller.hpp"

namespace sluice::simulation {
namespace {

constexpr uint32_t wait_ms_max = 1'500;

}  // namespace

void Caller::act() {
  if (is_over_ || !client_.accepted()) return;
  io::Random& random = world_.random;
  if (settles_) {
    if (!awaits_answer()) end();
    return;
  }
  if (random.chance(0.004)) {
    leave_calls();
    random.chance(0.5) ? client_.close() : client_.reset();
    is_over_ = true;
    return;
  }
  ask();
}

void Caller::receive() {
  if (is_over_) return;
  client_.read(inbox_);
  take_answers();
  if (is_over_) return;
  if (!client_.was_reset() && !client_.end_of_stream()) return;
  world_.oracle.trace("connection " + std::to_string(client_.link_id()) + " was ended");
  leave_calls();
  is_over_ = true;
}

void Caller::end() {
  client_.close();
  is_over_ = true;
}

void Caller::fail(const std::string& text) {
  world_.failure.report("client on connection " + std::to_string(client_.link_id()) + " to node " +
                        std::to_string(node_) + ": " + text);
}

Call Caller::drawn_call(bool may_be_unique) {
  io::Random& random = world_.random;
  Call call{.entry_node = node_, .connection = client_.link_id()};
  const uint64_t dice = random.below(100);
  call.op = dice < 80 ? api::Op::acquire : dice < 90 ? api::Op::release : api::Op::look;
  const bool is_unique = may_be_unique && random.chance(0.4);
  if (is_unique || call.op == api::Op::look) {
    call.key = random.chance(0.5) ? "once-" : "none-";
  } else {
    call.key = "k" + std::to_string(random.below(world_.keys_count));
  }
  if (call.op != api::Op::look && random.chance(0.2)) {
    call.cost = 1 + static_cast<uint32_t>(random.below(world_.fleet.limit));
  }
  if (call.op == api::Op::look) call.cost = 0;
  const bool is_shared = call.key.starts_with('k');
  call.may_wait = call.op == api::Op::acquire && is_shared && random.chance(0.5);
  if (call.may_wait && random.chance(0.7)) {
    call.wait_limit_ms = 1 + static_cast<uint32_t>(random.below(wait_ms_max));
  }
  return call;
}

}  // namespace sluice::simulation
