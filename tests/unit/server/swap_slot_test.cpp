// Goal: the user never destroys a value; each is destroyed once, by the maker.
// Method: values that count their destructions, and those by the user; in one thread, and with two
//         threads that do not wait for each other.
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

// A user that takes values as a worker does.
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

TEST(SwapSlot, hands_over_last_value_and_returns_replaced_one) {
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

TEST(SwapSlot, user_destroys_no_value_even_without_tidy) {
  Counts counts;
  User user;
  SwapSlot<Book> slot;
  for (int number = 1; number <= 10; ++number) {
    slot.put(std::make_unique<Book>(number, counts));
    user.take(slot);
  }
  EXPECT_EQ(counts.ended_by_user, 0);
  EXPECT_EQ(counts.ended, 8);  // all but the user's, and the one that it replaced last
}

TEST(SwapSlot, destroys_values_left_in_the_slot) {
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

TEST(SwapSlot, each_value_is_destroyed_once_with_two_threads) {
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
