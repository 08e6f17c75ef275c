#include "peer/instance_list.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/limits.hpp"
#include "io/host_addresses.hpp"
#include "peer/host_text.hpp"
#include "text/number.hpp"
#include "text/quote.hpp"

namespace sluice::peer {
namespace {

constexpr std::string_view flag = "--instance-urls";
constexpr size_t host_bytes_max = 253;  // of a name in DNS

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(blanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Of names in DNS, and the underscore that names of containers have.
bool is_host_char(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || c == '-' || c == '.' || c == '_';
}

// Reads one item.
class ItemReader {
 public:
  ItemReader(std::string_view item, const std::string& place) : item_(item), place_(place) {}

  Instance read() {
    take_scheme();
    take_authority();
    const std::string_view port = take_port();
    Instance instance{.url = {}, .host = read_host(), .port = read_port(port)};
    const bool is_ipv6 = instance.host.find(':') != std::string::npos;
    instance.url = "http://" + (is_ipv6 ? "[" + instance.host + "]" : instance.host) + ":" +
                   std::to_string(instance.port);
    return instance;
  }

  bool has_tls() const noexcept { return has_tls_; }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw std::runtime_error(place_ + " (" + text::quoted_excerpt(item_) + ") " + why);
  }

  void take_scheme() {
    const size_t end = item_.find("://");
    if (end == item_.npos) {
      fail("does not begin with http://: write " +
           text::quoted_excerpt("http://" + std::string(item_)));
    }
    const std::string scheme = in_lower_case(item_.substr(0, end));
    has_tls_ = scheme == "https";
    if (!has_tls_ && scheme != "http") {
      fail("does not begin with http://: instances speak nothing else");
    }
    rest_ = item_.substr(end + 3);
  }

  // What stands behind has no effect, as in gocc.
  void take_authority() {
    rest_ = rest_.substr(0, rest_.find_first_of("/?#"));
    if (rest_.find('@') != rest_.npos) {
      fail("has a user: there is no access control between instances, leave out what ends in @");
    }
    if (rest_.empty()) fail("names no host: write http://HOST:PORT");
  }

  // The port's text, if any; `rest_` is the host then.
  std::string_view take_port() {
    const size_t bracket = rest_.front() == '[' ? rest_.find(']') : 0;
    if (bracket == rest_.npos) fail("has no closing bracket: write http://[ADDRESS]:PORT");
    const size_t colon = rest_.find(':', bracket);
    if (bracket > 0 && bracket + 1 != std::min(colon, rest_.size())) {
      fail("has something behind its bracket: write http://[ADDRESS]:PORT");
    }
    if (colon == rest_.npos) return {};
    const std::string_view port = rest_.substr(colon + 1);
    if (port.find(':') != port.npos) {
      fail("is no URL: an IPv6 address stands in brackets, http://[ADDRESS]:PORT");
    }
    rest_ = rest_.substr(0, colon);
    return port;
  }

  uint16_t read_port(std::string_view port) const {
    if (port.empty()) return has_tls_ ? 443 : 80;
    const auto number = text::parse_whole<uint16_t>(port);
    if (!number || *number == 0) fail("has a bad port: it is a number from 1 to 65535");
    return *number;
  }

  std::string read_host() const {
    if (rest_.empty()) fail("names no host: write http://HOST:PORT");
    const bool has_brackets = rest_.front() == '[';
    const std::string host =
        in_lower_case(has_brackets ? rest_.substr(1, rest_.size() - 2) : rest_);
    const std::optional<io::IpAddress> address = io::IpAddress::parse(host);
    if (has_brackets && (!address || host.find(':') == host.npos)) {
      fail("has no IPv6 address in its brackets");
    }
    if (!address) {
      check_name(host);
      return host;
    }
    if (address->is_unspecified()) {
      fail("names no host: " + host + " stands for all addresses, others need one of them");
    }
    return address->text();
  }

  void check_name(const std::string& host) const {
    if (host.size() > host_bytes_max || !std::ranges::all_of(host, is_host_char)) {
      fail("has a bad host name: letters, digits, '-', '.' and '_' are known, 253 at most");
    }
    const size_t last_label = host.find_last_of('.') + 1;
    if (last_label < host.size() &&
        std::all_of(host.begin() + static_cast<ptrdiff_t>(last_label), host.end(), is_digit)) {
      fail("has a bad IPv4 address: it is four numbers from 0 to 255");
    }
    if (host.find_first_not_of('.') == host.npos) fail("names no host: write http://HOST:PORT");
  }

  std::string_view item_;
  const std::string& place_;
  std::string_view rest_;  // what is not read yet
  bool has_tls_ = false;
};

std::vector<std::string_view> items_of(std::string_view text) {
  std::vector<std::string_view> items;
  while (true) {
    const size_t comma = text.find(',');
    items.push_back(without_blanks(text.substr(0, comma)));
    if (comma == text.npos) return items;
    text.remove_prefix(comma + 1);
  }
}

void check_no_duplicate(const std::vector<Instance>& instances) {
  const Instance& last = instances.back();
  const auto same = std::ranges::find_if(
      instances, [&last](const Instance& other) { return is_same(other, last); });
  if (&*same == &last) return;
  throw std::runtime_error(
      std::string(flag) + ": items " + std::to_string(same - instances.begin() + 1) + " and " +
      std::to_string(instances.size()) + " are both " + same->url + ": name each instance once");
}

}  // namespace

bool is_same(const Instance& a, const Instance& b) noexcept {
  return a.port == b.port && without_last_dot(a.host) == without_last_dot(b.host);
}

Instance parse_instance(std::string_view item, const std::string& place) {
  return ItemReader(without_blanks(item), place).read();
}

InstanceList parse_instances(std::string_view text) {
  const std::vector<std::string_view> items = items_of(text);
  if (items.size() > limits::instances_max) {
    throw std::runtime_error(std::string(flag) + " has " + std::to_string(items.size()) +
                             " items: " + std::to_string(limits::instances_max) + " at most");
  }
  InstanceList list;
  for (const std::string_view item : items) {
    const std::string place =
        std::string(flag) + ": item " + std::to_string(list.instances.size() + 1);
    if (item.empty()) throw std::runtime_error(place + " is empty: there is a comma too many");
    ItemReader reader(item, place);
    list.instances.push_back(reader.read());
    check_no_duplicate(list.instances);
    if (reader.has_tls()) {
      list.warnings.push_back(place + " (" + text::quoted_excerpt(item) +
                              "): instances speak without TLS, this one is reached at " +
                              list.instances.back().url);
    }
  }
  if (list.instances.size() == 1) {
    throw std::runtime_error(std::string(flag) + " has one item only, " +
                             list.instances.front().url +
                             ": name all instances, this one included, or none");
  }
  return list;
}

std::string urls_of(const std::vector<Instance>& instances) {
  std::string urls;
  for (const Instance& instance : instances) {
    if (!urls.empty()) urls += ", ";
    urls += instance.url;
  }
  return urls;
}

// FNV-1a of 64 bits over all URLs, each with a line end.
uint64_t list_digest(std::span<const Instance> instances) noexcept {
  uint64_t digest = 14'695'981'039'346'656'037U;
  const auto add = [&](std::string_view text) {
    for (const char c : text) digest = (digest ^ static_cast<uint8_t>(c)) * 1'099'511'628'211U;
  };
  for (const Instance& instance : instances) {
    add(instance.url);
    add("\n");
  }
  return digest;
}

}  // namespace sluice::peer
