#include "peer/node_questions.hpp"

#include <utility>

namespace sluice::peer {

NodeQuestions::NodeQuestions(Context& context, AddressBook& addresses)
    : context_(context), addresses_(addresses) {}

uint64_t NodeQuestions::ask(std::string_view method, std::string_view target) {
  Question& question = questions_.emplace_back();
  question.number = ++count_;
  const std::string of_each = wire::target_of_each(target);
  const auto& instances = context_.options.instances;
  for (uint32_t node = 0; node < instances.size(); ++node) {
    const std::string host(instances[node].authority());
    question.fetches.push_back(
        std::make_unique<NodeFetch>(context_, host, wire::node_request(method, of_each, host),
                                    question.room, timeout_ms(method)));
    question.fetches.back()->connect(address_of(node));
  }
  return question.number;
}

// A change, as reset-all is, may wait for a node's disk.
int64_t NodeQuestions::timeout_ms(std::string_view method) const noexcept {
  return context_.options.timeout_ms + (method == "GET" ? 0 : limits::durable_wait_ms_max);
}

std::optional<io::PeerAddress> NodeQuestions::address_of(uint32_t node) const {
  if (node == context_.options.own_node) return context_.options.own_address;
  return addresses_.address(node);
}

bool NodeQuestions::has_answered() const noexcept {
  return std::ranges::any_of(
      questions_, [](const Question& one) { return !one.is_taken && one.is_answered(); });
}

std::optional<NodeQuestions::Answered> NodeQuestions::take_answered() {
  for (Question& question : questions_) {
    if (question.is_taken || !question.is_answered()) continue;
    if (question.answers.empty()) take_answers(question);
    if (!question.check.go_on(question.answers)) return std::nullopt;
    question.is_taken = true;
    return Answered{.question = question.number, .answers = std::move(question.answers)};
  }
  return std::nullopt;
}

void NodeQuestions::take_answers(Question& question) {
  for (const auto& fetch : question.fetches) {
    const auto node = static_cast<uint32_t>(question.answers.size());
    if (const auto& address = fetch->unreached()) addresses_.note_failed(node, *address);
    question.answers.push_back(std::move(fetch->answer()));
  }
}

void NodeQuestions::on_tick() noexcept {
  for (Question& question : questions_) {
    for (const auto& fetch : question.fetches) fetch->on_tick();
  }
}

void NodeQuestions::go_on() noexcept {
  std::erase_if(questions_, [](const Question& one) { return one.is_taken && one.is_over(); });
}

// Nobody is there any more who would take the answers.
void NodeQuestions::close() noexcept {
  is_closing_ = true;
  for (Question& question : questions_) {
    question.is_taken = true;
    for (const auto& fetch : question.fetches) fetch->close();
  }
  go_on();
}

}  // namespace sluice::peer
