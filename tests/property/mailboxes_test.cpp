// Splitting and reassembling: every entry of every request is decided once, by its owner, in the
// order its connection sent them for its key, and the answers return to their places.
// Method: shards in one thread that run in any order, over mailboxes of random, mostly tiny size; a
//         counter per key instead of a shard; SEED=n repeats a run.
#include "route/mailboxes.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "property/seeds.hpp"

namespace sluice::route {
namespace {

using api::Verdict;

constexpr uint32_t entries_max = 40;  // of a request

class TestShard {
 public:
  TestShard(Mesh& mesh, uint32_t number, const SplitOptions& splits, Dice& dice)
      : mailboxes_(mesh, static_cast<api::ShardId>(number), splits), number_(number), dice_(dice) {}

  // One turn: some requests, their decision, messages from other shards, messages to them.
  void turn(bool asks) {
    keys_.clear();
    const uint64_t requests = asks ? dice_.below(4) : 0;
    for (uint64_t i = 0; i < requests; ++i) ask();
    decide_turn();
    mailboxes_.receive(*this);
    mailboxes_.flush();
    mailboxes_.ring_doorbells([](uint32_t) {});
  }

  void on_message(api::ShardId origin, ShardMessage& message) {
    message.make_answers();
    for (size_t index = 0; index < message.entries.size(); ++index) {
      message.verdicts[index] = decide(message.entries[index], message.details[index]);
    }
    EXPECT_NE(origin, number_);
  }

  void on_returned(api::ShardId, ShardMessage& message) {
    for (size_t index = 0; index < message.entries.size(); ++index) {
      const uint32_t slot = message.slots[index];
      const SplitBook::Index split = mailboxes_.book().split_of(slot);
      if (!mailboxes_.book().settle(slot, message.verdicts[index], message.details[index])) {
        continue;
      }
      const SplitBook::Parts parts = mailboxes_.book().parts(split);
      check(parts.request, parts.entries, parts.verdicts, parts.details);
      mailboxes_.book().close(split);
      ++splits_count;
    }
  }

  bool idle() const { return mailboxes_.idle() && asked_.empty(); }

  uint64_t answered = 0;
  uint64_t splits_count = 0;
  uint64_t refused = 0;
  const Mailboxes& mailboxes() const { return mailboxes_; }

 private:
  void ask() {
    const auto count = static_cast<uint32_t>(dice_.below(entries_max));
    size_t bytes = 0;
    std::vector<std::string> names(count);
    for (std::string& name : names) {
      name = "key" + std::to_string(dice_.below(30));
      bytes += name.size();
    }
    if (!turn_.has_room(count) || !mailboxes_.has_turn_room(turn_, count, bytes)) {
      ++refused;
      return;
    }
    // A session is the connection; every entry carries its number in the connection's order.
    const auto session = static_cast<uint32_t>(dice_.below(3));
    asked_[next_id_] = {.names = names, .first_number = numbers_[session] + 1};
    const auto entries = turn_.add({.session = session, .id = next_id_++}, count, bytes);
    for (uint32_t place = 0; place < count; ++place) {
      keys_.push_back(names[place]);
      entries[place] = {.key_data = keys_.back().data(),
                        .cost = ++numbers_[session],
                        .key_bytes = static_cast<uint16_t>(keys_.back().size()),
                        .flags = api::flag::wants_details,
                        .ticket = number_ * 100 + session};
      turn_.set_overrides(entries[place], overrides_of(entries[place].cost));
    }
  }

  void decide_turn() {
    mailboxes_.split(turn_);
    for (size_t index = 0; index < turn_.entries().size(); ++index) {
      turn_.verdicts()[index] = decide(turn_.entries()[index], turn_.details()[index]);
    }
    for (const Request& request : std::as_const(turn_).requests()) {
      if (request.split != Request::whole) {
        mailboxes_.keep_decided(request, turn_);
        continue;
      }
      const uint32_t first = request.first_entry;
      check(request, turn_.entries().subspan(first, request.entries_count),
            turn_.verdicts().subspan(first, request.entries_count),
            turn_.details().subspan(first, request.entries_count));
    }
    turn_.clear();
  }

  // Every third entry brings some.
  static api::Overrides overrides_of(uint32_t number) {
    if (number % 3 != 0) return {};
    return {.max_requests = number, .window_ms = int64_t{number} << 20};
  }

  static int64_t fingerprint(std::string_view key) {
    return static_cast<int64_t>(std::hash<std::string_view>{}(key));
  }

  // The owner's part: the answer repeats the number and the key.
  Verdict decide(const api::Entry& entry, api::Detail& detail) {
    if (entry.op == api::Op::other_shard) return Verdict::none;
    EXPECT_EQ(mailboxes_.owner_of(entry.key()).shard, number_);
    uint32_t& last = seen_[{entry.ticket, std::string(entry.key())}];
    EXPECT_LT(last, entry.cost) << "out of order";
    last = entry.cost;
    EXPECT_EQ(entry.overrides(), overrides_of(entry.cost));
    detail.limit = entry.cost;
    detail.window_ms = fingerprint(entry.key());
    return entry.cost % 2 == 0 ? Verdict::approved : Verdict::denied;
  }

  void check(const Request& request, std::span<const api::Entry> entries,
             std::span<const Verdict> verdicts, std::span<const api::Detail> details) {
    const auto asked = asked_.find(request.id);
    ASSERT_NE(asked, asked_.end()) << "answered twice";
    ASSERT_EQ(entries.size(), asked->second.names.size());
    for (size_t place = 0; place < entries.size(); ++place) {
      const uint32_t number = asked->second.first_number + static_cast<uint32_t>(place);
      EXPECT_EQ(details[place].window_ms, fingerprint(asked->second.names[place]));
      EXPECT_EQ(details[place].limit, number);
      EXPECT_EQ(verdicts[place], number % 2 == 0 ? Verdict::approved : Verdict::denied);
    }
    asked_.erase(asked);
    ++answered;
  }

  Mailboxes mailboxes_;
  const uint32_t number_;
  Dice& dice_;
  Turn turn_;
  std::deque<std::string> keys_;  // of this turn, as a receive buffer holds them
  std::map<uint32_t, uint32_t> numbers_;
  std::map<std::pair<uint32_t, std::string>, uint32_t> seen_;
  struct Asked {
    std::vector<std::string> names;
    uint32_t first_number;
  };
  std::map<uint64_t, Asked> asked_;
  uint64_t next_id_ = 1;
};

TEST(Mailboxes, every_entry_is_decided_once_in_order_and_returned) {
  uint64_t splits = 0, refused = 0, full = 0;
  for (const uint64_t seed : property_seeds(60)) {
    SCOPED_TRACE("repeat with SEED=" + std::to_string(seed));
    Dice dice(seed);
    const auto shards_count = static_cast<uint32_t>(2 + dice.below(4));
    Mesh mesh({.shards = shards_count,
               .messages = 1U << dice.below(3),
               .entries_max = static_cast<uint32_t>(1 + dice.below(dice.percent(50) ? 4 : 64)),
               .routing_seed = seed});
    const SplitOptions splits_options{
        .entries_max = static_cast<uint32_t>(entries_max + dice.below(200)),
        .text_bytes_max = static_cast<uint32_t>(entries_max * 5 + dice.below(500))};
    std::vector<std::unique_ptr<TestShard>> shards;
    for (uint32_t shard = 0; shard < shards_count; ++shard) {
      shards.push_back(std::make_unique<TestShard>(mesh, shard, splits_options, dice));
    }
    for (int step = 0; step < 3'000 && !HasFailure(); ++step) {
      shards[dice.below(shards_count)]->turn(true);
    }
    const auto all_idle = [&] {
      return std::all_of(shards.begin(), shards.end(),
                         [](const auto& shard) { return shard->idle(); });
    };
    for (int step = 0; step < 100'000 && !all_idle(); ++step) {
      shards[dice.below(shards_count)]->turn(false);
    }
    ASSERT_TRUE(all_idle()) << "something was lost, or all wait for each other";
    for (const auto& shard : shards) {
      splits += shard->splits_count;
      refused += shard->refused;
      full += shard->mailboxes().full_count();
      EXPECT_GT(shard->answered, 0U);
    }
  }
  EXPECT_GT(splits, 0U);
  EXPECT_GT(refused, 0U);
  EXPECT_GT(full, 0U);
}

}  // namespace
}  // namespace sluice::route
