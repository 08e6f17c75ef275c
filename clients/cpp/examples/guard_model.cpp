// Calls a model from many threads, within its tokens per minute and never more than four at once.
// Before each call it reserves the tokens that the call may need, waiting in the queue when none
// are left. Afterwards it settles the used tokens, and the server refunds the rest at once.
//
//   guard_model HOST:PORT
#include <sluicegate/client.hpp>

#include <atomic>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using sluicegate::Client;

struct Completion {
  uint64_t input_tokens;
  uint64_t output_tokens;
};

// Stands for the provider's API: it uses fewer tokens than allowed, and sometimes fails.
Completion call_model(int prompt, uint64_t input_tokens, uint64_t /*max_output_tokens*/) {
  if (prompt % 10 == 9) throw std::runtime_error("the model is overloaded");
  return {input_tokens, 20 + static_cast<uint64_t>(prompt % 3) * 10};
}

// A quota is data: usually it is in the server's configuration file.
void put_quota(Client& client) {
  using namespace sluicegate;
  const Limit tokens{
      .name = "tpm", .metric = Metric::tokens, .amount = 30'000, .period_ms = 60'000};
  const Limit slots{.name = "slots", .metric = Metric::concurrency, .amount = 4};
  if (client.put_quota("gpt-4o", {.limits = {tokens, slots}}) != QuotaCode::ok) {
    throw std::runtime_error("the server took no quota");
  }
}

bool ask(Client& client, int prompt) {
  constexpr uint64_t input_tokens = 100, max_output_tokens = 200;
  auto call = client.reserve("gpt-4o", {.input_tokens = input_tokens,
                                        .max_output_tokens = max_output_tokens,
                                        .may_wait = true,
                                        .wait_limit_ms = 30'000});
  if (!call) throw std::runtime_error(std::string{reason(call.outcome().code)});
  try {
    const Completion done = call_model(prompt, input_tokens, max_output_tokens);
    const auto settled =
        call.settle({.input_tokens = done.input_tokens, .output_tokens = done.output_tokens});
    if (!settled) std::printf("charged as reserved: %s\n", name(settled.code).data());
    return true;
  } catch (const std::runtime_error&) {
    return false;  // the guard cancels the reservation, and the server refunds all of it
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Client client{argc > 1 ? argv[1] : "127.0.0.1:8081", {.client_name = "guard_model"}};
    put_quota(client);
    std::atomic<int> answered{0}, failed{0};
    std::vector<std::thread> threads;
    for (int first = 0; first < 10; ++first) {
      threads.emplace_back([&, first] {
        for (int prompt = first; prompt < 100; prompt += 10) {
          ++(ask(client, prompt) ? answered : failed);
        }
      });
    }
    for (std::thread& each : threads) each.join();
    const auto state = client.usage("gpt-4o");
    std::printf("%d answered, %d failed, %llu tokens used, %u calls open\n", answered.load(),
                failed.load(), static_cast<unsigned long long>(state.limits.at(0).used),
                state.open_reservations);
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "Error: %s\n", fault.what());
    return 1;
  }
}
