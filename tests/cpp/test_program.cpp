// Recorded programs below the schemes: places, constants, lifetimes, layers, batching, and graphs on a made-up GPU.
#include <gtest/gtest.h>

#include "device/kernels.h"
#include "heliograph/program.h"
#include "op_rig.h"
#include "program/schedule.h"
#include "program/tape.h"
#include "ring/tensor.h"

namespace heliograph {
namespace {

using device::Buffer;
using device::View;
using program::Program;
using program::Tape;
using ring::RnsTensor;

constexpr std::size_t kN = 64;

class Programs : public testing::TestWithParam<const char*> {
 protected:
  Programs()
      : device_(device::open_device(GetParam())),
        engine_(std::make_shared<ring::Engine>(*device_, test::ring_of(test::kField50, kN, 2))) {}

  RnsTensor tensor(math::u64 first) {
    RnsTensor t(engine_, {3}, 1, device::PrimeList::range(0, 2), math::Domain::ntt);
    std::vector<math::u64> words(t.view().words());
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = first + i;
    ring::upload(t, std::as_bytes(std::span(words)));
    return t;
  }
  RnsTensor times(const RnsTensor& a, const RnsTensor& b) { return ring::multiply_polynomial(a, b); }

  std::unique_ptr<device::Device> device_;
  std::shared_ptr<ring::Engine> engine_;
};

TEST_P(Programs, AReplayComputesAnewFromOtherInputs) {
  const RnsTensor a = tensor(1), b = tensor(500), c = tensor(77), d = tensor(9000), fixed = tensor(40);
  const auto function = [&](const RnsTensor& x, const RnsTensor& y) {
    const RnsTensor shift = ring::add(fixed, fixed);  // follows from no input
    const RnsTensor unused = times(y, y);
    return ring::add(times(ring::subtract(x, y), y), shift);
  };
  Tape tape({a.view(), b.view()}, {});
  std::optional<device::Observing> observing(tape);
  const RnsTensor first = function(a, b);
  observing.reset();
  const auto made = tape.finish({first.view()});
  EXPECT_EQ(made->steps().size(), 3U);  // not the shift, not what nobody needs
  EXPECT_EQ(made->depth(), 3U);
  for (const auto& [x, y] : {std::pair(a, b), std::pair(c, d), std::pair(d, a)}) {
    const std::vector<View> results = made->replay({x.view(), y.view()}, {});
    ASSERT_EQ(results.size(), 1U);
    EXPECT_EQ(ring::download(first.over(results[0])), ring::download(function(x, y)));
  }
}

TEST_P(Programs, ResultsOfTwoReplaysLieApart) {
  const RnsTensor a = tensor(1), b = tensor(2);
  Tape tape({a.view()}, {});
  std::optional<device::Observing> observing(tape);
  const RnsTensor sum = ring::add(a, a);
  observing.reset();
  const auto made = tape.finish({sum.view(), a.view()});
  const auto one = made->replay({a.view()}, {}), two = made->replay({b.view()}, {});
  EXPECT_NE(one[0].memory, two[0].memory);
  EXPECT_EQ(one[1].memory, a.view().memory);  // the input itself
  EXPECT_EQ(two[1].memory, b.view().memory);
  EXPECT_EQ(ring::download(sum.over(one[0])), ring::download(sum));
  EXPECT_EQ(ring::download(sum.over(two[0])), ring::download(ring::add(b, b)));
}

TEST_P(Programs, InputsAreNotHeld) {
  RnsTensor a = tensor(1);
  std::weak_ptr<device::Memory> input = a.view().memory, output;
  std::shared_ptr<Program> made;
  {
    Tape tape({a.view()}, {});
    std::optional<device::Observing> observing(tape);
    const RnsTensor sum = ring::add(a, a);
    observing.reset();
    output = sum.view().memory;
    made = tape.finish({sum.view()});
  }
  a = RnsTensor();
  EXPECT_TRUE(input.expired());
  EXPECT_TRUE(output.expired());
}

TEST_P(Programs, ValuesThatVaryAreNotLookedAt) {
  const RnsTensor a = tensor(1), fixed = tensor(2);
  Tape tape({a.view()}, {});
  const device::Observing observing(tape);
  const RnsTensor sum = ring::add(a, a);
  EXPECT_THROW(ring::download(sum), RecordingError);
  EXPECT_EQ(ring::download(fixed).size(), fixed.bytes());
  {
    const device::Unobserved alone;
    EXPECT_EQ(ring::download(sum).size(), sum.bytes());
  }
  std::vector<std::byte> words(sum.bytes());
  EXPECT_THROW(ring::upload(sum, words), RecordingError);
  device::Draw draw{.distribution = device::Distribution::uniform};
  EXPECT_THROW(engine_->enqueue(device::Sample{engine_->prepared(), fixed.primes(), Secret(draw), tensor(3).view()}),
               RecordingError);
}

TEST_P(Programs, AlikeCallsOnIndependentDataAreOne) {
  const RnsTensor a = tensor(1), b = tensor(500), shared = tensor(3);
  Tape tape({a.view(), b.view()}, {});
  std::optional<device::Observing> observing(tape);
  std::vector<RnsTensor> branch = {a, b};
  for (int i = 0; i < 3; ++i) {
    for (RnsTensor& x : branch) x = times(ring::add(x, x), shared);
  }
  const RnsTensor alone = ring::negate(branch[0]);
  observing.reset();
  const auto made = tape.finish({branch[0].view(), branch[1].view(), alone.view()});
  const auto plan = program::schedule({made->places(), made->steps(), {}});
  ASSERT_NE(plan, nullptr);
  ASSERT_EQ(plan->layers.size(), 7U);
  EXPECT_EQ(plan->launches(), 7U);  // of thirteen
  for (std::size_t l = 0; l < 6; ++l) {
    EXPECT_EQ(device::items_of(plan->layers[l].front().step.call), 6U) << l;
  }
  // What is used at the same time does not overlap.
  for (const program::Area& x : plan->areas) {
    for (const program::Area& y : plan->areas) {
      if (&x == &y || x.result || y.result || x.bytes == 0 || y.bytes == 0 || x.last < y.first || y.last < x.first) continue;
      EXPECT_TRUE(x.offset + x.bytes <= y.offset || y.offset + y.bytes <= x.offset);
    }
  }
}

TEST_P(Programs, WhatDependsIsNotJoined) {
  const RnsTensor a = tensor(1);
  Tape tape({a.view()}, {});
  std::optional<device::Observing> observing(tape);
  const RnsTensor twice = ring::add(a, a), more = ring::add(twice, twice);
  observing.reset();
  const auto made = tape.finish({more.view()});
  const auto plan = program::schedule({made->places(), made->steps(), {}});
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->layers.size(), 2U);
}

INSTANTIATE_TEST_SUITE_P(Devices, Programs, testing::Values("ref", "cpu"));

}  // namespace
}  // namespace heliograph
