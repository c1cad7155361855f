// Switching between CKKS and TFHE on small rings. Steps are compared with integers and their noise with its formulas;
// devices give equal bits; both directions give the right values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "circuits/switching/context.h"
#include "heliograph/switching.h"
#include "schemes/tfhe/encoding.h"
#include "tfhe_rig.h"

namespace heliograph {
namespace {

using math::i64;
using math::u128;
using math::u64;
using ring::RnsTensor;
using Words = std::vector<u64>;

constexpr std::size_t kN = 2048, kSlots = kN / 2;

std::string seed_text(char c) { return std::string(32, c); }

struct Rig {
  explicit Rig(const std::string& device = {}, std::size_t slots = 0, unsigned message_bits = 2) {
    ckks::Spec spec = ckks::make_bootstrapping_spec(kN, 6, 39, 49.9, 3, 64, true);
    spec.slots = slots;
    ckks = ckks::Parameters(spec), tfhe = tfhe::Parameters(test::small_tfhe(message_bits));
    if (!device.empty())
      ckks = ckks.on_device(device),
      tfhe = tfhe::Parameters(std::make_shared<tfhe::Context>(
          tfhe.spec(), std::shared_ptr<device::Device>(std::shared_ptr<void>(), &ckks.context()->engine().device())));
    secret = ckks::SecretKey::generate_for_test(ckks, seed_text('a'));
    keys = secret.evaluation_keys(true, {}, true, true);
    tfhe_secret = tfhe::SecretKey::generate_for_test(tfhe, seed_text('b'));
    tfhe_keys = tfhe_secret.evaluation_keys();
    switching = switching::Keys::make(secret, tfhe_secret);
  }
  const switching::Context& pair() const { return *switching.data().context; }

  ckks::Parameters ckks{std::shared_ptr<ckks::Context>()};
  tfhe::Parameters tfhe{std::shared_ptr<tfhe::Context>()};
  ckks::SecretKey secret;
  ckks::EvaluationKeys keys;
  tfhe::SecretKey tfhe_secret;
  tfhe::EvaluationKeys tfhe_keys;
  switching::Keys switching;
};
Rig& rig() {
  static Rig r;
  return r;
}

Words words_of(const RnsTensor& x) {
  const SecretVector<std::byte> bytes = ring::download_secret(x);
  Words words(bytes.size() / sizeof(u64));
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

/// Returns a * b modulo X^n + 1 and q.
Words product(const Words& a, const Words& b, u64 q) {
  const std::size_t n = a.size();
  Words out(n);
  for (std::size_t i = 0; i < n; ++i) {
    if (a[i] == 0) continue;
    for (std::size_t j = 0; j < n; ++j) {
      const u64 v = math::mul_mod(a[i], b[j], q);
      u64& to = out[(i + j) % n];
      to = i + j < n ? math::add_mod(to, v, q) : math::sub_mod(to, v, q);
    }
  }
  return out;
}

/// Returns ciphertexts at the lowest level, in the NTT domain, whose words are uniform modulo q.
RnsTensor uniform(const Rig& r, std::size_t items) {
  ckks::Context& c = *r.ckks.context();
  const u64 q = c.rlwe().moduli(c.rlwe().chain(1))[0];
  std::mt19937_64 random(7);
  Words words(items * 2 * kN);
  for (u64& w : words) w = random() % q;
  const RnsTensor x(c.rlwe().engine(), {items}, 2, c.rlwe().chain(1), math::Domain::coefficient);
  ring::upload(x, std::as_bytes(std::span(words)));
  return ring::to_domain(x, math::Domain::ntt);
}

double variance(const std::vector<double>& errors) {
  double sum = 0;
  for (const double e : errors) sum += e * e;
  return sum / static_cast<double>(errors.size());
}

/// Returns the tolerance of a relative variance: five deviations for `count` samples, plus 0.06 for the error of the key
/// itself.
double tolerance(std::size_t count) { return 0.06 + 5 * std::sqrt(2.0 / static_cast<double>(count)); }

/// Returns the difference of two fractions of a turn, from -1/2 to 1/2.
double turns_between(double a, double b) {
  const double d = a - b;
  return d - std::round(d);
}

TEST(Switching, RingSwitchIsThatOfIntegers) {
  const Rig& r = rig();
  const switching::Context& pair = r.pair();
  const u64 q = static_cast<u64>(pair.q());
  const RnsTensor x = uniform(r, 1);
  const Words c = words_of(ring::to_domain(x, math::Domain::coefficient));
  const Words body(c.begin(), c.begin() + kN), mask(c.begin() + kN, c.end());
  const Words key = words_of(ring::to_domain(r.switching.data().to_wide.pairs(), math::Domain::coefficient));
  // The expected digits of the fraction x / q are signed and in base 2^b; the last digit is rounded.
  const unsigned b = static_cast<unsigned>(std::ceil((std::log2(pair.q()) - 8) / 3));
  Words sums[2] = {body, Words(kN)};
  for (unsigned j = 1; j <= 3; ++j) {
    Words digit(kN);
    u128 offset = 0;  // q / 2 + q / (2 B) + ..., rounded
    for (unsigned k = 0; k <= 3; ++k) offset += u128{q} << (b * (3 - k));
    offset = ((offset >> (3 * b)) + 1) / 2;
    for (std::size_t i = 0; i < kN; ++i) {
      const auto moved = static_cast<u64>((mask[i] + offset) % q);
      const auto floor = static_cast<u64>(((u128{moved} << (b * j)) / q) & ((u64{1} << b) - 1));
      digit[i] = math::signed_mod(static_cast<i64>(floor) - (i64{1} << (b - 1)), q);
    }
    for (std::size_t half : {0, 1}) {
      const Words part(key.begin() + static_cast<std::ptrdiff_t>((2 * (j - 1) + half) * kN),
                       key.begin() + static_cast<std::ptrdiff_t>((2 * (j - 1) + half + 1) * kN));
      const Words more = product(digit, part, q);
      for (std::size_t i = 0; i < kN; ++i) sums[half][i] = math::add_mod(sums[half][i], more[i], q);
    }
  }
  const Words got = words_of(pair.to_wide(x, r.switching.data().to_wide));
  EXPECT_TRUE(std::equal(got.begin(), got.begin() + kN, sums[0].begin()));
  EXPECT_TRUE(std::equal(got.begin() + kN, got.end(), sums[1].begin()));
}

/// Returns the phases under the CKKS key of the coefficients that hold slots, in turns (fractions of the full circle).
std::vector<double> phases_of(const Rig& r, const RnsTensor& x, std::size_t slots) {
  const Words phase = words_of(rlwe::phase(r.secret.data().key, x));
  const std::size_t gap = kN / 2 / slots;
  std::vector<double> turns;
  for (std::size_t item = 0; item < phase.size() / kN; ++item) {
    for (std::size_t k = 0; k < slots; ++k) {
      const std::size_t at = gap * math::reverse_bits(k, std::countr_zero(slots));
      turns.push_back(static_cast<double>(phase[item * kN + at]) / r.pair().q());
    }
  }
  return turns;
}

/// Returns the phases, in turns, of LWE ciphertexts whose unit is 2^-59 turns.
std::vector<double> phases_of(const Rig& r, const lwe::Tensor& x) {
  Words words = lwe::download(x);
  for (u64& w : words) w <<= 64 - switching::kTurnBits;
  const tfhe::SecretKeyData& key = r.tfhe_secret.data();
  std::vector<double> turns;
  for (const u64 p : lwe::phases(key.context->lwe(), key.masks, words)) turns.push_back(static_cast<double>(p) * 0x1p-64);
  return turns;
}

void expect_ring_switch_noise(const Rig& r, std::size_t slots) {
  const RnsTensor x = uniform(r, 8);
  const lwe::Tensor y = r.pair().extract(r.pair().to_wide(x, r.switching.data().to_wide), slots);
  const std::vector<double> before = phases_of(r, x, slots), after = phases_of(r, y);
  ASSERT_EQ(before.size(), after.size());
  std::vector<double> errors;
  for (std::size_t i = 0; i < before.size(); ++i) errors.push_back(turns_between(after[i], before[i]));
  const double measured = variance(errors), predicted = r.pair().variance();
  std::printf("ring switch, %zu slots: deviation 2^%.3f turns, formula 2^%.3f\n", slots, std::log2(measured) / 2,
              std::log2(predicted) / 2);
  EXPECT_NEAR(measured / predicted, 1, tolerance(errors.size()));
}

TEST(Switching, NoiseOfRingSwitch) { expect_ring_switch_noise(rig(), kSlots); }

TEST(Switching, NoiseOfRingSwitchWithFewSlots) {
  for (const std::size_t slots : {512, 64}) expect_ring_switch_noise(Rig({}, slots), slots);
}

void expect_packing_noise(const Rig& r, std::size_t slots, std::size_t width) {
  std::mt19937_64 random(3);
  const std::size_t items = 4;
  Words messages(items * width);
  for (u64& m : messages) m = random();
  tfhe::Context& t = *r.tfhe.context();
  const lwe::Tensor x = t.tensor({items, width}, 1);
  Words words(messages.size() * t.words());
  lwe::encrypt(t.lwe(), r.tfhe_secret.data().masks, messages, {1}, {2}, 0, words);
  lwe::upload(x, words);
  const RnsTensor packed = r.pair().pack(x, r.switching.data().packing);
  const RnsTensor y = r.pair().to_dense(ring::to_domain(packed, math::Domain::ntt), r.switching.data().to_dense);
  const std::vector<double> got = phases_of(r, y, slots);
  std::vector<double> errors;
  for (std::size_t i = 0; i < items * slots; ++i) {
    const std::size_t item = i / slots, k = i % slots;
    if (k < width)
      errors.push_back(turns_between(got[i], static_cast<double>(messages[item * width + k]) * 0x1p-64));
    else  // empty slots have only the noise of the last folds
      EXPECT_LT(std::abs(turns_between(got[i], 0)), 8 * std::sqrt(r.pair().packing_variance()));
  }
  const double measured = variance(errors), predicted = r.pair().packing_variance();
  std::printf("packing, %zu of %zu slots: deviation 2^%.3f turns, formula 2^%.3f\n", width, slots, std::log2(measured) / 2,
              std::log2(predicted) / 2);
  EXPECT_NEAR(measured / predicted, 1, tolerance(errors.size()));
  // The other coefficients hold no slots, so their phases are only noise.
  const Words phase = words_of(rlwe::phase(r.secret.data().key, y));
  double most = 0;
  for (std::size_t i = 0; i < phase.size(); ++i)
    if (i % kN >= kN / 2 || i % (kN / 2 / slots) != 0)
      most = std::max(most, std::abs(turns_between(static_cast<double>(phase[i]) / r.pair().q(), 0)));
  EXPECT_LT(most, 8 * std::sqrt(predicted));
}

TEST(Switching, NoiseOfPacking) {
  expect_packing_noise(rig(), kSlots, kSlots);
  expect_packing_noise(rig(), kSlots, 700);
  expect_packing_noise(rig(), kSlots, 100);
}

TEST(Switching, NoiseOfPackingWithFewSlots) { expect_packing_noise(Rig({}, 64), 64, 64); }

TEST(Switching, EqualBitsOnDevices) {
  std::optional<Words> phases, packed;
  for (const char* device : {"ref", "cpu:scalar", "cpu", "3*cpu/uncalibrated"}) {
    const Rig r(device);
    const lwe::Tensor y = r.pair().extract(r.pair().to_wide(uniform(r, 3), r.switching.data().to_wide), 300);
    const Words words = lwe::download(y);
    const Words back = words_of(r.pair().pack(y, r.switching.data().packing));
    if (!phases) phases = words, packed = back;
    EXPECT_TRUE(words == *phases) << device;
    EXPECT_TRUE(back == *packed) << device;
  }
}

ckks::Values values_of(const Shape& shape, std::size_t width, const std::vector<double>& data) {
  ckks::Values values{.shape = shape, .width = width};
  values.data.assign(data.begin(), data.end());
  return values;
}

std::vector<i64> decrypted(const Rig& r, const tfhe::Ciphertext& y) {
  const std::vector<std::uint64_t> got = r.tfhe_secret.decrypt(y);
  return {got.begin(), got.end()};
}

/// Evaluates a circuit on a clear input. `margin` receives the least distance, in turns, between a phase and a change of its
/// table.
std::vector<u64> evaluated(const tfhe::Circuit& c, u64 input, double& margin) {
  Words wires(c.wires);
  wires[0] = input;
  const auto sum = [&](const tfhe::Linear& x) {
    u64 phase = x.constant;
    for (const tfhe::Term& t : x.terms) phase += static_cast<u64>(static_cast<i64>(t.weight)) * wires[t.wire];
    return phase;
  };
  for (const auto& layer : c.layers) {
    for (const tfhe::Bootstrap& b : layer) {
      const u64 phase = sum(b.input);
      const Words& values = c.tables[b.table].values;
      const int shift = 63 - std::countr_zero(values.size());
      const u64 cell = phase >> shift, value = values[cell % values.size()];
      wires[b.first_output] = cell < values.size() ? value : u64{0} - value;
      const auto in_cell = static_cast<double>(phase - (cell << shift)) * 0x1p-64;
      margin = std::min({margin, in_cell, std::ldexp(1.0, shift - 64) - in_cell});
    }
  }
  Words out;
  for (const tfhe::Linear& x : c.outputs) out.push_back(sum(x));
  return out;
}

TEST(Switching, CircuitReadsDigitsWithItsMargin) {
  for (const unsigned m : {1, 2, 3}) {
    tfhe::Spec spec = test::small_tfhe(m);
    for (const unsigned extra : {0, 1}) {
      spec.carry_bits = m + extra;
      const unsigned bits = 12;
      const auto circuit = switching::digits_circuit(spec, bits);
      EXPECT_EQ(circuit->bootstraps(), 2 * bits / m - 1);
      double margin = 1;
      std::size_t wrong = 0;
      for (i64 v = -2048; v < 2048; ++v) {
        const u64 input = static_cast<u64>(v) << (switching::kTurnBits - bits - 1);
        const Words digits = evaluated(*circuit, input, margin);
        for (unsigned k = 0; k < bits / m; ++k)
          wrong += digits[k] != ((static_cast<u64>(v) >> (m * k)) & ((1 << m) - 1)) << (63 - 2 * m - extra);
      }
      EXPECT_EQ(wrong, 0u) << m;
      // The bound is half the unit of a digit, minus the remainder of the lower digits.
      EXPECT_GE(margin, std::exp2(-1.0 - m) * (0.5 - std::exp2(-1.0 * m) / 2) - 1e-9) << m;
    }
  }
}

using switching::Relation;

bool holds(double v, Relation relation) {
  switch (relation) {
    case Relation::less:
      return v < 0;
    case Relation::less_equal:
      return v <= 0;
    case Relation::greater:
      return v > 0;
    case Relation::greater_equal:
      return v >= 0;
  }
  return false;
}

/// Adds to `out` the outputs of a circuit of signs for all possible errors of its phases. Errors are up to `first` turns in
/// layer 0, and up to `later` turns in the others. If a phase is closer to 0 or 1/2 than the error, both signs are followed.
void evaluate_signs(const tfhe::Circuit& c, std::size_t layer, u64 input, u64 sign, double first, double later,
                    std::set<u64>& out) {
  if (layer == c.layers.size()) {
    out.insert(c.outputs[0].constant + sign);
    return;
  }
  const tfhe::Bootstrap& b = c.layers[layer][0];
  const tfhe::Linear& x = b.input;
  const u64 phase = x.constant + static_cast<u64>(i64{x.terms[0].weight}) * input + (layer > 0 ? sign : 0);
  const double turns = static_cast<double>(static_cast<i64>(phase)) * 0x1p-64, error = layer > 0 ? later : first;
  const double distance = std::min(std::abs(turns), 0.5 - std::abs(turns));
  const u64 value = c.tables[b.table].values[0];
  for (const bool positive : {false, true})
    if ((turns >= 0) == positive || distance < error)
      evaluate_signs(c, layer + 1, input, positive ? value : u64{0} - value, first, later, out);
}

TEST(Switching, SignsHoldForAllErrorsWithinTheirMargins) {
  const switching::Context& pair = rig().pair();
  const tfhe::Spec& spec = rig().tfhe.spec();
  for (const unsigned bits : {1, 2, 5, 9, 12}) {
    const switching::SignPlan best = pair.sign_plan(bits, 0.1);
    ASSERT_GT(best.bootstraps, 0u);
    EXPECT_LE(best.log2_failure, -128);
    for (const double small : {1.0, 3.0}) {  // also tests more windows than the plan has
      switching::SignPlan plan = best;
      if (small > 1) {
        plan.ratio = 3, plan.bootstraps = 2;
        while (plan.window = 4 * std::pow(3, plan.bootstraps - 1), plan.window < (std::exp2(bits) + 2.5) * 4 / 3)
          ++plan.bootstraps;
      }
      const double factor = std::pow(plan.ratio, plan.bootstraps - 1), unit = 0x1p59 / plan.window;
      const double first = 0.5 / plan.window * factor, later = 0.25 / (plan.ratio + 1.0);
      std::size_t wrong = 0;
      for (const Relation relation : {Relation::less, Relation::less_equal, Relation::greater, Relation::greater_equal}) {
        const auto circuit = switching::sign_circuit(spec, plan, relation);
        EXPECT_EQ(circuit->bootstraps(), plan.bootstraps);
        const double most = std::exp2(bits - 1.0);
        for (double v = -most; v <= most; ++v) {
          for (const double off : {0.0, 0.2, -0.2}) {
            std::set<u64> out;
            const auto input = static_cast<u64>(static_cast<i64>(std::round((v + off) * unit)));
            evaluate_signs(*circuit, 0, input, 0, first * (1 - 2 * std::abs(off)) * 0.999, later * 0.999, out);
            wrong += out.size() != 1 || *out.begin() != (holds(v, relation) ? tfhe::unit_of(spec) : 0);
          }
        }
      }
      EXPECT_EQ(wrong, 0u) << bits << " bits, " << plan.bootstraps << " bootstraps";
    }
  }
}

TEST(Switching, SignsTakeFewBootstraps) {
  const tfhe::Spec set = tfhe::named_spec("2_2");
  const ckks::Parameters n16(ckks::named_spec("n16-b13"));
  const switching::Context pair(n16.context(), tfhe::Parameters(set).context());
  const std::pair<unsigned, unsigned> expected[] = {{4, 1}, {8, 2}, {12, 3}, {16, 4}, {17, 5}, {20, 5}};
  for (const auto& [bits, bootstraps] : expected) {
    const switching::SignPlan plan = pair.sign_plan(bits, 0.1);
    EXPECT_EQ(plan.bootstraps, bootstraps) << bits;
    EXPECT_LE(plan.log2_failure, -128) << bits;
  }
  // Values with different errors use the same circuits, so a long run does not accumulate circuits.
  const switching::SignPlan one = pair.sign_plan(16, 0.1), other = pair.sign_plan(16, 0.1001);
  ASSERT_EQ(one.window, other.window);
  ASSERT_NE(one.log2_failure, other.log2_failure);
  EXPECT_EQ(pair.comparing(one, switching::Relation::less), pair.comparing(other, switching::Relation::less));
  EXPECT_NE(pair.comparing(one, switching::Relation::less), pair.comparing(one, switching::Relation::greater));
  EXPECT_EQ(pair.sign_plan(16, 0.5).bootstraps, 0u);
  EXPECT_EQ(pair.sign_plan(40, 0).bootstraps, 0u);
  EXPECT_EQ(pair.sign_plan(16, std::nan("")).bootstraps, 0u);
}

TEST(Switching, ComparesIntegersWithZero) {
  const Rig& r = rig();
  for (const unsigned bits : {3, 8, 16}) {
    const double most = std::exp2(bits - 1.0), unit = 1 / most;
    std::mt19937_64 random(bits);
    std::vector<double> data, expected;
    for (std::size_t i = 0; i < kSlots; ++i) {
      const double near = std::min(most, 20.0), v = static_cast<double>(random() % static_cast<u64>(2 * most)) - most;
      expected.push_back(i < 200 ? std::fmod(static_cast<double>(i), 2 * near) - near : v);
      const double off = i % 3 == 2 ? 0 : i % 3 == 0 ? 0.25 : -0.25;
      data.push_back(std::clamp((expected.back() + off) * unit, -1.0, 1 - unit));
    }
    const ckks::Ciphertext x = r.secret.encrypt(values_of({}, kSlots, data), 0, {-1, 1 - unit});
    for (const Relation relation : {Relation::less, Relation::less_equal, Relation::greater, Relation::greater_equal}) {
      const tfhe::Ciphertext y = switching::compare(x, relation, bits, unit, r.switching, r.keys, r.tfhe_keys);
      EXPECT_EQ(y.type(), tfhe::Type{});
      const std::vector<i64> got = decrypted(r, y);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < got.size(); ++i) wrong += got[i] != (holds(expected[i], relation) ? 1 : 0);
      EXPECT_EQ(wrong, 0u) << bits << " bits, relation " << static_cast<int>(relation);
    }
  }
}

/// Checks that v + offset becomes the integer v for every value v of `bits` bits.
void expect_integers(const Rig& r, unsigned bits, double offset) {
  const double unit = std::exp2(-static_cast<double>(bits - 1)), most = std::exp2(bits - 1.0) - 1;
  std::mt19937_64 random(bits);
  std::vector<double> data;
  std::vector<i64> expected;
  for (std::size_t i = 0; i < kSlots; ++i) {
    u64 word = random();
    if (i < 40) word = i - 20;  // numbers around 0, then the ends of the range
    if (i >= 40 && i < 60) word = (u64{1} << (bits - 1)) + i - 50;
    const i64 v = static_cast<i64>(word << (64 - bits)) >> (64 - bits);
    data.push_back(std::min((static_cast<double>(v) + offset) * unit, most * unit)), expected.push_back(v);
  }
  const ckks::Ciphertext x = r.secret.encrypt(values_of({}, kSlots, data), 0, {-1, most * unit});
  const tfhe::Ciphertext y = switching::to_tfhe(x, bits, unit, r.switching, r.keys, r.tfhe_keys);
  EXPECT_EQ(y.type(), (tfhe::Type{false, bits, true}));
  const std::vector<i64> got = decrypted(r, y);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    if (got[i] != expected[i] && wrong++ < 5)
      ADD_FAILURE() << bits << " bits, " << offset << ": " << got[i] << " for " << expected[i];
  EXPECT_EQ(wrong, 0u);
}

TEST(Switching, IntegersOfManyBits) {
  expect_integers(rig(), 2, 0);
  expect_integers(rig(), 4, 0.2);
  expect_integers(rig(), 8, 0.4);
  expect_integers(rig(), 16, 0);
  expect_integers(rig(), 16, 0.4);
}

TEST(Switching, LargeValuesAreRightOrRefused) {
  // The first matrix is multiplied by about q / (values times scale). For large values this factor is small, so the matrix's
  // rounding matters.
  const Rig& r = rig();
  const unsigned bits = 16;
  const double most = std::exp2(bits - 1.0) - 4;
  std::size_t right = 0, refused = 0;
  for (const double unit : {0x1p-8, 1.0, 0x1p8, 0x1p16, 0x1p20}) {
    std::vector<double> data(kSlots);
    std::vector<i64> integers(kSlots), ones(kSlots);
    for (std::size_t i = 0; i < kSlots; ++i) {
      const double v = i < 100 ? static_cast<double>(i % 3) - 1 : (i % 2 == 0 ? most : -most);
      data[i] = v * unit, integers[i] = static_cast<i64>(v), ones[i] = v > 0;
    }
    const ckks::Ciphertext x = r.secret.encrypt(values_of({}, kSlots, data), 0, {-most * unit, most * unit});
    try {
      EXPECT_EQ(decrypted(r, switching::to_tfhe(x, bits, unit, r.switching, r.keys, r.tfhe_keys)), integers) << unit;
      EXPECT_EQ(decrypted(r, switching::compare(x, Relation::greater, bits, unit, r.switching, r.keys, r.tfhe_keys)), ones)
          << unit;
      ++right;
    } catch (const NoiseError& error) {
      EXPECT_NE(std::string(error.what()).find("rounding of the matrices"), std::string::npos) << error.what();
      EXPECT_THROW(switching::compare(x, Relation::greater, bits, unit, r.switching, r.keys, r.tfhe_keys), NoiseError);
      ++refused;
    }
  }
  EXPECT_GE(right, 3u);
  EXPECT_GE(refused, 1u);
}

TEST(Switching, TiesAreRoundedToANeighbour) {
  const Rig& r = rig();
  std::vector<double> data;
  for (std::size_t i = 0; i < kSlots; ++i)  // ties at the carry of every digit, and small steps around 0
    data.push_back(i < 512 ? (static_cast<double>(i) - 255.5) / 1024 : (static_cast<double>(i) - 768) / 64 / 1024);
  const ckks::Ciphertext x = r.secret.encrypt(values_of({}, kSlots, data), 0, {-1, 1 - 0x1p-9});
  const std::vector<i64> got = decrypted(r, switching::to_tfhe(x, 12, 0x1p-10, r.switching, r.keys, r.tfhe_keys));
  for (std::size_t i = 0; i < kSlots; ++i) EXPECT_LE(std::abs(static_cast<double>(got[i]) - data[i] * 1024), 0.52) << i;
}

TEST(Switching, DigitsOfOneBitAndFewSlots) {
  const Rig one({}, 64, 1);
  std::vector<double> data;
  std::vector<i64> expected;
  for (std::size_t i = 0; i < 3 * 50; ++i)
    expected.push_back(static_cast<i64>(i) - 70), data.push_back(static_cast<double>(i) - 70);
  const ckks::Ciphertext x = one.secret.encrypt(values_of({3}, 50, data), 0, {-128, 127});
  const tfhe::Ciphertext y = switching::to_tfhe(x, 8, 0, one.switching, one.keys, one.tfhe_keys);
  EXPECT_EQ(y.shape(), (Shape{3, 50}));
  EXPECT_EQ(decrypted(one, y), expected);
  const ckks::Values back = one.secret.decrypt(switching::to_ckks(y, 1, one.switching, one.keys));
  for (std::size_t i = 0; i < data.size(); ++i) EXPECT_NEAR(back.data[i].real(), data[i], 0.02);
}

TEST(Switching, ComputesBetweenAndReturns) {
  const Rig& r = rig();
  std::mt19937_64 random(5);
  std::vector<double> data;
  for (std::size_t i = 0; i < 2 * 300; ++i) data.push_back(static_cast<double>(static_cast<std::int8_t>(random())) / 128);
  const ckks::Ciphertext x = r.secret.encrypt(values_of({2}, 300, data), 0, {-1, 127.0 / 128});
  const tfhe::Ciphertext y = switching::to_tfhe(x, 8, 0x1p-7, r.switching, r.keys, r.tfhe_keys);
  const tfhe::Ciphertext negative =
      tfhe::compute(r.tfhe_keys, {.name = "less"}, {y, tfhe::trivial(r.tfhe_keys, {0}, {}, y.type())})[0];
  const ckks::Ciphertext sign = switching::to_ckks(negative, 1, r.switching, r.keys);
  const ckks::Ciphertext same = switching::to_ckks(y, 0x1p-7, r.switching, r.keys);
  EXPECT_EQ(sign.shape(), (Shape{2}));
  const ckks::Values signs = r.secret.decrypt(sign), values = r.secret.decrypt(same);
  double worst_sign = 0, worst = 0;
  for (std::size_t i = 0; i < data.size(); ++i) {
    worst_sign = std::max(worst_sign, std::abs(signs.data[i].real() - (data[i] < 0)));
    worst = std::max(worst, std::abs(values.data[i].real() - data[i]));
  }
  const auto claimed = [](const ckks::Ciphertext& c) { return std::exp2(c.data().noise.assumed) / c.data().scale; };
  std::printf("signs: error 2^%.2f, bound 2^%.2f; integers: error 2^%.2f, bound 2^%.2f\n", std::log2(worst_sign),
              std::log2(claimed(sign)), std::log2(worst), std::log2(claimed(same)));
  EXPECT_LT(worst_sign, claimed(sign) / 4);
  EXPECT_LT(worst, claimed(same) / 4);
  EXPECT_LT(std::max(claimed(sign), claimed(same)), 0x1p-6);
}

TEST(Switching, FilesHoldTheKeys) {
  const Rig& r = rig();
  Bytes bytes = r.switching.to_bytes();
  const switching::Keys read = switching::Keys::from_bytes(bytes);
  EXPECT_EQ(read.ckks_key_id(), r.secret.key_id());
  EXPECT_EQ(read.tfhe_key_id(), r.tfhe_secret.key_id());
  EXPECT_EQ(read.bytes(), r.switching.bytes());
  const RnsTensor x = uniform(r, 1);
  EXPECT_TRUE(words_of(r.pair().to_wide(x, read.data().to_wide)) ==
              words_of(r.pair().to_wide(x, r.switching.data().to_wide)));
  for (const auto& [galois, key] : r.switching.data().packing)
    EXPECT_TRUE(words_of(read.data().packing.at(galois).pairs()) == words_of(key.pairs()));
  bytes[bytes.size() / 2] ^= std::byte{1};
  EXPECT_THROW(switching::Keys::from_bytes(bytes), DamagedFileError);
  EXPECT_THROW(switching::Keys::from_bytes(r.tfhe_keys.to_bytes()), FormatError);
}

TEST(Switching, RefusesWhatDoesNotBelongTogether) {
  const Rig& r = rig();
  const auto to_tfhe = [&](const ckks::Ciphertext& x, unsigned bits = 8, double unit = 0) {
    return switching::to_tfhe(x, bits, unit, r.switching, r.keys, r.tfhe_keys);
  };
  const ckks::Values ones = values_of({}, kSlots, std::vector<double>(kSlots, 1));
  const ckks::Ciphertext x = r.secret.encrypt(ones, 0, {-1, 1});
  const ckks::SecretKey stranger = ckks::SecretKey::generate(r.ckks);
  EXPECT_THROW(to_tfhe(stranger.encrypt(ones, 0, {-1, 1})), WrongKeyError);
  EXPECT_THROW(switching::to_tfhe(x, 8, 0, r.switching, stranger.evaluation_keys(true, {}, true, true), r.tfhe_keys),
               WrongKeyError);
  EXPECT_THROW(switching::to_tfhe(x, 8, 0, r.switching, r.secret.evaluation_keys(true, {}, true), r.tfhe_keys),
               MissingKeyError);
  const tfhe::SecretKey other = tfhe::SecretKey::generate(r.tfhe);
  EXPECT_THROW(switching::to_tfhe(x, 8, 0, r.switching, r.keys, other.evaluation_keys()), WrongKeyError);
  const tfhe::SecretKey small = tfhe::SecretKey::generate(tfhe::Parameters(test::small_tfhe(1)));
  EXPECT_THROW(switching::to_tfhe(x, 8, 0, r.switching, r.keys, small.evaluation_keys()), MismatchError);
  EXPECT_THROW(switching::to_ckks(other.encrypt({1}, {1}, {}), 1, r.switching, r.keys), WrongKeyError);
  EXPECT_THROW(switching::to_ckks(small.encrypt({1}, {1}, {}), 1, r.switching, r.keys), MismatchError);
  const tfhe::Ciphertext y = r.tfhe_secret.encrypt({1}, {1}, {});
  EXPECT_THROW(switching::to_ckks(y, 1, r.switching, stranger.evaluation_keys(true, {}, true, true)), WrongKeyError);
  EXPECT_THROW(switching::to_ckks(y, 0, r.switching, r.keys), ParameterError);
  EXPECT_THROW(switching::to_ckks(tfhe::reshape(y, {}), 1, r.switching, r.keys), ShapeError);

  EXPECT_THROW(to_tfhe(ckks::lower(x, 2)), LevelError);
  EXPECT_THROW(to_tfhe(ckks::multiply_i(x)), DtypeError);
  EXPECT_THROW(to_tfhe(x, 7), DtypeError);
  EXPECT_THROW(to_tfhe(x, 40), DtypeError);
  EXPECT_THROW(to_tfhe(x, 8, 0x1p-7), PlaintextRangeError);  // values up to 128 units exceed 8-bit integers
  EXPECT_THROW(to_tfhe(x, 24), NoiseError);
  EXPECT_THROW(to_tfhe(x, 16, -1), ParameterError);
  const auto compare = [&](const ckks::Ciphertext& c, unsigned bits = 8, double unit = 0) {
    return switching::compare(c, Relation::less, bits, unit, r.switching, r.keys, r.tfhe_keys);
  };
  EXPECT_THROW(compare(stranger.encrypt(ones, 0, {-1, 1})), WrongKeyError);
  EXPECT_THROW(compare(ckks::lower(x, 2)), LevelError);
  EXPECT_THROW(compare(ckks::multiply_i(x)), DtypeError);
  EXPECT_THROW(compare(x, 8, 0x1p-7), PlaintextRangeError);
  EXPECT_THROW(compare(x, 24), NoiseError);
  EXPECT_THROW(compare(x, 60), NoiseError);
  EXPECT_THROW(compare(x, 16, -1), ParameterError);
}

TEST(Switching, RefusesSetsThatCannotSwitch) {
  const auto refuses = [](const ckks::Spec& c, const tfhe::Spec& t) {
    switching::Context(ckks::Parameters(c).context(), tfhe::Parameters(t).context());
  };
  const ckks::Spec good = rig().ckks.spec();
  EXPECT_THROW(refuses(good, test::small_tfhe()), ParameterError);  // TFHE set for booleans
  EXPECT_THROW(refuses(ckks::named_spec("n13-l4"), test::small_tfhe(2)), ParameterError);
  EXPECT_THROW(refuses(ckks::make_bootstrapping_spec(kN, 4, 47, 58, 2, 32, true), test::small_tfhe(2)), ParameterError);
  tfhe::Spec wide = test::small_tfhe(2);
  wide.k = 3;
  EXPECT_THROW(refuses(good, wide), ParameterError);
  wide.k = 2;
  EXPECT_THROW(refuses(good, wide), ParameterError);  // LWE dimension equal to N
}

TEST(Switching, FailureIsImprobable) { EXPECT_LT(switching::log2_failure(rig().switching, 16), -128); }

}  // namespace
}  // namespace heliograph
