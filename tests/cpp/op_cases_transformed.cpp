// Cases of divide, apply_key and key_switch in the NTT domain: divisions of every shape, on their own and after a key
// switch.
#include "device/shape.h"
#include "op_cases.h"
#include "op_plans.h"

namespace heliograph::test {

namespace {

struct DivideShape {
  std::string name;
  PrimeList from, to;
  u64 times = 1, keep = 1;
};

const std::vector<DivideShape>& divide_shapes() {
  static const std::vector<DivideShape> shapes = {
      {"one limb dropped", {0, 1, 2}, {0, 1}},
      {"four limbs dropped", {0, 1, 2, 3, 4, 5}, {0, 1}},
      {"times t", {0, 1, 2, 6, 7}, {0, 1, 2}, 65537},
      {"nothing divided by", {0, 2, 3}, {0, 2, 3}, 786433},
      {"a limb in the middle", {0, 3, 1, 2}, {0, 1, 2}},
      {"the first limb and every second", {4, 0, 1, 2, 3}, {0, 2}},
      {"a limb added", {0, 1, 2, 3}, {0, 1, 8}},
      {"limbs added in front and between", {0, 1, 2, 4, 5}, {7, 0, 8, 2, 5}, 3},
      {"no limb kept", {3, 4}, {0, 1, 2}},
      {"one limb kept", {5, 1}, {5}},
      {"keeping t", {0, 1, 2}, {0, 1}, 1, 65537},
      {"keeping t, three limbs dropped", {0, 1, 2, 3, 4}, {0, 1}, 1, (u64{1} << 20) + 7},
      {"keeping t, a limb in the middle", {0, 5, 1, 2}, {0, 1, 2}, 1, 2},
  };
  return shapes;
}

const std::vector<Setting>& divide_settings() {
  static const std::vector<Setting> all = [] {
    std::vector<Setting> list = settings();
    list.push_back({128, {3, 5}, Layout::transposed, 0, Fill::random});
    list.push_back({64, {5, 3}, Layout::broadcast_last, 1, Fill::top});
    return list;
  }();
  return all;
}

void divide_case(std::vector<OpCase>& cases, const Field& field, const DivideShape& shape, const Setting& s) {
  const auto declare = [=, &field](Rig& rig) -> std::function<void()> {
    const auto ring = switch_ring(field, s.n);
    const auto plan =
        std::make_shared<const device::DividePlan>(divide_plan(rig, ring, shape.from, shape.to, shape.times, shape.keep));
    const std::size_t components = 1 + s.added;
    const View x = rig.input(*ring, plan->primes, {s.batch, components, s.layout}, s.fill);
    const View out = rig.output(*ring, plan->out, {s.batch, components, out_layout(s)});
    const device::Call call = rig.with_scratch(device::Divide{plan, x, out});
    return [=, &rig] { rig.queue().enqueue(call); };
  };
  const std::string name = std::string(field.name) + " n=" + std::to_string(s.n) + " " + shape.name;
  cases.push_back({"divide", name + (items(s) == 0 ? ", empty batch" : ""), kind_of(field, s), s.n > 4096, declare});
}

/// The limbs of a key switch's result after the division, and the factor of the quotient.
struct Down {
  std::string name;
  PrimeList to;
  u64 times = 1;
};

PrimeList first_limbs(const PrimeList& list, std::size_t count) { return PrimeList(list.begin(), count); }

std::vector<Down> downs(const SwitchShape& shape) {
  const PrimeList& chain = shape.chain;
  const std::size_t limbs = chain.size();
  std::vector<Down> all = {{"plain", chain}, {"times t", chain, 65537}};
  if (limbs > 1) all.push_back({"merged with one limb", first_limbs(chain, limbs - 1)});
  if (limbs > 2) all.push_back({"merged with two limbs", first_limbs(chain, limbs - 2)});
  if (limbs > 2) {
    PrimeList to = {chain[0], 8};  // the unused prime of the ring
    for (std::size_t l = 2; l < limbs; ++l) to.push_back(chain[l]);
    all.push_back({"merged, a limb changed for another", to});
  }
  return all;
}

/// Adds a case in the NTT domain: of apply_key, which takes digits, or of key_switch, which takes a polynomial. `galois`:
/// automorphism of the switched polynomial, or 0.
void key_case(std::vector<OpCase>& cases, const Field& field, const SwitchShape& shape, const Down& down, const Setting& s,
              bool whole, u64 galois = 0) {
  const auto declare = [=, &field](Rig& rig) -> std::function<void()> {
    const auto ring = switch_ring(field, s.n);
    const std::shared_ptr<const device::KeySwitchPlan> plan = ntt_switch_plan(rig, ring, shape, down.to, down.times);
    const View in = whole ? rig.input(*ring, plan->chain, {s.batch, 1, s.layout}, s.fill)
                          : rig.input(*ring, plan->extended, {s.batch, plan->digits.size(), s.layout}, s.fill);
    const View key = rig.input(*ring, PrimeList::range(0, 9), {{}, 2 * plan->digits.size()}, s.fill);
    const View add = s.added > 0 ? rig.input(*ring, plan->chain, {s.batch, s.added, s.layout}, s.fill) : View{};
    const View out = rig.output(*ring, plan->down.out, {s.batch, 2, out_layout(s)});
    std::shared_ptr<const device::PermutationConstant> turn;
    if (galois > 0) turn = rig.kernels().prepare(device::Permutation{math::automorphism_table(s.n, galois), {}});
    const auto added = s.added > 0 ? std::optional(add) : std::nullopt;
    const device::Call call =
        whole ? rig.with_scratch(device::KeySwitch{plan, math::Domain::ntt, in, key, added, out, {}, turn})
              : rig.with_scratch(device::ApplyKey{plan, math::Domain::ntt, in, key, added, out, {}, turn});
    return [=, &rig] { rig.queue().enqueue(call); };
  };
  cases.push_back({whole ? "key_switch" : "apply_key",
                   std::string(field.name) + " ntt n=" + std::to_string(s.n) + " " + shape.name + ", " + down.name +
                       ", added " + std::to_string(s.added) + (galois > 0 ? ", turned by " + std::to_string(galois) : ""),
                   kind_of(field, s), s.n > 4096, declare});
}

/// Adds a case of several keys. `apart`: each result has its own memory; otherwise the results of each item are adjacent.
/// `own`: each key applies to digits and an addend of its own, which are adjacent in memory, and the second key has no
/// automorphism. Without `own`, all keys apply to the digits of one polynomial.
void keys_case(std::vector<OpCase>& cases, const Field& field, const SwitchShape& shape, const Down& down, const Setting& s,
               std::size_t count, bool apart, bool own = false) {
  const auto declare = [=, &field](Rig& rig) -> std::function<void()> {
    const auto ring = switch_ring(field, s.n);
    const std::shared_ptr<const device::KeySwitchPlan> plan = ntt_switch_plan(rig, ring, shape, down.to, down.times);
    std::vector<std::size_t> all = s.batch;
    all.push_back(count);
    const auto each = [&]<class Operand>(std::vector<Operand>& views, const View& beside) {
      for (std::size_t i = 0; i < count; ++i) views.push_back(device::drop_axis_view(beside, s.batch.size(), i));
    };
    const auto operand = [&](std::vector<device::In>& views, const PrimeList& primes, std::size_t components) {
      if (own)
        each(views, rig.input(*ring, primes, {all, components, s.layout}, s.fill));
      else
        views.push_back(rig.input(*ring, primes, {s.batch, components, s.layout}, s.fill));
    };
    device::ApplyKeys call;
    call.plan = plan;
    operand(call.digits, plan->extended, plan->digits.size());
    if (s.added > 0) operand(call.added, plan->chain, s.added);
    if (!apart) each(call.outs, rig.output(*ring, plan->down.out, {all, 2, out_layout(s)}));
    for (std::size_t i = 0; i < count; ++i) {
      call.keys.push_back(rig.input(*ring, PrimeList::range(0, 9), {{}, 2 * plan->digits.size()}, s.fill));
      call.turns.push_back(own && i == 1
                               ? nullptr
                               : rig.kernels().prepare(device::Permutation{math::automorphism_table(s.n, 2 * i + 3), {}}));
      if (apart) call.outs.push_back(rig.output(*ring, plan->down.out, {s.batch, 2, out_layout(s)}));
    }
    call.scratch = rig.workspace(device::scratch_bytes(call, items(s)));
    return [call = device::Call(call), &rig] { rig.queue().enqueue(call); };
  };
  cases.push_back({"apply_keys",
                   std::string(field.name) + " n=" + std::to_string(s.n) + " " + shape.name + ", " + down.name + ", added " +
                       std::to_string(s.added) + ", " + std::to_string(count) + (apart ? " apart" : "") +
                       (own ? ", digits of their own" : ""),
                   kind_of(field, s), s.n > 4096, declare});
}

/// Returns the plan of a key switch on some limbs only. The key switch uses the limbs `kept` of the chain and its last
/// `dropped` limbs. The result is divided by the primes of the dropped limbs.
std::shared_ptr<device::KeySwitchPlan> partial_plan(Rig& rig, const std::shared_ptr<const math::Ring>& ring,
                                                    const SwitchShape& shape, const std::vector<std::size_t>& kept,
                                                    std::size_t dropped) {
  auto plan = std::make_shared<device::KeySwitchPlan>();
  plan->ring = rig.prepare(ring);
  std::vector<std::size_t> limbs = kept;
  for (std::size_t l = shape.chain.size() - dropped; l < shape.chain.size(); ++l) limbs.push_back(l);
  for (const std::size_t l : limbs) plan->chain.push_back(shape.chain[l]);
  plan->special = shape.special, plan->extended = plan->chain;
  plan->extended.append(shape.special);
  plan->key_limbs = plan->extended;  // limbs of a key that has all nine primes
  std::size_t first = 0, next = 0;
  for (const std::size_t count : shape.digits) {
    device::KeySwitchPlan::Digit digit{.first = next, .count = 0, .others = {}, .raise = nullptr};
    std::vector<u64> from, to;
    for (std::size_t l = first; l < first + count; ++l) from.push_back(ring->prime(shape.chain[l]));
    for (std::size_t i = 0; i < plan->extended.size(); ++i) {
      if (i < limbs.size() && limbs[i] >= first && limbs[i] < first + count) {
        ++digit.count;
        continue;
      }
      digit.others.push_back(static_cast<math::PrimeIndex>(i));
      to.push_back(ring->prime(plan->extended[i]));
    }
    next += digit.count;
    digit.raise = rig.kernels().prepare(math::extend_base(from, to));
    digit.source = {first, count};
    plan->digits.push_back(std::move(digit));
    first += count;
  }
  plan->down = divide_plan(rig, ring, plan->extended, first_limbs(plan->chain, kept.size()));
  for (std::size_t l = 0; l < plan->chain.size(); ++l) plan->weight[l] = 3 + 2 * l;
  return plan;
}

void partial_case(std::vector<OpCase>& cases, const Field& field, const SwitchShape& shape,
                  const std::vector<std::size_t>& kept, std::size_t dropped, const Setting& s, u64 galois = 1) {
  const auto declare = [=, &field](Rig& rig) -> std::function<void()> {
    const auto ring = switch_ring(field, s.n);
    const auto plan = partial_plan(rig, ring, shape, kept, dropped);
    const auto operand = [&](const PrimeList& primes, std::size_t components) {
      return rig.input(*ring, primes, {s.batch, components, s.layout}, s.fill);
    };
    device::PartialKeySwitch call{.plan = plan,
                                  .x = operand(plan->chain, 1),
                                  .coefficients = operand(shape.chain, 1),
                                  .key = rig.input(*ring, PrimeList::range(0, 9), {{}, 2 * plan->digits.size()}, s.fill),
                                  .add = {},
                                  .out = rig.output(*ring, plan->down.out, {s.batch, 2, out_layout(s)}),
                                  .scratch = {}};
    if (s.added > 0) call.add = operand(plan->chain, s.added);
    if (galois != 1) call.turn = rig.kernels().prepare(device::Permutation{math::automorphism_table(s.n, galois), {}});
    const device::Call with = rig.with_scratch(std::move(call));
    return [=, &rig] { rig.queue().enqueue(with); };
  };
  std::string limbs;
  for (const std::size_t l : kept) limbs += std::to_string(l);
  cases.push_back({"partial_key_switch",
                   std::string(field.name) + " n=" + std::to_string(s.n) + " " + shape.name + ", limbs " + limbs + " less " +
                       std::to_string(dropped) + ", " + std::to_string(s.added) + " added" + (galois != 1 ? ", turned" : ""),
                   kind_of(field, s), s.n > 4096, declare});
}

}  // namespace

void transformed_cases(std::vector<OpCase>& cases) {
  for (const Field* f : main_fields()) {
    for (std::size_t i = 0; i < divide_shapes().size(); ++i) {
      for (const Setting& s : divide_settings()) divide_case(cases, *f, divide_shapes()[i], s);
      divide_case(cases, *f, divide_shapes()[i], wide_settings()[i % 2]);
      if (i < 4) divide_case(cases, *f, divide_shapes()[i], wide_settings()[2 + i % 2]);
    }
    for (std::size_t i = 0; i < switch_shapes().size(); ++i) {
      const SwitchShape& shape = switch_shapes()[i];
      const std::vector<Down> all = downs(shape);
      const auto down = [&](std::size_t k) -> const Down& { return all[k % all.size()]; };
      for (std::size_t j = 0; j < settings().size(); ++j) {
        key_case(cases, *f, shape, down(i + j), settings()[j], true);
        if (all.size() > 2) key_case(cases, *f, shape, down(i + j + 2), settings()[j], true);
        key_case(cases, *f, shape, down(i + j + 1), settings()[j], false);
        if (i % 3 == j % 3) key_case(cases, *f, shape, down(i + j), settings()[j], false, 2 * settings()[j].n - 5);
        if (i % 3 == (j + 1) % 3) key_case(cases, *f, shape, down(i + j), settings()[j], true, 2 * settings()[j].n - 1);
      }
      for (std::size_t j = i % 2; j < wide_settings().size(); j += 2) {
        key_case(cases, *f, shape, down(i / 2 + j / 2), wide_settings()[j], true);
        if (i % 4 == j) key_case(cases, *f, shape, down(i / 2 + j / 2), wide_settings()[j], false);
      }
    }
  }
  for (const Field* f : main_fields()) {
    const std::vector<SwitchShape>& shapes = switch_shapes();
    for (std::size_t j = 0; j < settings().size(); ++j) {
      const SwitchShape& shape = shapes[(j + 1) % shapes.size()];
      keys_case(cases, *f, shape, downs(shape)[j % downs(shape).size()], settings()[j], 1 + j, j % 2 == 1);
      keys_case(cases, *f, shape, downs(shape)[j % downs(shape).size()], settings()[j], 2 + j, j % 2 == 1, true);
    }
    for (std::size_t j = 0; j < wide_settings().size(); ++j) {
      const SwitchShape& shape = shapes[3 + j % 3];
      keys_case(cases, *f, shape, downs(shape)[j % 2], wide_settings()[j], j == 4 ? 11 : 3, j == 2);
      keys_case(cases, *f, shape, downs(shape)[j % 2], wide_settings()[j], j == 3 ? 9 : 2, j == 2, true);
    }
  }
  for (const DivideShape& shape : divide_shapes()) divide_case(cases, kField32Mixed, shape, settings()[0]);
  for (const std::size_t i : {std::size_t{0}, std::size_t{3}})
    divide_case(cases, kField50, divide_shapes()[i], {16, {0}, Layout::packed, 1, Fill::random});
  // Every division after the most common key switches, at a degree for which a GPU has fused kernels.
  for (const Field* f : main_fields()) {
    for (const std::size_t i : {std::size_t{1}, std::size_t{4}}) {
      const std::vector<Down> all = downs(switch_shapes()[i]);
      for (std::size_t k = 0; k < all.size(); ++k) {
        Setting s{2048, {3}, Layout::packed, k % 3, Fill::random};
        key_case(cases, *f, switch_shapes()[i], all[k], s, true);
        for (const bool whole : {false, true}) key_case(cases, *f, switch_shapes()[i], all[k], s, whole, whole ? 25 : 5);
      }
    }
  }
  // Conversions of few limbs between column passes, in calls that are large enough for a GPU to fuse all three.
  const SwitchShape one_digit{"three special, one digit", {0, 1, 2, 3, 4}, {5, 6, 7}, {5}};
  const Setting many{32768, {16}, Layout::packed, 1, Fill::random};
  key_case(cases, kField50, one_digit, downs(one_digit)[0], many, true, 5);
  key_case(cases, kField50, one_digit, downs(one_digit)[2], many, true);
  divide_case(cases, kField50, {"four limbs dropped, many items", {0, 1, 2, 3, 4, 5}, {0, 1}}, many);
  // Key switches on some limbs, as a member of a mesh computes them.
  for (const Field* f : main_fields()) {
    const SwitchShape& shape = switch_shapes()[4];
    const std::size_t limbs = shape.chain.size();
    const std::vector<std::vector<std::size_t>> parts = {{0, 2, 4}, {1, 3}, {0}};
    for (std::size_t i = 0; i < parts.size(); ++i) {
      std::vector<std::size_t> kept = parts[i];
      std::erase_if(kept, [&](std::size_t l) { return l + 1 >= limbs; });
      for (std::size_t k = 0; k < 2; ++k) {
        const Setting& s = settings()[(2 * i + k) % settings().size()];
        partial_case(cases, *f, shape, kept, k, s, k == 0 ? 1 : 5);
      }
      partial_case(cases, *f, shape, kept, 1, {1024, {1 + i % 2}, Layout::packed, i, Fill::random}, i == 1 ? 5 : 1);
      partial_case(cases, *f, shape, kept, i % 2, wide_settings()[i]);
    }
  }
}

}  // namespace heliograph::test
