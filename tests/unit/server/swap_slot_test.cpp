// Goal: whoever uses values never ends one; each is ended once, by whoever makes them.
// Method: values that count who ends them; by hand, and with two threads that do not wait for each
//         other.
#include "server/swap_slot.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace sluice::server {
namespace {

thread_local bool is_user = false;

struct Counts {
  std::atomic<int> ended{0};
  std::atomic<int> ended_by_user{0};
};

class Book {
 public:
  Book(int number, Counts& counts) : number_(number), counts_(counts) {}
  ~Book() {
    ++counts_.ended;
    if (is_user) ++counts_.ended_by_user;
  }
  int number() const { return number_; }

 private:
  int number_;
  Counts& counts_;
};

// What the user has; it takes as a worker does.
class User {
 public:
  void take(SwapSlot<Book>& slot) {
    is_user = true;
    slot.take([this](std::unique_ptr<Book> fresh) {
      book_.swap(fresh);
      return fresh;
    });
    is_user = false;
  }
  int number() const { return book_ ? book_->number() : 0; }

 private:
  std::unique_ptr<Book> book_;
};

TEST(SwapSlot, gives_the_last_value_and_takes_the_replaced_one_back) {
  Counts counts;
  User user;
  SwapSlot<Book> slot;
  EXPECT_FALSE(slot.full());
  slot.put(std::make_unique<Book>(1, counts));
  EXPECT_TRUE(slot.full());
  slot.put(std::make_unique<Book>(2, counts));
  EXPECT_EQ(counts.ended, 1);
  user.take(slot);
  EXPECT_FALSE(slot.full());
  EXPECT_EQ(user.number(), 2);
  slot.put(std::make_unique<Book>(3, counts));
  user.take(slot);
  EXPECT_EQ(user.number(), 3);
  EXPECT_EQ(counts.ended, 1);
  slot.tidy();
  EXPECT_EQ(counts.ended, 2);
}

TEST(SwapSlot, whoever_uses_them_ends_none_though_nobody_tidies_between) {
  Counts counts;
  User user;
  SwapSlot<Book> slot;
  for (int number = 1; number <= 10; ++number) {
    slot.put(std::make_unique<Book>(number, counts));
    user.take(slot);
  }
  EXPECT_EQ(counts.ended_by_user, 0);
  EXPECT_EQ(counts.ended, 8);  // but for the user's, and the one that it replaced last
}

TEST(SwapSlot, ends_what_nobody_took_or_took_back) {
  Counts counts;
  User user;
  {
    SwapSlot<Book> slot;
    slot.put(std::make_unique<Book>(1, counts));
    user.take(slot);
    slot.put(std::make_unique<Book>(2, counts));
    user.take(slot);
    slot.put(std::make_unique<Book>(3, counts));
  }
  EXPECT_EQ(counts.ended, 2);
  EXPECT_EQ(user.number(), 2);
}

TEST(SwapSlot, two_threads_end_each_value_once) {
  constexpr int values = 20'000;
  Counts counts;
  {
    SwapSlot<Book> slot;
    std::atomic<bool> done{false};
    std::thread using_them([&] {
      User user;
      int last = 0;
      while (!done || slot.full()) {
        if (slot.full()) user.take(slot);
        EXPECT_GE(user.number(), last);
        last = user.number();
      }
      EXPECT_EQ(last, values);
    });
    for (int number = 1; number <= values; ++number) {
      slot.put(std::make_unique<Book>(number, counts));
    }
    done = true;
    using_them.join();
  }
  EXPECT_EQ(counts.ended, values);
  EXPECT_EQ(counts.ended_by_user, 0);
}

}  // namespace
}  // namespace sluice::server
