// A batch job that paces itself: it sends thousands of mails, within the rate that each mail
// provider allows. It asks for a thousand permits at a time, by handle, sends the approved mails,
// and asks again for the others.
//
//   paced_batch HOST:PORT
#include <sluicegate/client.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;

constexpr size_t mails_count = 5'000;
constexpr size_t providers_count = 10;
constexpr uint32_t mails_per_window = 200;  // of each provider
constexpr size_t batch = 1'000;

// The provider of each mail, as the client's handle.
std::vector<uint32_t> all_mails(sluicegate::Client& client) {
  std::vector<std::string> providers;
  for (size_t i = 0; i < providers_count; ++i) {
    providers.push_back("mails:provider-" + std::to_string(i));
  }
  const std::vector<std::string_view> keys{providers.begin(), providers.end()};
  const std::vector<uint32_t> handles = client.intern(keys);
  std::vector<uint32_t> mails;
  for (size_t i = 0; i < mails_count; ++i) mails.push_back(handles[i % providers_count]);
  return mails;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    sluicegate::Client client{argc > 1 ? argv[1] : "127.0.0.1:8081"};
    std::vector<uint32_t> left = all_mails(client);
    size_t sent = 0;
    for (int round = 1; !left.empty(); ++round) {
      std::vector<uint32_t> denied;
      for (size_t first = 0; first < left.size(); first += batch) {
        const auto asked = std::span{left}.subspan(first, std::min(batch, left.size() - first));
        const auto outcome = client.acquire_batch(asked, {.max_requests = mails_per_window});
        for (size_t i = 0; i < asked.size(); ++i) {
          if (outcome.verdicts[i] == sluicegate::Verdict::approved) {
            ++sent;  // here the mail would go out
          } else {
            denied.push_back(asked[i]);
          }
        }
      }
      std::printf("round %d: %zu sent, %zu left\n", round, sent, denied.size());
      left.swap(denied);
      if (!left.empty()) std::this_thread::sleep_for(100ms);
    }
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "Error: %s\n", fault.what());
    return 1;
  }
}
