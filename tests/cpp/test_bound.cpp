#include "schemes/exact/bound.h"

#include <gtest/gtest.h>

#include <random>

namespace heliograph::exact {
namespace {

using u64 = std::uint64_t;
using u128 = unsigned __int128;

Magnitude of(u128 value) {
  return Magnitude(static_cast<u64>(value >> 64)) * Magnitude(u64{1} << 32) * Magnitude(u64{1} << 32) +
         Magnitude(static_cast<u64>(value));
}

TEST(Magnitude, IsAnInteger) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const u64 a = random() >> random() % 64, b = random() >> random() % 64;
    const Magnitude x = a, y = b;
    EXPECT_EQ(x + y, of(u128{a} + b));
    EXPECT_EQ(x * y, of(u128{a} * b));
    EXPECT_EQ(x <= y, a <= b);
    EXPECT_EQ((x * y + x) - x, x * y);
    EXPECT_EQ((x * y).half(), of(u128{a} * b / 2));
    EXPECT_EQ(larger(x, y), Magnitude(std::max(a, b)));
    EXPECT_EQ(Magnitude::from((x * y).hex()), x * y);
    EXPECT_EQ(power(x, 3), x * x * x);
  }
  EXPECT_EQ(Magnitude(0).hex(), "0");
  EXPECT_EQ(Magnitude(0x1f).hex(), "1f");
  EXPECT_EQ(Magnitude(1).bits(), 1);
  EXPECT_EQ((Magnitude(~u64{0}) + 1).bits(), 65);
  for (const char* wrong : {"", "00", "01", "F", "g", "-1", " 1"}) EXPECT_FALSE(Magnitude::from(wrong)) << wrong;
}

TEST(Magnitude, IsUnknownBeyondItsLimit) {
  const Magnitude large = power(2, 4095);
  EXPECT_TRUE(large.known());
  EXPECT_FALSE((large + large).known());
  EXPECT_FALSE((large * large).known());
  const Magnitude none = Magnitude::none();
  for (const Magnitude& x : {none + 1, none * 0, larger(none, 1), larger(1, none)}) EXPECT_FALSE(x.known());
  EXPECT_FALSE(none <= 1);
  EXPECT_FALSE(Magnitude(1) <= none);
}

TEST(Growth, IsAPolynomial) {
  const Growth d = Growth::own(0), five = Growth::constant(5);
  const Growth p = Growth::sum(Growth::product(d, d, 100), d.times(3), 100).plus(7);  // D^2 + 3 D + 7
  for (const u64 v : {1, 2, 10, 1000}) EXPECT_EQ(p.at(v), Magnitude(v * v + 3 * v + 7));
  EXPECT_EQ(p.at(0), Magnitude(11)) << "bounds use max(D, 1)";
  EXPECT_TRUE(p.open() && !five.open());
  EXPECT_EQ(Growth::larger(p, Growth::constant(9), 100).at(2), Magnitude(4 + 6 + 9));
  EXPECT_TRUE(p.below(p) && d.below(p) && five.below(p) && !p.below(d) && !Growth::constant(8).below(p));
  EXPECT_EQ(p.times(0).at(50), Magnitude(0));
  EXPECT_FALSE(p.times(0).open());
  EXPECT_FALSE(p.times(Magnitude::none()).known() || Growth().known() || Growth::sum(p, Growth(), 1).known());
}

TEST(Growth, OfTwoSessionsUsesTheLargestValues) {
  const Growth a = Growth::own(1), b = Growth::own(2);
  const Growth both = Growth::sum(a.times(3), b, 100);
  EXPECT_FALSE(both.open());
  EXPECT_EQ(both.at(5), Magnitude(400));
  EXPECT_EQ(Growth::sum(a, Growth::constant(4), 100).session(), 1U);
  EXPECT_EQ(Growth::product(Growth::constant(4), b, 100).session(), 2U);
}

TEST(Growth, KeepsFewAndSmallTerms) {
  Growth p = Growth::constant(1), power = Growth::constant(1);
  u64 exact = 1, at_two = 1;
  for (int i = 1; i < 40; ++i) {
    power = Growth::product(power, Growth::own(0), 1);
    p = Growth::sum(p, power, 1);
    at_two *= 2, exact += at_two;
  }
  EXPECT_EQ(p.terms().size(), 16U);
  EXPECT_TRUE(Magnitude(exact) <= p.at(2));
  EXPECT_FALSE(p.at(1).bits() > 6) << "for D = 1 the bound is the number of terms";
  for (int i = 0; i < 12; ++i) power = Growth::product(power, power, 1);
  EXPECT_FALSE(power.known());
}

}  // namespace
}  // namespace heliograph::exact
