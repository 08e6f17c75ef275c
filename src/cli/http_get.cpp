#include "cli/http_get.hpp"

#include <spdlog/fmt/fmt.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <optional>
#include <stdexcept>

#include "sluicegate/address.hpp"
#include "text/json.hpp"

namespace sluice::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::milliseconds slice{100};
constexpr size_t body_bytes_max = 1024 * 1024;

struct Abandoned {};

// The steps of one exchange, each run to its end.
class Exchange {
 public:
  Exchange(std::chrono::milliseconds timeout, const std::function<bool()>& go_on) : go_on_(go_on) {
    stream_.expires_after(timeout);
  }

  void connect(const sluicegate::Address& server) {
    tcp::resolver resolver(context_);
    const auto places = resolver.resolve(server.host, std::to_string(server.port));
    run([&](auto done) { stream_.async_connect(places, done); });
  }

  HttpAnswer get(const sluicegate::Address& server, const std::string& target) {
    http::request<http::empty_body> request{http::verb::get, target, 11};
    request.set(http::field::host, server.host);
    request.set(http::field::connection, "close");
    run([&](auto done) { http::async_write(stream_, request, done); });
    beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.body_limit(body_bytes_max);
    run([&](auto done) { http::async_read(stream_, buffer, parser, done); });
    return {parser.get().result_int(), std::move(parser.get().body())};
  }

 private:
  template <typename Start>
  void run(Start start) {
    std::optional<error_code> outcome;
    start([&outcome](error_code code, const auto&...) { outcome = code; });
    context_.restart();
    while (!outcome) {
      if (!go_on_()) throw Abandoned{};
      context_.run_one_for(slice);
    }
    if (*outcome) throw boost::system::system_error(*outcome);
  }

  const std::function<bool()>& go_on_;
  asio::io_context context_;
  beast::tcp_stream stream_{context_};
};

std::string cause_of(const error_code& code, std::chrono::milliseconds timeout) {
  if (code == beast::error::timeout) return fmt::format("no answer within {} ms", timeout.count());
  return code.message();
}

// ": the cause" of a body as RFC 9457 has it, or that is a line of text; nothing where it is
// another.
std::string problem_of(const std::string& body) {
  const text::Json problem = text::parse_json(body).value;
  if (!problem.is_object()) {
    const bool is_line =
        !body.empty() && body.find('\n') == body.size() - 1 && !body.starts_with('<');
    return is_line ? ": " + body.substr(0, body.size() - 1) : "";
  }
  for (const char* field : {"detail", "title"}) {
    const auto found = problem.find(field);
    if (found != problem.end() && found->is_string()) return ": " + found->get<std::string>();
  }
  return "";
}

// So that a long name does not hide the cause.
std::string shortened(const std::string& target) {
  constexpr size_t shown = 80;
  return target.size() <= shown ? target : target.substr(0, shown) + "...";
}

}  // namespace

HttpAnswer http_ask(const HttpGet& what, const std::function<bool()>& go_on) {
  const sluicegate::Address server = sluicegate::parse_address(what.address);
  std::string cause;
  try {
    Exchange exchange(what.timeout, go_on);
    exchange.connect(server);
    return exchange.get(server, what.target);
  } catch (const Abandoned&) {
    return {};
  } catch (const boost::system::system_error& error) {
    cause = cause_of(error.code(), what.timeout);
  }
  throw std::runtime_error(what.address + ": " + cause +
                           " (the address must be the server's REST port)");
}

std::string http_get(const HttpGet& what, const std::function<bool()>& go_on) {
  HttpAnswer answer = http_ask(what, go_on);
  constexpr unsigned ok = 200;
  if (answer.status == ok || answer.status == 0) return std::move(answer.body);
  throw std::runtime_error(fmt::format("{}: GET {} was answered with status {}{}", what.address,
                                       shortened(what.target), answer.status,
                                       problem_of(answer.body)));
}

}  // namespace sluice::cli
