// Goal: a process finds the one item of the list that it is, and never guesses.
// Method: machines by example, whose names resolve when the test says so, with their own clocks.
#include "peer/own_place.hpp"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>

namespace sluice::peer {
namespace {

class TestMachine final : public Machine {
 public:
  struct Name {
    std::vector<std::string> addresses;
    int64_t from_ns = 0;  // before, it does not resolve
  };

  std::string host_name() override { return name; }
  std::vector<io::IpAddress> local_addresses() override { return addresses_of(local); }
  io::ResolvedHost resolve(const std::string& host) override {
    ++resolved_count;
    if (const auto literal = io::IpAddress::parse(host)) {
      return {.addresses = {*literal}, .error = {}};
    }
    const auto found = names.find(host);
    if (found == names.end() || time_ns < found->second.from_ns) {
      return {.addresses = {}, .error = "unknown name"};
    }
    return {.addresses = addresses_of(found->second.addresses), .error = {}};
  }
  int64_t now_ns() override { return time_ns; }
  void sleep_ns(int64_t slept_ns) override { time_ns += slept_ns; }

  std::string name = "some-machine";
  std::vector<std::string> local = {"127.0.0.1", "10.0.0.5", "2001:db8::5"};
  std::map<std::string, Name> names;
  int64_t time_ns = 1'000;
  int resolved_count = 0;

 private:
  static std::vector<io::IpAddress> addresses_of(const std::vector<std::string>& texts) {
    std::vector<io::IpAddress> addresses;
    for (const std::string& text : texts) addresses.push_back(io::IpAddress::parse(text).value());
    return addresses;
  }
};

constexpr int64_t second_ns = base::ns_per_s;

OwnPlaceOptions on_port(uint16_t port, std::string bind = {}) {
  return {.own_url = {}, .port = port, .bind = std::move(bind)};
}

uint16_t place(std::string_view list, TestMachine& machine,
               const OwnPlaceOptions& options = on_port(8'080)) {
  return find_own_place(parse_instances(list).instances, options, machine);
}

std::string error_of(std::string_view list, TestMachine& machine,
                     const OwnPlaceOptions& options = on_port(8'080)) {
  try {
    return "none: " + std::to_string(place(list, machine, options));
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

TEST(OwnPlace, is_that_of_the_own_address) {
  TestMachine machine;
  EXPECT_EQ(place("http://10.0.0.4:8080,http://10.0.0.5:8080,http://10.0.0.6:8080", machine), 1);
  EXPECT_EQ(place("http://[2001:db8::4]:8080,http://[2001:db8::5]:8080", machine), 1);
  EXPECT_EQ(machine.time_ns, 1'000) << "without waiting";
}

TEST(OwnPlace, has_the_own_port) {
  TestMachine machine;
  const std::string_view list = "http://127.0.0.1:8080,http://127.0.0.1:8081,http://127.0.0.1:8082";
  EXPECT_EQ(place(list, machine, on_port(8'082)), 2);
  EXPECT_EQ(place(list, machine, on_port(8'080)), 0);
}

TEST(OwnPlace, is_that_of_the_host_name_before_it_resolves) {
  TestMachine machine;
  machine.name = "gocc-1";
  EXPECT_EQ(
      place("http://gocc-0.gocc:8080,http://gocc-1.gocc:8080,http://gocc-2.gocc:8080", machine), 1);
  EXPECT_EQ(machine.resolved_count, 0);
}

TEST(OwnPlace, is_that_of_the_whole_host_name_first) {
  TestMachine machine;
  machine.name = "A.East.example";
  EXPECT_EQ(place("http://a.west.example:8080,http://a.east.example.:8080", machine), 1);
}

TEST(OwnPlace, is_not_guessed_from_a_first_label_that_several_share) {
  TestMachine machine;
  machine.name = "a";
  machine.names = {{"a.west", {{"10.0.0.5"}}}, {"a.east", {{"10.0.0.6"}}}};
  EXPECT_EQ(place("http://a.east:8080,http://a.west:8080", machine), 1);
}

TEST(OwnPlace, is_not_taken_from_the_first_number_of_an_address) {
  TestMachine machine;
  machine.name = "10";
  EXPECT_EQ(place("http://10.0.0.4:8080,http://b:8080,http://127.0.0.1:8080", machine), 2);
}

TEST(OwnPlace, follows_names_that_resolve) {
  TestMachine machine;
  machine.names = {{"x", {{"10.0.0.4"}}}, {"y", {{"192.0.2.1", "10.0.0.5"}}}};
  EXPECT_EQ(place("http://x:8080,http://y:8080,http://z:8080", machine), 1);
}

TEST(OwnPlace, waits_until_the_own_name_resolves) {
  TestMachine machine;
  machine.names = {{"x", {{"10.0.0.4"}}}, {"y", {{"10.0.0.5"}, 20 * second_ns}}};
  EXPECT_EQ(place("http://x:8080,http://y:8080", machine), 1);
  EXPECT_GE(machine.time_ns, 20 * second_ns);
  EXPECT_LE(machine.time_ns, 22 * second_ns);
}

TEST(OwnPlace, is_not_waited_for_longer_than_30_s) {
  TestMachine machine;
  machine.names = {{"x", {{"10.0.0.4"}}}};
  EXPECT_EQ(error_of("http://x:8080,http://y:8080,http://z:1", machine),
            "no item of --instance-urls with port 8080 leads to this machine (some-machine, "
            "127.0.0.1, 10.0.0.5, 2001:db8::5): http://x:8080 (10.0.0.4), http://y:8080 (unknown "
            "name): correct the list, or name this instance's item with --own-url");
  EXPECT_EQ(machine.time_ns, 30 * second_ns + 1'000);
}

TEST(OwnPlace, is_not_waited_for_where_nothing_can_change) {
  TestMachine machine;
  EXPECT_EQ(error_of("http://10.0.0.4:8080,http://10.0.0.6:8080", machine),
            "no item of --instance-urls with port 8080 leads to this machine (some-machine, "
            "127.0.0.1, 10.0.0.5, 2001:db8::5): http://10.0.0.4:8080, http://10.0.0.6:8080: "
            "correct the list, or name this instance's item with --own-url");
  EXPECT_EQ(machine.time_ns, 1'000);
}

TEST(OwnPlace, is_refused_where_several_items_lead_here) {
  TestMachine machine;
  machine.names = {{"y", {{"10.0.0.5"}}}};
  const std::string error =
      "several items of --instance-urls lead to this machine: "
      "http://127.0.0.9:8080, http://y:8080: name this instance's with "
      "--own-url, or its address with --bind";
  EXPECT_EQ(error_of("http://127.0.0.9:8080,http://x:8080,http://y:8080", machine), error);
}

TEST(OwnPlace, of_instances_on_one_machine_follows_from_bind) {
  TestMachine machine;
  const std::string_view list = "http://127.0.0.1:8080,http://127.0.0.2:8080,http://127.0.0.3:8080";
  EXPECT_EQ(place(list, machine, on_port(8'080, "127.0.0.3")), 2);
  machine.name = "host-a";  // of both items' machine
  machine.names = {{"host-a", {{"10.0.0.5"}}}, {"host-b", {{"10.0.0.6"}}}};
  EXPECT_EQ(place("http://host-a:8080,http://host-b:8080", machine, on_port(8'080, "10.0.0.6")), 1);
}

TEST(OwnPlace, behind_a_bound_loopback_follows_from_the_host_name) {
  TestMachine machine;
  machine.name = "pod-1";  // a proxy beside the process has the pod's address
  machine.names = {{"pod-0.all", {{"10.0.0.4"}}}};
  EXPECT_EQ(
      place("http://pod-0.all:8080,http://pod-1.all:8080", machine, on_port(8'080, "127.0.0.1")),
      1);
}

TEST(OwnPlace, is_not_narrowed_by_an_address_that_stands_for_all) {
  TestMachine machine;
  for (const char* all : {"0.0.0.0", "::"}) {
    EXPECT_EQ(place("http://10.0.0.4:8080,http://10.0.0.5:8080", machine, on_port(8'080, all)), 1);
  }
}

TEST(OwnPlace, of_a_bound_address_that_no_item_has_is_none) {
  TestMachine machine;
  EXPECT_EQ(
      error_of("http://127.0.0.1:8080,http://10.0.0.5:8080", machine, on_port(8'080, "10.0.0.7")),
      "no item of --instance-urls with port 8080 leads to this machine (some-machine, --bind "
      "10.0.0.7): http://127.0.0.1:8080, http://10.0.0.5:8080: correct the list, or name "
      "this instance's item with --own-url");
}

TEST(OwnPlace, is_none_without_an_item_of_the_own_port) {
  TestMachine machine;
  EXPECT_EQ(error_of("http://a:1,http://b:2", machine),
            "no item of --instance-urls has this instance's port, 8080 (--port): http://a:1, "
            "http://b:2: correct the list, or name this instance's item with --own-url");
  EXPECT_EQ(error_of("http://a:1,http://b:2", machine, on_port(0)),
            "--instance-urls needs a --port that is in the list, or --own-url: --port 0 takes any");
}

TEST(OwnPlace, is_that_of_own_url_whatever_the_machine_is) {
  TestMachine machine;
  const OwnPlaceOptions options{.own_url = "HTTP://B:2/x", .port = 8'080, .bind = {}};
  EXPECT_EQ(place("http://a:1,http://b:2", machine, options), 1);
  EXPECT_EQ(machine.resolved_count, 0);
}

TEST(OwnPlace, of_an_own_url_that_is_not_in_the_list_is_none) {
  TestMachine machine;
  EXPECT_EQ(
      error_of("http://a:1,http://b:2", machine, {.own_url = "http://b", .port = 2, .bind = {}}),
      "--own-url http://b:80 is not in --instance-urls: http://a:1, http://b:2");
}

}  // namespace
}  // namespace sluice::peer
