// Goal: nodes become a file, or complaints with their path; what is passed over changes nothing.
// Method: nodes as a parser reports them. go_ratelimit_yaml_test.cpp has whole texts.
#include "transfer/yaml_document.hpp"

#include <gtest/gtest.h>

#include "support/go_ratelimit_sample.hpp"

namespace sluice::transfer {
namespace {

class YamlDocumentTest : public ::testing::Test {
 protected:
  void begin(NodeKind kind) { document.begin(kind, {.line = ++line}); }
  void end() { document.end(); }
  void plain(std::string_view text) { document.scalar(NodeKind::plain, text, {.line = ++line}); }
  std::string complained() { return test::lines_of(complaints.take()); }

  Complaints complaints;
  YamlDocument document{complaints};
  size_t line = 0;
};

TEST_F(YamlDocumentTest, passes_over_a_list_that_stands_for_a_name) {
  begin(NodeKind::map);
  begin(NodeKind::list);
  begin(NodeKind::map);
  plain("quotas");
  plain("1");
  end();
  end();
  plain("the value of that");
  plain("quotas");
  begin(NodeKind::map);
  plain("a");
  begin(NodeKind::map);
  plain("max_rpm");
  plain("7");
  end();
  end();
  plain("state");
  begin(NodeKind::map);
  end();
  end();
  EXPECT_EQ(complained(), "line 2, column 1: a list is no name\n");
  EXPECT_EQ(document.take().quotas.at("a").max_rpm, 7);
}

TEST_F(YamlDocumentTest, passes_over_what_an_unknown_name_has) {
  begin(NodeKind::map);
  plain("quotas");
  begin(NodeKind::map);
  end();
  plain("other");
  begin(NodeKind::list);
  plain("x");
  begin(NodeKind::map);
  plain("max_rpm");
  plain("-1");
  end();
  end();
  plain("state");
  begin(NodeKind::map);
  end();
  end();
  EXPECT_EQ(complained(), "line 4, column 1: other: is unknown; there are quotas and state\n");
}

TEST_F(YamlDocumentTest, goes_on_after_a_node_that_is_refused) {
  begin(NodeKind::map);
  document.refuse("is an alias", {.line = 9});
  plain("its value");
  plain("quotas");
  document.refuse("is an alias", {.line = 10});
  plain("state");
  begin(NodeKind::map);
  end();
  end();
  EXPECT_EQ(complained(),
            "line 9, column 1: is an alias\nline 10, column 1: quotas: is an alias\n");
}

TEST_F(YamlDocumentTest, takes_a_document_of_the_wrong_type_as_one_complaint) {
  plain("quotas");
  EXPECT_EQ(complained(), "line 1, column 1: is a single value, and must be a map\n");
  begin(NodeKind::list);
  plain("quotas");
  end();
  EXPECT_EQ(complained(), "line 2, column 1: is a list, and must be a map\n");
}

}  // namespace
}  // namespace sluice::transfer
