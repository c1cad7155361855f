// Tests of private look-up through the public C++ API.
#include <gtest/gtest.h>

#include <cstdlib>

#include "heliograph/lookup.h"
#include "mesh/mesh.h"

namespace heliograph::test {
namespace {

using lookup::Client;
using lookup::Question;
using lookup::Size;
using lookup::Table;

constexpr Size kSize{4096, 2048};
constexpr std::size_t kWidth = 2000;

/// Returns bytes in which consecutive rows differ.
std::vector<std::uint8_t> rows_of(std::size_t count) {
  std::vector<std::uint8_t> bytes(count * kWidth);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * i / 7 + i / kWidth);
  return bytes;
}

std::vector<std::uint8_t> row_of(const std::vector<std::uint8_t>& bytes, std::size_t row) {
  std::vector<std::uint8_t> found(bytes.begin() + row * kWidth, bytes.begin() + (row + 1) * kWidth);
  found.resize(kSize.columns);
  return found;
}

std::vector<std::uint8_t> looked_up(const Table& table, const Question& question) {
  const lookup::Answers a = table.answer(question.words(), question.keys());
  return question.read(a.bodies, a.masks);
}

class PrivateLookup : public testing::Test {
 protected:
  static void SetUpTestSuite() { table_ = std::make_unique<Table>(kSize, std::string(), rows_of(4000), kWidth); }
  static void TearDownTestSuite() { table_.reset(); }
  static inline std::unique_ptr<Table> table_;
};

TEST_F(PrivateLookup, FindsEveryKindOfRow) {
  const Client client(kSize, table_->seed());
  for (const std::size_t row : {0, 1, 2047, 2048, 3999})
    EXPECT_EQ(looked_up(*table_, client.ask(row)), row_of(rows_of(4000), row)) << row;
  // a row that was never written has zeros
  EXPECT_EQ(looked_up(*table_, client.ask(4095)), std::vector<std::uint8_t>(kSize.columns));
}

TEST_F(PrivateLookup, AnswersInABatchEqualSingleAnswers) {
  const Client client(kSize, table_->seed());
  const std::vector<Question> asked = {client.ask(7), client.ask(3000), client.ask(7)};
  std::vector<std::uint32_t> words;
  std::vector<std::uint64_t> keys;
  for (const Question& q : asked) {
    words.insert(words.end(), q.words().begin(), q.words().end());
    keys.insert(keys.end(), q.keys().begin(), q.keys().end());
  }
  const lookup::Answers all = table_->answer(words, keys);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto mine = std::span(all.bodies).subspan(i * kSize.columns, kSize.columns);
    EXPECT_EQ(asked[i].read(mine, all.masks), row_of(rows_of(4000), i == 1 ? 3000 : 7));
    EXPECT_THROW(asked[(i + 1) % 3].read(mine, all.masks), WrongKeyError);
  }
}

TEST_F(PrivateLookup, AnUpdatedTableEqualsANewOne) {
  std::vector<std::uint8_t> bytes = rows_of(4000);
  Table changed(kSize, table_->seed(), bytes, kWidth), again = changed;
  const std::vector<std::uint64_t> rows = {5, 2048, 5}, columns = {100, 63, 101};
  const std::vector<std::uint8_t> news = {1, 2, 255, 0, 7, 8};
  changed.update(rows, columns, 2, news);
  for (std::size_t k = 0; k < 3; ++k)
    for (std::size_t i = 0; i < 2; ++i) bytes[rows[k] * kWidth + columns[k] + i] = news[2 * k + i];
  const Table anew(kSize, table_->seed(), bytes, kWidth);
  const Question question = Client(kSize, table_->seed()).ask(5);
  const lookup::Answers a = changed.answer(question.words(), question.keys()),
                        b = anew.answer(question.words(), question.keys());
  EXPECT_EQ(a.bodies, b.bodies);
  EXPECT_EQ(a.masks, b.masks);
  EXPECT_EQ(question.read(a.bodies, a.masks), row_of(bytes, 5));
}

TEST_F(PrivateLookup, RefusesWhatDoesNotFit) {
  const Client client(kSize, table_->seed());
  const Question question = client.ask(1);
  EXPECT_THROW(client.ask(kSize.rows), ShapeError);
  EXPECT_THROW(Client(kSize, "short"), ParameterError);
  for (const Size size :
       {Size{0, 2048}, Size{2048, 100}, Size{lookup::kMostRows + 2048, 2048}, Size{2048, lookup::kMostColumns * 2}}) {
    EXPECT_THROW(lookup::log2_failure(size), ParameterError);
    EXPECT_THROW(Client(size, table_->seed()), ParameterError);
  }
  EXPECT_LT(lookup::log2_failure({lookup::kMostRows, lookup::kMostColumns}), -80);
  std::vector<std::uint64_t> keys = question.keys();
  EXPECT_THROW(table_->answer(std::span(question.words()).first(2048), keys), ShapeError);
  keys[9] = std::uint64_t{1} << 50;
  EXPECT_THROW(table_->answer(question.words(), keys), DamagedFileError);
  const lookup::Answers a = table_->answer(question.words(), question.keys());
  EXPECT_THROW(question.read(std::span(a.bodies).first(100), a.masks), ShapeError);
  const std::vector<std::uint64_t> beyond = {kSize.rows}, last = {kSize.columns - 1}, none = {0};
  EXPECT_THROW(table_->update(beyond, none, 1, std::vector<std::uint8_t>(1)), ShapeError);
  EXPECT_THROW(table_->update(none, last, 2, std::vector<std::uint8_t>(2)), ShapeError);
  EXPECT_THROW(Table(kSize, table_->seed(), rows_of(5000), kWidth), ShapeError);
}

/// Returns the peak device memory, in bytes, that `queries` queries take in addition to the table.
std::size_t memory_of(const Table& table, const Question& question, std::size_t questions) {
  std::vector<std::uint32_t> words;
  std::vector<std::uint64_t> keys;
  for (std::size_t i = 0; i < questions; ++i) {
    words.insert(words.end(), question.words().begin(), question.words().end());
    keys.insert(keys.end(), question.keys().begin(), question.keys().end());
  }
  device::Counter& counter = *mesh::default_device().counter();
  counter.reset();
  const std::size_t before = counter.live_bytes();
  EXPECT_EQ(table.answer(words, keys).bodies.size(), questions * kSize.columns);
  EXPECT_EQ(counter.live_bytes(), before);
  return counter.peak_bytes() - before;
}

[[noreturn]] void count_memory() {
  setenv("HELIOGRAPH_DEVICE", "null", 1);
  const Table table(kSize, std::string(), rows_of(4000), kWidth);
  const Question question = Client(kSize, table.seed()).ask(1);
  const std::size_t one = memory_of(table, question, 64), many = memory_of(table, question, 700);
  EXPECT_GT(many, one);
  EXPECT_LE(many, 3 * one);  // the memory of a product is freed only after the next product is allocated
  std::exit(testing::Test::HasFailure() ? 1 : 0);
}

// Runs in its own process, whose device counts memory.
TEST(PrivateLookupMemory, OfManyQueriesIsAtMostThatOfThree) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(count_memory(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace heliograph::test
