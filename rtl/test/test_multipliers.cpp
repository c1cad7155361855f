// All multipliers compared with the engine's arithmetic: one product per cycle, another modulus each cycle.
#include <gtest/gtest.h>
#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "Vbench_multipliers.h"
#include "backend/rtl/clocked.h"
#include "backend/rtl/wide.h"
#include "math/primes.h"

namespace heliograph::rtl {
namespace {

using math::u128;
using math::u64;

constexpr int W = kWordBits;
constexpr u64 kTop = u64{1} << W;
constexpr u64 kFixed = 1073643521;  // the bench's Q
constexpr std::size_t kPrimes = 15;

enum Unit {
  montgomery,
  shoup,
  barrett,
  window6,
  window2,
  window6_many,
  window2_many,
  fixed6,
  fixed2,
  sum,
  difference,
  units
};

struct Case {
  u64 q, x, y;
  std::size_t prime = 0;
};

class Multipliers : public testing::Test {
 protected:
  /// Loads 2^W w mod q for each window value w.
  void load(std::size_t prime, u64 q) {
    for (u64 w = 0; w < 64; ++w) {
      card->we_i = 1;
      // Entry {prime, w}: windows of two bits have four entries per prime; with one modulus they use the first entries.
      card->entry_i = static_cast<unsigned>(prime << 6 | w);
      card->data6_i = static_cast<unsigned>((w << W) % q);
      card->data2_i = 0;
      if (prime == 0) card->data2_i = static_cast<unsigned>(((w % 4) << W) % primes[w / 4 % kPrimes]);
      card.tick();
    }
    card->we_i = 0;
  }

  /// Streams the cases through the bench. `expected` returns the result that `unit` must have.
  void run(const std::vector<Case>& cases, const std::vector<Unit>& of,
           const std::function<u64(Unit, const Case&)>& expected) {
    std::vector<std::size_t> latency(units);
    std::size_t longest = 0;
    for (std::size_t u = 0; u < units; ++u) longest = std::max(longest, latency[u] = field(card->latency_o, u, 8));
    for (std::size_t cycle = 0; cycle < cases.size() + longest; ++cycle) {
      const Case& c = cases[std::min(cycle, cases.size() - 1)];
      card->x_i = static_cast<unsigned>(c.x);
      card->y_i = static_cast<unsigned>(c.y);
      card->q_i = static_cast<unsigned>(c.q);
      card->prime_i = static_cast<unsigned>(c.prime);
      card->shoup_i = static_cast<unsigned>((c.y << W) / c.q);
      card->barrett_i = static_cast<unsigned>(std::min<u64>(static_cast<u64>((u128{1} << (2 * W)) / c.q), 2 * kTop - 1));
      card.tick();
      // After this clock edge, the first registers contain the operands of `cycle`.
      for (const Unit u : of) {
        const std::size_t at = cycle + 1 - latency[u];
        if (cycle + 1 < latency[u] || at >= cases.size()) continue;
        ASSERT_EQ(field(card->z_o, u), expected(u, cases[at]))
            << "unit " << u << ": " << cases[at].x << " * " << cases[at].y << " mod " << cases[at].q;
      }
    }
  }

  Clocked<Vbench_multipliers> card;
  std::vector<u64> primes;
  std::mt19937_64 random{7};

  void SetUp() override {
    primes = math::largest_primes(W, kPrimes, u64{1} << 15);
    ASSERT_EQ(primes[0], kFixed);
    for (std::size_t i = 0; i < kPrimes; ++i) load(i, primes[i]);
    load(0, primes[0]);
  }
  u64 residue(u64 q) {
    const u64 edges[] = {0, 1, q - 1, q - 2, q / 2, q / 2 + 1};
    return random() % 4 == 0 ? edges[random() % 6] : random() % q;
  }
};

u64 product(Unit u, const Case& c) {
  if (u == sum) return math::add_mod(c.x, c.y, c.q);
  if (u == difference) return math::sub_mod(c.x, c.y, c.q);
  const u64 z = math::mul_mod(c.x, c.y, c.q);
  return u == montgomery ? math::mul_mod(z, math::inverse_mod(kTop % c.q, c.q), c.q) : z;
}

TEST_F(Multipliers, AllOfOnePrime) {
  std::vector<Case> cases;
  for (int i = 0; i < 20000; ++i) cases.push_back({kFixed, residue(kFixed), residue(kFixed)});
  std::vector<Unit> all;
  for (int u = 0; u < units; ++u) all.push_back(static_cast<Unit>(u));
  run(cases, all, product);
}

TEST_F(Multipliers, AnotherPrimeEachCycle) {
  std::vector<Case> cases;
  for (int i = 0; i < 20000; ++i) {
    const std::size_t p = random() % kPrimes;
    cases.push_back({primes[p], residue(primes[p]), residue(primes[p]), p});
  }
  run(cases, {montgomery, shoup, barrett, window6_many, window2_many, sum, difference}, product);
}

TEST_F(Multipliers, ShortPrimes) {
  std::vector<Case> cases;
  for (const int bits : {14, 20, 24, 27, 29}) {
    const auto some = math::largest_primes(bits, 3, 1 << 10);
    for (int i = 0; i < 4000; ++i) {
      const u64 q = some[random() % some.size()];
      cases.push_back({q, residue(q), residue(q)});
    }
  }
  run(cases, {montgomery, shoup, sum, difference}, product);
}

TEST_F(Multipliers, AnyModulusWithItsTopBit) {
  std::vector<Case> cases;
  for (int i = 0; i < 20000; ++i) {
    const u64 edges[] = {kTop / 2, kTop - 1, kTop / 2 + 1, kTop - 2};
    const u64 q = i % 5 == 0 ? edges[random() % 4] : kTop / 2 + random() % (kTop / 2);
    cases.push_back({q, residue(q), residue(q)});
  }
  run(cases, {shoup, barrett, sum, difference}, product);
}

// The product of x << s and y modulo q << s is (x y mod q) << s. Barrett and the window multipliers use short and even
// moduli in this form.
TEST_F(Multipliers, ShiftedModuli) {
  std::vector<Case> cases;
  std::vector<u64> shorter = {24577, 40961, 65536, 1 << 20, (1 << 20) + 2, 3};
  for (int i = 0; i < 20000; ++i) {
    const u64 q = shorter[random() % shorter.size()];
    const int s = W - math::bit_length(q);
    cases.push_back({q << s, residue(q) << s, residue(q)});
  }
  run(cases, {barrett}, product);
}

// Shoup accepts any word for x, not only residues.
TEST_F(Multipliers, ShoupTakesAnyWord) {
  std::vector<Case> cases;
  for (int i = 0; i < 10000; ++i) {
    const u64 q = 2 + random() % (kTop - 2);
    cases.push_back({q, i % 3 == 0 ? kTop - 1 : random() % kTop, residue(q)});
  }
  run(cases, {shoup}, [](Unit, const Case& c) { return static_cast<u64>(u128{c.x} * c.y % c.q); });
}

}  // namespace
}  // namespace heliograph::rtl
