// The plan for products of byte rows with an encrypted vector: expansion, level, rounding and noise.
#include <algorithm>
#include <bit>
#include <cmath>

#include "schemes/exact/clear_rows.h"

namespace heliograph::exact {

namespace {

/// Let V be the total sub-Gaussian variance of a sum of many independent terms. A coefficient that is a sum of variance V
/// exceeds kDeviations sqrt(V) with probability below 2 e^(-kDeviations^2 / 2) = 2^-86. One of a million coefficients
/// exceeds this bound with probability below 2^-64. rlwe::NoiseModel uses 2^-128; this limit remains, because score files
/// and services of earlier versions depend on the plan.
constexpr double kDeviations = 11;
/// Largest number of spread coefficients per ciphertext (coefficients that are expanded to one ciphertext each). A larger
/// number takes more key switches; a smaller number takes more ciphertexts, hence more bytes.
constexpr std::size_t kMostSpread = 128;
constexpr std::size_t kMostColumns = 8192;
constexpr int kMostBits = 48;
/// log2 of the largest magnitude of a byte.
constexpr double kLogByte = 7;

/// Converts the canonical bound on a random polynomial to log2 of a coefficient's standard deviation.
double log_deviation(double canonical, std::size_t n) {
  return canonical - std::log2(rlwe::NoiseModel::least_deviations(n)) - std::log2(static_cast<double>(n)) / 2;
}

/// Chooses the smallest number of bits for which the noise of rounding plus the noise of the products is within the limit.
/// Returns false if no number of bits is enough.
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
  throw InternalError("an automorphism of the expansion is not a row rotation");
}

double expanded_noise(Context& c, const RowsPlan& plan, double vector_noise) {
  const std::size_t top = c.rlwe().top_level();
  double noise = vector_noise;  // each step adds the rotated ciphertext
  for (std::size_t n = 1; n < plan.spread; n *= 2) noise = rlwe::log2_sum(noise + 1, c.rules().key_switch_noise(0, top));
  return noise;
}

double product_noise(Context& c, const RowsPlan& plan, double vector_noise) {
  const std::size_t top = c.rlwe().top_level(), n = c.spec().n;
  const double expanded = expanded_noise(c, plan, vector_noise), log_columns = std::log2(static_cast<double>(plan.columns));
  // Noise of rows of bytes times the vector: N terms in each coefficient and column. All columns share the noise of the
  // expansion; the rounding errors of the switch to the plan's level are independent.
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
  // The mask's error is multiplied by the secret key. Two thirds of the key's coefficients are nonzero on average; the
  // second term is a margin for any key.
  const double variance = (n * 2 / 3 + kDeviations * std::sqrt(n * 2 / 9)) / 12;
  return rlwe::log2_sum(body, whole - plan.mask_bits + std::log2(kDeviations) + std::log2(variance) / 2);
}

RowsPlan rows_plan(const Parameters& parameters, std::size_t columns) {
  Context& c = *parameters.context();
  require<ShapeError>(columns > 0, "rows must have at least one column");
  require<LimitError>(columns <= kMostColumns, "rows must have at most 8,192 columns");
  require<ParameterError>(c.rules().home() == Domain::coefficient, "rows need a BFV set: BGV cannot round products");
  require<ParameterError>(c.parts() == 1, "rows need a set of one plaintext modulus");
  require<SlotsError>(c.has_slots(), "this set has no slots, which the keys that expand a vector need");
  require<ParameterError>(c.spec().n >= kLeastSlice, "rows need N = 128 or more");
  const double largest = static_cast<double>(columns) * 16384;
  require<ParameterError>(static_cast<double>(c.plain(0).t) > 2 * largest,
                          "the plaintext modulus is too small for a sum of that many products of bytes");
  RowsPlan plan{.columns = columns};
  plan.ciphertexts = (columns + kMostSpread - 1) / kMostSpread;
  plan.spread = std::bit_ceil((columns + plan.ciphertexts - 1) / plan.ciphertexts);
  for (std::size_t i = 0; (std::size_t{1} << i) < plan.spread; ++i) plan.rotations.push_back(expansion_step(c, i));
  const double fresh = c.rules().fresh_noise(0, false);
  for (plan.level = 1; plan.level <= c.rlwe().top_level(); ++plan.level) {
    if (!choose_bits(c, plan, product_noise(c, plan, fresh))) continue;
    require<ParameterError>(c.rules().log_modulus(plan.level) + plan.mask_bits < kMostProductBits,
                            "cannot round the products: the modulus is too large");
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
  // The expansion multiplies by the spread, so the encrypted values are divided by it.
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
