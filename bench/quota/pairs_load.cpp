// Pairs of reserve and settle: over the native protocol in batches, over REST one at a time.
// Method: `native`: the load prepares frames of Reserve before the clock starts (all subjects, each
// once, shuffled, repeated); it reads each answer whole, sends its reservations as the next Settle
// frame of that lane, and reads that answer too. 64 lanes keep the server busy: with 16 it sleeps a
// fifth of the time. They are spread over the connections, each with a thread of its own and, one
// after the other, to another shard, as clients have them that route. One pair is one admitted
// reservation, settled with less than was reserved; anything else ends the run. With --rate, pairs
// begin at fixed times. With --shared every call names one subject more, the same for all;
// `denied`: it has no room, so a call is a decision without a settle. `rest`: one connection, one
// request at a time; a pair is POST /v1/reserve and POST /v1/settle, `rate` is GET /rate/KEY.
// Prints a line of JSON.
// Units:  pairs (requests) per second, microseconds.
#include <capnp/message.h>
#include <capnp/serialize.h>
#include <poll.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "load/latency_histogram.hpp"
#include "proto/key_hash.hpp"
#include "proto/sluicegate.capnp.h"
#include "sluicegate/address.hpp"
#include "sluicegate/link.hpp"

namespace {

namespace schema = sluice::schema;
using Clock = std::chrono::steady_clock;
using sluice::load::LatencyHistogram;

// Where the subjects of one call lie: together by a common tag; on the connection's shard; the
// first there, and the next ones on other shards.
constexpr const char* by_tag = "tag";
constexpr const char* one_shard = "shard";
constexpr const char* several_shards = "shards";

struct Flags {
  std::string mode = "native";
  std::string together = by_tag;
  bool shared = false;
  std::string address = "127.0.0.1:8081";
  uint32_t subjects = 1;
  uint32_t of_one_call = 1;
  uint32_t batch = 256;
  uint32_t in_flight = 64;
  uint32_t connections = 1;
  double rate = 0;  // pairs per second; 0: as many as the server answers
  double seconds = 2;
};

constexpr uint8_t first_denial = 5;  // of the QuotaCodes

struct Measured {
  uint64_t count = 0;
  uint64_t count_with_warm_up = 0;
  LatencyHistogram latency;
  double seconds = 0;
  double cpu_seconds = 0;

  // Of another connection, at the same time.
  Measured& operator+=(const Measured& other) {
    count += other.count;
    count_with_warm_up += other.count_with_warm_up;
    latency += other.latency;
    seconds = std::max(seconds, other.seconds);
    cpu_seconds += other.cpu_seconds;
    return *this;
  }
};

uint64_t ns_since(Clock::time_point begin) {
  const auto spent = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin);
  return static_cast<uint64_t>(spent.count());
}

// Of this thread.
double cpu_now() {
  timespec spent{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return static_cast<double>(spent.tv_sec) + static_cast<double>(spent.tv_nsec) * 1e-9;
}

// The names of the subjects, once the server has announced its shards.
class Names {
 public:
  Names(const Flags& flags, const sluicegate::Welcome& welcome)
      : flags_(flags), welcome_(welcome) {}

  // Of the call's subject at this place.
  std::string at(uint32_t call, uint32_t place) const {
    if (flags_.together == by_tag) {
      return "{tag-" + std::to_string(call) + "}m" + std::to_string(place);
    }
    const uint32_t far = flags_.together == several_shards ? place : 0;
    return on_shard("plain-" + std::to_string(call) + "-" + std::to_string(place), far);
  }
  // Of the subject that all calls share, behind their own.
  std::string shared() const {
    const uint32_t far = flags_.together == several_shards ? 1 : 0;
    return on_shard(flags_.mode == "denied" ? "full-" : "plain-shared-", far);
  }

 private:
  // On the shard that is so many behind the connection's.
  std::string on_shard(const std::string& stem, uint32_t far) const {
    const uint32_t wanted = (welcome_.shard + far) % welcome_.shards;
    for (uint32_t number = 0;; ++number) {
      std::string name = stem + std::to_string(number);
      const uint64_t hash = sluice::proto::routing_hash(name, welcome_.routing_seed);
      if (sluice::proto::owner_shard(hash, welcome_.shards) == wanted) return name;
    }
  }

  const Flags& flags_;
  const sluicegate::Welcome& welcome_;
};

std::vector<uint64_t> words_of(capnp::MallocMessageBuilder& message) {
  const auto flat = capnp::messageToFlatArray(message);
  const auto* words = reinterpret_cast<const uint64_t*>(flat.begin());
  return {words, words + flat.size()};
}

// One segment, as a fast client sends its frames.
class Message {
 public:
  Message() : builder_(1 << 16, capnp::AllocationStrategy::FIXED_SIZE) {}
  capnp::MallocMessageBuilder& operator*() { return builder_; }

 private:
  capnp::MallocMessageBuilder builder_;
};

// send fills in `id`, the first word of the root struct.
constexpr size_t id_word = 2;

constexpr auto fill = [](auto list, const auto& value) {
  for (uint32_t index = 0; index < list.size(); ++index) list.set(index, value(index));
};

// What a Reserve and a Consume have in common.
template <typename Builder>
void fill_calls(Builder to, const Flags& flags, const Names& of, const std::vector<uint32_t>& tags,
                size_t first) {
  std::string names;
  std::vector<uint16_t> sizes;
  for (uint32_t call = 0; call < flags.batch; ++call) {
    const uint32_t tag = tags[(first + call) % tags.size()];
    const auto add = [&](const std::string& name) {
      names += name;
      sizes.push_back(static_cast<uint16_t>(name.size()));
    };
    for (uint32_t place = 0; place < flags.of_one_call; ++place) add(of.at(tag, place));
    if (flags.shared) add(of.shared());
  }
  to.setSubjects(
      capnp::Data::Reader(reinterpret_cast<const capnp::byte*>(names.data()), names.size()));
  fill(to.initSubjectSizes(static_cast<uint32_t>(sizes.size())),
       [&](uint32_t index) { return sizes[index]; });
  const uint32_t count = flags.of_one_call + (flags.shared ? 1 : 0);
  if (count > 1) {
    fill(to.initSubjectCounts(flags.batch), [&](uint32_t) { return static_cast<uint8_t>(count); });
  }
}

std::vector<uint64_t> reserve_frame(const Flags& flags, const Names& of,
                                    const std::vector<uint32_t>& tags, size_t first) {
  Message message;
  auto frame = (*message).initRoot<schema::ClientFrame>();
  if (flags.mode == "consume") {
    auto consume = frame.initConsume();
    fill_calls(consume, flags, of, tags, first);
    fill(consume.initInputTokens(flags.batch), [](uint32_t) { return 880; });
    fill(consume.initOutputTokens(flags.batch), [](uint32_t) { return 312; });
  } else {
    auto reserve = frame.initReserve();
    fill_calls(reserve, flags, of, tags, first);
    fill(reserve.initInputTokens(flags.batch), [](uint32_t) { return 900; });
    fill(reserve.initMaxOutputTokens(flags.batch), [](uint32_t) { return 500; });
  }
  return words_of(*message);
}

// Its reservations start at `begin`.
struct SettleFrame {
  std::vector<uint64_t> words;
  size_t begin;
};

SettleFrame settle_frame(const Flags& flags) {
  constexpr uint64_t mark = 0xFEED'FACE'CAFE'BEEF;
  Message message;
  auto settle = (*message).initRoot<schema::ClientFrame>().initSettle();
  auto reservations = settle.initReservations(flags.batch);
  for (uint32_t index = 0; index < flags.batch; ++index) reservations.set(index, mark);
  auto input = settle.initInputTokens(flags.batch);
  auto output = settle.initOutputTokens(flags.batch);
  for (uint32_t index = 0; index < flags.batch; ++index) {
    input.set(index, 880);
    output.set(index, 312);
  }
  SettleFrame frame{.words = words_of(*message), .begin = 0};
  frame.begin = static_cast<size_t>(std::find(frame.words.begin(), frame.words.end(), mark) -
                                    frame.words.begin());
  return frame;
}

// Serves the lanes in rotation: each has one frame in flight, a reserve or the settle of its
// answer.
class NativeLoad {
 public:
  // `wanted_shard`: none if this is the only connection.
  NativeLoad(const Flags& flags, std::optional<uint32_t> wanted_shard)
      : flags_(flags), settle_(settle_frame(flags)) {
    std::vector<uint32_t> tags(flags.subjects / flags.of_one_call);
    std::iota(tags.begin(), tags.end(), 0U);
    std::shuffle(tags.begin(), tags.end(), std::mt19937_64(1));
    const sluicegate::Address address = sluicegate::parse_address(flags.address);
    link_.emplace(address.host, address.port,
                  sluicegate::ConnectOptions{.wanted_shard = wanted_shard});
    const Names names(flags, link_->welcome());
    // All subjects, each once, in any order.
    frames_ = std::max<size_t>((tags.size() + flags.batch - 1) / flags.batch, 64);
    for (size_t frame = 0; frame < frames_; ++frame) {
      reserves_.push_back(reserve_frame(flags, names, tags, frame * flags.batch));
    }
  }

  Measured run() {
    for (uint32_t lane = 0; lane < flags_.in_flight / flags_.connections; ++lane) {
      send_reserve(lane);
    }
    // Every frame once: creates the subjects and warms the tables.
    exchange([this] { return pairs_ < uint64_t{frames_} * flags_.batch; });
    const auto end = Clock::now() + std::chrono::duration<double>(flags_.seconds);
    Measured measured;
    const double cpu = cpu_now();
    const auto begin = Clock::now();
    const uint64_t before = pairs_;
    measured_ = &measured;
    exchange([&] { return Clock::now() < end; });
    measured.count = pairs_ - before;
    measured.count_with_warm_up = pairs_;
    measured.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    measured.cpu_seconds = cpu_now() - cpu;
    return measured;
  }

 private:
  template <typename GoesOn>
  void exchange(GoesOn goes_on) {
    while (goes_on()) {
      begin_due();
      while (!link_->write_some()) link_->poll_until(POLLOUT, std::nullopt);
      if (!link_->read_some()) link_->poll_until(POLLIN, next_due());
      while (const auto frame = link_->next_frame()) on_answer(*frame);
    }
  }

  void on_answer(sluicegate::FrameReader::Frame frame) {
    capnp::FlatArrayMessageReader reader(
        {reinterpret_cast<const capnp::word*>(frame.data()), frame.size()});
    const auto answer = reader.getRoot<schema::ServerFrame>();
    if (!answer.isQuotaAnswers()) throw std::runtime_error("not an answer to quota calls");
    const auto answers = answer.getQuotaAnswers();
    const auto codes = answers.getCodes();
    // The first call of all may have had room.
    const bool denied = codes.size() > 0 && codes[codes.size() - 1] >= first_denial;
    if (flags_.mode == "denied" && denied) {
      pairs_ += flags_.batch;
      const auto lane = static_cast<uint32_t>(answer.getId() / 2);
      if (measured_ != nullptr) measured_->latency.add(ns_since(started_[lane]));
      return send_reserve(lane);
    }
    if (codes.size() != 1 || codes[0] != static_cast<uint8_t>(schema::QuotaCode::OK)) {
      throw std::runtime_error("the server did not admit every call: code " +
                               std::to_string(codes.size() == 0 ? 0 : codes[0]) + " and others");
    }
    const auto lane = static_cast<uint32_t>(answer.getId() / 2);
    if (answer.getId() % 2 == 0 && flags_.mode != "consume") {
      send_settle(lane, answers.getReservations());
      return;
    }
    pairs_ += flags_.batch;
    if (measured_ != nullptr) {
      measured_->latency.add(ns_since(started_[lane]));
    }
    send_reserve(lane);
  }

  // The lanes that rest until the next frame is due.
  std::optional<Clock::time_point> next_due() const {
    return resting_.empty() ? std::nullopt : std::optional(due_);
  }
  void begin_due() {
    const auto now = Clock::now();
    while (!resting_.empty() && due_ <= now) {
      const uint32_t lane = resting_.back();
      resting_.pop_back();
      due_ += std::chrono::nanoseconds(
          static_cast<int64_t>(1e9 * flags_.batch * flags_.connections / flags_.rate));
      begin(lane);
    }
  }

  void send_reserve(uint32_t lane) {
    if (flags_.rate == 0 || measured_ == nullptr) return begin(lane);
    if (due_ == Clock::time_point()) due_ = Clock::now();
    resting_.push_back(lane);
  }

  void begin(uint32_t lane) {
    if (lane >= started_.size()) started_.resize(lane + 1);
    started_[lane] = Clock::now();
    send(reserves_[next_++ % reserves_.size()], uint64_t{lane} * 2);
  }

  void send_settle(uint32_t lane, capnp::List<uint64_t>::Reader reservations) {
    if (reservations.size() != flags_.batch) throw std::runtime_error("reservations are missing");
    for (uint32_t index = 0; index < flags_.batch; ++index) {
      settle_.words[settle_.begin + index] = reservations[index];
    }
    send(settle_.words, uint64_t{lane} * 2 + 1);
  }

  void send(const std::vector<uint64_t>& words, uint64_t id) {
    std::vector<uint64_t>& output = link_->output();
    const size_t begin = output.size();
    output.insert(output.end(), words.begin(), words.end());
    output[begin + id_word] = id;
  }

  const Flags& flags_;
  SettleFrame settle_;
  std::vector<std::vector<uint64_t>> reserves_;
  std::optional<sluicegate::Link> link_;
  std::vector<Clock::time_point> started_;
  std::vector<uint32_t> resting_;
  Clock::time_point due_;
  size_t frames_ = 0;  // number of prepared reserve frames
  size_t next_ = 0;
  uint64_t pairs_ = 0;
  Measured* measured_ = nullptr;
};

Measured run_natively(const Flags& flags) {
  std::vector<std::unique_ptr<NativeLoad>> loads;
  for (uint32_t shard = 0; shard < flags.connections; ++shard) {
    const bool is_only = flags.connections == 1;
    loads.push_back(
        std::make_unique<NativeLoad>(flags, is_only ? std::nullopt : std::optional(shard)));
  }
  std::vector<std::future<Measured>> runs;
  for (const auto& load : loads) {
    runs.push_back(std::async(std::launch::async, [&load] { return load->run(); }));
  }
  Measured all;
  for (auto& run : runs) all += run.get();
  return all;
}

class RestLoad {
 public:
  explicit RestLoad(const Flags& flags) : flags_(flags), socket_(context_) {
    const sluicegate::Address address = sluicegate::parse_address(flags.address);
    boost::asio::ip::tcp::resolver resolver(context_);
    boost::asio::connect(socket_, resolver.resolve(address.host, std::to_string(address.port)));
    socket_.set_option(boost::asio::ip::tcp::no_delay(true));
  }

  Measured run() {
    Measured measured;
    const auto warm = Clock::now() + std::chrono::milliseconds(100);
    while (Clock::now() < warm) once();
    const double cpu = cpu_now();
    const auto begin = Clock::now();
    const auto end = begin + std::chrono::duration<double>(flags_.seconds);
    for (auto at = begin; at < end;) {
      once();
      const auto done = Clock::now();
      measured.latency.add(ns_since(at));
      ++measured.count;
      at = done;
    }
    measured.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    measured.cpu_seconds = cpu_now() - cpu;
    return measured;
  }

 private:
  void once() {
    if (flags_.mode == "rate") {
      ask("GET /rate/lone HTTP/1.1\r\nHost: a\r\n\r\n");
      return;
    }
    const std::string answer =
        post("/v1/reserve", R"({"subjects":["{tag-0}m0"],"requests":1,"input_tokens":900,)"
                            R"("max_output_tokens":500,"lifetime_ms":60000})");
    constexpr std::string_view before = R"("reservation":")";
    const size_t at = answer.find(before);
    if (at == answer.npos) throw std::runtime_error("not admitted: " + answer);
    post("/v1/settle", R"({"reservation":")" + answer.substr(at + before.size(), 16) +
                           R"(","input_tokens":880,"output_tokens":312})");
  }

  std::string post(const char* path, const std::string& body) {
    return ask("POST " + std::string(path) +
               " HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: " +
               std::to_string(body.size()) + "\r\n\r\n" + body);
  }

  // The answer's body. Any status but 200 ends the run.
  std::string ask(const std::string& request) {
    boost::asio::write(socket_, boost::asio::buffer(request));
    std::string answer;
    for (;;) {
      char bytes[4096];
      answer.append(bytes, socket_.read_some(boost::asio::buffer(bytes)));
      const size_t head = answer.find("\r\n\r\n");
      if (head == answer.npos) continue;
      const size_t length = answer.find("Content-Length: ");
      const size_t body =
          length == answer.npos ? 0 : std::strtoul(answer.c_str() + length + 16, nullptr, 10);
      if (answer.size() < head + 4 + body) continue;
      if (!answer.starts_with("HTTP/1.1 200")) throw std::runtime_error(answer);
      return answer.substr(head + 4);
    }
  }

  const Flags& flags_;
  boost::asio::io_context context_;
  boost::asio::ip::tcp::socket socket_;
};

Flags flags_of(int count, char** arguments) {
  Flags flags;
  CLI::App app{"Pairs of reserve and settle."};
  app.add_option("mode", flags.mode, "native, consume, denied, rest or rate")
      ->check(CLI::IsMember({"native", "consume", "denied", "rest", "rate"}));
  app.add_option("--together", flags.together, "what the subjects of a call have in common")
      ->check(CLI::IsMember({by_tag, one_shard, several_shards}));
  app.add_flag("--shared", flags.shared, "each call names one subject more, which all share");
  app.add_option("--address", flags.address, "HOST:PORT");
  app.add_option("--subjects", flags.subjects, "distinct ones");
  app.add_option("--of-one-call", flags.of_one_call, "subjects in each call");
  app.add_option("--batch", flags.batch, "calls in a frame")->check(CLI::Range(1, 1'024));
  app.add_option("--in-flight", flags.in_flight, "frames, of all connections");
  app.add_option("--connections", flags.connections, "natively; several: one to each shard")
      ->check(CLI::Range(1, 256));
  app.add_option("--rate", flags.rate, "pairs per second, natively");
  app.add_option("--seconds", flags.seconds);
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return flags;
}

}  // namespace

int main(int count, char** arguments) try {
  const Flags flags = flags_of(count, arguments);
  const bool is_rest = flags.mode == "rest" || flags.mode == "rate";
  const Measured measured = is_rest ? RestLoad(flags).run() : run_natively(flags);
  std::printf("%s\n",
              nlohmann::json{{"mode", flags.mode},
                             {"per_second", static_cast<double>(measured.count) / measured.seconds},
                             {"count_with_warm_up", measured.count_with_warm_up},
                             {"p50_us", measured.latency.quantile_us(0.5)},
                             {"p99_us", measured.latency.quantile_us(0.99)},
                             {"cpu_share", measured.cpu_seconds / measured.seconds}}
                  .dump()
                  .c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "pairs_load: %s\n", error.what());
  return 1;
}
