// Modular arithmetic, primes, rings and the order of the NTT follow their definitions.
#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <set>

#include "base/checked.h"
#include "math/primes.h"
#include "math/ring.h"
#include "math/roots.h"
#include "op_cases.h"

namespace heliograph::test {

namespace {

using math::i64;

TEST(Modulus, SmallValuesAgainstIntegers) {
  for (const u64 q : {u64{2}, u64{3}, u64{17}, u64{256}}) {
    for (u64 a = 0; a < q; ++a) {
      EXPECT_EQ(math::add_mod(a, math::neg_mod(a, q), q), 0u);
      for (u64 b = 0; b < q; ++b) {
        EXPECT_EQ(math::add_mod(a, b, q), (a + b) % q);
        EXPECT_EQ(math::sub_mod(a, b, q), (a + q - b) % q);
        EXPECT_EQ(math::mul_mod(a, b, q), a * b % q);
      }
    }
  }
}

TEST(Modulus, LargeValuesDoNotWrap) {
  const u64 q = ~u64{0} - 58;  // the prime 2^64 - 59
  EXPECT_EQ(math::add_mod(q - 1, q - 1, q), q - 2);
  EXPECT_EQ(math::sub_mod(0, q - 1, q), 1u);
  EXPECT_EQ(math::mul_mod(q - 1, q - 1, q), 1u);
  EXPECT_EQ(math::pow_mod(3, q - 1, q), 1u);
  EXPECT_EQ(math::mul_mod(math::inverse_mod(12345, q), 12345, q), 1u);
}

TEST(Modulus, InverseExistsOrThrows) {
  for (u64 a = 0; a < 60; ++a) {
    if (std::gcd(a, u64{60}) == 1) {
      EXPECT_EQ(math::inverse_mod(a, 60) * a % 60, 1u);
    } else {
      EXPECT_THROW(math::inverse_mod(a, 60), ParameterError);
    }
  }
}

TEST(Modulus, SignedAndCentred) {
  EXPECT_EQ(math::signed_mod(-1, 7), 6u);
  EXPECT_EQ(math::signed_mod(-7, 7), 0u);
  EXPECT_EQ(math::signed_mod(15, 7), 1u);
  EXPECT_EQ(math::signed_mod(std::numeric_limits<i64>::min(), 3), 1u);  // -2^63 = -2 mod 3
  for (u64 a = 0; a < 7; ++a) EXPECT_EQ(math::signed_mod(math::centered(a, 7), 7), a);
  EXPECT_EQ(math::centered(3, 7), 3);
  EXPECT_EQ(math::centered(4, 7), -3);
  EXPECT_EQ(math::centered(4, 8), 4);
  EXPECT_EQ(math::centered(1, 2), 1);
}

TEST(Modulus, ReversedBits) {
  EXPECT_EQ(math::reverse_bits(0b0011, 4), 0b1100u);
  EXPECT_EQ(math::reverse_bits(1, 17), u64{1} << 16);
  for (u64 i = 0; i < 64; ++i) EXPECT_EQ(math::reverse_bits(math::reverse_bits(i, 6), 6), i);
}

TEST(Checked, SizesThatWrapAreRefused) {
  const std::size_t half = std::size_t{1} << 63;
  EXPECT_EQ(checked_product(3, std::size_t{5}, std::size_t{7}), 105u);
  EXPECT_EQ(checked_add(half, half - 1), ~std::size_t{0});
  EXPECT_THROW(checked_add(half, half), OutOfMemoryError);
  EXPECT_THROW(checked_mul(half, 2), OutOfMemoryError);
  EXPECT_THROW(checked_product(std::size_t{1} << 32, std::size_t{1} << 31, std::size_t{2}), OutOfMemoryError);
}

TEST(Primes, AgreeWithTrialDivision) {
  for (u64 n = 0; n < 5000; ++n) {
    bool prime = n > 1;
    for (u64 d = 2; d * d <= n; ++d) prime = prime && n % d != 0;
    EXPECT_EQ(math::is_prime(n), prime) << n;
  }
}

TEST(Primes, KnownLargeValues) {
  for (const u64 p : {(u64{1} << 61) - 1, u64{0xffffffff00000001}, ~u64{0} - 58}) EXPECT_TRUE(math::is_prime(p)) << p;
  // Composite numbers: strong pseudoprimes to many small bases, and a square of a prime.
  for (const u64 c : {u64{3215031751}, u64{3825123056546413051}, u64{4294967291} * 4294967291})
    EXPECT_FALSE(math::is_prime(c)) << c;
}

TEST(Primes, LargestAreTheLargest) {
  const std::vector<u64> found = math::largest_primes(20, 4, 2048);
  std::vector<u64> expected;
  for (u64 p = (u64{1} << 20) - 1; expected.size() < 4; --p) {
    if (p % 2048 == 1 && math::is_prime(p)) expected.push_back(p);
  }
  EXPECT_EQ(found, expected);
  const std::vector<u64> next = math::largest_primes(20, 1, 2048, {expected[0], expected[2]});
  EXPECT_EQ(next[0], expected[1]);
}

TEST(Primes, TooManyOrImpossibleAreRefused) {
  EXPECT_THROW(math::largest_primes(20, 1000, 2048), ParameterError);
  EXPECT_THROW(math::largest_primes(10, 1, 2048), ParameterError);
  EXPECT_THROW(math::largest_primes(61, 1, 2048), ParameterError);
  EXPECT_THROW(math::largest_primes(1, 1, 2), ParameterError);
  EXPECT_THROW(math::prime_chain(1024, 1, 30), ParameterError);
  EXPECT_THROW(math::prime_chain(1 << 17, 15, 30), ParameterError);
}

TEST(Primes, AChainHasTheRequestedLength) {
  for (const int log_q : {27, 109, 218, 438, 881}) {
    for (const int bits : {30, 50, 60}) {
      const std::vector<u64> chain = math::prime_chain(4096, log_q, bits);
      EXPECT_EQ(chain.size(), static_cast<std::size_t>((log_q + bits - 1) / bits));
      double log = 0;
      for (const u64 p : chain) {
        EXPECT_EQ(p % 8192, 1u);
        EXPECT_LT(p, u64{1} << bits);
        log += std::log2(static_cast<double>(p));
      }
      EXPECT_LE(log, log_q);
      EXPECT_GT(log, log_q - 1);
      EXPECT_TRUE(std::is_sorted(chain.rbegin(), chain.rend()));
      EXPECT_EQ(std::set<u64>(chain.begin(), chain.end()).size(), chain.size());
    }
  }
}

TEST(Primes, TheRootIsTheSmallest) {
  for (const u64 order : {u64{2}, u64{8}, u64{64}}) {
    for (const u64 q : math::largest_primes(14, 3, 64)) {
      u64 smallest = 1;  // brute force: only for elements of this order is the power order / 2 equal to -1
      while (math::pow_mod(smallest, order / 2, q) != q - 1) ++smallest;
      EXPECT_EQ(math::smallest_primitive_root(order, q), smallest);
    }
  }
  EXPECT_THROW(math::smallest_primitive_root(64, 17), ParameterError);
  EXPECT_THROW(math::smallest_primitive_root(6, 13), ParameterError);
}

TEST(Ring, RefusesImpossibleRings) {
  const auto make = [](std::size_t n, Word w, std::vector<u64> primes) { return math::Ring(n, w, std::move(primes)); };
  const u64 p30 = math::largest_primes(30, 1, 2048)[0], p31 = math::largest_primes(31, 1, 2048)[0];
  EXPECT_NO_THROW(make(1024, Word::w32, {p30}));
  EXPECT_NO_THROW(make(1024, Word::w64, {p31, p30}));
  EXPECT_NO_THROW(make(2, Word::w32, {5}));
  EXPECT_THROW(make(1024, Word::w32, {p31}), ParameterError);  // the prime is too large for the word
  EXPECT_THROW(make(1024, Word::w64, {(u64{1} << 60) + 33 * 2048 + 1}), ParameterError);
  EXPECT_THROW(make(1000, Word::w32, {p30}), ParameterError);  // 1000 is not a power of two
  EXPECT_THROW(make(1, Word::w32, {p30}), ParameterError);
  EXPECT_THROW(make(0, Word::w32, {p30}), ParameterError);
  EXPECT_THROW(make(std::size_t{1} << 18, Word::w64, {}), ParameterError);
  EXPECT_THROW(make(1024, Word::w32, {p30, p30}), ParameterError);  // a duplicate prime
  EXPECT_THROW(make(1024, Word::w32, {2049}), ParameterError);      // 3 * 683
  EXPECT_THROW(make(1024, Word::w32, {p30 + 2}), ParameterError);   // p30 + 2 is not 1 modulo 2n
  EXPECT_THROW(make(1024, Word::w32, {1}), ParameterError);
  EXPECT_THROW(make(1024, Word::w32, std::vector<u64>(1024, p30)), ParameterError);
}

TEST(Ring, RowsAreOfAnyMultipleOf64AndOfAnyPrimes) {
  const auto make = [](std::size_t n, Word w, std::vector<u64> primes) { return math::Ring::rows(n, w, std::move(primes)); };
  const math::Ring rows = make(400'000, Word::w32, {7, 2, (u64{1} << 30) - 35});
  EXPECT_FALSE(rows.transforms());
  EXPECT_EQ(rows.n(), 400'000U);
  EXPECT_EQ(rows.prime(2), (u64{1} << 30) - 35);
  EXPECT_TRUE(math::Ring(2, Word::w32, {5}).transforms());
  EXPECT_THROW(make(1000, Word::w32, {7}), ParameterError);
  EXPECT_THROW(make(0, Word::w32, {7}), ParameterError);
  EXPECT_THROW(make((std::size_t{1} << 20) + 64, Word::w32, {7}), ParameterError);
  EXPECT_THROW(make(64, Word::w32, {9}), ParameterError);
  EXPECT_THROW(make(64, Word::w32, {7, 7}), ParameterError);
  EXPECT_THROW(make(64, Word::w32, {(u64{1} << 31) - 1}), ParameterError);
}

/// Returns the value sum_j a_j x^j mod q of a polynomial.
u64 value_at(const std::vector<u64>& a, u64 x, u64 q) {
  u64 sum = 0;
  for (std::size_t j = a.size(); j-- > 0;) sum = math::add_mod(math::mul_mod(sum, x, q), a[j], q);
  return sum;
}

/// Runs kernels of `ref` on polynomials that have one limb.
class Ref {
 public:
  Ref(const Field& field, std::size_t n)
      : target_(open_target("ref")), ring_(ring_of(field, n, 2)), queue_(target_.device->make_queue()) {
    prepared_ = kernels().prepare(ring_);
  }
  Kernels& kernels() { return target_.device->kernels(); }
  const math::Ring& ring() const { return *ring_; }
  u64 q() const { return ring_->prime(1); }

  using Step = std::function<void(device::Queue&, const device::RingHandle&, PrimeList, const View&, const View&)>;
  std::vector<u64> apply(const std::vector<u64>& in, const Step& step) {
    const std::size_t n = ring_->n(), bytes = n * math::word_bytes(ring_->word());
    const device::Buffer a = target_.device->allocate(bytes, *queue_), b = target_.device->allocate(bytes, *queue_);
    const View va = View::dense(a->address(), ring_->word(), {}, 1, 1, n),
               vb = View::dense(b->address(), ring_->word(), {}, 1, 1, n);
    const bool narrow = ring_->word() == Word::w32;
    for (std::size_t i = 0; i < n; ++i)
      narrow ? void(va.at<u32>(0, 0, 0)[i] = static_cast<u32>(in[i])) : void(va.at<u64>(0, 0, 0)[i] = in[i]);
    step(*queue_, prepared_, {1}, va, vb);
    std::vector<u64> out(n);
    for (std::size_t i = 0; i < n; ++i) out[i] = narrow ? vb.at<u32>(0, 0, 0)[i] : vb.at<u64>(0, 0, 0)[i];
    return out;
  }
  std::vector<u64> forward(const std::vector<u64>& a) {
    return apply(a, [](device::Queue& q, const device::RingHandle& r, PrimeList p, const View& x, const View& y) {
      q.enqueue(device::ForwardNtt{r, p, x, y});
    });
  }
  std::vector<u64> inverse(const std::vector<u64>& a) {
    return apply(a, [](device::Queue& q, const device::RingHandle& r, PrimeList p, const View& x, const View& y) {
      q.enqueue(device::InverseNtt{r, p, x, y});
    });
  }

 private:
  Target target_;
  std::shared_ptr<const math::Ring> ring_;
  std::unique_ptr<device::Queue> queue_;
  std::shared_ptr<const device::RingConstant> prepared_;
};

std::vector<u64> random_residues(std::size_t n, u64 q, u64 seed) {
  std::mt19937_64 random(seed);
  std::vector<u64> a(n);
  for (u64& v : a) v = random() % q;
  return a;
}

TEST(Ntt, PositionIHoldsTheValueAtAnOddPowerOfTheRoot) {
  for (const Field* f : main_fields()) {
    for (std::size_t n = 2; n <= 256; n *= 2) {
      Ref ref(*f, n);
      const u64 q = ref.q(), psi = ref.ring().root(1);
      EXPECT_EQ(psi, math::smallest_primitive_root(2 * n, q));
      const std::vector<u64> a = random_residues(n, q, n), values = ref.forward(a);
      for (std::size_t i = 0; i < n; ++i) {
        const u64 point = math::pow_mod(psi, 2 * math::reverse_bits(i, ref.ring().log_n()) + 1, q);
        ASSERT_EQ(values[i], value_at(a, point, q)) << f->name << " n=" << n << " i=" << i;
      }
    }
  }
}

TEST(Ntt, InverseUndoesForward) {
  for (const Field* f : main_fields()) {
    for (const std::size_t n : {std::size_t{2}, std::size_t{64}, std::size_t{4096}}) {
      Ref ref(*f, n);
      std::vector<u64> a = random_residues(n, ref.q(), 7);
      a[0] = ref.q() - 1, a[n - 1] = 0;
      EXPECT_EQ(ref.inverse(ref.forward(a)), a);
      EXPECT_EQ(ref.forward(ref.inverse(a)), a);
    }
  }
}

TEST(Ntt, ProductOfValuesIsTheNegacyclicProduct) {
  for (const Field* f : main_fields()) {
    const std::size_t n = 128;
    Ref ref(*f, n);
    const u64 q = ref.q();
    const std::vector<u64> a = random_residues(n, q, 1), b = random_residues(n, q, 2);
    std::vector<u64> expected(n, 0);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        const u64 product = math::mul_mod(a[i], b[j], q);
        u64& slot = expected[(i + j) % n];
        slot = i + j < n ? math::add_mod(slot, product, q) : math::sub_mod(slot, product, q);
      }
    }
    std::vector<u64> va = ref.forward(a);
    const std::vector<u64> vb = ref.forward(b);
    for (std::size_t i = 0; i < n; ++i) va[i] = math::mul_mod(va[i], vb[i], q);
    EXPECT_EQ(ref.inverse(va), expected) << f->name;
  }
}

TEST(Ntt, TwiddlesAreReversedPowers) {
  const std::size_t n = 16;
  const math::Ring ring(n, Word::w32, {97});
  const std::vector<u64> forward = math::forward_twiddles(n, ring.root(0), 97),
                         inverse = math::inverse_twiddles(n, ring.root(0), 97);
  for (std::size_t i = 0; i < n; ++i) {
    EXPECT_EQ(forward[i], math::pow_mod(ring.root(0), math::reverse_bits(i, 4), 97));
    EXPECT_EQ(math::mul_mod(forward[i], inverse[i], 97), 1u);
  }
}

TEST(Turn, IsExactToTheLastBit) {
  for (const u64 whole : {u64{1}, u64{2}, u64{3}, u64{5}, u64{7}, u64{12}, u64{63}, u64{64}, u64{4294967291}}) {
    for (u64 part = 0; part < std::min<u64>(whole, 64); ++part) {
      const long double angle =
          2 * std::numbers::pi_v<long double> * static_cast<long double>(part) / static_cast<long double>(whole);
      const std::complex<double> root = math::turn(part, whole);
      EXPECT_LE(std::abs(root.real() - std::cos(angle)), 0x1.2p-54L) << part << " of " << whole;
      EXPECT_LE(std::abs(root.imag() - std::sin(angle)), 0x1.2p-54L) << part << " of " << whole;
    }
  }
  using Complex = std::complex<double>;
  EXPECT_EQ(math::turn(0, 4), Complex(1, 0));
  EXPECT_EQ(math::turn(1, 4), Complex(0, 1));
  EXPECT_EQ(math::turn(2, 4), Complex(-1, 0));
  EXPECT_EQ(math::turn(3, 4), Complex(0, -1));
  // The expected words are the same on every machine.
  EXPECT_EQ(math::turn(1, 3), Complex(-0.5, 0x1.bb67ae8584caap-1));
  EXPECT_EQ(math::turn(2, 7), Complex(-0x1.c7b90e3024582p-3, 0x1.f329c0558e969p-1));
}

TEST(Automorphism, ActsOnValuesAsOnCoefficients) {
  const std::size_t n = 64;
  Ref ref(kField60, n);
  const u64 q = ref.q();
  const std::vector<u64> a = random_residues(n, q, 3);
  for (u64 g = 1; g < 2 * n; g += 2) {
    std::vector<u64> moved(n);
    for (u64 i = 0; i < n; ++i) {
      const u64 to = i * g % (2 * n);
      moved[to % n] = to < n ? a[i] : math::neg_mod(a[i], q);
    }
    const std::vector<u64> values = ref.forward(a), expected = ref.forward(moved);
    const std::vector<u32> table = math::automorphism_table(n, g);
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(values[table[i]], expected[i]) << "g=" << g;
  }
}

}  // namespace

}  // namespace heliograph::test
