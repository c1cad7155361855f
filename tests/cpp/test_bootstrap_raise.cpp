// The step of bootstrapping from the lowest to the highest modulus, computed in integers. Checks the multiples of q that
// raising adds, their distribution, and the sine's result inside and outside its range. The test knows the keys' sparse
// secret.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <random>

#include "heliograph/ckks.h"
#include "schemes/ckks/bootstrapping.h"
#include "schemes/ckks/spec.h"

namespace heliograph {
namespace {

using ckks::Bootstrapper;
using ckks::Ciphertext;
using ckks::Context;
using ckks::EvaluationKeys;
using ckks::Parameters;
using ckks::SecretKey;
using ckks::Values;
using math::Domain;
using math::i128;
using math::i64;
using math::u128;
using math::u64;
using ring::RnsTensor;
using Integers = std::vector<i64>;
using Words = std::vector<u64>;

constexpr std::size_t kN = 2048, kSlots = kN / 2;

rlwe::Key256 seed(unsigned char what) {
  rlwe::Key256 key{};
  key[0] = what;
  return key;
}

/// Words as [items][components][limbs][N].
Words words_of(const RnsTensor& x) {
  const SecretVector<std::byte> bytes = ring::download_secret(x);
  Words words(bytes.size() / sizeof(u64));
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

/// Uploads coefficients as one component in the NTT domain; each limb has the residues modulo its prime.
RnsTensor uploaded(Context& c, const Integers& coefficients, const device::PrimeList& primes) {
  const RnsTensor x(c.rlwe().engine(), {}, 1, primes, Domain::coefficient);
  Words words;
  for (const u64 p : c.rlwe().moduli(primes))
    for (const i64 v : coefficients) words.push_back(math::signed_mod(v, p));
  ring::upload(x, std::as_bytes(std::span(words)));
  return ring::to_domain(x, Domain::ntt);
}

Values random_values(std::size_t items, u64 from) {
  std::mt19937_64 random(from);
  const auto number = [&] { return 0.7 * (std::ldexp(static_cast<double>(random() >> 11), -52) - 1); };
  Values v{.data = {}, .shape = {items}, .width = kSlots, .complex = true};
  for (std::size_t i = 0; i < items * kSlots; ++i) {
    const double re = number(), im = number();
    v.data.emplace_back(re, im);
  }
  return v;
}

/// Returns the density of a sum of `terms` (an odd number) uniforms on [-1/2, 1/2] at the integers from -(terms - 1) / 2 on,
/// by the recurrence of B-splines. The density at an integer is the probability that a sum of terms - 1 uniforms rounds to
/// that integer.
std::vector<double> uniform_sum(std::size_t terms) {
  std::vector<double> now = {1};
  for (std::size_t m = 2; m <= terms; ++m) {
    std::vector<double> next(m);
    for (std::size_t i = 0; i < m; ++i) {
      const double up = static_cast<double>(i) + 0.5, down = static_cast<double>(m) - up;
      next[i] = ((i < m - 1 ? up * now[i] : 0) + (i > 0 ? down * now[i - 1] : 0)) / static_cast<double>(m - 1);
    }
    now = std::move(next);
  }
  return now;
}

/// Returns the number between 0 and 2^126 that has these residues. There are more residues than necessary, and all must
/// agree.
i128 joined(const Words& residues, const Words& moduli) {
  const u64 a = moduli[0], b = moduli[1], c = moduli[2];
  const u64 second = math::mul_mod(math::sub_mod(residues[1], residues[0] % b, b), math::inverse_mod(a % b, b), b);
  const u64 so_far = static_cast<u64>((u128{second} * a + residues[0]) % c);
  const u64 third =
      math::mul_mod(math::sub_mod(residues[2], so_far, c), math::inverse_mod(math::mul_mod(a % c, b % c, c), c), c);
  if (std::log2(static_cast<double>(a)) + std::log2(static_cast<double>(b)) + std::log2(static_cast<double>(third) + 1) >
      126) {
    ADD_FAILURE() << "the residues are those of no number below 2^126";
    return 0;
  }
  const u128 number = (u128{third} * b + second) * a + residues[0];
  for (std::size_t l = 3; l < moduli.size(); ++l) EXPECT_EQ(residues[l], static_cast<u64>(number % moduli[l])) << l;
  return static_cast<i128>(number);
}

class BootstrapRaise : public testing::Test {
 protected:
  BootstrapRaise()
      : parameters_(ckks::make_bootstrapping_spec(kN, 3, 39, 49.9, 3, 64, true)),
        secret_(SecretKey::generate_for_test(parameters_, "thirty-two bytes of another seed")) {}

  Context& context() { return *parameters_.context(); }
  const Bootstrapper& how() { return context().bootstrapper(); }
  const rlwe::SecretKey& dense() { return secret_.data().key; }
  u64 q() { return context().rlwe().moduli(how().low())[0]; }

  rlwe::SecretKey new_sparse(std::size_t weight = ckks::kSparseWeight) {
    return rlwe::SecretKey::generate_sparse(context().rlwe_shared(), weight, entropy_);
  }
  rlwe::SwitchKey to_sparse(const rlwe::SecretKey& sparse) {
    const rlwe::KeyLayout layout = how().layouts().to_sparse;
    return ckks::one_digit_key(sparse, ring::limbs_of(dense().transformed(), layout.primes), layout,
                               how().to_sparse_special(), entropy_);
  }
  rlwe::SwitchKey first_matrix(const rlwe::SecretKey& sparse) {
    return ckks::first_matrix_key(context(), dense(), sparse, how(), entropy_);
  }
  /// Switches x at the lowest level to the sparse key. The result is the ciphertext to be raised.
  RnsTensor switched(const RnsTensor& x, const rlwe::SwitchKey& key) {
    ring::Engine& e = context().engine();
    const auto plan =
        context().rlwe().own_switch_plan(how().low(), how().to_sparse_special(), how().low(), key.layout().primes);
    const RnsTensor pairs = key.pairs();
    const RnsTensor low(context().rlwe().engine(), x.shape(), 2, x.primes(), Domain::ntt);
    e.enqueue(device::KeySwitch{plan, Domain::ntt, x.with_components(1, 1).view(), pairs.view(),
                                x.with_components(0, 1).view(), low.view()});
    return low;
  }
  /// Returns residues modulo q, centred.
  Integers integers(const RnsTensor& x) {
    const Words words = words_of(ring::to_domain(x, Domain::coefficient));
    Integers out;
    for (const u64 w : words) out.push_back(math::centered(w, q()));
    return out;
  }
  /// Returns c_0 + c_1 s of an item over the integers, not reduced.
  static Integers raised_phase(const Integers& low, std::size_t item, const rlwe::SecretKey& sparse) {
    const i64 *c0 = &low[item * 2 * kN], *c1 = c0 + kN;
    Integers sum(c0, c0 + kN);
    for (std::size_t k = 0; k < kN; ++k) {
      const i64 s = sparse.coefficients()[k];
      for (std::size_t i = 0; s != 0 && i < kN; ++i) sum[(i + k) % kN] += i + k < kN ? s * c1[i] : -s * c1[i];
    }
    return sum;
  }
  i64 residue(i64 phase) { return math::centered(math::signed_mod(phase, q()), q()); }
  /// Returns the integer I of a phase m + q I.
  i64 times(i64 phase) { return (phase - residue(phase)) / static_cast<i64>(q()); }

  const Parameters parameters_;
  const SecretKey secret_;
  rlwe::Entropy entropy_{seed(1)};
};

// The raised ciphertext is already multiplied by the first matrix. P_0 times the result must equal the rounded diagonals of
// the matrix applied to m + q I, up to the rounding of one division.
TEST_F(BootstrapRaise, IsExactInIntegers) {
  ASSERT_EQ(how().low().size(), 1u);
  const rlwe::SecretKey sparse = new_sparse();
  const rlwe::BootstrappingKeys keys{to_sparse(sparse), first_matrix(sparse), {}};
  const RnsTensor x = secret_.encrypt(random_values(2, 1), 1, 1).data().tensor;
  const Integers low = integers(switched(x, keys.to_sparse)), before = integers(rlwe::phase(dense(), x));
  const RnsTensor out = context().bootstrapping().raise(x, keys);
  const device::PrimeList extended = how().layouts().first_matrix.primes, raised = how().raised();
  const std::vector<u64> moduli = context().rlwe().moduli(raised), all = context().rlwe().moduli(extended);
  const Words phase = words_of(rlwe::phase(dense(), out));
  const Words diagonals = words_of(ring::to_domain(how().first_diagonals(context(), raised), Domain::coefficient));
  const std::vector<u64> galois = how().first_galois();
  double to_sparse_special = 1;
  for (const u64 p : context().rlwe().moduli(how().to_sparse_special())) to_sparse_special *= static_cast<double>(p);
  for (std::size_t item = 0; item < 2; ++item) {
    const Integers whole = raised_phase(low, item, sparse);
    i64 most = 0, noise = 0;
    for (std::size_t i = 0; i < kN; ++i) {
      most = std::max(most, std::abs(times(whole[i])));
      noise = std::max(noise, std::abs(residue(whole[i]) - before[item * kN + i]));
    }
    EXPECT_GE(most, 3);
    EXPECT_LE(most, 16);
    // The bound is the key's error times a mask below q / 2, at eight deviations, plus 16. The largest sum of 33 rounding
    // errors is 16.
    EXPECT_LE(noise, 8 * 3.2 * std::sqrt(kN / 12.0) * static_cast<double>(q()) / to_sparse_special + 16);
    std::vector<Integers> turned;
    for (const u64 g : galois) {
      Integers t(kN);
      for (std::size_t k = 0; k < kN; ++k) {
        const std::size_t to = k * g % (2 * kN);
        t[to % kN] = to < kN ? whole[k] : -whole[k];
      }
      turned.push_back(std::move(t));
    }
    double special = 1;  // P_0
    for (std::size_t l = moduli.size(); l < all.size(); ++l) special *= static_cast<double>(all[l]);
    const i128 offset = static_cast<i128>(special * 256);
    double largest = 0;
    for (std::size_t at = 5; at < kN; at += 97) {
      Words off;  // P_0 times the result, minus the model, plus an offset that makes it positive
      for (std::size_t l = 0; l < moduli.size(); ++l) {
        const u64 p = moduli[l];
        u64 model = 0;
        for (std::size_t d = 0; d < galois.size(); ++d) {
          const u64* diagonal = &diagonals[(d * moduli.size() + l) * kN];
          u128 sum = 0;  // sum of products below 2^116
          for (std::size_t i = 0; i < kN; ++i) {
            const i64 v = i <= at ? turned[d][at - i] : -turned[d][at + kN - i];
            sum += u128{diagonal[i]} * math::signed_mod(v, p);
          }
          model = math::add_mod(model, static_cast<u64>(sum % p), p);
        }
        u64 got = phase[(item * moduli.size() + l) * kN + at];
        for (std::size_t s = moduli.size(); s < all.size(); ++s) got = math::mul_mod(got, all[s] % p, p);
        off.push_back(math::add_mod(math::sub_mod(got, model, p), static_cast<u64>(offset % static_cast<i128>(p)), p));
      }
      largest = std::max(largest, std::abs(static_cast<double>(joined(off, moduli) - offset)) / special);
    }
    EXPECT_LE(largest, 64);  // six deviations of the rounding error under a dense key
  }
}

// I has the distribution of a rounded sum of 32 uniforms, as docs/bootstrapping-security.md states.
TEST_F(BootstrapRaise, AddsMultiplesWithTheStatedDistribution) {
  const std::vector<double> law = uniform_sum(ckks::kSparseWeight + 1);
  const auto often = [&](int i) { return law[static_cast<std::size_t>(i + 16)]; };
  EXPECT_NEAR(std::log2(0x1p16 * 2 * often(16)), -132.7, 0.05);
  EXPECT_NEAR(std::log2(0x1p16 * 2 * (often(15) + often(16))), -81.9, 0.05);
  constexpr std::size_t items = 48;
  constexpr int tail = 6;
  const RnsTensor x = secret_.encrypt(random_values(items, 2), 1, 1).data().tensor;
  const auto distance = [&](std::size_t weight) {
    const rlwe::SecretKey sparse = new_sparse(weight);
    const Integers low = integers(switched(x, to_sparse(sparse)));
    std::array<double, 2 * tail + 1> found{};
    for (std::size_t item = 0; item < items; ++item) {
      for (const i64 v : raised_phase(low, item, sparse)) {
        EXPECT_LE(std::abs(times(v)), static_cast<i64>(weight / 2));
        found[static_cast<std::size_t>(std::clamp<i64>(times(v), -tail, tail) + tail)] += 1;
      }
    }
    double sum = 0;  // chi squared with 12 degrees of freedom
    for (int i = -tail; i <= tail; ++i) {
      double p = often(i);
      for (int more = tail + 1; std::abs(i) == tail && more <= 16; ++more) p += often(more);
      const double wanted = p * static_cast<double>(items * kN), off = found[static_cast<std::size_t>(i + tail)] - wanted;
      sum += off * off / wanted;
    }
    return sum;
  };
  EXPECT_LE(distance(ckks::kSparseWeight), 45);
  EXPECT_GE(distance(ckks::kSparseWeight - 2), 120);  // the test detects other distributions
  EXPECT_GE(distance(ckks::kSparseWeight + 2), 120);
}

/// Evaluates the polynomial of sine.inc on clear numbers: it is close to sin(2 pi u) within its range.
double sine(double u) {
  const double y = (u - ckks::kSineShift - 0.25) / ckks::kSineRange, w = 2 * y * y - 1;
  double b = 0, before = 0;
  for (std::size_t k = ckks::kSineCoefficients.size(); k-- > 1;) {
    const double next = 2 * w * b - before + ckks::kSineCoefficients[k];
    before = b, b = next;
  }
  double c = w * b - before + ckks::kSineCoefficients[0];
  for (int i = 0; i < ckks::kSineDoublings; ++i) c = 2 * c * c - 1;
  return c;
}

// Makes I of one coefficient a value that random keys give only once in 2^130 ciphertexts. The test forges the key to the
// sparse secret so that this key gives the mask for this I.
TEST_F(BootstrapRaise, ErrsAsTheSinePolynomialBeyondItsRange) {
  const EvaluationKeys keys = secret_.evaluation_keys(true, {}, true, true);
  const rlwe::SecretKey sparse = new_sparse();
  const rlwe::SwitchKey first = first_matrix(sparse);
  const Values v = random_values(1, 3);
  const Ciphertext x = secret_.encrypt(v, parameters_.bootstrapping_level(), 1);
  RnsTensor t = x.data().tensor;
  for (const ckks::LinearSum& sum : context().bootstrapping().to_coefficients(1)) t = apply(sum, t, keys);
  const Integers m = integers(rlwe::phase(dense(), t));
  const Words c = words_of(t);
  const rlwe::KeyLayout layout = how().layouts().to_sparse;
  const device::PrimeList low = how().low();
  u64 special = 1;
  for (const u64 p : context().rlwe().moduli(how().to_sparse_special())) special = math::mul_mod(special, p % q(), q());
  const double rho = static_cast<double>(q()) / context().scale(1);
  ASSERT_GE(rho, 0x1p10);  // above this ratio, `bootstrap` does not scale its input

  const auto error_at = [&](std::size_t at, i64 wanted) {
    std::mt19937_64 random(4);
    Integers mask(kN), body(kN);
    for (i64& a : mask) a = math::centered(random() % q(), q());
    i64 left = 2 * wanted;  // twice the phase divided by q
    for (std::size_t k = 0; k < kN; ++k) {
      const int s = sparse.coefficients()[k];
      if (s == 0) continue;
      const i64 turn = k <= at ? s : -s, half = (left > 0) - (left < 0);
      mask[(at + kN - k) % kN] = turn * half * static_cast<i64>(q() / 2);
      left -= half;
    }
    Integers made(mask);
    made.insert(made.begin(), kN, 0);
    const Integers product = raised_phase(made, 0, sparse);
    for (std::size_t i = 0; i < kN; ++i) body[i] = residue(m[i] - residue(product[i]));
    std::copy(body.begin(), body.end(), made.begin());
    EXPECT_EQ(times(raised_phase(made, 0, sparse)[at]), wanted);
    // The forged pair of the key, times the mask of t and divided by the special primes, gives the wanted mask and the rest
    // of the body.
    const Words to_mask = words_of(uploaded(context(), mask, low)), to_body = words_of(uploaded(context(), body, low));
    const std::size_t limbs = layout.primes.size();
    Words pair(2 * limbs * kN);
    for (std::size_t i = 0; i < kN; ++i) {
      const u64 by = math::mul_mod(special, math::inverse_mod(c[kN + i], q()), q());
      pair[i] = math::mul_mod(math::sub_mod(to_body[i], c[i], q()), by, q());
      pair[limbs * kN + i] = math::mul_mod(to_mask[i], by, q());
    }
    const RnsTensor pairs(context().rlwe().engine(), {}, 2, layout.primes, Domain::ntt);
    ring::upload(pairs, std::as_bytes(std::span(pair)));
    auto data = std::make_shared<ckks::EvaluationKeysData>(keys.data());
    data->keys.bootstrapping.emplace(
        rlwe::BootstrappingKeys{rlwe::SwitchKey(seed(2), pairs), first, keys.data().keys.bootstrapping->to_coefficients});

    EXPECT_EQ(integers(switched(t, data->keys.bootstrapping->to_sparse)), made);

    const Values got = secret_.decrypt(bootstrap(x, EvaluationKeys(data)));
    std::size_t slot = 0;  // index of the slot that holds this coefficient
    for (std::size_t bit = 1; bit < kSlots; bit *= 2) slot = slot * 2 + (at % kSlots / bit) % 2;
    const auto part = [&](std::complex<double> z) { return at < kSlots ? z.real() : z.imag(); };
    double worst = 0;
    for (std::size_t i = 0; i < kSlots; ++i) {
      const std::complex<double> off = got.data[i] - v.data[i];
      if (i != slot) worst = std::max({worst, std::abs(off.real()), std::abs(off.imag())});
    }
    EXPECT_LE(worst, 0x1p-18) << wanted;  // the bound holds for all other slots
    const double u = static_cast<double>(wanted) + static_cast<double>(m[at]) / static_cast<double>(q());
    const double predicted = sine(u) * rho / (2 * std::numbers::pi) - part(v.data[slot]);
    EXPECT_NEAR(part(got.data[slot] - v.data[slot]), predicted, 0x1p-17);
    return part(got.data[slot] - v.data[slot]);
  };
  for (const i64 covered : {0, 3, 15, -15}) EXPECT_LE(std::abs(error_at(7, covered)), 0x1p-18);
  // Expected errors of the sine polynomial, computed by NumPy's chebval from the coefficients in sine.inc.
  EXPECT_NEAR(error_at(7, 16), -1.616e-6 * rho / (2 * std::numbers::pi), 0x1p-17);
  EXPECT_NEAR(error_at(kSlots + 9, 16), -1.616e-6 * rho / (2 * std::numbers::pi), 0x1p-17);
  EXPECT_NEAR(error_at(kN - 1, -16), -4.671e-5 * rho / (2 * std::numbers::pi), 0x1p-15);
}

}  // namespace
}  // namespace heliograph
