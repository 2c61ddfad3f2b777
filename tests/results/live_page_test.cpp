#include "sftbench/results/live_page.h"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "results/result_files.h"
#include "results/sample_measurement.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/results/scan.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class LivePageTest : public testing::Test {
 protected:
  void SetUp() override { put(results_, sample_valid(), "a"); }
  void TearDown() override {
    fs::remove_all(results_);
    fs::remove_all(folder_);
  }

  bool refresh(LivePage& page, const std::string& created_at) {
    return page.refresh([this](StoreScan& scan) { shown_ = scan.results.size(); },
                        {.source = "results", .created_at = created_at}, true);
  }
  std::string data() const { return read_file(folder_ / "page.data.js"); }
  Json sign() const {
    const std::string text = read_file(folder_ / "page.live.js");
    EXPECT_THAT(text, StartsWith("sftbenchSign({"));
    EXPECT_THAT(text, EndsWith("});\n"));
    return Json::parse(text.substr(13, text.size() - 16));
  }

  const fs::path results_ = fresh_results("live_page");
  const fs::path folder_ = fresh_results("live_page_out");
  size_t shown_ = 0;
};

TEST_F(LivePageTest, ThePageMayLoadWhatStandsBesideItAndHoldsNoData) {
  LivePage page(folder_ / "page.html", results_);
  EXPECT_FALSE(fs::exists(folder_ / "page.html"));
  page.begin();
  const std::string text = read_file(folder_ / "page.html");
  EXPECT_THAT(text, StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(text, HasSubstr("script-src 'unsafe-inline' 'self' file:"));
  EXPECT_THAT(text, HasSubstr("id=\"data\" data-live></script>"));
  EXPECT_THAT(render_html({}, {}), Not(HasSubstr("'self'"))) << "no other page may load anything";
}

TEST_F(LivePageTest, TheDataAreAScriptThatIsWrittenWhereResultsHaveChanged) {
  LivePage page(folder_ / "page.html", results_);
  EXPECT_TRUE(refresh(page, "1"));
  EXPECT_EQ(shown_, 1U);
  const std::string first = data();
  EXPECT_THAT(first, StartsWith("sftbenchData(\""));
  EXPECT_THAT(first, EndsWith("\");\n"));
  const std::string packed = first.substr(14, first.size() - 18);
  EXPECT_EQ(
      packed.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="),
      std::string::npos);
  EXPECT_THAT(render_html({}, {}), Not(HasSubstr(packed)));

  EXPECT_FALSE(refresh(page, "2")) << "nothing has changed";
  put(results_, sample_valid().experiment + "/b.growing.series.json.gz", "x");
  put(results_, sample_valid().experiment + "/b.lock", "x");
  EXPECT_FALSE(refresh(page, "2")) << "a measurement that begins is no result";
  EXPECT_EQ(data(), first);
  put(results_, sample_failed(), "b");
  EXPECT_TRUE(refresh(page, "3"));
  EXPECT_EQ(shown_, 2U);
  EXPECT_NE(data(), first);
}

// As a failure gives way to a success: the name stays.
TEST_F(LivePageTest, AResultThatIsReplacedIsAChange) {
  LivePage page(folder_ / "page.html", results_);
  put(results_, sample_failed(), "b");
  EXPECT_TRUE(refresh(page, "1"));
  const fs::path path = results_ / sample_valid().experiment / "b.json";
  write_file_atomic(path, stored(sample_valid(), "b").dump(2));
  EXPECT_TRUE(refresh(page, "2"));
  fs::remove(path);
  EXPECT_TRUE(refresh(page, "3"));
  EXPECT_EQ(shown_, 1U);
}

TEST_F(LivePageTest, LooksCostATenthOfTheTime) {
  LivePage page(folder_ / "page.html", results_);
  const auto slowly = [](StoreScan&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  };
  EXPECT_TRUE(page.refresh(slowly, {}));
  put(results_, sample_failed(), "b");
  EXPECT_FALSE(page.refresh(slowly, {})) << "that would be half of the time";
  EXPECT_TRUE(page.refresh(slowly, {}, true)) << "the last look is taken in any case";
}

TEST_F(LivePageTest, ASignSaysOfWhichDataAndHowItStands) {
  LivePage page(folder_ / "page.html", results_);
  refresh(page, "2026-11-25T08:00:00.000Z");
  page.sign({{"line", "3 of 4 </script> \"cells\""}}, 2.5, "");
  const Json first = sign();
  EXPECT_EQ(first.at("data"), "2026-11-25T08:00:00.000Z");
  EXPECT_EQ(first.at("interval_s"), 2.5);
  EXPECT_EQ(first.at("ended"), "");
  EXPECT_EQ(first.at("status").at("line"), "3 of 4 </script> \"cells\"");
  page.sign({{"line", "3 of 4 </script> \"cells\""}}, 2.5, "it was interrupted");
  EXPECT_NE(sign().at("sign"), first.at("sign")) << "a sign that does not change is silence";
  EXPECT_EQ(sign().at("ended"), "it was interrupted");
}

TEST_F(LivePageTest, ANameThatIsNoPageIsRefused) {
  for (const char* name : {"", "page", "page.js", ".html", "folder/"}) {
    try {
      LivePage(name, results_);
      FAIL() << name << " was taken";
    } catch (const InputError& error) {
      EXPECT_EQ(std::string(error.what()), "--page: '" + std::string(name) +
                                               "' is no name of a page; expected a file that "
                                               "ends in .html");
    }
  }
}

TEST_F(LivePageTest, WhatCannotBeWrittenIsAnInputError) {
  put(folder_, "file", "");
  LivePage page(folder_ / "file" / "page.html", results_);
  EXPECT_THROW(page.begin(), InputError);
  EXPECT_THROW(refresh(page, "1"), InputError);
  EXPECT_THROW(page.sign({}, 1, ""), InputError);
  LivePage nowhere(folder_ / "page.html", results_ / "absent");
  EXPECT_THROW(refresh(nowhere, "1"), InputError);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
