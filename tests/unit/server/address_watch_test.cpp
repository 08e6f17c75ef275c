// Names of other instances become addresses, and change with what they resolve to.
#include "server/address_watch.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace sluice::server {
namespace {

peer::Instance instance_of(std::string host) {
  return {"http://" + host + ":8080", host, 8080};
}
io::IpAddress ip(const std::string& text) {
  return *io::IpAddress::parse(text);
}

template <typename Condition>
bool comes_true(Condition condition) {
  for (int tries = 0; tries < 3'000; ++tries) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(AddressWatch, has_literal_addresses_from_the_start_and_asks_nobody) {
  std::atomic<int> asked = 0;
  AddressWatch watch({instance_of("10.0.0.1"), instance_of("::1")},
                     [&](const std::string&) -> io::ResolvedHost {
                       ++asked;
                       return {};
                     });
  EXPECT_EQ(watch.addresses().address(0)->text(), "10.0.0.1:8080");
  EXPECT_EQ(watch.addresses().address(1)->text(), "[::1]:8080");
  EXPECT_EQ(asked, 0);
}

TEST(AddressWatch, asks_for_a_name_until_it_has_an_address) {
  // What the thread uses outlives this test: it is not waited for.
  const auto asked = std::make_shared<std::atomic<int>>(0);
  AddressWatch watch({instance_of("10.0.0.1"), instance_of("other")},
                     [asked](const std::string& name) -> io::ResolvedHost {
                       if (name != "other" || ++*asked < 2) return {};
                       return {.addresses = {ip("10.0.0.7"), ip("10.0.0.8")}};
                     });
  EXPECT_TRUE(comes_true([&] { return watch.addresses().address(1).has_value(); }));
  peer::AddressBook& book = watch.addresses();
  EXPECT_EQ(book.address(1)->text(), "10.0.0.7:8080");
  EXPECT_EQ(*asked, 2);
  book.note_failed(1, *book.address(1));
  EXPECT_EQ(book.address(1)->text(), "10.0.0.8:8080") << "all that the name has are known";
}

TEST(AddressWatch, ends_without_waiting_for_a_name_server) {
  struct Server {
    std::atomic<bool> is_asked = false, may_answer = false;
  };
  const auto server = std::make_shared<Server>();
  {
    AddressWatch watch({instance_of("slow")}, [server](const std::string&) -> io::ResolvedHost {
      server->is_asked = true;
      while (!server->may_answer) std::this_thread::yield();
      return {};
    });
    EXPECT_TRUE(comes_true([&] { return server->is_asked.load(); }));
  }
  server->may_answer = true;
  // The thread ends, and with it the last who shares the server.
  EXPECT_TRUE(comes_true([&] { return server.use_count() == 1; }));
}

}  // namespace
}  // namespace sluice::server
