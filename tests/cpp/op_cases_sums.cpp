// Cases of limb_sums.
#include "op_cases.h"

namespace heliograph::test {

namespace {

using List = device::LimbSumList;

/// Adds sums of every kind with 0 to `most` terms, over operands with these layouts.
struct Sums {
  const Field* field;
  std::size_t n;
  std::vector<Layout> operands;
  std::size_t most = 5, items = 1, components = 2;
  Layout result = Layout::packed;
  Fill fill = Fill::random;
  bool coefficients = false;  // automorphisms act on coefficients, not on NTT values
  bool turns = true;
};

OpCase sums_case(const Sums& s) {
  const auto declare = [=](Rig& rig) -> std::function<void()> {
    const auto ring = ring_of(*s.field, s.n, 6);
    const PrimeList primes = {2, 0, 5, 1};
    device::LimbSums call{.ring = rig.prepare(ring)};
    for (const Layout layout : s.operands)
      call.from.push_back(rig.input(*ring, primes, {{s.items}, s.components, layout}, s.fill));
    for (int k = 0; k < 2; ++k) call.to.push_back(rig.output(*ring, primes, {{s.items}, s.components, s.result}));
    for (const u64 g : {u64{5}, 2 * s.n - 1})
      call.turns.push_back(
          rig.kernels().prepare(automorphism(s.n, g, s.coefficients ? math::Domain::coefficient : math::Domain::ntt)));
    List list;
    u32 number = 0;
    for (u32 to = 0; to < 2; ++to) {
      for (u32 c = 0; c < s.components; ++c) {
        for (u32 l = 0; l < primes.size(); ++l, ++number) {
          const u64 q = ring->prime(primes[l]), weights[] = {1, q - 1, q / 3 * 2 + 1, 1, 0};
          List::Result r{.to = {to, c, l}, .prime = primes[l], .first = static_cast<u32>(list.terms.size())};
          r.count = static_cast<u32>(number % (s.most + 1));
          if (number % 3 == 0) r.constant = s.fill == Fill::top ? q - 1 : q / 2 + 1;
          for (u32 k = 0; k < r.count; ++k) {
            const u32 what = static_cast<u32>(rig.random() % 97), size = static_cast<u32>(s.operands.size());
            List::Term t{.a = {what % size, (what + k) % static_cast<u32>(s.components), l}};
            if (what % 3 != 0) t.b = {(what + 1) % size, what % static_cast<u32>(s.components), l};
            if (s.turns && what % 4 == 1) t.turn = what % 2;
            t.weight = weights[s.fill == Fill::top ? 1 : what % 5];
            list.terms.push_back(t);
          }
          list.results.push_back(r);
        }
      }
    }
    call.sums = rig.kernels().prepare(std::move(list));
    const device::Call whole = rig.with_scratch(call);
    return [=, &rig] { rig.queue().enqueue(whole); };
  };
  std::string name = std::string(s.field->name) + " n=" + std::to_string(s.n) + ", up to " + std::to_string(s.most) +
                     " terms of " + std::to_string(s.operands.size()) + " operands";
  if (s.items > 1) name += ", " + std::to_string(s.items) + " items";
  if (s.result != Layout::packed) name += ", sliced";
  if (s.fill == Fill::top) name += ", all q-1";
  if (s.coefficients) name += ", coefficients";
  return {"limb_sums", name, kind_in(*s.field), false, declare};
}

}  // namespace

void sums_cases(std::vector<OpCase>& cases) {
  for (const Field* f : main_fields()) {
    cases.push_back(sums_case({.field = f, .n = 1024, .operands = {Layout::packed, Layout::sliced}}));
    cases.push_back(sums_case({.field = f, .n = 2048, .operands = {Layout::packed}, .most = 33, .fill = Fill::top}));
    cases.push_back(sums_case({.field = f,
                               .n = 512,
                               .operands = {Layout::broadcast, Layout::packed, Layout::reversed},
                               .most = 7,
                               .items = 3,
                               .result = Layout::sliced}));
    cases.push_back(sums_case({.field = f,
                               .n = 512,
                               .operands = {Layout::packed, Layout::packed},
                               .most = 9,
                               .components = 3,
                               .fill = Fill::edges,
                               .coefficients = true}));
    cases.push_back(sums_case(
        {.field = f, .n = 8, .operands = {Layout::packed, Layout::sliced}, .most = 6, .items = 2, .turns = false}));
  }
  cases.push_back(sums_case({.field = &kField60,
                             .n = 4096,
                             .operands = std::vector<Layout>(device::LimbSums::kMostFrom, Layout::packed),
                             .most = 40}));
}

}  // namespace heliograph::test
