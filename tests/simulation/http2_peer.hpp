// A client of the REST dialect over HTTP/2: by prior knowledge or after an upgrade, many streams at
// once, which it resets, leaves unread, or asks in parts. Streams are answered in any order, each
// by the decision that has its number.
// Lives:  as Peer.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "http2_requests.hpp"
#include "peer.hpp"
#include "rest_answers.hpp"
#include "tests/support/http2_client.hpp"

namespace sluice::simulation {

class Http2Peer final : public Peer {
 public:
  explicit Http2Peer(World& world);
  std::string describe() const override { return upgrades_ ? "(http/2, upgraded)" : "(http/2)"; }
  bool awaits_timeout() const override;

 private:
  enum class Phase : uint8_t {
    fresh,      // has sent nothing
    upgrading,  // has asked in HTTP/1.1 to go on in HTTP/2
    open,
    broken,  // has sent what ends the connection
    http1,   // the server has refused the connection or the upgrade
  };

  using Kind = Http2Request::Kind;

  struct Stream {
    Http2Request asked;
    uint64_t head_end = no_offset;  // in the connection's bytes
    uint64_t end = no_offset;       // likewise
    int64_t asked_ms = 0;
    bool is_answered = false;  // and its body is not sent yet
  };

  // A stream that either side has reset.
  struct Reset {
    uint64_t head_end;
    uint64_t end;       // of the RST_STREAM
    std::string owner;  // of a reserve
  };

  void ask() override;
  void take_answers() override;
  bool awaits_answer() const override;
  uint64_t open_end() const override;
  uint64_t undecided_end() const override;
  void check_turn() override;
  void prepare_to_end() override;
  void check_graceful_end() override;

  void ask_upgrade();
  void ask_one();
  void ask_wrong();
  void reset_one();
  void turn_window();
  void send_parts();
  void open_stream(Http2Request asked);
  void flush();
  void note_sent(uint8_t type, uint8_t flags, int32_t id);

  bool take_http1();
  void take_frames();
  void on_goodbye(std::string_view payload);
  void check_streams();
  bool check_stream(int32_t id, Stream& stream);
  bool has_late_body(int32_t id, const Stream& stream) const;
  void on_reset(int32_t id, const Stream& stream, uint32_t error);
  void on_answer(int32_t id, const Stream& stream, const support::Http2Client::Answer& answer);
  void on_decided(int32_t id, const Stream& stream, const RestAnswer& answer);
  void on_quota(int32_t id, const QuotaRestCall& call, const RestAnswer& answer);
  void check_farewell();
  bool may_lack_answer(int32_t id, const Stream& stream) const;

  DecidedRequests::iterator find_decided(int32_t id) const;
  bool is_decided(int32_t id) const;
  bool is_waiting(int32_t id, const Stream& stream) const;
  bool awaits_decision(int32_t id) const;
  bool has_upload() const;
  void count(Http2Event event) { ++world_.http2_events[static_cast<uint32_t>(event)]; }
  DecidedRequests& decisions() const { return world_.oracle.decided(client_.link_id()); }
  int64_t now_ms() const;
  bool is_behind_drain(const Stream& asked) const { return asked.head_end > record().drains_from; }
  void fail_stream(int32_t id, const std::string& text);

  const bool upgrades_;
  const size_t streams_max_;
  const double burst_;           // how many requests it sends at once
  const bool has_small_window_;  // no answer's body fits into it
  const bool is_silent_;         // at its end: waits until the server ends the connection
  const bool keeps_closed_;      // likewise: opens no window again
  const bool keeps_bodies_;      // sends no more than the first part of a body
  const bool hoards_;            // asks for more than it reads
  Http2Requests requests_;
  support::Http2Client http2_;
  Phase phase_ = Phase::fresh;
  bool sent_preface_ = false;
  bool reads_nothing_ = false;  // has opened no window for a while
  bool has_blocked_ = false;    // answers may have had to wait for a window
  bool has_large_ = false;      // likewise, because they are many bytes
  uint32_t resets_count_ = 0;
  int goodbyes_ = 0;
  int32_t last_stream_ = INT32_MAX;  // that the server serves
  std::map<int32_t, Stream> streams_;
  std::map<int32_t, Reset> resets_;
};

}  // namespace sluice::simulation
