// A node is tried at each address of its name, in the resolver's order, and stays at the one that
// works.
#include "peer/address_book.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::peer {
namespace {

class AddressBookTest : public ::testing::Test {
 protected:
  static io::PeerAddress at(int number) {
    return *io::PeerAddress::parse("10.0.0." + std::to_string(number) + ":8080");
  }
  void set(const std::vector<int>& numbers) {
    std::vector<io::PeerAddress> addresses;
    for (const int number : numbers) addresses.push_back(at(number));
    book_.set(1, addresses);
  }
  std::string used() const { return book_.address(1)->text(); }

  AddressBook book_{2};
};

TEST_F(AddressBookTest, has_none_before_the_name_is_resolved) {
  EXPECT_FALSE(book_.address(1));
  EXPECT_EQ(book_.addresses_count(1), 0U);
  book_.note_failed(1, at(7));
  EXPECT_FALSE(book_.address(1));
}

TEST_F(AddressBookTest, goes_on_in_the_resolvers_order_and_begins_again) {
  set({7, 8, 9});
  EXPECT_EQ(book_.addresses_count(1), 3U);
  for (const int number : {7, 8, 9, 7}) {
    EXPECT_EQ(used(), at(number).text());
    book_.note_failed(1, at(number));
  }
  EXPECT_FALSE(book_.address(0)) << "each node has its own";
}

TEST_F(AddressBookTest, several_workers_leave_one_address_once) {
  set({7, 8, 9});
  book_.note_failed(1, at(7));
  book_.note_failed(1, at(7));
  EXPECT_EQ(used(), at(8).text());
}

TEST_F(AddressBookTest, the_one_in_use_stays_when_the_name_resolves_again) {
  set({7, 8});
  book_.note_failed(1, at(7));
  set({7, 8});
  EXPECT_EQ(used(), at(8).text());
  set({6, 8, 9});
  EXPECT_EQ(used(), at(8).text());
  book_.note_failed(1, at(8));
  EXPECT_EQ(used(), at(9).text()) << "the new list is gone through";
}

TEST_F(AddressBookTest, a_list_without_it_begins_at_its_first) {
  set({7, 8});
  book_.note_failed(1, at(7));
  set({5, 6});
  EXPECT_EQ(used(), at(5).text());
  set({4});
  EXPECT_EQ(used(), at(4).text());
}

TEST_F(AddressBookTest, keeps_so_many_only) {
  std::vector<int> numbers;
  for (int number = 1; number <= 20; ++number) numbers.push_back(number);
  set(numbers);
  EXPECT_EQ(book_.addresses_count(1), AddressBook::addresses_max);
}

}  // namespace
}  // namespace sluice::peer
