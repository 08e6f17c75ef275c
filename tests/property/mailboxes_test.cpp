// Splitting and reassembling: every entry of every request is decided once, by its owner, in the
// order its connection sent them for its key, and the answers return to their places. A shard that
// stands still delays only requests that need it.
// Method: shards in one thread that run in any order, over mailboxes of random, mostly tiny size; a
//         counter per key instead of a shard; SEED=n repeats a run. A key's text names its
//         connection and the place of its entry in the connection's order: "{key7}c1n12".
#include "route/mailboxes.hpp"

#include <gtest/gtest.h>

#include <charconv>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "property/seeds.hpp"
#include "route/entry_router.hpp"

namespace sluice::route {
namespace {

using api::Verdict;

constexpr uint32_t entries_max = 40;               // of a request
constexpr uint32_t handles_max = 4 * entries_max;  // of a turn

struct Named {
  std::string key_and_connection;
  uint32_t number = 0;
};

Named read_name(std::string_view text) {
  const size_t at = text.rfind('n') + 1;
  Named named{.key_and_connection = std::string(text.substr(0, at))};
  std::from_chars(text.data() + at, text.data() + text.size(), named.number);
  return named;
}

Verdict verdict_of(uint32_t number) {
  return number % 3 == 0 ? Verdict::approved : Verdict::denied;
}

int64_t fingerprint(std::string_view text) {
  return static_cast<int64_t>(std::hash<std::string_view>{}(text));
}

api::KeyHash hash_of(std::string_view text) {
  return {.tag = static_cast<uint64_t>(fingerprint(text)), .position = 1};
}

Form any_form(Dice& dice) {
  const uint64_t percent = dice.below(100);
  if (percent < 40) return Form::plain;
  return percent < 70 ? Form::hashed : Form::detailed;
}

// Room for the answers to one request, to a few, or to all.
SplitOptions any_splits(Dice& dice) {
  constexpr uint32_t choices[] = {1, 2'048, 0};
  return {.answer_bytes_max = choices[dice.below(3)]};
}

// Every third entry brings some.
api::Overrides overrides_of(uint32_t number) {
  if (number % 3 != 0) return {};
  return {.max_requests = number, .window_ms = int64_t{number} << 20};
}

class TestShard {
 public:
  TestShard(Mesh& mesh, uint32_t number, const SplitOptions& splits, Dice& dice)
      : mailboxes_(mesh, static_cast<api::ShardId>(number)),
        router_(mailboxes_, turn_, splits, handles_max),
        number_(number),
        dice_(dice) {}

  // One turn: some requests, their decision, messages from other shards, messages to them.
  void turn(bool asks) {
    texts_.clear();
    const uint64_t requests = asks ? dice_.below(4) : 0;
    for (uint64_t i = 0; i < requests; ++i) ask_any();
    finish_turn();
  }
  void finish_turn() {
    decide_turn();
    mailboxes_.receive(*this);
    mailboxes_.flush();
    mailboxes_.ring_doorbells([](uint32_t) {});
  }

  // A request for these keys, if it has room.
  bool ask(const std::vector<std::string>& keys, Form form) {
    const auto connection = static_cast<uint32_t>(dice_.below(3));
    std::vector<std::string> names;
    std::vector<uint16_t> sizes;
    std::string text;
    for (const std::string& key : keys) {
      names.push_back("{" + key + "}c" + std::to_string(number_ * 100 + connection) + "n" +
                      std::to_string(numbers_[connection] + names.size() + 1));
      sizes.push_back(static_cast<uint16_t>(names.back().size()));
      text += names.back();
    }
    texts_.push_back(std::move(text));
    const KeyColumn column{.text = texts_.back(), .sizes = sizes};
    const auto count = static_cast<uint32_t>(names.size());
    const std::vector<api::Handle> handles =
        form == Form::hashed ? intern(names) : std::vector<api::Handle>{};
    if (!turn_.has_room(count) || !find_room(column, handles, form)) return false;
    numbers_[connection] += count;
    const Request request{.session = connection, .id = next_id_};
    if (form == Form::plain) {
      router_.add(request, column);
    } else if (form == Form::hashed) {
      router_.add(request, handles);
    } else {
      add_detailed(request, names, column);
    }
    asked_[next_id_++] = {.names = std::move(names), .form = form};
    return true;
  }

  void on_message(api::ShardId origin, ShardMessage& message) {
    EXPECT_NE(origin, number_);
    for (const MessageRun& run : message.runs()) {
      const char* text = message.text_from(run.text_begin).data();
      for (uint32_t at = run.first_entry; at < run.first_entry + run.entries_count; ++at) {
        Verdict& verdict = message.verdicts(at, 1)[0];
        if (run.form != Form::detailed) {
          const uint16_t size = message.key_sizes(at, 1)[0];
          verdict = decide({text, size});
          if (run.form == Form::hashed) {
            EXPECT_EQ(message.hashes(at, 1)[0], hash_of({text, size}));
          }
          text += size;
        } else {
          verdict = decide(message.entries(at, 1)[0], message.details(at, 1)[0]);
        }
      }
    }
  }

  void on_returned(api::ShardId target, ShardMessage& message) {
    SplitBook& book = router_.book();
    for (const Part& part : message.parts()) {
      if (!book.keep(target, part, message)) continue;
      const SplitBook::Answers answers = book.answers(part, message);
      check(answers.request, answers.verdicts, answers.details);
      book.close(part.split);
      ++splits_count;
    }
  }

  bool idle() const {
    return mailboxes_.idle() && asked_.empty() && router_.book().open_count() == 0 &&
           router_.book().waiting_bytes() == 0;
  }
  bool owns(const std::string& key) const { return mailboxes_.shard_of(key) == mailboxes_.shard(); }
  size_t waiting_count() const { return asked_.size(); }

  uint64_t answered = 0;
  uint64_t splits_count = 0;
  const RoomRefusals& refusals() const { return router_.refusals(); }

 private:
  struct Asked {
    std::vector<std::string> names;
    Form form;
  };

  void ask_any() {
    std::vector<std::string> keys(dice_.below(entries_max));
    // Now and then all keys are neighbours: other shards decide whole requests, too.
    const uint64_t first = dice_.below(30);
    const uint64_t different = dice_.percent(20) ? 1 : 30;
    for (std::string& key : keys) key = "key" + std::to_string(first + dice_.below(different));
    ask(keys, any_form(dice_));
  }

  // Handles that are other keys' in the next turn.
  std::vector<api::Handle> intern(const std::vector<std::string>& names) {
    std::vector<api::Handle> handles;
    for (const std::string& name : names) {
      handles.push_back(static_cast<api::Handle>(held_names_.size()));
      held_names_.push_back(name);
      router_.set_handle(handles.back(), name);
      EXPECT_EQ(router_.owns(handles.back()), mailboxes_.shard_of(name) == number_);
    }
    return handles;
  }

  bool find_room(const KeyColumn& column, const std::vector<api::Handle>& handles, Form form) {
    if (form != Form::hashed) return router_.find_room(column, form);
    router_.find_keys(
        handles, [this](std::span<const api::Handle> others, const api::HeldKeys& keys) {
          size_t bytes = 0;
          for (size_t i = 0; i < others.size(); ++i) {
            const std::string& name = held_names_[others[i]];
            std::ranges::copy(name, keys.text.begin() + static_cast<ptrdiff_t>(bytes));
            bytes += name.size();
            keys.sizes[i] = static_cast<uint16_t>(name.size());
            keys.hashes[i] = hash_of(name);
          }
          return bytes;
        });
    return router_.find_room_for_keys(handles.size());
  }

  void add_detailed(const Request& request, const std::vector<std::string>& names,
                    const KeyColumn& column) {
    const auto entries = turn_.add(request, static_cast<uint32_t>(names.size()));
    const char* key = column.text.data();
    for (size_t place = 0; place < names.size(); ++place) {
      const uint32_t number = read_name(names[place]).number;
      entries[place] = {.key_data = key,
                        .cost = number,
                        .key_bytes = column.sizes[place],
                        .flags = api::flag::wants_details};
      turn_.set_overrides(entries[place], overrides_of(number));
      key += column.sizes[place];
    }
    if (names.size() == 1 && dice_.percent(50)) {
      router_.send_lone();
    } else {
      router_.send_last();
    }
  }

  void decide_turn() {
    for (const Run& run : turn_.runs()) {
      for (uint32_t at = run.first_entry; at < run.first_entry + run.entries_count; ++at) {
        turn_.verdicts()[at] = run.by_handle ? decide(held_names_[turn_.handles()[at]])
                                             : decide_entry(turn_.entries()[at], at);
      }
    }
    held_names_.clear();
    for (const Request& request : std::as_const(turn_).requests()) {
      if (request.split != Request::whole) {
        router_.book().keep_own(request, turn_);
        continue;
      }
      const uint32_t first = request.first_entry;
      check(request, turn_.verdicts().subspan(first, request.entries_count),
            turn_.details().subspan(first, request.entries_count));
    }
    turn_.clear();
  }

  Verdict decide_entry(const api::Entry& entry, uint32_t at) {
    const bool is_plain = (entry.flags & api::flag::wants_details) == 0;
    return is_plain ? decide(entry.key()) : decide(entry, turn_.details()[at]);
  }

  // The owner's part: the answer repeats the number and the text.
  Verdict decide(std::string_view text) {
    EXPECT_EQ(mailboxes_.shard_of(text), number_);
    const Named named = read_name(text);
    uint32_t& last = seen_[named.key_and_connection];
    EXPECT_LT(last, named.number) << "out of order";
    last = named.number;
    return verdict_of(named.number);
  }
  Verdict decide(const api::Entry& entry, api::Detail& detail) {
    EXPECT_EQ(entry.overrides(), overrides_of(entry.cost));
    detail.limit = entry.cost;
    detail.window_ms = fingerprint(entry.key());
    return decide(entry.key());
  }

  void check(const Request& request, std::span<const Verdict> verdicts,
             std::span<const api::Detail> details) {
    const auto asked = asked_.find(request.id);
    ASSERT_NE(asked, asked_.end()) << "answered twice";
    const std::vector<std::string>& names = asked->second.names;
    ASSERT_EQ(verdicts.size(), names.size());
    for (size_t place = 0; place < names.size(); ++place) {
      const uint32_t number = read_name(names[place]).number;
      EXPECT_EQ(verdicts[place], verdict_of(number));
      if (asked->second.form != Form::detailed) continue;
      EXPECT_EQ(details[place].limit, number);
      EXPECT_EQ(details[place].window_ms, fingerprint(names[place]));
    }
    asked_.erase(asked);
    ++answered;
  }

  Mailboxes mailboxes_;
  Turn turn_;
  EntryRouter router_;
  const uint32_t number_;
  Dice& dice_;
  std::deque<std::string> texts_;        // of this turn's keys, as a receive buffer holds them
  std::vector<std::string> held_names_;  // of this turn's handles
  std::map<uint32_t, uint32_t> numbers_;
  std::map<std::string, uint32_t> seen_;
  std::map<uint64_t, Asked> asked_;
  uint64_t next_id_ = 1;
};

TEST(Mailboxes, every_entry_is_decided_once_in_order_and_returned) {
  uint64_t splits = 0;
  RoomRefusals refusals;
  for (const uint64_t seed : property_seeds(60)) {
    SCOPED_TRACE("repeat with SEED=" + std::to_string(seed));
    Dice dice(seed);
    const auto shards_count = static_cast<uint32_t>(2 + dice.below(dice.percent(10) ? 90 : 4));
    Mesh mesh({.shards = shards_count,
               .messages = 1U << dice.below(3),
               .entries_max = static_cast<uint32_t>(1 + dice.below(dice.percent(50) ? 4 : 64)),
               .routing_seed = seed});
    const SplitOptions options = any_splits(dice);
    std::vector<std::unique_ptr<TestShard>> shards;
    for (uint32_t shard = 0; shard < shards_count; ++shard) {
      shards.push_back(std::make_unique<TestShard>(mesh, shard, options, dice));
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
      refusals.no_message += shard->refusals().no_message;
      refusals.no_answer_room += shard->refusals().no_answer_room;
      EXPECT_GT(shard->answered, 0U);
    }
  }
  EXPECT_GT(splits, 0U);
  EXPECT_GT(refusals.no_message, 0U);
  EXPECT_GT(refusals.no_answer_room, 0U);
}

// Shard 2 takes no turn.
TEST(Mailboxes, a_shard_that_stands_still_delays_only_requests_that_need_it) {
  for (const uint64_t seed : property_seeds(20)) {
    SCOPED_TRACE("repeat with SEED=" + std::to_string(seed));
    Dice dice(seed);
    Mesh mesh({.shards = 3,
               .messages = 1U << dice.below(3),
               .entries_max = static_cast<uint32_t>(1 + dice.below(64)),
               .routing_seed = seed});
    const SplitOptions options = any_splits(dice);
    TestShard origin(mesh, 0, options, dice), other(mesh, 1, options, dice),
        still(mesh, 2, options, dice);
    std::vector<std::string> keys[2];  // those that shard 2 owns, the others
    for (int i = 0; keys[0].size() < 20 || keys[1].size() < 20; ++i) {
      const std::string key = "key" + std::to_string(i);
      keys[still.owns("{" + key + "}") ? 0 : 1].push_back(key);
    }
    uint64_t refused_by_still = 0;
    for (int step = 0; step < 2'000 && !HasFailure(); ++step) {
      const Form form = any_form(dice);
      const bool needs_still = dice.percent(50);
      std::vector<std::string> asked;
      for (uint64_t left = 1 + dice.below(30); left > 0; --left) {
        const auto& from = keys[needs_still && dice.percent(30) ? 0 : 1];
        asked.push_back(from[dice.below(from.size())]);
      }
      if (needs_still) asked.push_back(keys[0][0]);
      const bool has_room = origin.ask(asked, form);
      if (!needs_still) {
        ASSERT_TRUE(has_room);
      }
      refused_by_still += has_room ? 0 : 1;
      origin.finish_turn();
      other.finish_turn();
      origin.finish_turn();
    }
    EXPECT_GT(refused_by_still, 0U);
    EXPECT_GT(origin.waiting_count(), 0U);
    while (!HasFailure() && !origin.idle()) {
      for (TestShard* shard : {&still, &origin}) shard->finish_turn();
    }
  }
}

}  // namespace
}  // namespace sluice::route
