// Cases of linear_sum, baby_steps and giant_steps: sums of plaintexts times rotations, with every shape of steps, keys and
// divisions.
#include "device/shape.h"
#include "op_cases.h"
#include "op_plans.h"

namespace heliograph::test {

namespace {

/// Galois elements of the baby and giant steps (element 1 is no rotation), and the pairs of steps that have a plaintext.
struct Steps {
  std::string name;
  std::vector<u64> babies, giants;
  std::vector<device::LinearPlan::Term> terms;
};

/// Returns steps in which every pair of a baby and a giant step has a plaintext.
Steps full(std::string name, std::vector<u64> babies, std::vector<u64> giants) {
  Steps s{std::move(name), std::move(babies), std::move(giants), {}};
  for (u32 g = 0; g < s.giants.size(); ++g) {
    for (u32 b = 0; b < s.babies.size(); ++b) s.terms.push_back({g, b});
  }
  return s;
}

std::vector<u64> galois_from(std::size_t first, std::size_t count) {
  std::vector<u64> elements;
  for (std::size_t i = 0; i < count; ++i) elements.push_back(2 * (first + i) + 1);
  return elements;
}

const std::vector<Steps>& step_shapes() {
  static const std::vector<Steps> shapes = {
      full("three by two", {1, 3, 5}, {1, 7}),
      full("one diagonal, not turned", {1}, {1}),
      full("one diagonal", {5}, {1}),
      full("no babies turn", {1}, {1, 3, 7}),
      full("no giants turn", {1, 3, 7, 9}, {1}),
      full("all turn", {3, 5}, {7, 11}),
      {"some of three by three", {1, 3, 5}, {1, 7, 9}, {{0, 1}, {1, 0}, {1, 2}, {2, 0}, {2, 1}, {2, 2}}},
      full("many giants", {1, 3}, galois_from(2, 10)),
      full("many babies", galois_from(0, 37), {1, 3, 5}),
  };
  return shapes;
}

std::vector<device::PermutationHandle> permutations(Rig& rig, std::size_t n, const std::vector<u64>& elements) {
  std::vector<device::PermutationHandle> list;
  for (const u64 g : elements)
    list.push_back(g == 1 ? nullptr : rig.kernels().prepare(device::Permutation{math::automorphism_table(n, g), {}}));
  return list;
}

/// Layout of plaintexts. `words`: words per limb, each repeated over a run of coefficients; 0: one word per coefficient.
struct Plaintexts {
  std::size_t words = 0;
  Layout layout = Layout::packed;
};

/// Adds a case whose sums are divided down to the limbs `to`, by the other primes.
void linear_case(std::vector<OpCase>& cases, const Field& field, const SwitchShape& shape, const PrimeList& to,
                 const Steps& steps, const Setting& s, const Plaintexts& p = {}) {
  const auto declare = [=, &field](Rig& rig) -> std::function<void()> {
    const auto ring = switch_ring(field, s.n);
    auto plan = std::make_shared<device::LinearPlan>();
    plan->key_switch = ntt_switch_plan(rig, ring, shape, to);
    plan->mod_down = switch_plan(rig, ring, shape)->mod_down;
    plan->babies = permutations(rig, s.n, steps.babies), plan->giants = permutations(rig, s.n, steps.giants);
    plan->terms = steps.terms;
    const device::KeySwitchPlan& k = *plan->key_switch;
    device::LinearSum call{.plan = plan,
                           .x = rig.input(*ring, k.chain, {s.batch, 2, s.layout}, s.fill),
                           .keys = {},
                           .plaintexts = rig.input(field.word, p.words > 0 ? p.words : s.n, moduli(*ring, k.extended),
                                                   {{}, steps.terms.size(), p.layout}, s.fill),
                           .out = rig.output(*ring, k.down.out, {s.batch, 2, out_layout(s)}),
                           .scratch = {}};
    const std::size_t keys = device::LinearPlan::turning(plan->babies) + device::LinearPlan::turning(plan->giants);
    for (std::size_t i = 0; i < keys; ++i)
      call.keys.push_back(rig.input(*ring, PrimeList::range(0, 9), {{}, 2 * k.digits.size()}, s.fill));
    const device::Call with = rig.with_scratch(std::move(call));
    return [=, &rig] { rig.queue().enqueue(with); };
  };
  const std::string down = to.size() == shape.chain.size() ? "" : ", merged";
  cases.push_back({"linear_sum",
                   std::string(field.name) + " n=" + std::to_string(s.n) + " " + shape.name + down + ", " + steps.name +
                       (p.words > 0 ? ", plaintexts of " + std::to_string(p.words) + " words" : ""),
                   kind_of(field, s), s.n > 4096, declare});
}

std::size_t batch_of(const Setting& s) { return s.batch.empty() ? 1 : device::element_count(s.batch); }

/// Adds a case of baby steps over the limbs `primes`. The ciphertext has the first `chain` limbs of them, the keys have all
/// nine limbs.
void baby_case(std::vector<OpCase>& cases, const Field& field, const PrimeList& primes, std::size_t chain,
               std::size_t digits, const Steps& steps, const Setting& s, const Plaintexts& p = {}) {
  const auto declare = [=, &field](Rig& rig) -> std::function<void()> {
    const auto ring = switch_ring(field, s.n);
    device::LimbConstants weight{};
    for (std::size_t l = 0; l < chain; ++l) weight[l] = ring->prime(primes[l]) - 1 - l;
    device::BabySteps call{.ring = rig.kernels().prepare(ring),
                           .primes = primes,
                           .turns = permutations(rig, s.n, steps.babies),
                           .terms = steps.terms,
                           .weight = weight,
                           .x = rig.input(*ring, PrimeList(primes.begin(), chain), {s.batch, 2, s.layout}, s.fill),
                           .digits = rig.input(*ring, primes, {s.batch, digits, s.layout}, s.fill),
                           .keys = {},
                           .key_limbs = primes,
                           .plaintexts = rig.input(field.word, p.words > 0 ? p.words : s.n, moduli(*ring, primes),
                                                   {{}, steps.terms.size(), p.layout}, s.fill),
                           .sums = rig.output(*ring, primes, {{steps.giants.size() * batch_of(s)}, 2}),
                           .scratch = {}};
    for (std::size_t i = 0; i < device::LinearPlan::turning(call.turns); ++i)
      call.keys.push_back(rig.input(*ring, PrimeList::range(0, 9), {{}, 2 * digits}, s.fill));
    const device::Call with = rig.with_scratch(std::move(call));
    return [=, &rig] { rig.queue().enqueue(with); };
  };
  cases.push_back({"baby_steps",
                   std::string(field.name) + " n=" + std::to_string(s.n) + " " + std::to_string(chain) + " of " +
                       std::to_string(primes.size()) + " limbs, " + std::to_string(digits) + " digits, " + steps.name +
                       (p.words > 0 ? ", plaintexts of " + std::to_string(p.words) + " words" : ""),
                   kind_of(field, s), s.n > 4096, declare});
}

/// Adds a case of giant steps over the limbs `primes`.
void giant_case(std::vector<OpCase>& cases, const Field& field, const PrimeList& primes, std::size_t digits,
                std::size_t giants, const Setting& s) {
  const auto declare = [=, &field](Rig& rig) -> std::function<void()> {
    const auto ring = switch_ring(field, s.n);
    const std::size_t all = giants * batch_of(s);
    device::GiantSteps call{.ring = rig.kernels().prepare(ring),
                            .primes = primes,
                            .turns = permutations(rig, s.n, galois_from(1, giants)),
                            .sums = rig.input(*ring, primes, {{all}, 1, s.layout}, s.fill),
                            .digits = rig.input(*ring, primes, {{all}, digits, s.layout}, s.fill),
                            .keys = {},
                            .key_limbs = primes,
                            .total = rig.in_out(*ring, primes, {s.batch, 2, out_layout(s)}, s.fill),
                            .scratch = {}};
    for (std::size_t i = 0; i < giants; ++i)
      call.keys.push_back(rig.input(*ring, PrimeList::range(0, 9), {{}, 2 * digits}, s.fill));
    const device::Call with = rig.with_scratch(std::move(call));
    return [=, &rig] { rig.queue().enqueue(with); };
  };
  cases.push_back({"giant_steps",
                   std::string(field.name) + " n=" + std::to_string(s.n) + " " + std::to_string(primes.size()) + " limbs, " +
                       std::to_string(digits) + " digits, " + std::to_string(giants) + " steps",
                   kind_of(field, s), s.n > 4096, declare});
}

PrimeList without_last(const PrimeList& list) { return PrimeList(list.begin(), list.size() - 1); }

}  // namespace

void linear_cases(std::vector<OpCase>& cases) {
  const auto& shapes = switch_shapes();
  const auto& steps = step_shapes();
  for (const Field* f : main_fields()) {
    // Cases of every shape of steps with the most common gadget, and cases of every gadget with one shape. Small degrees
    // have different layouts.
    for (std::size_t i = 0; i < steps.size(); ++i)
      linear_case(cases, *f, shapes[4], without_last(shapes[4].chain), steps[i], settings()[i % settings().size()]);
    for (std::size_t i = 0; i < shapes.size(); ++i)
      linear_case(cases, *f, shapes[i], shapes[i].chain, steps[i % 2 == 0 ? 0 : 6], settings()[(i + 1) % settings().size()]);
    // Cases at degrees for which GPUs have fused kernels.
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const Setting s{i % 2 == 0 ? std::size_t{1024} : 2048, {1 + i % 2}, Layout::packed, 0, Fill::random};
      linear_case(cases, *f, shapes[3], without_last(shapes[3].chain), steps[i], s);
    }
    linear_case(cases, *f, shapes[5], without_last(shapes[5].chain), steps[6], wide_settings()[0]);
    linear_case(cases, *f, shapes[1], shapes[1].chain, steps[5], wide_settings()[4]);
    linear_case(cases, *f, shapes[4], {0, 8, 1}, steps[0], wide_settings()[1]);
    linear_case(cases, *f, shapes[4], without_last(shapes[4].chain), steps[6], wide_settings()[3]);
  }
  // Plaintexts whose words repeat over runs. Runs are shorter and longer than a block of the cpu backend, half of the
  // coefficients, or all coefficients.
  for (const Field* f : main_fields()) {
    const PrimeList down = without_last(shapes[4].chain);
    linear_case(cases, *f, shapes[4], down, steps[0], settings()[0], {1});
    linear_case(cases, *f, shapes[4], down, steps[5], settings()[1], {256, Layout::sliced});
    linear_case(cases, *f, shapes[4], down, steps[7], settings()[2], {16});
    linear_case(cases, *f, shapes[4], down, steps[8], settings()[0], {32});
    linear_case(cases, *f, shapes[4], down, steps[6], settings()[3], {4});
    linear_case(cases, *f, shapes[4], down, steps[6], settings()[4], {2, Layout::sliced});
    linear_case(cases, *f, shapes[0], shapes[0].chain, steps[3], settings()[0], {64});
    const PrimeList short_down = without_last(shapes[3].chain);
    const Setting one{1024, {1}, Layout::packed, 0, Fill::random}, two{2048, {2}, Layout::packed, 0, Fill::random};
    linear_case(cases, *f, shapes[3], short_down, steps[0], two, {32, Layout::sliced});
    linear_case(cases, *f, shapes[3], short_down, steps[6], one, {512});
    linear_case(cases, *f, shapes[3], short_down, steps[8], two, {1});
    linear_case(cases, *f, shapes[3], short_down, steps[7], one, {16});
    linear_case(cases, *f, shapes[5], without_last(shapes[5].chain), steps[6], wide_settings()[0], {16});
    linear_case(cases, *f, shapes[4], down, steps[6], wide_settings()[3], {32});
    linear_case(cases, *f, shapes[4], down, steps[5], wide_settings()[3], {512});
  }
  // Baby steps alone and giant steps alone, over limbs that a member of a mesh may hold.
  for (const Field* f : main_fields()) {
    const PrimeList whole = PrimeList::range(0, 8), some = {1, 3, 5, 7};
    for (std::size_t i = 0; i < steps.size(); ++i) {
      baby_case(cases, *f, whole, 6, 3, steps[i], settings()[i % settings().size()]);
      if (i % 2 == 1) continue;
      baby_case(cases, *f, some, 3, 2, steps[i], {1024, {1 + i / 2 % 2}, Layout::packed, 0, Fill::random},
                i % 3 == 0 ? Plaintexts{64} : Plaintexts{});
    }
    baby_case(cases, *f, some, 3, 5, steps[0], wide_settings()[1]);
    for (const std::size_t giants : {1, 3, 6, 10}) {
      giant_case(cases, *f, whole, 3, giants, settings()[giants % settings().size()]);
      giant_case(cases, *f, some, 5, giants, {1024, {giants == 3 ? std::size_t{2} : 1}, Layout::packed, 0, Fill::random});
    }
    giant_case(cases, *f, some, 2, 3, wide_settings()[0]);
    giant_case(cases, *f, {1, 3}, 1, 2, {4096, {}, Layout::packed, 0, Fill::random});
  }
  linear_case(cases, kField32Mixed, shapes[4], without_last(shapes[4].chain), steps[6], wide_settings()[2]);
}

}  // namespace heliograph::test
