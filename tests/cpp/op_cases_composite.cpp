// Cases of decompose, apply_key, key_switch and bfv_multiply, with plans of every shape.
#include "op_cases.h"
#include "op_plans.h"

namespace heliograph::test {

namespace {

using device::MultiplyPlan;

std::string describe(const Field& f, const SwitchShape& shape, const Setting& s) {
  return std::string(f.name) + " n=" + std::to_string(s.n) + " " + shape.name + ", added " + std::to_string(s.added);
}

void decompose_case(std::vector<OpCase>& cases, const Field& field, const SwitchShape& shape, const Setting& s) {
  const auto declare = [=, &field](Rig& rig) -> std::function<void()> {
    const auto ring = switch_ring(field, s.n);
    const auto plan = switch_plan(rig, ring, shape);
    const View x = rig.input(*ring, plan->chain, {s.batch, 1, s.layout}, s.fill);
    const View digits = rig.output(*ring, plan->extended, {s.batch, plan->digits.size(), out_layout(s)});
    return [=, &rig] { rig.queue().enqueue(device::Decompose{plan, x, digits}); };
  };
  cases.push_back({"decompose", describe(field, shape, s), kind_of(field, s), s.n > 4096, declare});
}

/// Adds a case of apply_key on digits, or of the whole key_switch on a polynomial.
void key_case(std::vector<OpCase>& cases, const Field& field, const SwitchShape& shape, const Setting& s, bool whole) {
  const auto declare = [=, &field](Rig& rig) -> std::function<void()> {
    const auto ring = switch_ring(field, s.n);
    const auto plan = switch_plan(rig, ring, shape);
    const View in = whole ? rig.input(*ring, plan->chain, {s.batch, 1, s.layout}, s.fill)
                          : rig.input(*ring, plan->extended, {s.batch, plan->digits.size(), s.layout}, s.fill);
    const View key = rig.input(*ring, PrimeList::range(0, 9), {{}, 2 * plan->digits.size()}, s.fill);
    const View add = s.added > 0 ? rig.input(*ring, plan->chain, {s.batch, s.added, s.layout}, s.fill) : View{};
    const View out = rig.output(*ring, plan->chain, {s.batch, 2, out_layout(s)});
    const auto added = s.added > 0 ? std::optional(add) : std::nullopt;
    const device::Call call = whole
                                  ? rig.with_scratch(device::KeySwitch{plan, math::Domain::coefficient, in, key, added, out})
                                  : rig.with_scratch(device::ApplyKey{plan, math::Domain::coefficient, in, key, added, out});
    return [=, &rig] { rig.queue().enqueue(call); };
  };
  cases.push_back({whole ? "key_switch" : "apply_key", describe(field, shape, s), kind_of(field, s), s.n > 4096, declare});
}

struct MultiplyShape {
  std::string name;
  PrimeList chain, auxiliary;
  u64 t;
  std::size_t a_components, b_components;
  // the first factor is the first components of the second factor, in the same memory; if it has all components, the product
  // is a square
  bool one_buffer;
};

void multiply_case(std::vector<OpCase>& cases, const Field& field, const MultiplyShape& m, const Setting& s) {
  const auto declare = [=, &field](Rig& rig) -> std::function<void()> {
    const auto ring = switch_ring(field, s.n);
    const std::vector<u64> q = moduli(*ring, m.chain), r = moduli(*ring, m.auxiliary);
    auto plan = std::make_shared<MultiplyPlan>();
    plan->ring = rig.prepare(ring);
    plan->chain = m.chain, plan->auxiliary = m.auxiliary, plan->extended = m.chain;
    plan->extended.append(m.auxiliary);
    plan->lift = rig.kernels().prepare(math::extend_base(q, r));
    plan->scale = rig.kernels().prepare(math::divide_and_round(q, r, m.t));
    plan->lower = rig.kernels().prepare(math::extend_base(r, q));
    const View first =
        rig.input(*ring, m.chain, {s.batch, m.one_buffer ? m.b_components : m.a_components, s.layout}, s.fill);
    const View a = first.with_components(0, m.a_components);
    const View b = m.one_buffer ? first : rig.input(*ring, m.chain, {s.batch, m.b_components, Layout::packed}, s.fill);
    const View out = rig.output(*ring, m.chain, {s.batch, m.a_components + m.b_components - 1, out_layout(s)});
    const device::Call call = rig.with_scratch(device::ScaledTensor{plan, a, b, out});
    return [=, &rig] { rig.queue().enqueue(call); };
  };
  cases.push_back({"bfv_multiply", std::string(field.name) + " n=" + std::to_string(s.n) + " " + m.name, kind_of(field, s),
                   s.n > 4096, declare});
}

}  // namespace

void composite_cases(std::vector<OpCase>& cases) {
  const std::vector<MultiplyShape> products = {
      {"two limbs", {0, 1}, {4, 5, 6}, 65537, 2, 2, false},
      {"square", {0, 1}, {4, 5, 6}, 65537, 2, 2, true},
      {"levels dropped, degree two", {0, 3}, {8, 5, 6, 7}, 786433, 3, 2, false},
      {"one limb", {2}, {4, 5}, 257, 2, 2, false},
      {"large t", {0, 1, 2, 3}, {4, 5, 6, 7, 8}, (u64{1} << 43) - 57, 2, 2, false},
      {"square of degree two", {1, 3, 2}, {4, 5, 6, 7}, 2, 3, 3, true},
      {"x[0:2] times x", {0, 1}, {4, 5, 6}, 65537, 2, 3, true},
  };
  for (const Field* f : main_fields()) {
    for (std::size_t i = 0; i < switch_shapes().size(); ++i) {
      for (std::size_t j = 0; j < settings().size(); ++j) {
        const SwitchShape& shape = switch_shapes()[i];
        if ((i + j) % 2 == 0) decompose_case(cases, *f, shape, settings()[j]);
        key_case(cases, *f, shape, settings()[j], false);
        key_case(cases, *f, shape, settings()[j], true);
      }
      for (std::size_t j = i % 2; j < wide_settings().size(); j += 2) {
        if (i % 4 == j) decompose_case(cases, *f, switch_shapes()[i], wide_settings()[j]);
        if (i % 4 == j) key_case(cases, *f, switch_shapes()[i], wide_settings()[j], false);
        key_case(cases, *f, switch_shapes()[i], wide_settings()[j], true);
      }
    }
    for (std::size_t i = 0; i < products.size(); ++i) {
      for (const Setting& s : settings()) multiply_case(cases, *f, products[i], s);
      for (std::size_t j = i % 2; j < wide_settings().size(); j += 2)
        multiply_case(cases, *f, products[i], wide_settings()[j]);
    }
  }
}

}  // namespace heliograph::test
