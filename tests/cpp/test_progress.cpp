// Progress of computations: shares of nested steps, silent preparations, exceptions, threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/progress.h"

namespace heliograph {
namespace {

using Shares = std::vector<double>;

/// A computation of two steps that calls no other computation.
void two_steps() {
  ProgressSteps steps(2);
  steps.add(), steps.add();
}

Shares shares_of(const std::function<void()>& computation) {
  Shares shares;
  const ProgressScope scope([&](double share) { shares.push_back(share); });
  computation();
  return shares;
}

TEST(Progress, EachComputationOfAScopeReportsFromZeroToOne) {
  EXPECT_EQ(shares_of(two_steps), (Shares{0.5, 1}));
  EXPECT_EQ(shares_of([] { two_steps(), two_steps(); }), (Shares{0.5, 1, 0.5, 1}));
}

TEST(Progress, APartReportsItsShareOfTheWhole) {
  EXPECT_EQ(shares_of([] {
              ProgressSteps steps(4);
              steps.part(1, [] { two_steps(); });
              steps.part_until(3, [] {
                ProgressSteps inner(2);
                inner.part(1, [] { two_steps(); });
                inner.add();
              });
              steps.add_until(4);
            }),
            (Shares{0.125, 0.25, 0.375, 0.5, 0.75, 1}));
}

TEST(Progress, EndsAtExactlyOne) {
  for (const int n : {3, 7, 49, 1000}) {
    const Shares shares = shares_of([n] {
      ProgressSteps steps(n);
      for (int i = 0; i < n; ++i) steps.part(1, [] { two_steps(); });
    });
    EXPECT_EQ(shares.back(), 1) << n;
    EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end())) << n;
  }
}

TEST(Progress, MoreStepsThanEstimatedStayAtTheEnd) {
  EXPECT_EQ(shares_of([] {
              ProgressSteps steps(1);
              steps.add(), steps.add();
            }),
            (Shares{1, 1}));
}

TEST(Progress, OtherComputationsReportNothing) {
  EXPECT_EQ(shares_of([] {
              {
                const Unreported preparation;
                two_steps();
              }
              ProgressSteps steps(1);
              two_steps();
              steps.add();
            }),
            (Shares{1}));
}

TEST(Progress, TheCallbackMayComputeUnreported) {
  int calls = 0;
  const ProgressScope scope([&](double) { ++calls, two_steps(); });
  two_steps();
  EXPECT_EQ(calls, 2);
}

TEST(Progress, OfNestedScopesTheInnermostIsUsed) {
  Shares inner;
  const Shares outer = shares_of([&] {
    inner = shares_of(two_steps);
    const ProgressScope none({});
    two_steps();
    EXPECT_FALSE(ProgressSteps(1).has_observer());
  });
  EXPECT_EQ(inner, (Shares{0.5, 1}));
  EXPECT_EQ(outer, Shares());
}

TEST(Progress, AnExceptionEndsTheComputationAndRestoresTheScope) {
  int calls = 0;
  const ProgressScope scope([&](double) {
    if (++calls == 2) throw std::runtime_error("enough");
  });
  const auto nested = [] {
    ProgressSteps steps(2);
    steps.part(1, [] { two_steps(); });
    steps.part(1, [] { two_steps(); });
  };
  EXPECT_THROW(nested(), std::runtime_error);
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(ProgressSteps(1).has_observer());
  nested();
  EXPECT_EQ(calls, 6);
}

TEST(Progress, AScopeIsOfItsThread) {
  EXPECT_EQ(shares_of([] { std::jthread([] { EXPECT_FALSE(ProgressSteps(1).has_observer()), two_steps(); }); }), Shares());
}

TEST(Progress, EachReportIsACancellationPoint) {
  const Interruptible interruptible([] { throw std::runtime_error("interrupted"); });
  ProgressSteps steps(1e9);
  EXPECT_THROW(for (;;) steps.add(), std::runtime_error);
}

}  // namespace
}  // namespace heliograph
