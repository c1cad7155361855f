// The NTT engines compared with the engine's transform, bit by bit, and with the cycle model, cycle by cycle.
#include <gtest/gtest.h>
#include <array>
#include <random>
#include <vector>

#include "Vbench_ntt.h"
#include "backend/rtl/clocked.h"
#include "backend/rtl/wide.h"
#include "math/primes.h"
#include "math/ring.h"

namespace heliograph::rtl {
namespace {

using math::u64;

constexpr int kEngines = 5;  // engine e has 1 << e butterflies
constexpr u64 kLatency = 20;

u64 gap(int log_n, int e) {
  const u64 ahead = (u64{1} << log_n) >> (e + 2);
  return ahead < kLatency ? kLatency - ahead : 0;
}
/// Returns the cycles between the last rows of consecutive limbs.
u64 interval(int log_n, int e) {
  return static_cast<u64>(log_n) * (((u64{1} << log_n) >> (e + 1)) + gap(log_n, e)) - gap(log_n, e);
}

class NttEngines : public testing::Test {
 protected:
  void SetUp() override {
    card->rst_ni = 0;
    card->valid_i = 0;
    card->put_i = 0;
    card->grant_i = 31;
    for (int i = 0; i < 3; ++i) card.tick();
    card->rst_ni = 1;
  }

  void put(const std::vector<u64>& words, bool twiddles) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      card->put_i = 1;
      card->put_twiddle_i = twiddles;
      card->put_at_i = static_cast<unsigned>(i);
      card->put_word_i = static_cast<unsigned>(words[i]);
      card.tick();
    }
    card->put_i = 0;
    for (int i = 0; i < 3; ++i) card.tick();
  }
  std::vector<u64> get(int e, std::size_t n) {
    std::vector<u64> words(n);
    for (std::size_t i = 0; i < n; ++i) {
      card->get_at_i = static_cast<unsigned>(i);
      card->eval();
      words[i] = field(card->get_o, static_cast<std::size_t>(e));
    }
    return words;
  }

  /// Sets the modulus and loads its table of twiddles.
  void ring(int log_n, u64 q) {
    const std::size_t n = std::size_t{1} << log_n;
    auto w = math::forward_twiddles(n, math::smallest_primitive_root(2 * n, q), q);
    for (u64& v : w) v = math::mul_mod(v, (u64{1} << kWordBits) % q, q);
    put(w, true);
    card->log_n_i = static_cast<unsigned char>(log_n);
    card->q_i = static_cast<unsigned>(q);
  }

  /// Runs transforms on each engine without pauses between them. `stalls`: grants come at random. Returns the cycles from
  /// the acceptance of the first limb to its last row, both included, and from this row to the last row of the last limb.
  struct Cycles {
    u64 first = 0, all = 0;
  };
  std::array<Cycles, kEngines> run(const std::vector<bool>& inverse, bool stalls = false) {
    std::array<Cycles, kEngines> cycles{};
    std::array<std::size_t, kEngines> taken{}, done{};
    const u64 start = card.cycles();
    std::array<u64, kEngines> accepted{}, finished{};
    for (int running = kEngines; running > 0;) {
      unsigned valid = 0;
      // The engines share inverse_i, so only engines with the same next limb are started.
      const std::size_t limb = *std::min_element(taken.begin(), taken.end());
      if (limb < inverse.size()) {
        card->inverse_i = inverse[limb];
        for (int e = 0; e < kEngines; ++e) valid |= unsigned{taken[e] == limb} << e;
      }
      card->valid_i = static_cast<unsigned char>(valid);
      card->grant_i = static_cast<unsigned char>(stalls ? random() & 31 : 31);
      card->eval();
      for (int e = 0; e < kEngines; ++e) {
        if ((valid & card->ready_o) >> e & 1) {
          if (taken[e]++ == 0) accepted[e] = card.cycles();
        }
      }
      card.tick();
      for (int e = 0; e < kEngines; ++e) {
        if (card->done_o >> e & 1) {
          if (done[e]++ == 0) finished[e] = card.cycles(), cycles[e].first = card.cycles() - accepted[e] + 1;
          if (done[e] == inverse.size()) cycles[e].all = card.cycles() - finished[e], --running;
        }
      }
      EXPECT_LT(card.cycles() - start, 1000000u);
      if (card.cycles() - start >= 1000000u) return cycles;
    }
    card->valid_i = 0;
    card.tick();
    return cycles;
  }

  Clocked<Vbench_ntt> card;
  std::mt19937_64 random{11};
  std::vector<u64> polynomial(std::size_t n, u64 q) {
    std::vector<u64> x(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = i % 7 == 0 ? q - 1 : random() % q;
    return x;
  }
};

// The algorithm of ref (src/backend/ref/kernels.cpp), in the engine's order.
std::vector<u64> forward(std::vector<u64> x, u64 q) {
  const std::size_t n = x.size();
  const auto w = math::forward_twiddles(n, math::smallest_primitive_root(2 * n, q), q);
  for (std::size_t m = 1, t = n / 2; m < n; m *= 2, t /= 2) {
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 2 * i * t; j < 2 * i * t + t; ++j) {
        const u64 u = x[j], v = math::mul_mod(x[j + t], w[m + i], q);
        x[j] = math::add_mod(u, v, q);
        x[j + t] = math::sub_mod(u, v, q);
      }
    }
  }
  return x;
}

class NttDegrees : public NttEngines, public testing::WithParamInterface<int> {};

TEST_P(NttDegrees, BitsAndCyclesOfTheModel) {
  const int log_n = GetParam();
  const std::size_t n = std::size_t{1} << log_n;
  // The longest prime, a short prime, and the smallest prime.
  std::vector<u64> primes = {math::largest_primes(30, 1, 2 * n)[0]};
  if (log_n <= 12) primes.push_back(math::largest_primes(log_n + 6, 1, 2 * n)[0]);
  for (const u64 q : primes) {
    ring(log_n, q);
    const auto x = polynomial(n, q), y = forward(x, q);
    for (const bool inverse : {false, true}) {
      put(inverse ? y : x, false);
      const auto cycles = run({inverse});
      for (int e = 0; e < kEngines; ++e) {
        ASSERT_EQ(get(e, n), inverse ? x : y) << (1 << e) << " butterflies, q " << q << (inverse ? ", inverse" : "");
        EXPECT_EQ(cycles[e].first, interval(log_n, e) + kLatency + 1) << (1 << e) << " butterflies";
      }
      if (q == primes[0] && !inverse)
        for (int e = 0; e < kEngines; ++e)
          RecordProperty("cycles_" + std::to_string(n) + "_" + std::to_string(1 << e), static_cast<int>(cycles[e].first));
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, NttDegrees, testing::Range(9, 15));

// Compares one value with its definition instead of an algorithm: position i is the polynomial at psi^(2 rev(i) + 1).
TEST_F(NttEngines, PositionsAreValues) {
  constexpr std::size_t n = 512;
  const u64 q = math::largest_primes(30, 2, 2 * n)[1], psi = math::smallest_primitive_root(2 * n, q);
  ring(9, q);
  const auto x = polynomial(n, q);
  put(x, false);
  run({false});
  const auto y = get(3, n);
  for (std::size_t i = 0; i < n; i += 37) {
    const u64 at = math::pow_mod(psi, 2 * math::reverse_bits(i, 9) + 1, q);
    u64 value = 0;
    for (std::size_t j = n; j-- > 0;) value = math::add_mod(math::mul_mod(value, at, q), x[j], q);
    EXPECT_EQ(y[i], value) << i;
  }
}

// Rows of the last stage are in flight for 20 cycles. After a reset none of these rows is written, and no limb ends.
TEST_F(NttEngines, ResetForgetsRowsOnTheirWay) {
  constexpr int kEngine = 3, kLogN = 9;
  constexpr unsigned kBit = 1u << kEngine;
  const u64 q = math::largest_primes(30, 1, 2 << kLogN)[0];
  ring(kLogN, q);
  const auto x = polynomial(1 << kLogN, q);
  put(x, false);
  const u64 whole = interval(kLogN, kEngine) + kLatency;
  for (u64 before = 1; before < kLatency + 3; ++before) {
    SCOPED_TRACE(before);
    card->inverse_i = 0;
    card->valid_i = kBit;
    card.tick();
    card->valid_i = 0;
    for (u64 i = 0; i < whole - before; ++i) {
      ASSERT_EQ(card->done_o & kBit, 0u);
      card.tick();
    }
    card->rst_ni = 0;
    card.tick();
    card->rst_ni = 1;
    for (int i = 0; i < 40; ++i) {
      card->eval();
      ASSERT_EQ(card->done_o & kBit, 0u) << i;
      ASSERT_EQ(card->last_o & kBit, 0u) << i;
      ASSERT_EQ(card->ready_o & kBit, kBit) << i;
      card.tick();
    }
  }
  run({false});
  EXPECT_EQ(get(kEngine, x.size()), forward(x, q));
}

TEST_F(NttEngines, LimbsFollowWithoutAGap) {
  for (const int log_n : {9, 10}) {
    const std::size_t n = std::size_t{1} << log_n;
    const u64 q = math::largest_primes(30, 1, 2 * n)[0];
    ring(log_n, q);
    const auto x = polynomial(n, q);
    put(x, false);
    for (const std::vector<bool>& limbs : {std::vector<bool>{false, false, false}, {true, true}}) {
      const auto cycles = run(limbs);
      for (int e = 0; e < kEngines; ++e) {
        if (!limbs.back()) {
          ASSERT_EQ(get(e, n), forward(x, q));
        }
        // All engines get a limb at the same time, so only the slowest engine never waits.
        if (e == 0) {
          EXPECT_EQ(cycles[e].all, interval(log_n, e) * (limbs.size() - 1));
        }
      }
    }
  }
}

TEST_F(NttEngines, DirectionsFollowEachOther) {
  const u64 q = math::largest_primes(30, 1, 2048)[0];
  ring(10, q);
  const auto x = polynomial(1024, q);
  put(x, false);
  run({true, false, true, false});
  for (int e = 0; e < kEngines; ++e) ASSERT_EQ(get(e, 1024), forward(x, q)) << (1 << e);
}

TEST_F(NttEngines, LastStageWaitsForItsGrant) {
  const u64 q = math::largest_primes(30, 1, 1024)[0];
  ring(9, q);
  const auto x = polynomial(512, q);
  put(x, false);
  const auto cycles = run({true, false}, true);
  for (int e = 0; e < kEngines; ++e) {
    ASSERT_EQ(get(e, 512), forward(x, q)) << (1 << e);
    EXPECT_GT(cycles[e].first, interval(9, e) + kLatency + 1);
  }
}

}  // namespace
}  // namespace heliograph::rtl
