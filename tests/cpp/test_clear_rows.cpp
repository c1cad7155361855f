// Products of clear byte rows and an encrypted vector equal sums of integers, for both word sizes, with exact and rounded
// results.
#include <gtest/gtest.h>

#include <random>

#include "heliograph/bfv.h"

namespace heliograph {
namespace {

using bfv::Ciphertext;
using bfv::EvaluationKeys;
using bfv::Parameters;
using bfv::SecretKey;
using exact::ClearRows;
using exact::RowsPlan;

constexpr std::size_t kN = 1024;
// plaintext modulus: it is 1 modulo 2N, and more than twice the largest sum of 384 products of bytes
constexpr std::uint64_t kPlain = 12587009;

/// Returns a small insecure set.
Parameters small(int word_size, int log_q) { return Parameters(bfv::make_spec(kN, log_q, 1, {kPlain}, word_size, 0, true)); }

std::vector<std::int8_t> bytes(std::size_t count, unsigned seed) {
  std::mt19937 draw(seed);
  std::vector<std::int8_t> all(count);
  for (std::int8_t& v : all) v = static_cast<std::int8_t>(draw() % 256 - 128);
  return all;
}

struct Asked {
  std::vector<std::int64_t> products, rounded;
};

std::vector<std::int64_t> decrypted(const SecretKey& secret, const Ciphertext& products, std::size_t rows) {
  std::vector<std::int64_t> all;
  for (const std::uint64_t v : secret.decrypt(products))
    all.push_back(static_cast<std::int64_t>(v) - (v > kPlain / 2 ? static_cast<std::int64_t>(kPlain) : 0));
  all.resize(rows);
  return all;
}

Asked ask(const Parameters& parameters, std::size_t rows, const std::vector<std::int8_t>& values,
          const std::vector<std::int8_t>& vector) {
  const std::size_t columns = vector.size();
  const ClearRows base(parameters, rows, columns);
  const RowsPlan& plan = base.plan();
  for (std::size_t block = 0; block * kN < rows; ++block)
    base.set(block, std::span(values).subspan(block * kN * columns, std::min(kN, rows - block * kN) * columns));
  const SecretKey secret = SecretKey::generate(parameters);
  const EvaluationKeys keys = secret.evaluation_keys(false, plan.rotations, false);
  const Ciphertext products = base.times({exact::encrypt_vector(secret, vector)}, {keys}).front();
  const Bytes data = exact::rounded(products, plan);
  EXPECT_EQ(data.size(), plan.rounded_bytes(parameters, rows));
  EXPECT_THROW(exact::from_rounded(secret, std::span(data).first(data.size() - 1), plan, rows), DamagedFileError);
  return {decrypted(secret, products, rows), decrypted(secret, exact::from_rounded(secret, data, plan, rows), rows)};
}

TEST(ClearRows, EqualProductsOfBytes) {
  for (const auto& [word_size, log_q] : {std::pair{32, 76}, std::pair{64, 60}, std::pair{64, 90}}) {
    for (const std::size_t columns : {std::size_t{1}, std::size_t{130}, std::size_t{384}}) {
      const std::size_t rows = kN + 3;
      std::vector<std::int8_t> values = bytes(rows * columns, 1), vector = bytes(columns, 2);
      std::fill_n(values.begin(), columns, std::int8_t{-128});
      if (columns == 384) std::fill(vector.begin(), vector.end(), std::int8_t{-128});
      std::vector<std::int64_t> expected(rows);
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t j = 0; j < columns; ++j) expected[r] += values[r * columns + j] * vector[j];
      const Asked found = ask(small(word_size, log_q), rows, values, vector);
      EXPECT_EQ(found.products, expected) << word_size << ' ' << log_q << ' ' << columns;
      EXPECT_EQ(found.rounded, expected) << word_size << ' ' << log_q << ' ' << columns;
    }
  }
}

TEST(ClearRows, RefuseWhatDoesNotFit) {
  const Parameters parameters = small(32, 76);
  EXPECT_THROW(exact::rows_plan(parameters, 0), ShapeError);
  EXPECT_THROW(exact::rows_plan(parameters, 10000), LimitError);
  EXPECT_THROW(exact::rows_plan(parameters, 400), ParameterError);  // the sums would exceed t
  EXPECT_THROW(exact::rows_plan(small(32, 30), 384), ParameterError);
  const ClearRows base(parameters, 10, 4);
  EXPECT_THROW(base.set(0, bytes(9 * 4, 1)), ShapeError);
  EXPECT_THROW(base.set(1, bytes(4, 1)), ShapeError);
  const SecretKey secret = SecretKey::generate(parameters);
  const Ciphertext vector = exact::encrypt_vector(secret, bytes(4, 1));
  const EvaluationKeys none = secret.evaluation_keys(false, {}, false);
  EXPECT_THROW(base.times({vector}, {none}), MissingKeyError);
  EXPECT_THROW(base.times({vector}, {}), ShapeError);
  EXPECT_THROW(base.times({exact::encrypt_vector(secret, bytes(5, 1))}, {none}), ShapeError);
}

}  // namespace
}  // namespace heliograph
