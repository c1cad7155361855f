// How a set multiplies rows of bytes by an encrypted vector: expansion, level, rounding, and what noise that makes.
#include <algorithm>
#include <bit>
#include <cmath>

#include "schemes/exact/clear_rows.h"

namespace heliograph::exact {

namespace {

/// A coefficient that is a sum of many independent terms, with the variance V of a sub-Gaussian, is beyond this many sqrt(V) with
/// probability below 2 e^(-x^2 / 2) = 2^-86: below 2^-64 in a million of them. Not rlwe::NoiseModel's 2^-128: the plan is what files of
/// scores and services of other versions go by.
constexpr double kDeviations = 11;
/// A ciphertext's coefficients that are spread: more would cost key switches that a further ciphertext saves, fewer the bytes of it.
constexpr std::size_t kMostSpread = 128;
constexpr std::size_t kMostColumns = 8192;
constexpr int kMostBits = 48;
/// log2 of the largest magnitude of a byte.
constexpr double kLogByte = 7;

/// A canonical bound of a random polynomial as one of its deviation.
double log_deviation(double canonical, std::size_t n) {
  return canonical - std::log2(rlwe::NoiseModel::least_deviations(n)) - std::log2(static_cast<double>(n)) / 2;
}

/// The smallest rounding whose noise fits beside the products'; false where none does.
bool choose_bits(Context& c, RowsPlan& plan, double products) {
  const double limit = c.rules().noise_limit(0, plan.level), whole = c.rules().log_modulus(plan.level);
  const int most = std::min<int>(kMostBits, static_cast<int>(whole));
  bool found = false;
  RowsPlan best = plan;
  for (plan.mask_bits = 8; plan.mask_bits <= most; ++plan.mask_bits) {
    for (plan.body_bits = 8; plan.body_bits <= plan.mask_bits; ++plan.body_bits) {
      if (rlwe::log2_sum(products, rounding_noise(c, plan)) > limit - 0.125) continue;
      if (!found || plan.mask_bits + plan.body_bits < best.mask_bits + best.body_bits) best = plan, found = true;
      break;
    }
  }
  plan = best;
  return found;
}

}  // namespace

std::int64_t expansion_step(const Context& c, std::size_t i) {
  const std::size_t n = c.spec().n;
  const u64 wanted = n / (std::size_t{1} << i) + 1;
  u64 g = 1;
  for (std::size_t step = 0; step < n / 2; ++step, g = g * 3 % (2 * n)) {
    if (g == wanted) return static_cast<std::int64_t>(step);
  }
  throw InternalError("an automorphism of the expansion is no row rotation");
}

double expanded_noise(Context& c, const RowsPlan& plan, double vector_noise) {
  const std::size_t top = c.rlwe().top_level();
  double noise = vector_noise;  // each step adds to a ciphertext what it is turned
  for (std::size_t n = 1; n < plan.spread; n *= 2) noise = rlwe::log2_sum(noise + 1, c.rules().key_switch_noise(0, top));
  return noise;
}

double product_noise(Context& c, const RowsPlan& plan, double vector_noise) {
  const std::size_t top = c.rlwe().top_level(), n = c.spec().n;
  const double expanded = expanded_noise(c, plan, vector_noise), log_columns = std::log2(static_cast<double>(plan.columns));
  // Rows of bytes times noise: N terms in each coefficient for each column. What the expansion left the columns have in
  // common; the rounding errors of the switch to the plan's level are independent.
  const double terms = kLogByte + std::log2(static_cast<double>(n)) / 2 + std::log2(kDeviations);
  const double scale = plan.level < top ? c.rules().log_modulus(top) - c.rules().log_modulus(plan.level) : 0;
  const double common = log_deviation(expanded - scale, n) + terms + log_columns;
  if (plan.level == top) return common;
  const double rounding = c.rules().switched_noise(0, -1e3, top, plan.level, 1);
  return rlwe::log2_sum(common, log_deviation(rounding, n) + terms + log_columns / 2);
}

double rounding_noise(Context& c, const RowsPlan& plan) {
  const double whole = c.rules().log_modulus(plan.level), n = static_cast<double>(c.spec().n);
  const double body = whole - plan.body_bits - 1 + 0x1p-10;
  // Of the mask it meets the secret's coefficients, two thirds of which are not zero; a few more, at most, in any key.
  const double variance = (n * 2 / 3 + kDeviations * std::sqrt(n * 2 / 9)) / 12;
  return rlwe::log2_sum(body, whole - plan.mask_bits + std::log2(kDeviations) + std::log2(variance) / 2);
}

RowsPlan rows_plan(const Parameters& parameters, std::size_t columns) {
  Context& c = *parameters.context();
  require<ShapeError>(columns > 0, "rows have at least one column");
  require<LimitError>(columns <= kMostColumns, "rows have at most 8,192 columns");
  require<ParameterError>(c.rules().home() == Domain::coefficient,
                          "rows are multiplied by vectors of BFV: BGV cannot round products");
  require<ParameterError>(c.parts() == 1, "rows are multiplied modulo one plaintext modulus");
  require<SlotsError>(c.has_slots(), "this set has no slots, so there are no keys to expand a vector by");
  require<ParameterError>(c.spec().n >= kLeastSlice, "rows are multiplied in rings of N = 128 or more");
  const double largest = static_cast<double>(columns) * 16384;
  require<ParameterError>(static_cast<double>(c.plain(0).t) > 2 * largest,
                          "the plaintext modulus does not hold a sum of that many products of bytes");
  RowsPlan plan{.columns = columns};
  plan.ciphertexts = (columns + kMostSpread - 1) / kMostSpread;
  plan.spread = std::bit_ceil((columns + plan.ciphertexts - 1) / plan.ciphertexts);
  for (std::size_t i = 0; (std::size_t{1} << i) < plan.spread; ++i) plan.rotations.push_back(expansion_step(c, i));
  const double fresh = c.rules().fresh_noise(0, false);
  for (plan.level = 1; plan.level <= c.rlwe().top_level(); ++plan.level) {
    if (!choose_bits(c, plan, product_noise(c, plan, fresh))) continue;
    require<ParameterError>(c.rules().log_modulus(plan.level) + plan.mask_bits < kMostProductBits,
                            "products modulo so large a number are not rounded");
    return plan;
  }
  throw ParameterError("the set's modulus is too small for products with rows of " + std::to_string(columns) + " bytes");
}

std::size_t RowsPlan::rounded_bytes(const Parameters& parameters, std::size_t rows) const {
  const std::size_t n = parameters.spec().n, words = checked_mul((rows + n - 1) / n, n);
  return checked_mul(words, static_cast<std::size_t>(body_bits + mask_bits)) / 8;
}

Ciphertext encrypt_vector(const SecretKey& secret, std::span<const std::int8_t> vector) {
  Context& c = *secret.data().context;
  const RowsPlan plan = rows_plan(Parameters(secret.data().context), vector.size());
  const u64 t = c.plain(0).t;
  // The expansion multiplies by the spread.
  const u64 inverse = math::inverse_mod(plan.spread % t, t);
  Values values{
      .data = std::vector<std::int64_t>(plan.ciphertexts * plan.spread), .shape = {plan.ciphertexts}, .width = plan.spread};
  for (std::size_t j = 0; j < vector.size(); ++j) {
    const std::size_t at = j % plan.ciphertexts * plan.spread + j / plan.ciphertexts;
    values.data[at] = math::centered(math::mul_mod(math::signed_mod(vector[j], t), inverse, t), t);
  }
  return secret.encrypt(values, Packing::coefficients);
}

}  // namespace heliograph::exact
