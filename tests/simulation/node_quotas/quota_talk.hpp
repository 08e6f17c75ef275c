// What a client asks about quotas, and what it is answered, in either dialect.
// Flow:   ask() -> bytes to the node; read() -> on_queued(), on_answered().
// Lives:  one connection.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../quota_frames.hpp"
#include "io/sim/sim_client.hpp"
#include "quota_oracle.hpp"

namespace sluice::simulation {

struct QuotaQuestion {
  api::QuotaOp op{};
  std::vector<ReserveEntry> calls;  // that name subjects; several: of the same operation
  bool is_bound = false;
  uint32_t wait_limit_ms = 0;  // 0: it may not wait
  uint32_t lifetime_ms = 0;
  uint64_t reservation = 0;
  uint64_t settled_tokens = 0;
};

struct QuotaOutcome {
  api::QuotaCode code{};
  uint64_t reservation = 0;
};

class QuotaListener {
 public:
  virtual void on_queued(uint64_t question) = 0;
  // One for each of its calls.
  virtual void on_answered(uint64_t question, const std::vector<QuotaOutcome>& outcomes) = 0;
  virtual void on_usage(const SubjectUsage& usage) = 0;
  virtual void on_error(const std::string& text) = 0;

 protected:
  ~QuotaListener() = default;
};

class QuotaTalk {
 public:
  QuotaTalk(io::SimClient client, QuotaListener& listener) : client_(client), listener_(listener) {}
  virtual ~QuotaTalk() = default;
  QuotaTalk(const QuotaTalk&) = delete;
  QuotaTalk& operator=(const QuotaTalk&) = delete;

  // Returns the question's number.
  virtual uint64_t ask(const QuotaQuestion& question) = 0;
  // Whether it can be asked another one before that is answered, or something that needs a
  // connection of frames.
  virtual bool takes_several() const { return true; }
  void read();
  void close() { client_.close(); }
  bool is_cut_off() const {
    return client_.was_reset() || client_.refused() || client_.end_of_stream();
  }

 protected:
  virtual bool take_answer() = 0;  // false: there is no whole one

  io::SimClient client_;
  QuotaListener& listener_;
  Bytes inbox_;
};

class NativeQuotaTalk final : public QuotaTalk {
 public:
  NativeQuotaTalk(io::SimClient client, QuotaListener& listener);
  uint64_t ask(const QuotaQuestion& question) override;
  // Of these subjects; on_usage() for each.
  void ask_usage(const std::vector<std::string>& subjects);

 private:
  bool take_answer() override;
  void on_frame(schema::ServerFrame::Reader frame);
  void on_usage(schema::UsageReply::Reader reply);
  void send(const Fill& fill);

  uint64_t last_number_ = 0;
};

// Over HTTP/1.1, one request at a time.
class RestQuotaTalk final : public QuotaTalk {
 public:
  using QuotaTalk::QuotaTalk;
  // With one call.
  uint64_t ask(const QuotaQuestion& question) override;
  bool takes_several() const override { return false; }

 private:
  bool take_answer() override;
  void take(int status, const std::string& body);

  uint64_t last_number_ = 0;
  uint64_t answered_ = 0;
};

}  // namespace sluice::simulation
