// linear_sum: sums of plaintexts times rotations, of every shape of steps, keys and divisions.
#include "op_cases.h"
#include "op_plans.h"

namespace heliograph::test {

namespace {

/// Baby and giant steps by their Galois elements (1 turns nothing), and which pairs have a plaintext.
struct Steps {
  std::string name;
  std::vector<u64> babies, giants;
  std::vector<device::LinearPlan::Term> terms;
};

/// All pairs.
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

/// How plaintexts lie: so many words a limb, each for a run; 0: all.
struct Plaintexts {
  std::size_t words = 0;
  Layout layout = Layout::packed;
};

/// The switch shape's sums divided down to `to`.
void linear_case(std::vector<OpCase>& cases, const Field& field, const SwitchShape& shape, const PrimeList& to,
                 const Steps& steps, const Setting& s, const Plaintexts& p = {}) {
  const auto declare = [=, &field](Rig& rig) -> std::function<void()> {
    const auto ring = switch_ring(field, s.n);
    auto plan = std::make_shared<device::LinearPlan>();
    plan->key_switch = ntt_switch_plan(rig, ring, shape, to);
    plan->mod_down = switch_plan(rig, ring, shape)->mod_down;
    const auto permutations = [&](const std::vector<u64>& elements) {
      std::vector<device::PermutationHandle> list;
      for (const u64 g : elements) {
        list.push_back(g == 1 ? nullptr : rig.kernels().prepare(device::Permutation{math::automorphism_table(s.n, g), {}}));
      }
      return list;
    };
    plan->babies = permutations(steps.babies), plan->giants = permutations(steps.giants);
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

PrimeList without_last(const PrimeList& list) { return PrimeList(list.begin(), list.size() - 1); }

}  // namespace

void linear_cases(std::vector<OpCase>& cases) {
  const auto& shapes = switch_shapes();
  const auto& steps = step_shapes();
  for (const Field* f : main_fields()) {
    // Every shape of steps over the commonest gadget, every gadget with one; small degrees, whose layouts differ.
    for (std::size_t i = 0; i < steps.size(); ++i)
      linear_case(cases, *f, shapes[4], without_last(shapes[4].chain), steps[i], settings()[i % settings().size()]);
    for (std::size_t i = 0; i < shapes.size(); ++i)
      linear_case(cases, *f, shapes[i], shapes[i].chain, steps[i % 2 == 0 ? 0 : 6], settings()[(i + 1) % settings().size()]);
    // Degrees that are fused.
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const Setting s{i % 2 == 0 ? std::size_t{1024} : 2048, {1 + i % 2}, Layout::packed, 0, Fill::random};
      linear_case(cases, *f, shapes[3], without_last(shapes[3].chain), steps[i], s);
    }
    linear_case(cases, *f, shapes[5], without_last(shapes[5].chain), steps[6], wide_settings()[0]);
    linear_case(cases, *f, shapes[1], shapes[1].chain, steps[5], wide_settings()[4]);
    linear_case(cases, *f, shapes[4], {0, 8, 1}, steps[0], wide_settings()[1]);
    linear_case(cases, *f, shapes[4], without_last(shapes[4].chain), steps[6], wide_settings()[3]);
  }
  // Plaintexts that repeat: runs shorter and longer than what a core takes at once, half of all words, a single one.
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
  linear_case(cases, kField32Mixed, shapes[4], without_last(shapes[4].chain), steps[6], wide_settings()[2]);
}

}  // namespace heliograph::test
