// On the simulated co-processor every supported declared case has the bits of `ref`, however the card's buses stall.
// Unsupported cases are refused by name.
#include <gtest/gtest.h>

#include <regex>

#include "math/primes.h"
#include "op_cases.h"

namespace heliograph::test {
namespace {

/// Returns the simulated co-processor card with these options, opened once, or null if this build has none.
Target* card(const std::string& options) {
  static std::map<std::string, Target> open;
  auto found = open.find(options);
  if (found == open.end()) {
    try {
      found = open.emplace(options, Target{"rtl", device::open_device("rtl" + options), {}}).first;
    } catch (const DeviceError& e) {
      EXPECT_NE(std::string(e.what()).find("apt-get install verilator"), std::string::npos) << e.what();
      return nullptr;
    }
  }
  return &found->second;
}

device::Cycles cycles(const Target& target) { return target.device->simulation()->cycles(); }

/// Returns the number after "n=" in a case's name, or 0.
std::size_t degree_in(const OpCase& c) {
  std::smatch found;
  static const std::regex degree("n=(\\d+)");
  return std::regex_search(c.name, found, degree) ? std::stoul(found[1]) : 0;
}

/// Returns the reason why the card refuses a case, from the case's name; "" if it must accept it.
std::string reason_against(const OpCase& c, std::size_t beat = 4) {
  const auto has = [&](const char* text) { return std::regex_search(c.name, std::regex(text)); };
  const std::size_t n = degree_in(c);
  if (has("w64|32 to 64 bits|64 to 32 bits|fraction") ||
      has("t=(2|256|4294967296|8796092987393|1125899906842624|1125899906826241) "))
    return "words";
  if ((n > 0 && n < beat) || (beat > 4 && has("extend, broadcast"))) return "too short";
  static const std::set<std::string> whole = {"forward_ntt", "inverse_ntt",        "permute",     "decompose",  "apply_key",
                                              "apply_keys",  "key_switch",         "divide",      "linear_sum", "baby_steps",
                                              "giant_steps", "partial_key_switch", "bfv_multiply"};
  if (n > 0 && n < 512 && whole.contains(c.kernel)) return "the polynomial is too short for the NTT";
  if (has("(33|63) sources")) return "many limbs";
  return "";
}

/// The tested cases of a kernel: first one case of each degree, then further cases until the budget of clock cycles is used
/// up.
class Sample {
 public:
  Sample(std::string kernel, u64 budget) : kernel_(std::move(kernel)), budget_(budget) {}
  /// Runs f on each case; f returns the clock cycles that the case took.
  template <class F>
  void each(F f) {
    std::set<const OpCase*> done;
    std::set<std::size_t> degrees;
    u64 spent = 0;
    const auto pass = [&](bool degrees_alone, std::size_t stride) {
      std::size_t number = 0;
      for (const OpCase& c : op_cases()) {
        if (c.kernel != kernel_ || c.large || done.contains(&c)) continue;
        if (degrees_alone ? !degrees.insert(degree_in(c)).second : spent > budget_ || number++ % stride != 0) continue;
        done.insert(&c);
        spent += f(c);
      }
    };
    pass(true, 1);
    pass(false, 5);
    pass(false, 1);
  }

 private:
  std::string kernel_;
  u64 budget_;
};

class RtlOperation : public testing::TestWithParam<std::string> {
 protected:
  void check(const std::string& options, std::size_t beat, u64 budget) {
    Target* target = card(options);
    if (target == nullptr) GTEST_SKIP() << "Verilator is not installed";
    const u64 stalled = cycles(*target).stalled;
    std::size_t performed = 0, refused = 0;
    Sample(GetParam(), budget).each([&](const OpCase& c) -> u64 {
      const u64 before = cycles(*target).cycles;
      try {
        EXPECT_EQ(fault_in(c, run_case(*target, c)), "");
        ++performed;
      } catch (const ParameterError& e) {
        EXPECT_NE(reason_against(c, beat), "") << c.kernel << "/" << c.name << ": " << e.what();
        ++refused;
      }
      return cycles(*target).cycles - before;
    });
    EXPECT_GE(performed, 4u);
    if (GetParam() != "sample" && GetParam() != "byte_product") {  // the host's driver computes these two kernels
      EXPECT_GT(cycles(*target).stalled, stalled + 200) << "the buses did not stall";
    }
  }
};

class FullRtlOperation : public RtlOperation {};

TEST_P(RtlOperation, HasTheBitsOfRefUnderStalls) { check(":butterflies=2,stalls=30", 4, 1'000'000); }
TEST_P(FullRtlOperation, HasTheBitsOfRefUnderStalls) { check(":butterflies=8,stalls=50,seed=7", 16, ~u64{0} >> 1); }
INSTANTIATE_TEST_SUITE_P(All, RtlOperation, testing::ValuesIn(contract_kernels()), [](const auto& i) { return i.param; });
INSTANTIATE_TEST_SUITE_P(All, FullRtlOperation, testing::ValuesIn(contract_kernels()),
                         [](const auto& i) { return i.param; });

/// Tests kernels that are declared for few degrees, at all degrees and levels of the card.
class RtlDegree : public testing::TestWithParam<std::tuple<std::size_t, std::size_t>> {};

Results products_and_moves(Target& target, std::size_t n, std::size_t limbs) {
  Rig rig(target);
  const auto ring = ring_of(kField32Mixed, n, 6);
  const auto prepared = rig.prepare(ring);
  const PrimeList primes = PrimeList::range(1, limbs), others{0, 5};
  const View a = rig.input(*ring, primes, {{2}, 2}), b = rig.input(*ring, primes, {{2}, 2}, Fill::edges);
  const View key = rig.input(*ring, primes, {{}, 4});
  rig.queue().enqueue(device::Tensor{prepared, primes, a, b, rig.output(*ring, primes, {{2}, 3})});
  rig.queue().enqueue(
      device::InnerProduct{prepared, primes, a, key, PrimeList::range(0, limbs), rig.output(*ring, primes, {{2}, 2})});
  const auto turn = rig.kernels().prepare(device::Permutation{math::automorphism_table(n, 5), {}});
  rig.queue().enqueue(device::Permute{prepared, primes, turn, a, rig.output(*ring, primes, {{2}, 2})});
  const auto product = rig.kernels().prepare(device::GatheredProduct{
      .outputs = 3, .positions = 1, .terms = 2, .inputs = 2, .weights = {1, -7, 0, 0, 123456789012, 5}, .index = {1, 0}});
  rig.queue().enqueue(device::Product{prepared, primes, product, a, rig.output(*ring, primes, {{3}, 2})});
  const auto conversion = rig.kernels().prepare(math::divide_and_round(moduli(*ring, primes), moduli(*ring, others), 3));
  const View own = rig.input(*ring, others, {{2}, 2});
  rig.queue().enqueue(device::Convert{conversion, a, own, rig.output(*ring, others, {{2}, 2})});
  rig.queue().enqueue(device::Gather{
      {{a, rig.output(*ring, primes, {{2}, 2, Layout::reversed})}, {b, rig.output(*ring, primes, {{2}, 2})}}});
  return rig.results();
}

TEST_P(RtlDegree, ProductsConversionsAndMoves) {
  Target* target = card(":butterflies=2,stalls=30");
  if (target == nullptr) GTEST_SKIP() << "Verilator is not installed";
  Target ref = open_target("ref");
  const auto [n, limbs] = GetParam();
  EXPECT_TRUE(products_and_moves(*target, n, limbs) == products_and_moves(ref, n, limbs));
}
INSTANTIATE_TEST_SUITE_P(Levels, RtlDegree, testing::Combine(testing::Values(512, 4096), testing::Values(2, 4)));

/// Compares the cycles of a card without stalls with the cycles of its model.
class RtlModel : public testing::TestWithParam<std::string> {};

TEST_P(RtlModel, PredictsTheCyclesWithinTwoPercent) {
  Target* target = card(GetParam());
  if (target == nullptr) GTEST_SKIP() << "Verilator is not installed";
  for (const char* kernel :
       {"key_switch", "bfv_multiply", "divide", "convert", "product", "inner_product", "forward_ntt", "permute", "mul"}) {
    std::size_t count = 0;
    for (const OpCase& c : op_cases()) {
      const std::size_t n = degree_in(c);
      if (c.kernel != kernel || c.large || !reason_against(c).empty() || (n != 0 && n < 1024) || n > 4096) continue;
      if (count++ % 6 != 1 || count > 20) continue;
      const device::Cycles before = cycles(*target);
      run_case(*target, c);
      const device::Cycles after = cycles(*target);
      const auto taken = static_cast<double>(after.cycles - before.cycles),
                 said = static_cast<double>(after.predicted - before.predicted);
      if (taken < 10000) continue;
      EXPECT_NEAR(said / taken, 1, 0.02) << c.kernel << "/" << c.name << ": " << taken << " cycles, " << said
                                         << " by the model";
    }
    EXPECT_GT(count, 1u) << kernel;
  }
}
INSTANTIATE_TEST_SUITE_P(Cards, RtlModel, testing::Values("", ":butterflies=2"),
                         [](const auto& i) { return i.param.empty() ? "usual" : "small"; });

/// Returns the message of the error that `f` throws, which must name an alternative.
template <class F>
std::string refusal(F f) {
  try {
    f();
  } catch (const ParameterError& e) {
    return e.what();
  }
  return "nothing was refused";
}
void expect_words(const std::string& said, std::initializer_list<const char*> words) {
  for (const char* word : words) EXPECT_NE(said.find(word), std::string::npos) << said;
}

TEST(Rtl, RefusesUnsupportedSetsAndNamesSupportedOnes) {
  Target* target = card("");
  if (target == nullptr) GTEST_SKIP() << "Verilator is not installed";
  Kernels& kernels = target->device->kernels();
  expect_words(refusal([&] { kernels.prepare(ring_of(kField60, 4096, 3)); }), {"60 bits", "word_size=32", "/w32", "cpu"});
  expect_words(refusal([&] { kernels.prepare(ring_of(kField32, 32768, 3)); }), {"16384", "32768", "smaller degree"});
  expect_words(refusal([&] { kernels.prepare(math::extend_base({257}, {65537})); }), {"11 to 30 bits", "257"});
  expect_words(refusal([&] { kernels.prepare(math::extend_base({65537}, {u64{1} << 40})); }),
               {"at most 30 bits", "1099511627776"});
  std::vector<u64> many = moduli(*ring_of(kField32, 512, 17), PrimeList::range(0, 17));
  expect_words(refusal([&] { kernels.prepare(math::extend_base(many, {65537})); }), {"at most 16 source limbs", "17"});
  Rig rig(*target);
  const auto ring = ring_of(kField32, 256, 3);
  const auto prepared = rig.prepare(ring);
  const View x = rig.input(*ring, {0}, {{}, 1});
  expect_words(refusal([&] { rig.queue().enqueue(device::ForwardNtt{prepared, {0}, x, x}); }), {"512 to 16384", "256"});
  device::Permutation swapped{std::vector<u32>(1024), {}};
  for (u32 i = 0; i < 1024; ++i) swapped.source[i] = i < 2 ? 1 - i : i;
  const auto wide = ring_of(kField32, 1024, 3);
  const View y = rig.input(*wide, {0}, {{}, 1}), z = rig.output(*wide, {0}, {{}, 1});
  expect_words(refusal([&] {
                 rig.queue().enqueue(device::Permute{rig.prepare(wide), {0}, rig.kernels().prepare(swapped), y, z});
               }),
               {"automorphisms", "cpu"});
  EXPECT_THROW(target->device->allocate(std::size_t{8} << 30, rig.queue()), OutOfMemoryError);
  EXPECT_THROW(target->device->tfhe(), DeviceError);
}

TEST(Rtl, RefusesOptionsThatAreNotCompiledAndNamesThoseThatAre) {
  if (card("") == nullptr) GTEST_SKIP() << "Verilator is not installed";
  expect_words(refusal([] { device::open_device("rtl:butterflies=16"); }), {"butterflies=16", "8 and 2"});
  expect_words(refusal([] { device::open_device("rtl:butterflies=8,lanes=2"); }), {"2 lanes", "8 and 2"});
  expect_words(refusal([] { device::open_device("rtl:speed=3"); }), {"speed=3", "butterflies=", "clock="});
  expect_words(refusal([] { device::open_device("rtl:clock=fast"); }), {"clock=fast"});
  expect_words(device::open_device("rtl:butterflies=2,lanes=2,clock=150")->description(), {"2 butterflies", "150 MHz"});
  const std::vector<std::string> found = device::found_devices();
  EXPECT_EQ(std::find(found.begin(), found.end(), "rtl"), found.end()) << "the rtl backend must not be a default device";
}

/// The card does not store results if they are freed before the host reads them. The results of a call on the card are
/// operands of the next call.
TEST(Rtl, KeepsResultsOnTheCard) {
  Target* target = card("");
  if (target == nullptr) GTEST_SKIP() << "Verilator is not installed";
  const auto ring = ring_of(kField32, 4096, 3);
  const u64 limb = 4 * 4096;
  device::Cycles before{}, after{};
  {
    Rig rig(*target);
    const auto prepared = rig.prepare(ring);
    const PrimeList primes{0};
    const View a = rig.input(*ring, primes, {{}, 1}), out = rig.output(*ring, primes, {{}, 1});
    before = cycles(*target);
    {
      const device::Buffer between = target->device->allocate(limb, rig.queue());
      View x = View::dense(between->address(), Word::w32, {}, 1, 1, 4096);
      rig.queue().enqueue(device::Add{prepared, primes, a, a, x});
      rig.queue().enqueue(device::Mul{prepared, primes, x, x, out});
    }
    rig.queue().wait();
    after = cycles(*target);
  }
  EXPECT_EQ(after.bytes_read - before.bytes_read, limb);
  EXPECT_EQ(after.bytes_written - before.bytes_written, limb);
  EXPECT_EQ(after.lists - before.lists, 1u);
  EXPECT_EQ(after.descriptors - before.descriptors, 5u) << "expected instructions: a load, two operations, a store, a fence";
}

/// The lift and scale of the paper at N = 8192: lift extends seven primes by eight; scale computes round(x / Q) modulo the
/// eight primes. Lift and scale convert the three polynomials of a product, from memory to memory.
class RtlConversion : public testing::TestWithParam<bool> {};

TEST_P(RtlConversion, KeepsTheMultipliersBusy) {
  Target* target = card("");
  if (target == nullptr) GTEST_SKIP() << "Verilator is not installed";
  constexpr std::size_t n = 8192, polynomials = 3;
  const bool scales = GetParam();
  Rig rig(*target);
  const auto ring = std::make_shared<const math::Ring>(n, Word::w32, math::largest_primes(30, 15, 2 * n));
  const PrimeList chain = PrimeList::range(0, 7), auxiliary = PrimeList::range(7, 8);
  const auto conversion =
      rig.kernels().prepare(scales ? math::divide_and_round(moduli(*ring, chain), moduli(*ring, auxiliary), 65537)
                                   : math::extend_base(moduli(*ring, chain), moduli(*ring, auxiliary)));
  const View x = rig.input(*ring, chain, {{}, polynomials});
  const View own = rig.input(*ring, auxiliary, {{}, polynomials});
  const View out = rig.output(*ring, auxiliary, {{}, polynomials});
  device::Cycles taken{};
  for (int time = 0; time < 2; ++time) {  // the constants of the second call are already on the card
    const device::Cycles before = cycles(*target);
    rig.queue().enqueue(device::Convert{conversion, x, scales ? std::optional<View>(own) : std::nullopt, out});
    rig.queue().wait();
    taken = cycles(*target);
    taken -= before;
  }
  RecordProperty(scales ? "cycles_scale" : "cycles_lift", static_cast<int>(taken.cycles / polynomials));
  EXPECT_LE(taken.cycles / polynomials, scales ? 32'000u : 20'500u);
  EXPECT_GT(taken.busy["convert"], 3u * 2047 * 8);
}
INSTANTIATE_TEST_SUITE_P(Slides, RtlConversion, testing::Bool(), [](const auto& i) { return i.param ? "scale" : "lift"; });

}  // namespace
}  // namespace heliograph::test
