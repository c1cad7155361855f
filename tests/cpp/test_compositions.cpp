#include "rlwe/compositions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "base/errors.h"

namespace heliograph::rlwe {
namespace {

using Steps = std::vector<std::int64_t>;

/// Returns the fewest steps whose sum is each rotation, by relaxation until nothing changes.
std::vector<std::size_t> fewest(const Steps& steps, std::size_t period) {
  const std::size_t none = ~std::size_t{0};
  std::vector<std::size_t> best(period, none);
  best[0] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t at = 0; at < period; ++at) {
      if (best[at] == none) continue;
      for (const std::int64_t s : steps) {
        const auto m = static_cast<std::int64_t>(period);
        const auto to = static_cast<std::size_t>(((static_cast<std::int64_t>(at) + s) % m + m) % m);
        if (best[at] + 1 < best[to]) best[to] = best[at] + 1, changed = true;
      }
    }
  }
  return best;
}

void expect_fewest(const Steps& steps, std::size_t period) {
  const std::vector<std::size_t> want = fewest(steps, period);
  const Compositions found(steps, period);
  const auto m = static_cast<std::int64_t>(period);
  std::set<std::int64_t> has;
  for (const std::int64_t s : steps) has.insert((s % m + m) % m);
  std::size_t most = 0, divisor = period;
  for (std::size_t at = 0; at < period; ++at) {
    const auto count = found.switches(static_cast<std::int64_t>(at));
    const auto composition = found.of(static_cast<std::int64_t>(at));
    ASSERT_EQ(count.has_value(), want[at] != ~std::size_t{0});
    ASSERT_EQ(composition.has_value(), count.has_value());
    if (!count) continue;
    ASSERT_EQ(*count, want[at]) << at << " of " << period;
    ASSERT_EQ(composition->size(), *count);
    std::int64_t sum = 0;
    for (const std::int64_t s : *composition) {
      ASSERT_TRUE(has.contains(s));
      sum += s;
    }
    ASSERT_EQ(static_cast<std::size_t>(sum) % period, at);
    // without its last step, a composition is the composition of another rotation, so rotations share their first steps
    if (!composition->empty()) {
      const Steps begin(composition->begin(), composition->end() - 1);
      ASSERT_EQ(found.of(sum - composition->back()), begin);
    }
    most = std::max(most, *count);
    if (at > 0) divisor = std::gcd(divisor, at);
  }
  EXPECT_EQ(found.reach().most, most);
  EXPECT_EQ(found.reach().divisor, divisor);
}

TEST(Compositions, HaveTheFewestSteps) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; ++i) {
    const std::size_t period = std::size_t{1} << random() % 11;
    Steps steps;
    for (std::size_t k = random() % 7; k > 0; --k)
      steps.push_back(static_cast<std::int64_t>(random() % (4 * period)) - 2 * static_cast<std::int64_t>(period));
    expect_fewest(steps, period);
  }
  for (const std::size_t period : {2, 64, 128, 1024}) {
    for (const std::size_t count : {period / 2, period}) {  // half a step per position, and one step per position
      Steps steps;
      for (std::size_t k = 0; k < count; ++k) steps.push_back(static_cast<std::int64_t>(random() % period));
      expect_fewest(steps, period);
    }
  }
}

TEST(Compositions, OfPowersOfTwoAreSignedDigits) {
  Steps steps, left;
  for (std::int64_t s = 1; s < 4096; s *= 2) steps.push_back(s), steps.push_back(-s), left.push_back(s);
  const Compositions both(steps, 4096), one(left, 4096);
  EXPECT_EQ(both.switches(5), 2U);
  EXPECT_EQ(both.switches(-1), 1U);
  EXPECT_EQ(both.of(7), (Steps{4095, 8}));
  EXPECT_EQ(both.of(4096 + 3), both.of(3));
  EXPECT_EQ(both.of(0), Steps{});
  EXPECT_EQ(both.reach().most, 6U);  // the length of the non-adjacent form
  EXPECT_EQ(one.switches(4095), 12U);
  EXPECT_EQ(one.reach().most, 12U);
}

TEST(Compositions, ReachOnlyMultiplesOfTheirDivisor) {
  const Steps steps = {4, 8}, wanted = {1, 2, 3}, apart = {4, 6};
  const Compositions found(steps, 64);
  EXPECT_EQ(found.of(3), std::nullopt);
  EXPECT_EQ(found.switches(3), std::nullopt);
  EXPECT_EQ(found.reach().divisor, 4U);
  EXPECT_EQ(found.cheapest(wanted), 1);
  EXPECT_EQ(found.cheapest(apart), 6);  // each needs one key switch
  EXPECT_EQ(Compositions({}, 64).cheapest(wanted), 1);
  EXPECT_EQ(Compositions({}, 64).reach().divisor, 64U);
  EXPECT_THROW(Compositions({}, 65), InternalError);
  EXPECT_THROW(Compositions({}, 1 << 17), InternalError);
}

/// Sets of steps that a simple search handles slowly: one step, two distant steps, blocks of steps, subgroups, and all
/// steps.
TEST(Compositions, AreFoundInFewStepsInAnySet) {
  constexpr std::int64_t period = 1 << 16;
  std::mt19937_64 random(2);
  std::vector<Steps> sets = {{1}, {1, 255}, {1, -1}};
  for (const std::int64_t count : {16, 256, 1024, 8192, 32768, 65535}) {
    Steps block, even, some;
    for (std::int64_t k = 1; k <= count; ++k) {
      block.push_back(k), even.push_back(2 * k);
      some.push_back(static_cast<std::int64_t>(random() % period));
    }
    sets.push_back(block), sets.push_back(even), sets.push_back(some);
    even.push_back(1), sets.push_back(even);
  }
  for (const Steps& steps : sets) {
    const Compositions found(steps, period);
    EXPECT_LE(found.searched(), period * period / 16) << steps.size() << " steps";  // of period * period pairs of steps
    EXPECT_TRUE(found.switches(steps.front()).has_value());
  }
  EXPECT_EQ(Compositions(sets[0], period).switches(-1), 65535U);
}

TEST(RotationPlan, ComputesSharedPrefixesOnce) {
  const Steps steps = {1, 2, 4};
  const Compositions found(steps, 16);
  std::vector<Steps> compositions;
  // the compositions are: 2 1; none; 2 1; 4 2 1; 1
  for (const std::int64_t s : {3, 0, 3, 7, 1}) compositions.push_back(*found.of(s));
  const RotationPlan plan(compositions, 16);
  EXPECT_EQ(plan.switches, 3U);
  EXPECT_EQ(plan.tensors, 7U);  // the operand, and its rotations by 2, 3, 4, 6, 7, 1
  EXPECT_EQ(plan.results[1], 0U);
  EXPECT_EQ(plan.results[0], plan.results[2]);
  std::vector<bool> made(plan.tensors);
  made[0] = true;
  for (const RotationPlan::Group& group : plan.groups) {
    EXPECT_TRUE(made[group.from]);
    ASSERT_EQ(group.steps.size(), group.to.size());
    for (const std::size_t t : group.to) made[t] = true;
  }
  EXPECT_EQ(std::count(made.begin(), made.end(), true), 7);
  EXPECT_EQ(plan.groups.front().steps, (Steps{2, 4, 1}));  // all three rotate the operand, so they share its decomposition
}

}  // namespace
}  // namespace heliograph::rlwe
