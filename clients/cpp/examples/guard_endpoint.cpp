// Guards an endpoint: each caller may make a few requests per second; the endpoint answers 429 to
// further ones. When the rate-limit server is unreachable, the endpoint stays open.
//
//   guard_endpoint HOST:PORT
#include <sluicegate/client.hpp>

#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Response {
  int status;
  std::string body;
};

class Endpoint {
 public:
  explicit Endpoint(const std::string& limiter)
      : limiter_{limiter, {.client_name = "endpoint", .on_failure = sluicegate::OnFailure::open}} {}

  // Called by one thread per request: the client batches simultaneous calls.
  Response get(const std::string& caller) {
    const auto outcome = limiter_.acquire("endpoint:" + caller, {.max_requests = 5});
    if (outcome.failure != sluicegate::Failure::none) {
      std::printf("unlimited for now: %s\n", std::string{name(outcome.failure)}.c_str());
    }
    if (!outcome) return {429, "slow down"};
    return {200, "hello " + caller};
  }

 private:
  sluicegate::Client limiter_;
};

int count(const std::vector<Response>& responses, int status) {
  int sum = 0;
  for (const Response& each : responses) sum += each.status == status ? 1 : 0;
  return sum;
}

// Twenty requests of one caller, at once.
std::vector<Response> storm(Endpoint& endpoint, const std::string& caller) {
  std::vector<Response> responses(20);
  std::vector<std::thread> threads;
  for (Response& response : responses) {
    threads.emplace_back([&] { response = endpoint.get(caller); });
  }
  for (std::thread& each : threads) each.join();
  return responses;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Endpoint endpoint{argc > 1 ? argv[1] : "127.0.0.1:8081"};
    for (const char* caller : {"alice", "bob"}) {
      const auto responses = storm(endpoint, caller);
      std::printf("%s: %d served, %d denied\n", caller, count(responses, 200),
                  count(responses, 429));
    }
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "Error: %s\n", fault.what());
    return 1;
  }
}
