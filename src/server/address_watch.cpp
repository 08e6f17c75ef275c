#include "server/address_watch.hpp"

#include <chrono>
#include <utility>

namespace sluice::server {
namespace {

constexpr std::chrono::seconds unresolved_pause{1};
constexpr std::chrono::seconds resolved_pause{5};

}  // namespace

AddressWatch::Shared::Shared(const std::vector<peer::Instance>& of, Resolve with)
    : instances(of), resolve(std::move(with)), book(static_cast<uint32_t>(of.size())) {
  for (uint32_t node = 0; node < instances.size(); ++node) {
    if (const auto literal = io::IpAddress::parse(instances[node].host)) {
      book.set(node, io::PeerAddress{.bytes = literal->bytes, .port = instances[node].port});
    }
  }
}

bool AddressWatch::Shared::resolve_all() {
  bool has_all = true;
  for (uint32_t node = 0; node < instances.size(); ++node) {
    const peer::Instance& instance = instances[node];
    if (io::IpAddress::parse(instance.host)) continue;
    std::vector<io::PeerAddress> addresses;
    for (const io::IpAddress& address : resolve(instance.host).addresses) {
      addresses.push_back({.bytes = address.bytes, .port = instance.port});
    }
    has_all = has_all && !addresses.empty();
    if (!addresses.empty()) book.set(node, addresses);
  }
  return has_all;
}

void AddressWatch::Shared::run() {
  for (;;) {
    const auto pause = resolve_all() ? resolved_pause : unresolved_pause;
    std::unique_lock lock(mutex);
    if (changed.wait_for(lock, pause, [this] { return is_stopped; })) return;
  }
}

AddressWatch::AddressWatch(const std::vector<peer::Instance>& instances, Resolve resolve)
    : shared_(std::make_shared<Shared>(instances, std::move(resolve))) {
  std::thread([shared = shared_] { shared->run(); }).detach();
}

AddressWatch::~AddressWatch() {
  const std::lock_guard lock(shared_->mutex);
  shared_->is_stopped = true;
  shared_->changed.notify_all();
}

}  // namespace sluice::server
