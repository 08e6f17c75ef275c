// Goal: every list that reaches instances is read, and of every other one the operator learns which
// item is wrong, and the cure.
// Method: lists by example; the texts of gocc's own checks among them.
#include "peer/instance_list.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "base/limits.hpp"

namespace sluice::peer {
namespace {

std::string urls(std::string_view text) {
  return urls_of(parse_instances(text).instances);
}

std::string error_of(std::string_view text) {
  try {
    return "none: " + urls(text);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

// Of a good item and this one.
std::string error_of_second(const std::string& item) {
  return error_of("http://good," + item);
}

testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != text.npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << text;
}

TEST(InstanceList, keeps_the_order) {
  EXPECT_EQ(urls("http://b:1,http://a:1,http://c:1"), "http://b:1, http://a:1, http://c:1");
}

TEST(InstanceList, has_parts_of_each_item) {
  const auto instances = parse_instances("http://A.b:8080,http://[2001:DB8::7]:1").instances;
  EXPECT_EQ(instances[0], (Instance{.url = "http://a.b:8080", .host = "a.b", .port = 8'080}));
  EXPECT_EQ(instances[1],
            (Instance{.url = "http://[2001:db8::7]:1", .host = "2001:db8::7", .port = 1}));
}

TEST(InstanceList, passes_over_blanks_and_everything_behind_the_port) {
  EXPECT_EQ(urls(" http://a:1 ,\thttp://b:2/prefix/x, http://c?q=1,http://d:#f "),
            "http://a:1, http://b:2, http://c:80, http://d:80");
}

TEST(InstanceList, has_default_ports) {
  const InstanceList list = parse_instances("http://a,HTTPS://b,https://c:8443");
  EXPECT_EQ(urls_of(list.instances), "http://a:80, http://b:443, http://c:8443");
}

TEST(InstanceList, warns_of_https) {
  const InstanceList list = parse_instances("http://a,https://b,https://c:8443");
  ASSERT_EQ(list.warnings.size(), 2u);
  EXPECT_EQ(list.warnings[0],
            "--instance-urls: item 2 (\"https://b\"): instances speak without TLS, this one is "
            "reached at http://b:443");
  EXPECT_TRUE(parse_instances("http://a,http://b").warnings.empty());
}

TEST(InstanceList, knows_addresses_of_both_families) {
  EXPECT_EQ(urls("http://10.0.0.1,http://[::1],http://[::ffff:10.0.0.2]:7,http://[0:0::2]:65535"),
            "http://10.0.0.1:80, http://[::1]:80, http://10.0.0.2:7, http://[::2]:65535");
}

TEST(InstanceList, knows_names_of_containers) {
  EXPECT_EQ(urls("http://gocc-0.gocc.svc.cluster.local.:1,http://my_service:2,http://3com.example"),
            "http://gocc-0.gocc.svc.cluster.local.:1, http://my_service:2, http://3com.example:80");
}

TEST(InstanceList, refuses_one_item) {
  EXPECT_EQ(error_of(" http://a:8080 "),
            "--instance-urls has one item only, http://a:8080: name all instances, this one "
            "included, or none");
}

TEST(InstanceList, refuses_empty_items) {
  for (const char* text : {"http://a,,http://b", "http://a, "}) {
    EXPECT_EQ(error_of(text), "--instance-urls: item 2 is empty: there is a comma too many")
        << text;
  }
  EXPECT_EQ(error_of(","), "--instance-urls: item 1 is empty: there is a comma too many");
  EXPECT_EQ(error_of(""), "--instance-urls: item 1 is empty: there is a comma too many");
}

TEST(InstanceList, refuses_duplicates_however_they_are_written) {
  for (const char* second :
       {"http://a:80", " HTTP://A ", "https://a:80", "http://a./x", "http://a:"}) {
    EXPECT_EQ(error_of("http://a,http://b," + std::string(second)),
              "--instance-urls: items 1 and 3 are both http://a:80: name each instance once")
        << second;
  }
  EXPECT_TRUE(has(error_of("http://[::1],http://[0:0:0::1]:80"), "items 1 and 2 are both"));
  EXPECT_EQ(urls("http://a:1,http://a:2"), "http://a:1, http://a:2");
}

TEST(InstanceList, refuses_items_without_scheme) {
  EXPECT_EQ(error_of_second("localhost:8080"),
            "--instance-urls: item 2 (\"localhost:8080\") does not begin with http://: write "
            "\"http://localhost:8080\"");
  EXPECT_TRUE(has(error_of_second("127.0.0.1:8080"), "write \"http://127.0.0.1:8080\""));
  EXPECT_TRUE(has(error_of_second("invalid-url"), "does not begin with http://"));
  EXPECT_TRUE(has(error_of_second("ftp://a"), "does not begin with http://"));
  EXPECT_TRUE(has(error_of_second("://a"), "does not begin with http://"));
}

TEST(InstanceList, refuses_items_without_host) {
  for (const char* item : {"http://", "http://:8080", "http:///x", "http://?x", "http://."}) {
    EXPECT_TRUE(has(error_of_second(item), "names no host: write http://HOST:PORT")) << item;
  }
  for (const char* item : {"http://0.0.0.0:1", "http://[::]"}) {
    EXPECT_TRUE(has(error_of_second(item), "stands for all addresses")) << item;
  }
}

TEST(InstanceList, refuses_bad_hosts) {
  for (const std::string& item :
       {std::string("http://a b"), std::string("http://a%20b"), std::string("http://k\xc3\xa4se"),
        std::string("http://a\nb"), "http://" + std::string(254, 'a')}) {
    EXPECT_TRUE(has(error_of_second(item), "has a bad host name")) << item;
  }
  for (const char* item : {"http://1.2.3", "http://1.2.3.256:1", "http://a.7"}) {
    EXPECT_TRUE(has(error_of_second(item), "has a bad IPv4 address")) << item;
  }
  EXPECT_TRUE(has(error_of_second("http://user:word@a"), "has a user"));
}

TEST(InstanceList, refuses_bad_brackets) {
  EXPECT_TRUE(has(error_of_second("http://::1"), "an IPv6 address stands in brackets"));
  EXPECT_TRUE(has(error_of_second("http://[::1"), "has no closing bracket"));
  EXPECT_TRUE(has(error_of_second("http://[::1]8080"), "behind its bracket"));
  EXPECT_TRUE(has(error_of_second("http://[a]"), "no IPv6 address in its brackets"));
  EXPECT_TRUE(has(error_of_second("http://[10.0.0.1]"), "no IPv6 address in its brackets"));
  EXPECT_TRUE(has(error_of_second("http://[fe80::1%25eth0]"), "no IPv6 address in its brackets"));
  EXPECT_TRUE(has(error_of_second("http://[]"), "no IPv6 address in its brackets"));
}

TEST(InstanceList, refuses_bad_ports) {
  for (const char* port : {"0", "65536", "-1", "+1", "http", "80 80", "99999999999999999999"}) {
    EXPECT_TRUE(has(error_of_second("http://a:" + std::string(port)), "has a bad port")) << port;
  }
}

TEST(InstanceList, is_bounded) {
  std::string text = "http://a";
  for (uint32_t port = 1; port < limits::instances_max; ++port) {
    text += ",http://b:" + std::to_string(port);
  }
  EXPECT_EQ(parse_instances(text).instances.size(), limits::instances_max);
  EXPECT_EQ(error_of(text + ",http://c"), "--instance-urls has 1025 items: 1024 at most");
}

TEST(InstanceList, has_errors_of_one_line) {
  EXPECT_EQ(error_of_second("a\nb").find('\n'), std::string::npos);
}

TEST(Instance, of_its_own_is_named_in_errors) {
  EXPECT_EQ(parse_instance(" http://A ", "--own-url").url, "http://a:80");
  try {
    parse_instance("a", "--own-url");
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_TRUE(has(error.what(), "--own-url (\"a\") does not begin with http://"));
  }
}

}  // namespace
}  // namespace sluice::peer
