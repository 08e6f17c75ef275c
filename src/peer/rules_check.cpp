#include "peer/rules_check.hpp"

#include "log/log.hpp"
#include "text/number.hpp"

namespace sluice::peer {

RulesCheck::RulesCheck(Context& context, AddressBook& addresses)
    : context_(context), addresses_(addresses), nodes_(context.options.instances.size()) {}

void RulesCheck::on_tick() noexcept {
  if (fetch_) fetch_->on_tick();
  if (!fetch_ && own_ != 0 && !is_closing_) check_next();
}

// The next one that is due, in turn.
void RulesCheck::check_next() noexcept {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const uint32_t node = next_node_;
    next_node_ = (next_node_ + 1) % static_cast<uint32_t>(nodes_.size());
    if (node == context_.options.own_node || context_.now_ms < nodes_[node].next_ms) continue;
    return check(node);
  }
}

void RulesCheck::check(uint32_t node) noexcept {
  nodes_[node].next_ms = context_.now_ms + check_ms;
  checked_ = node;
  is_taken_ = false;
  room_ = body_bytes_max;
  const std::string host(context_.options.instances[node].authority());
  fetch_ = std::make_unique<NodeFetch>(context_, host, wire::node_request("GET", "/healthz", host),
                                       room_, context_.options.timeout_ms);
  fetch_->connect(addresses_.address(node));
}

void RulesCheck::go_on() noexcept {
  if (!fetch_) return;
  if (fetch_->is_answered() && !is_taken_) take_answer();
  if (fetch_->is_over()) fetch_.reset();
}

// A node that does not answer, and a gocc, leave what was known of it.
void RulesCheck::take_answer() noexcept {
  is_taken_ = true;
  if (const auto& address = fetch_->unreached()) addresses_.note_failed(checked_, *address);
  const auto& facts = fetch_->facts();
  if (facts && facts->rules != 0) note(checked_, facts->rules);
}

void RulesCheck::note(uint32_t node, uint64_t digest) noexcept {
  Node& noted = nodes_[node];
  if (digest == own_) {
    noted = {.next_ms = noted.next_ms};
    return;
  }
  ++noted.differences;
  if (!differs(node) || noted.warned_of == digest) return;
  noted.warned_of = digest;
  log::warning(
      "another node has other rules than this one: give all nodes the same --instance-urls in the "
      "same order, flags (--peer-timeout-millis, too), --config-file and profiles",
      {{"node", context_.options.instances[node].authority()},
       {"rules", text::hex_id(digest)},
       {"ownRules", text::hex_id(own_)}});
}

void RulesCheck::close() noexcept {
  is_closing_ = true;
  if (fetch_) fetch_->close();
  go_on();
}

}  // namespace sluice::peer
