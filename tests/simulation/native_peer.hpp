// A client of the native protocol: frames of every kind, several in flight, sometimes wrong.
// Lives:  as Peer.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "base/error_code.hpp"
#include "peer.hpp"

namespace sluice::simulation {

class NativePeer final : public Peer {
 public:
  explicit NativePeer(World& world, bool is_bystander = false);
  std::string describe() const override { return "(native)"; }

 private:
  enum class Kind : uint8_t {
    hello,
    acquire,
    release,
    withdraw,
    inspect,
    page,
    intern,
    forget,
    ping,
    wrong
  };

  // The key of a handle when its frame was sent: empty for none; no value when that depends on the
  // server's answer to an earlier Intern.
  using MeantKey = std::optional<std::string>;

  struct Asked {
    Kind kind;
    uint8_t details = 0;
    ErrorCode error = ErrorCode::none;  // expected for a wrong frame
    DecidedRequest* decided = nullptr;  // once its verdicts have arrived
    std::set<uint32_t> waiting;         // entries
    std::vector<std::string> keys;      // interned
    std::vector<api::Handle> handles;   // forgotten
    std::vector<MeantKey> meant;        // by handle: the key of each entry
    uint64_t end = 0;                   // of the frame in the stream
  };

  void ask() override;
  void take_answers() override;
  bool awaits_answer() const override;
  uint64_t open_end() const override;
  uint64_t undecided_end() const override;
  void check_graceful_end() override;
  bool is_hasty() override;

  void send_hello();
  uint32_t wanted_shard();
  void ask_one();
  void ask_acquire();
  void ask_release();
  void ask_withdraw();
  void ask_inspect();
  void ask_wrong();
  void ask_with_handles();
  void ask_intern();
  void ask_forget();
  void ask_by_handle();
  uint64_t random_count(double many_if_greedy);
  void draw_entries(AskedFrame& frame);
  void draw_terms(AskedFrame& frame);
  api::Handle random_handle();
  MeantKey meant_by(api::Handle handle) const;
  uint32_t owner_of(const std::string& key) const;
  void count_mixed(const std::vector<std::string>& keys, ShardEvent event);
  bool awaits(Kind kind) const;
  bool is_interned_here(const std::string& key) const;
  void send_broken_bytes();
  uint64_t expect(Kind kind, ErrorCode error = ErrorCode::none);
  void send_frame(const Fill& fill);
  uint32_t segment_words();

  void on_frame(schema::ServerFrame::Reader frame);
  void on_verdicts(uint64_t id, schema::Verdicts::Reader verdicts);
  void on_granted(uint64_t id, schema::Granted::Reader granted);
  void on_inspected(uint64_t id, schema::Inspected::Reader inspected);
  void on_done(uint64_t id);
  void on_interned(uint64_t id, schema::Interned::Reader interned);
  void on_interned(uint64_t id, const std::string& key, api::Handle handle, api::Verdict verdict);
  void on_error(uint64_t id, schema::Error::Reader error);
  void check_detail(const Asked& asked, schema::Details::Reader details, uint32_t index,
                    const api::Detail& expected, const DecidedEntry& entry, bool late);
  Asked* find(uint64_t id, Kind kind);
  void forget(uint64_t id, const DecidedRequest* decided);

  std::map<uint64_t, Asked> asked_;  // by frame id
  std::set<std::string> page_keys_;  // seen so far by the walk under way
  // The handles that frames sent from now on may use, by the answers up to now.
  std::map<api::Handle, std::string> held_;
  std::map<std::string, api::Handle> numbers_;
  uint64_t next_id_ = 1;
  bool sent_hello_ = false;
  bool welcomed_ = false;
  const bool impatient_ = world_.random.chance(0.3);  // sends requests before Welcome
  const bool interns_ = world_.random.chance(0.7);
  const bool interns_other_shard_ = world_.random.chance(0.4);  // also keys of other shards
  const bool mixes_;    // sends several large frames at once, with keys of all shards
  const bool hurries_;  // leaves while its frames are being decided
  uint32_t shard_ = 0;
  uint32_t shards_ = 1;
  uint64_t routing_seed_ = 0;
  bool walking_ = false;  // a walk through the pages of all keys is under way
};

}  // namespace sluice::simulation
