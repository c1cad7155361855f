// Chains of 32-bit words: primes below 2^30, several per level.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "math/primes.h"
#include "schemes/ckks/spec.h"

namespace heliograph::ckks {

namespace {

using math::u64;

constexpr int kLongest = kLongest32;
constexpr double kLongestBits = 29.9;  // bits of the longest primes near a given number

/// Adds levels with a scale of one prime: level l has the base primes and l - 1 more.
void add_single_primes(Spec& s, std::size_t levels, double base_bits) {
  const auto bases = static_cast<std::size_t>(std::ceil(base_bits / kLongest));
  const int each = static_cast<int>(std::ceil(base_bits / static_cast<double>(bases)));
  s.chain = math::largest_primes(std::clamp(each, 25, kLongest), bases, 2 * s.n);
  add_levels(s, levels, kLongest);
}

// Scales of up to two primes (rational rescaling). The chain starts with four terminal primes, followed by the main
// primes. A level has a prefix of the terminals and a prefix of the mains. The product of two terminals is about a scale;
// mains are as long as possible. The next higher level adds two terminals, or removes some and adds mains.

struct Step {
  std::size_t pairs = 0, mains = 0;  // pairs of terminals at the level; mains that the level adds
};

/// Returns the number of mains of at least 24 bits whose product has `bits` bits; 0 if there is none.
std::size_t mains_for(double bits) {
  const double count = std::ceil(bits / kLongestBits);
  return count >= 1 && bits / count >= 24 ? static_cast<std::size_t>(count) : 0;
}

/// Returns the steps of all levels with the fewest primes in total.
std::vector<Step> planned(std::size_t levels, double log_scale, double base_bits) {
  constexpr std::size_t kPairs = 3;  // a level has 0, 1 or 2 pairs
  constexpr double never = std::numeric_limits<double>::infinity();
  struct State {
    double cost = never;
    std::size_t from_pairs = 0;
    Step step;
  };
  const std::size_t most = 3 * levels + 8;
  // states[level][pairs][number of mains up to this level]
  std::vector<std::array<std::vector<State>, kPairs>> states(levels);
  for (auto& level : states) level.fill(std::vector<State>(most));
  for (std::size_t pairs = 0; pairs < kPairs; ++pairs) {
    const double left = base_bits - static_cast<double>(pairs) * log_scale;
    const auto mains = static_cast<std::size_t>(std::ceil(std::max(left, 0.0) / kLongestBits));
    if (pairs + mains > 0) states[0][pairs][mains] = {static_cast<double>(2 * pairs + mains), 0, {pairs, mains}};
  }
  for (std::size_t level = 1; level < levels; ++level) {
    for (std::size_t from = 0; from < kPairs; ++from) {
      for (std::size_t have = 0; have < most; ++have) {
        const double cost = states[level - 1][from][have].cost;
        if (cost == never) continue;
        for (std::size_t to = 0; to < kPairs; ++to) {
          const std::size_t mains = mains_for(log_scale * (1 + static_cast<double>(from) - static_cast<double>(to)));
          if ((mains == 0 && to != from + 1) || have + mains >= most) continue;
          State& next = states[level][to][have + mains];
          const double sum = cost + static_cast<double>(2 * to + have + mains);
          if (sum < next.cost) next = {sum, from, {to, mains}};
        }
      }
    }
  }
  std::size_t pairs = 0, mains = 0;
  double best = never;
  for (std::size_t p = 0; p < kPairs; ++p) {
    for (std::size_t m = 0; m < most; ++m) {
      if (states.back()[p][m].cost < best) best = states.back()[p][m].cost, pairs = p, mains = m;
    }
  }
  require<ParameterError>(best < never, "no chain of primes below 2^30 has this scale");
  std::vector<Step> steps(levels);
  for (std::size_t level = levels; level-- > 0;) {
    const State& s = states[level][pairs][mains];
    steps[level] = s.step;
    pairs = s.from_pairs, mains -= s.step.mains;
  }
  return steps;
}

/// Returns two pairs of primes whose products are nearest to the scale.
std::vector<u64> terminals(std::size_t n, double scale) {
  std::vector<u64> some;
  try {
    while (some.size() < 48) some.push_back(nearest_prime(std::sqrt(scale), n, kLongest - 3, some));
  } catch (const ParameterError&) {  // no further primes exist
  }
  std::vector<u64> chosen;
  const auto taken = [&](u64 p) { return std::find(chosen.begin(), chosen.end(), p) != chosen.end(); };
  for (int pair = 0; pair < 2; ++pair) {
    u64 first = 0, second = 0;
    double least = 1;
    for (u64 p : some) {
      for (u64 q : some) {
        const double off = std::abs(static_cast<double>(p) * static_cast<double>(q) / scale - 1);
        if (p < q && off < least && !taken(p) && !taken(q)) least = off, first = p, second = q;
      }
    }
    require<ParameterError>(first != 0, "too few primes below 2^30 exist for this set");
    chosen.insert(chosen.end(), {first, second});
  }
  return chosen;
}

/// Returns the least number of primes in the first digit.
std::size_t add_prime_groups(Spec& s, std::size_t levels, double base_bits) {
  const std::size_t n = s.n;
  const std::vector<Step> steps = planned(levels, s.log_scale, base_bits);
  const double fresh = fresh_scale(s.log_scale);
  std::size_t pairs = 0, fewest = 2;
  for (const Step& step : steps) pairs = std::max(pairs, step.pairs), fewest = std::min(fewest, step.pairs);
  std::vector<u64> ends = terminals(n, fresh), taken = ends;
  ends.resize(2 * pairs);
  const auto product_of = [&](std::size_t first, std::size_t last) {  // product of the pairs [first, last)
    double product = 1;
    for (std::size_t i = 2 * first; i < 2 * last; ++i) product *= static_cast<double>(ends[i]);
    return product;
  };
  std::vector<std::vector<u64>> mains(levels);
  const auto take = [&](std::size_t level, double target) {
    mains[level] = short_primes_near(target, steps[level].mains, n, taken);
    taken.insert(taken.end(), mains[level].begin(), mains[level].end());
  };
  double scale = fresh;
  for (std::size_t level = levels; level-- > 1;) {
    const std::size_t above = steps[level].pairs, below = steps[level - 1].pairs;
    double target = scale * scale / fresh;  // target of the levels' ratio; compensates the scale above
    target = above > below ? target / product_of(below, above) : target * product_of(above, below);
    take(level, target);
    for (u64 p : mains[level]) target /= static_cast<double>(p);
    scale = fresh * target;
  }
  const double left = base_bits - static_cast<double>(steps[0].pairs) * s.log_scale;
  take(0, std::exp2(std::max(left, 26.0 * static_cast<double>(steps[0].mains))));
  s.chain = ends;
  for (std::size_t level = 0; level < levels; ++level) {
    s.chain.insert(s.chain.end(), mains[level].begin(), mains[level].end());
    std::vector<std::uint16_t>& list = s.levels.emplace_back();
    for (std::size_t p = 0; p < s.chain.size(); ++p) {
      if (p < 2 * steps[level].pairs || p >= ends.size()) list.push_back(static_cast<std::uint16_t>(p));
    }
  }
  return fewest > 0 ? 1 : ends.size() + 1;  // every level has a prime of the first digit
}

}  // namespace

std::vector<u64> short_primes_near(double target, std::size_t count, std::size_t n, std::vector<u64> taken) {
  std::vector<u64> found;
  const auto root = [&](std::size_t left) { return std::exp2(std::log2(target) / static_cast<double>(left)); };
  const auto take = [&](u64 p) {
    found.push_back(p), taken.push_back(p);
    target /= static_cast<double>(p);
  };
  while (found.size() + 2 < count) take(nearest_prime(root(count - found.size()), n, kLongest, taken));
  if (count == 1) take(nearest_prime(target, n, kLongest, taken));
  if (count < 2) return found;
  std::vector<u64> tried = taken;
  u64 best = 0, other = 0;
  double least = 0;
  for (int i = 0; i < 24; ++i) {
    tried.push_back(nearest_prime(root(2), n, kLongest, tried));
    taken.push_back(tried.back());
    const u64 q = nearest_prime(target / static_cast<double>(tried.back()), n, kLongest, taken);
    taken.pop_back();
    const double off = std::abs(static_cast<double>(tried.back()) * static_cast<double>(q) / target - 1);
    if (best == 0 || off < least) least = off, best = tried.back(), other = q;
  }
  take(best), take(other);
  return found;
}

std::size_t add_short_levels(Spec& s, std::size_t levels, double base_bits) {
  if (s.log_scale >= 30) return add_prime_groups(s, levels, base_bits);
  add_single_primes(s, levels, base_bits);
  return 1;
}

Spec spec_of_short_words(std::size_t n, std::size_t levels, double log_scale, int base_bits, std::size_t special_count) {
  require<ParameterError>((log_scale >= 20 && log_scale <= 29.8) || (log_scale >= 48 && log_scale <= 53),
                          "log_scale must be 20 to 29.8 or 48 to 53 with 32-bit words");
  require<ParameterError>(base_bits > log_scale && base_bits <= 120, "base_bits must be above log_scale and at most 120");
  Spec s{.n = n, .log_scale = log_scale};
  const std::size_t in_first_digit = add_short_levels(s, levels, base_bits);
  finish_gadget(s, in_first_digit, special_count, kLongest);
  return s;
}

}  // namespace heliograph::ckks
