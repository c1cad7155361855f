#include "device/residues.h"

#include <algorithm>

namespace heliograph::device {

namespace {

using Moduli = std::vector<u64>;
using List = std::vector<Residues>;

Moduli moduli_of(const RingHandle& ring, const PrimeList& primes) {
  Moduli moduli;
  for (const PrimeIndex p : primes) moduli.push_back(ring->ring().prime(p));
  return moduli;
}

/// Returns a bound for each of the `limbs` limbs of a view: limb at[l] has modulus moduli[l]. A limb that occurs twice gets
/// the smaller modulus.
Moduli placed(const Moduli& moduli, const PrimeList& at, std::size_t limbs) {
  Moduli below(limbs);
  for (std::size_t l = 0; l < moduli.size(); ++l)
    below[at[l]] = below[at[l]] ? std::min(below[at[l]], moduli[l]) : moduli[l];
  return below;
}

Moduli of_key(const KeySwitchPlan& plan, const View& key) {
  return placed(moduli_of(plan.ring, plan.extended), plan.key_limbs, key.limbs);
}

/// Returns the residues of a call whose views all have limbs of its primes.
template <class C>
List residues(const C& c) {
  List list;
  each_view(c, [&](const View&, Access) { list.push_back({moduli_of(c.ring, c.primes)}); });
  return list;
}

List residues(const Convert& c) {
  const math::Conversion& k = c.conversion->conversion();
  const Moduli to = c.place ? placed(k.to, *c.place, c.out.limbs) : k.to;
  List list{{k.from}};
  if (c.own) list.push_back({to});
  list.push_back({to});
  return list;
}

List residues(const InnerProduct& c) {
  const Moduli moduli = moduli_of(c.ring, c.primes);
  return {{moduli}, {placed(moduli, c.key_limbs, c.key.limbs)}, {moduli}};
}

List residues(const Copy&) { return {{}, {.below = {}, .copied = true}}; }
List residues(const Gather& c) {
  List list;
  for (std::size_t i = 0; i < c.pieces.size(); ++i) list.push_back({}), list.push_back({.below = {}, .copied = true});
  return list;
}
List residues(const Zero& c) { return {{Moduli(c.out.limbs, 1)}}; }

List residues(const LimbSums& c) {  // saved programs have no LimbSums
  return List(c.from.size() + c.to.size(), {.below = {}, .covers = false});
}

List residues(const ByteProduct&) { return {{{Residues::kAny}}, {{Residues::kAny}}, {{Residues::kAny}}}; }

List residues(const Decompose& c) {
  return {{moduli_of(c.plan->ring, c.plan->chain)}, {moduli_of(c.plan->ring, c.plan->extended)}};
}

const PrimeList& result_of(const KeySwitchPlan& plan, math::Domain domain) {
  return domain == math::Domain::ntt ? plan.down.out : plan.chain;
}

/// Returns the residues of a key switch whose first operand has limbs of the primes `of`.
template <class Switch>
List switched(const Switch& c, const PrimeList& of) {
  const KeySwitchPlan& p = *c.plan;
  List list{{moduli_of(p.ring, of)}, {of_key(p, c.key)}};
  if (c.add) list.push_back({moduli_of(p.ring, p.chain)});
  list.push_back({moduli_of(p.ring, result_of(p, c.domain))});
  return list;
}

List residues(const ApplyKey& c) { return switched(c, c.plan->extended); }
List residues(const KeySwitch& c) { return switched(c, c.plan->chain); }

List residues(const PartialKeySwitch& c) {
  const KeySwitchPlan& p = *c.plan;
  Moduli whole;
  for (const KeySwitchPlan::Digit& digit : p.digits) {
    if (digit.raise) {
      const Moduli& from = digit.raise->conversion().from;
      whole.insert(whole.end(), from.begin(), from.end());
    } else {
      const Moduli own = moduli_of(p.ring, PrimeList(p.chain.begin() + digit.first, digit.count));
      whole.insert(whole.end(), own.begin(), own.end());
    }
  }
  List list{{moduli_of(p.ring, p.chain)}, {whole}, {of_key(p, c.key)}};
  if (c.add) list.push_back({moduli_of(p.ring, p.chain)});
  list.push_back({moduli_of(p.ring, p.down.out)});
  return list;
}

List residues(const ApplyKeys& c) {
  const KeySwitchPlan& p = *c.plan;
  List list(c.digits.size(), {moduli_of(p.ring, p.extended)});
  for (const View& key : c.keys) list.push_back({of_key(p, key)});
  list.insert(list.end(), c.added.size(), {moduli_of(p.ring, p.chain)});
  list.insert(list.end(), c.outs.size(), {moduli_of(p.ring, p.down.out)});
  return list;
}

List residues(const Divide& c) {
  return {{moduli_of(c.plan->ring, c.plan->primes)}, {moduli_of(c.plan->ring, c.plan->out)}};
}

List residues(const LinearSum& c) {
  const KeySwitchPlan& p = *c.plan->key_switch;
  List list{{moduli_of(p.ring, p.chain)}};
  for (const View& key : c.keys) list.push_back({of_key(p, key)});
  list.push_back({moduli_of(p.ring, p.extended)});
  list.push_back({moduli_of(p.ring, p.down.out)});
  return list;
}

List residues(const BabySteps& c) {
  const Moduli moduli = moduli_of(c.ring, c.primes);
  List list{{moduli_of(c.ring, PrimeList(c.primes.begin(), c.x.limbs))}, {moduli}};
  for (const View& key : c.keys) list.push_back({placed(moduli, c.key_limbs, key.limbs)});
  list.push_back({moduli}), list.push_back({moduli});
  return list;
}

List residues(const GiantSteps& c) {
  const Moduli moduli = moduli_of(c.ring, c.primes);
  List list{{moduli}, {moduli}};
  for (const View& key : c.keys) list.push_back({placed(moduli, c.key_limbs, key.limbs)});
  list.push_back({moduli});
  return list;
}

List residues(const ScaledTensor& c) { return List(3, {moduli_of(c.plan->ring, c.plan->chain)}); }

// LWE ciphertexts may have any words. A call writes its layer's rows of `narrow`, but not the padding of these rows.

List residues(const Combine&) { return {{{Residues::kAny}}}; }
List residues(const LweKeySwitch&) { return {{{Residues::kAny}}, {{Residues::kAny}, false}}; }
List residues(const Bootstrap&) { return {{{Residues::kAny}}, {{Residues::kAny}}}; }
List residues(const Evaluate&) { return {{{Residues::kAny}}, {{Residues::kAny}, false}}; }

}  // namespace

std::vector<Residues> residues_of(const Call& call) {
  return std::visit([](const auto& c) { return residues(c); }, call);
}

bool works_in_place(const Call& call) {
  return std::visit(
      []<class C>(const C&) {
        return OneOf<C, Add, Sub, Neg, Mul, MulAccumulate, MulConstants, AddConstants, WeightedSum, ForwardNtt, InverseNtt,
                     Copy>;
      },
      call);
}

}  // namespace heliograph::device
