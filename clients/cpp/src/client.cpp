#include "sluicegate/client.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "client_impl.hpp"
#include "option_bounds.hpp"
#include "sluicegate/address.hpp"

namespace sluicegate {
namespace {

// Checks what would make the server refuse a whole frame, which may have entries of other callers.
void require_valid(const AcquireOptions& options) {
  require_all_within(acquire_options, options);
}

void require_valid(std::string_view key) {
  require_within(key_bound, key.size());
}

void require_valid(const ClientOptions& options) {
  require_all_within(client_options, options);
  if (options.backoff_longest < options.backoff_first) {
    throw std::invalid_argument("backoff_longest: must not be below backoff_first");
  }
}

KeyState state_of(const InspectedKey& found) {
  return {.key = std::string{found.key},
          .window_ms = found.window_ms,
          .reset_ms = found.reset_ms,
          .max_requests = found.max_requests,
          .max_requests_in_queue = found.max_requests_in_queue,
          .approved = found.approved,
          .denied = found.denied,
          .waiting = found.waiting};
}

const Inspected& inspected_of(const Answer& answer) {
  const auto* inspected = std::get_if<Inspected>(&answer);
  if (inspected == nullptr) throw_unexpected(answer);
  return *inspected;
}

}  // namespace

Incomplete::Incomplete(BatchOutcome outcome)
    : Error{std::to_string(outcome.failed) + " of " + std::to_string(outcome.verdicts.size()) +
            " entries have no verdict: " + std::string{name(outcome.failure)}},
      outcome_{std::move(outcome)} {}

Client::Client(const std::string& address, ClientOptions options) {
  require_valid(options);
  impl_ = std::make_unique<ClientImpl>(parse_address(address), std::move(options));
}

Client::Client(const std::vector<std::string>& addresses, ClientOptions options) {
  require_valid(options);
  if (addresses.empty()) throw std::invalid_argument("addresses: is empty");
  std::vector<Address> parsed;
  for (const std::string& address : addresses) parsed.push_back(parse_address(address));
  impl_ = std::make_unique<ClientImpl>(std::move(parsed), std::move(options));
}

Client::Client(std::unique_ptr<ClientImpl> impl) noexcept : impl_{std::move(impl)} {}
Client::~Client() = default;
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;

size_t Client::pending() const {
  return impl_->pending();
}

size_t Client::connections() const {
  return impl_->connections();
}

void Client::close() {
  impl_->close();
}

Outcome Client::acquire(std::string_view key, const AcquireOptions& options,
                        const std::stop_token& stop) {
  require_valid(key);
  require_valid(options);
  return impl_->call({.key = key, .options = options}, stop);
}

Ticket Client::acquire_async(std::string_view key, Callback done, const AcquireOptions& options) {
  require_valid(key);
  require_valid(options);
  return impl_->call_async({.key = key, .options = options}, std::move(done));
}

std::future<Outcome> Client::acquire_future(std::string_view key, const AcquireOptions& options) {
  const auto promise = std::make_shared<std::promise<Outcome>>();
  auto future = promise->get_future();
  acquire_async(
      key, [promise](const Outcome& outcome) { promise->set_value(outcome); }, options);
  return future;
}

void Client::cancel(const Ticket& ticket) {
  impl_->cancel(ticket);
}

void Client::release(std::string_view key, uint32_t cost) {
  const AcquireOptions options{.cost = cost};
  require_valid(key);
  require_within(released_bound, cost);
  const Outcome outcome = impl_->call({.key = key, .options = options, .is_release = true}, {});
  if (outcome.verdict == Verdict::owner_unreachable) throw OwnerUnreachable::of_key(key);
}

void Client::reset_key(std::string_view key) {
  release(key, permits_max);  // no window can have given more
}

void Client::release_async(std::string_view key, uint32_t cost, Callback done) {
  const AcquireOptions options{.cost = cost};
  require_valid(key);
  require_within(released_bound, cost);
  impl_->call_async({.key = key, .options = options, .is_release = true}, std::move(done));
}

std::optional<KeyState> Client::inspect(std::string_view key) {
  require_valid(key);
  std::optional<KeyState> state;
  impl_->ask_owner(
      key, [&](uint64_t id, std::vector<uint64_t>& out) { encode(id, Inspect{.key = key}, out); },
      [&](const Answer& answer) {
        const Inspected& inspected = inspected_of(answer);
        if (!inspected.keys.empty()) state = state_of(inspected.keys.front());
      });
  return state;
}

KeyPage Client::inspect_page(uint64_t cursor, uint32_t limit) {
  KeyPage page;
  impl_->ask(
      impl_->home_lane(),
      [&](uint64_t id, std::vector<uint64_t>& out) {
        encode(id, Inspect{.key = {}, .cursor = cursor, .limit = limit}, out);
      },
      [&](const Answer& answer) {
        const Inspected& inspected = inspected_of(answer);
        for (const InspectedKey& each : inspected.keys) page.keys.push_back(state_of(each));
        page.cursor = inspected.cursor;
      });
  return page;
}

std::vector<KeyState> Client::inspect_all() {
  KeyPage page = inspect_page();
  std::vector<KeyState> all = std::move(page.keys);
  while (page.cursor != 0) {
    page = inspect_page(page.cursor);
    std::ranges::move(page.keys, std::back_inserter(all));
  }
  return all;
}

void Client::ping() {
  impl_->ping();
}

BatchOutcome Client::acquire_batch(std::span<const std::string_view> keys,
                                   const AcquireOptions& options) {
  for (const std::string_view key : keys) require_valid(key);
  require_valid(options);
  return impl_->batch(keys, options);
}

BatchOutcome Client::acquire_batch(std::span<const uint32_t> handles,
                                   const AcquireOptions& options) {
  require_valid(options);
  return impl_->batch(handles, options);
}

std::vector<uint32_t> Client::intern(std::span<const std::string_view> keys) {
  for (const std::string_view key : keys) require_valid(key);
  return impl_->intern(keys);
}

}  // namespace sluicegate
