// Goal: each option, amount, text and list of a call is taken at its bounds, and refused beyond
//       them with a complaint that names it and its bounds; the bounds are those of the server.
// Method: the rows that the client checks by, each put into a call that is valid otherwise, and
//         sent to a fake server that answers everything.
#include "clients/cpp/src/option_bounds.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/limits.hpp"
#include "quota_scripts.hpp"

namespace sluicegate {
namespace {

using namespace test;

// ------------------------------------------------------------------------------ bounds of a row

// The complaint; empty: there is none. Other errors are none of its bounds.
std::string complaint_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::invalid_argument& fault) {
    EXPECT_STRNE(fault.what(), "");
    return fault.what();
  } catch (const Error&) {
  }
  return "";
}

using Try = std::function<std::string(uint64_t)>;  // the complaint about a value

void expect_refused(const Bound& bound, uint64_t value, const std::string& complaint) {
  const std::string name{bound.name};
  if (bound.least == 1 && value == 0 && bound.counted == Counted::bytes) {
    EXPECT_EQ(complaint, name + ": is empty");
    return;
  }
  EXPECT_TRUE(complaint.starts_with(name + ": ")) << name << " " << value << ": " << complaint;
  EXPECT_NE(complaint.find(std::to_string(bound.greatest)), std::string::npos) << complaint;
  if (bound.least > 0 && bound.counted != Counted::bytes) {
    EXPECT_NE(complaint.find(std::to_string(bound.least) + " to "), std::string::npos) << complaint;
  }
}

// `type_max`: the greatest value that the option's type holds.
void expect_bounds(const Bound& bound, uint64_t type_max, const Try& complaint) {
  EXPECT_EQ(complaint(bound.least), "");
  EXPECT_EQ(complaint(bound.greatest), "");
  if (bound.besides) {
    EXPECT_EQ(complaint(*bound.besides), "");
  }
  if (bound.greatest < type_max) {
    expect_refused(bound, bound.greatest + 1, complaint(bound.greatest + 1));
  }
  const bool has_less = bound.least > 0 || bound.counted == Counted::milliseconds;
  if (has_less && bound.least - 1 != bound.besides) {
    expect_refused(bound, bound.least - 1, complaint(bound.least - 1));
  }
}

// -------------------------------------------------------------------------- the rows of a table

template <typename T>
constexpr uint64_t type_max = std::numeric_limits<int64_t>::max();  // of times and texts
template <>
constexpr uint64_t type_max<uint32_t> = std::numeric_limits<uint32_t>::max();
template <>
constexpr uint64_t type_max<uint64_t> = std::numeric_limits<uint64_t>::max();
template <typename T>
constexpr uint64_t type_max<std::optional<T>> = type_max<T>;

// `text` holds the characters of a view.
template <typename T>
void set(T& option, uint64_t value, std::string& text) {
  if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, std::string_view>) {
    text.assign(value, 'x');
    option = text;
  } else if constexpr (std::is_same_v<T, std::chrono::milliseconds>) {
    option = T{static_cast<int64_t>(value)};
  } else if constexpr (std::is_integral_v<T>) {
    option = static_cast<T>(value);
  } else {
    set(option.emplace(), value, text);
  }
}

// `use` makes a call with the options.
template <typename Options, typename... Values>
void expect_bounds_of_all(const std::tuple<OptionRow<Options, Values>...>& rows,
                          const Options& valid, const std::function<void(const Options&)>& use) {
  const auto expect_bounds_of = [&]<typename T>(const OptionRow<Options, T>& row) {
    expect_bounds(row.bound, type_max<T>, [&](uint64_t value) {
      Options options = valid;
      std::string text;
      set(options.*row.member, value, text);
      return complaint_of([&] { use(options); });
    });
  };
  std::apply([&](const auto&... row) { (expect_bounds_of(row), ...); }, rows);
}

// ---------------------------------------------------------------------------------- the tables

TEST(OptionBounds, of_a_client) {
  const FakeServer server = serve(approve_all);
  const ClientOptions valid{.backoff_first = 1ms, .backoff_longest = longest_time};
  expect_bounds_of_all<ClientOptions>(client_options, valid, [&](const ClientOptions& options) {
    const Client client{address_of(server), options};
  });
}

TEST(OptionBounds, of_a_client_at_their_greatest_work) {
  const FakeServer server = serve(approve_all);
  ClientOptions greatest;
  std::string text;
  std::apply(
      [&](const auto&... row) { (set(greatest.*row.member, row.bound.greatest, text), ...); },
      client_options);
  Client client{address_of(server), greatest};
  client.ping();
  EXPECT_TRUE(client.acquire("key"));
  EXPECT_TRUE(client.acquire_future("key").get());
}

TEST(OptionBounds, the_longest_pause_is_not_below_the_first) {
  const auto refused = [](std::chrono::milliseconds longest) {
    return complaint_of([&] {
      const Client client{"127.0.0.1:1", {.backoff_first = 20ms, .backoff_longest = longest}};
    });
  };
  EXPECT_EQ(refused(20ms), "");
  EXPECT_EQ(refused(19ms), "backoff_longest: must not be below backoff_first");
}

TEST(OptionBounds, of_a_connection) {
  const FakeServer server = serve(approve_all);
  expect_bounds_of_all<ConnectOptions>(connect_options, {}, [&](const ConnectOptions& options) {
    const Connection connection{"127.0.0.1", server.port(), options};
  });
}

TEST(OptionBounds, of_an_acquire) {
  const FakeServer server = serve(approve_all);
  Client client = connected(server);
  expect_bounds_of_all<AcquireOptions>(acquire_options, {}, [&](const AcquireOptions& options) {
    (void)client.acquire("key", options);
  });
  const std::vector<std::string_view> keys{"key"};
  expect_bounds_of_all<AcquireOptions>(acquire_options, {}, [&](const AcquireOptions& options) {
    (void)client.acquire_batch(keys, options);
  });
  expect_bounds(key_bound, type_max<std::string>, [&](uint64_t bytes) {
    return complaint_of([&] { (void)client.acquire(std::string(bytes, 'k')); });
  });
}

TEST(OptionBounds, of_a_release) {
  const FakeServer server = serve(approve_all);
  Client client = connected(server);
  expect_bounds(released_bound, type_max<uint32_t>, [&](uint64_t value) {
    return complaint_of([&] { client.release("key", static_cast<uint32_t>(value)); });
  });
}

// -------------------------------------------------------------------------------------- quotas

void answer_ok(Peer& peer) {
  for (;;) peer.write(ok(read_quota(peer)));
}

TEST(OptionBounds, of_a_reserve) {
  const FakeServer server = serve(answer_ok);
  Client client{address_of(server), quick()};
  expect_bounds_of_all<ReserveOptions>(reserve_options, {}, [&](const ReserveOptions& options) {
    const Reservation call = client.reserve("a", options);
  });
  expect_bounds_of_all<ReserveOptions>(reserve_options, {}, [&](const ReserveOptions& options) {
    (void)client.check("a", options);
  });
}

TEST(OptionBounds, of_a_consume) {
  const FakeServer server = serve(answer_ok);
  Client client{address_of(server), quick()};
  expect_bounds_of_all<ConsumeOptions>(consume_options, {}, [&](const ConsumeOptions& options) {
    (void)client.consume("a", {}, options);
  });
  expect_bounds(label_bound("id"), type_max<std::string>, [&](uint64_t size) {
    return complaint_of([&] { (void)client.record("a", {}, std::string(size, 'i')); });
  });
}

TEST(OptionBounds, of_settle_record_and_consume) {
  const FakeServer server = serve(answer_ok);
  Client client{address_of(server), quick()};
  const Used valid{.input_tokens = amount_max};  // cached ones are a part of it
  expect_bounds_of_all<Used>(used_amounts, valid,
                             [&](const Used& used) { (void)client.settle(7, used); });
  expect_bounds_of_all<Used>(used_amounts, valid,
                             [&](const Used& used) { (void)client.record("a", used); });
  expect_bounds_of_all<Used>(used_amounts, valid,
                             [&](const Used& used) { (void)client.consume("a", used); });
}

TEST(OptionBounds, of_an_extend) {
  const FakeServer server = serve(answer_ok);
  Client client{address_of(server), quick()};
  expect_bounds(lifetime_bound, type_max<uint32_t>, [&](uint64_t lifetime_ms) {
    return complaint_of([&] { (void)client.extend(7, static_cast<uint32_t>(lifetime_ms)); });
  });
}

TEST(OptionBounds, of_the_subjects_of_a_call) {
  const FakeServer server = serve(answer_ok);
  Client client{address_of(server), quick()};
  expect_bounds(subjects_bound, type_max<std::string>, [&](uint64_t count) {
    std::vector<std::string> names;
    for (uint64_t i = 0; i < count; ++i) names.push_back("{a}" + std::to_string(i));
    const std::vector<std::string_view> views{names.begin(), names.end()};
    return complaint_of([&] { (void)client.check(views); });
  });
  expect_bounds(subject_bound, type_max<std::string>, [&](uint64_t bytes) {
    return complaint_of([&] { (void)client.reset(std::string(bytes, 's')); });
  });
}

TEST(OptionBounds, of_a_quota) {
  const FakeServer server = serve([](Peer& peer) {
    for (;;) peer.write(answers(read_quota(peer).id, 1, {QuotaCode::ok}));
  });
  Client client{address_of(server), quick()};
  expect_bounds(limits_bound, type_max<std::string>, [&](uint64_t count) {
    return complaint_of(
        [&] { (void)client.put_quota("a", {.limits = std::vector<Limit>(count)}); });
  });
  const std::string place = "limits[0] (\"tpm\"), ";
  expect_bounds_of_all<Limit>(limit_amounts, {.name = "tpm"}, [&](const Limit& limit) {
    const std::string complaint =
        complaint_of([&] { (void)client.put_quota("a", {.limits = {limit}}); });
    if (complaint.empty()) return;
    EXPECT_TRUE(complaint.starts_with(place)) << complaint;
    throw std::invalid_argument(complaint.substr(place.size()));
  });
}

// ------------------------------------------------------------------------ the server has the same

template <typename Rows>
Bound bound_of(const Rows& rows, std::string_view name) {
  Bound found{};
  std::apply(
      [&](const auto&... row) { ((row.bound.name == name ? found = row.bound : found), ...); },
      rows);
  EXPECT_EQ(found.name, name);
  return found;
}

void expect_same(const Bound& bound, uint64_t least, uint64_t greatest) {
  EXPECT_EQ(bound.least, least) << bound.name;
  EXPECT_EQ(bound.greatest, greatest) << bound.name;
}

TEST(OptionBounds, are_those_of_the_server) {
  namespace limits = sluice::limits;
  expect_same(bound_of(acquire_options, "cost"), 0, limits::permits_max);
  expect_same(released_bound, 1, limits::permits_max);
  expect_same(bound_of(acquire_options, "max_requests"), 1, limits::permits_max);
  expect_same(bound_of(acquire_options, "max_requests_in_queue"), 0, limits::queue_max);
  expect_same(bound_of(acquire_options, "window_ms"), limits::window_ms_min, limits::window_ms_max);
  expect_same(bound_of(client_options, "frame_entries_max"), 1, limits::frame_entries_max);
  expect_same(key_bound, 0, limits::key_bytes_max);
  expect_same(wait_limit_bound, 0, limits::wait_ms_max);
  expect_same(lifetime_bound, limits::lifetime_ms_min, limits::lifetime_ms_max);
  expect_same(subjects_bound, 1, limits::call_subjects_max);
  expect_same(limits_bound, 0, limits::quota_limits_max);
  expect_same(amount_bound("amount"), 0, limits::amount_max);
  expect_same(label_bound("owner"), 0, limits::client_id_bytes_max);
}

}  // namespace
}  // namespace sluicegate
