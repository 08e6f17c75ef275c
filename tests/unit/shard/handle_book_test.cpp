// A key has one number while it is held; numbers and the room of texts are used again, and a full
// book refuses further keys.
#include "shard/handle_book.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "shard/algorithm.hpp"
#include "shard_driver.hpp"

namespace sluice::shard {
namespace {

class HandleBookTest : public ::testing::Test {
 protected:
  api::Handle intern(std::string_view key) {
    return book_.intern(hash_key(key, test_secret()), key);
  }

  // Interns a key for every number.
  std::vector<api::Handle> fill() {
    std::vector<api::Handle> handles;
    for (int key = 0;; ++key) {
      const api::Handle handle = intern("key" + std::to_string(key));
      if (handle == api::no_handle) return handles;
      handles.push_back(handle);
    }
  }

  static constexpr uint32_t handles_max = 8;
  HandleBook book_{handles_max, 64};
};

TEST_F(HandleBookTest, a_key_has_one_number_for_all_references) {
  const api::Handle one = intern("one");
  const api::Handle two = intern("two");
  EXPECT_NE(one, two);
  EXPECT_EQ(intern("one"), one);
  EXPECT_EQ(book_.used(), 2U);
  EXPECT_FALSE(book_.is_last(one));
  EXPECT_TRUE(book_.is_last(two));
  EXPECT_EQ(book_.key(one), "one");
  EXPECT_EQ(book_.key(two), "two");
  EXPECT_EQ(book_.hash(two), hash_key("two", test_secret()));
  book_.check_invariants();
}

// Short texts and long ones, which lie in different places.
class HandleBookLookUpTest : public HandleBookTest {
 protected:
  static std::string text_of(size_t place) {
    constexpr size_t sizes[] = {1, 7, 18, 19, 20, 33, 64, 4};
    return std::string(sizes[place % 8] - 1, 'k') + std::to_string(place % 8);
  }
  size_t look_up(size_t count, size_t text_bytes) {
    handles_.clear();
    for (size_t place = 0; place < count; ++place) handles_.push_back(intern(text_of(place)));
    text_.assign(text_bytes, '-');
    sizes_.resize(count);
    hashes_.resize(count);
    return book_.look_up(handles_, {.text = text_, .sizes = sizes_, .hashes = hashes_});
  }

  std::vector<api::Handle> handles_;
  std::string text_;
  std::vector<uint16_t> sizes_;
  std::vector<api::KeyHash> hashes_;
};

TEST_F(HandleBookLookUpTest, writes_all_keys_one_after_the_other) {
  for (const size_t count : {0U, 1U, 8U, 100U}) {
    std::string expected;
    for (size_t place = 0; place < count; ++place) expected += text_of(place);
    ASSERT_EQ(look_up(count, expected.size()), expected.size());
    EXPECT_EQ(text_, expected);
    for (size_t place = 0; place < count; ++place) {
      EXPECT_EQ(sizes_[place], text_of(place).size());
      EXPECT_EQ(hashes_[place], hash_key(text_of(place), test_secret()));
      EXPECT_EQ(book_.key(handles_[place]), text_of(place));
    }
  }
  book_.check_invariants();
}

TEST_F(HandleBookLookUpTest, reports_more_text_than_there_is_room_for) {
  const size_t enough = look_up(8, 1'000);
  EXPECT_EQ(look_up(8, enough), enough);
  EXPECT_GT(look_up(8, enough - 1), enough - 1);
  EXPECT_EQ(text_.back(), '-');  // the last one is left out
}

TEST_F(HandleBookTest, a_number_lives_until_its_last_reference_is_dropped) {
  const api::Handle handle = intern("key");
  intern("key");
  book_.drop_reference(handle);
  EXPECT_TRUE(book_.holds(handle));
  EXPECT_EQ(book_.key(handle), "key");
  book_.drop_reference(handle);
  EXPECT_FALSE(book_.holds(handle));
  EXPECT_EQ(book_.used(), 0U);
  book_.check_invariants();
}

TEST_F(HandleBookTest, a_freed_number_is_used_for_another_key) {
  const api::Handle first = intern("first");
  const api::Handle kept = intern("kept");
  book_.drop_reference(first);
  EXPECT_EQ(intern("second"), first);
  EXPECT_EQ(book_.key(first), "second");
  EXPECT_EQ(book_.key(kept), "kept");
  EXPECT_NE(intern("first"), first);
  book_.check_invariants();
}

TEST_F(HandleBookTest, a_handle_slot_is_vacant_at_first_and_again_for_its_next_key) {
  const api::Handle handle = intern("first");
  EXPECT_TRUE(book_.handle_slot(handle).is_vacant());
  WindowCell(book_.handle_slot(handle))
      .set_window({.end_ms = 1'000, .approved = 3, .denied = 1}, 2);
  EXPECT_EQ(WindowCell(book_.handle_slot(handle)).window().approved, 3U);
  intern("first");
  EXPECT_EQ(WindowCell(book_.handle_slot(handle)).window().approved, 3U);
  book_.drop_reference(handle);
  book_.handle_slot(handle).set_vacant();  // as the key store does before the last
  book_.drop_reference(handle);
  EXPECT_EQ(intern("second"), handle);
  EXPECT_TRUE(book_.handle_slot(handle).is_vacant());
}

TEST_F(HandleBookTest, gives_as_many_numbers_as_it_may) {
  const std::vector<api::Handle> handles = fill();
  EXPECT_EQ(handles.size(), handles_max);
  EXPECT_EQ(book_.used(), handles_max);
  EXPECT_EQ(std::set<api::Handle>(handles.begin(), handles.end()).size(), handles_max);
  for (const api::Handle handle : handles) EXPECT_LT(handle, handles_max);
  EXPECT_EQ(intern("another"), api::no_handle);
  book_.check_invariants();
}

TEST_F(HandleBookTest, a_full_book_still_knows_its_keys_and_has_room_after_a_drop) {
  const std::vector<api::Handle> handles = fill();
  EXPECT_EQ(intern("key3"), handles[3]);
  book_.drop_reference(handles[3]);
  EXPECT_EQ(intern("another"), api::no_handle);  // all are held
  book_.drop_reference(handles[3]);
  EXPECT_EQ(intern("another"), handles[3]);
  EXPECT_EQ(intern("one more"), api::no_handle);
  book_.check_invariants();
}

TEST_F(HandleBookTest, numbers_are_reused_without_end) {
  for (int round = 0; round < 100; ++round) {
    const std::vector<api::Handle> handles = fill();
    ASSERT_EQ(handles.size(), handles_max);
    for (size_t i = 0; i < handles.size(); ++i) {
      book_.drop_reference(handles[(i * 3 + static_cast<size_t>(round)) % handles_max]);
    }
    ASSERT_EQ(book_.used(), 0U);
    book_.check_invariants();
  }
  EXPECT_LE(book_.index_end(), handles_max);
}

TEST_F(HandleBookTest, holds_no_number_that_was_never_given) {
  EXPECT_FALSE(book_.holds(0));
  intern("key");
  EXPECT_TRUE(book_.holds(0));
  EXPECT_FALSE(book_.holds(1));
  EXPECT_FALSE(book_.holds(handles_max));
  EXPECT_FALSE(book_.holds(api::no_handle));
}

// Records of text are never joined: lengths that keep growing leave gaps that no longer key fits.
TEST(HandleBook, refuses_a_key_without_room_for_its_text_and_loses_no_number) {
  constexpr uint32_t handles_max = 64;
  HandleBook book(handles_max, 65'535);
  const auto intern = [&](std::string_view key) {
    return book.intern(hash_key(key, test_secret()), key);
  };
  const api::Handle kept = intern("kept");
  std::string key;
  for (;;) {
    key.append(4, 'x');
    ASSERT_LE(key.size(), 65'535U) << "there is always room";
    const api::Handle handle = intern(key);
    if (handle == api::no_handle) break;
    book.drop_reference(handle);
  }
  EXPECT_EQ(book.used(), 1U);
  EXPECT_EQ(book.key(kept), "kept");
  const api::Handle short_one = intern("short");
  ASSERT_NE(short_one, api::no_handle);
  book.check_invariants();
  book.drop_reference(short_one);
  book.drop_reference(kept);
  EXPECT_NE(intern(key), api::no_handle);  // all of the room is one piece again
  EXPECT_LE(book.index_end(), 2U);
}

}  // namespace
}  // namespace sluice::shard
