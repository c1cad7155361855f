// Checks of a call's operands against its kernel.
#include <algorithm>
#include <bit>
#include <functional>
#include <set>
#include <type_traits>

#include "base/checked.h"
#include "device/address.h"
#include "device/call.h"
#include "device/shape.h"

namespace heliograph::device {

namespace {

constexpr std::size_t kSlice = 64;  // the number of coefficients of a slice is a multiple of this

void check_limbs(const RingConstant& ring, const PrimeList& primes, const View& v) {
  require<MismatchError>(v.word == ring.ring().word(), "an operand must have the word size of its ring");
  require<ShapeError>(v.limbs == primes.size(), "an operand must have one limb for each prime");
  for (PrimeIndex p : primes)
    require<ShapeError>(p < ring.ring().primes().size(), "a prime index must be below the ring's number of primes");
}

void check_ring(const RingConstant& ring, const PrimeList& primes, const View& v) {
  require<ParameterError>(ring.ring().transforms(),
                          "this kernel needs a ring with NTTs; this ring has only rows of residues");
  require<ShapeError>(v.n == ring.ring().n(), "an operand must have the degree of its ring");
  check_limbs(ring, primes, v);
}

/// Checks that an operand has all coefficients of the ring, or a slice of the same length as `out`.
void check_slice(const RingConstant& ring, const PrimeList& primes, const View& v, const View& out) {
  const std::size_t n = ring.ring().n();
  require<ShapeError>(v.n == out.n && (v.n == n || (v.n < n && v.n > 0 && v.n % kSlice == 0)),
                      "all operands must have the degree of the ring, or the same smaller multiple of 64 coefficients");
  check_limbs(ring, primes, v);
}

/// Checks that no two items of a result share memory.
void check_result(const View& out) {
  for (int i = 0; i < out.axes; ++i)
    require<ShapeError>(out.stride[i] != 0 || out.shape[i] <= 1 || out.items() == 0,
                        "the items of a result must not share memory: an axis longer than 1 has stride 0");
}

void check_batch(const View& a, const View& out) {
  require<ShapeError>(a.items() == out.items(), "operands must have equal batch sizes");
  check_result(out);
}

void check_same(const View& a, const View& out) {
  check_batch(a, out);
  require<ShapeError>(a.components == out.components, "operands must have equal numbers of components");
}

void check_copy(const View& a, const View& out) {
  check_same(a, out);
  require<ShapeError>(a.limbs == out.limbs && a.n == out.n && a.word == out.word,
                      "the operands of a copy must have equal limbs, degrees and words");
}

void check_word(const std::vector<u64>& moduli, const View& v) {
  for (u64 q : moduli)
    require<MismatchError>(v.word == Word::w64 || q <= u64{1} << 32,
                           "a modulus above 2^32 needs an operand of 64-bit words");
}

void check_key(const RingConstant& ring, const View& key, const PrimeList& key_limbs, std::size_t limbs,
               std::size_t components, std::size_t n) {
  require<ShapeError>(key.n == n && key.items() == 1, "a key must have the degree of the ring and one item");
  require<MismatchError>(key.word == ring.ring().word(), "an operand must have the word size of its ring");
  require<ShapeError>(key.components >= components, "a key must have at least as many digits as the call");
  require<ShapeError>(key_limbs.size() == limbs, "a call must have one key limb for each prime");
  for (PrimeIndex l : key_limbs)
    require<ShapeError>(l < key.limbs, "the index of a key limb must be below the key's number of limbs");
}

void check_added(const KeySwitchPlan& plan, const View& add, const View& out) {
  check_ring(*plan.ring, plan.chain, add);
  check_batch(add, out);
  require<ShapeError>(add.components == 1 || add.components == 2,
                      "the addend of a key switch must have one or two components");
}

/// Checks inputs and a result of one shape: all coefficients or a slice of them.
void check_alike(const RingHandle& ring, const PrimeList& primes, std::initializer_list<const View*> views,
                 const View& out) {
  for (const View* v : views) check_slice(*ring, primes, *v, out), check_same(*v, out);
}

/// Returns the view with limbs of n words. If a limb of `v` has fewer words, each of them stands for a run of equal
/// words.
View unrolled(View v, std::size_t n) {
  require<ShapeError>(v.n > 0 && n % v.n == 0 && std::has_single_bit(n / v.n),
                      "the limbs of an operand must have n words, or n divided by a power of two");
  v.n = n;
  return v;
}

/// Checks the factors of a product. A factor may have one component, which then multiplies every component of the other
/// factor. Limbs of `b` may have one word for each run of words.
void check_factors(const RingHandle& ring, const PrimeList& primes, const View& a, const View& b, const View& out) {
  const View whole = unrolled(b, out.n);
  for (const View* v : std::initializer_list<const View*>{&a, &whole, &out})
    check_slice(*ring, primes, *v, out), check_batch(*v, out);
  for (const View* v : {&a, &b}) {
    require<ShapeError>(v->components == out.components || v->components == 1,
                        "operands must have equal numbers of components");
  }
}

void check_constants(const RingHandle& ring, const PrimeList& primes, const LimbConstants& c) {
  for (std::size_t l = 0; l < primes.size(); ++l)
    require<ShapeError>(c[l] < ring->ring().prime(primes[l]), "a constant must be below its modulus");
}

/// Returns whether an operand of the result's shape certainly shares words with the result at different positions. Sharing
/// is certain if both views start at one address with different strides, or both are dense and overlap. Other pairs of
/// strided views are not compared, and the result is false.
bool runs_into(const View& a, const View& out) {
  if (out.words() == 0) return false;
  const auto apart = [](std::size_t count, auto one, auto other) { return count > 1 && one != other; };
  bool differ = apart(out.components, a.component_stride, out.component_stride) ||
                apart(out.limbs, a.limb_stride, out.limb_stride) || (a.axes != out.axes || a.shape != out.shape);
  for (int i = 0; i < out.axes && !differ; ++i) differ = apart(out.shape[i], a.stride[i], out.stride[i]);
  if (a.data == out.data) return differ;
  const std::less<const std::byte*> before;
  return is_dense(a) && is_dense(out) && before(a.data, displaced(out.data, out.bytes())) &&
         before(out.data, displaced(a.data, a.bytes()));
}

void check_transform(const RingHandle& ring, const PrimeList& primes, const View& a, const View& out) {
  for (const View* v : {&a, &out}) check_ring(*ring, primes, *v), check_same(*v, out);
}

void check_divide(const DividePlan& plan, const View& out) {
  check_ring(*plan.ring, plan.out, out);
  std::size_t next = 0;
  for (const auto& [from, to, count] : plan.kept) {
    require<ShapeError>(from + count <= plan.primes.size() && to >= next && to + count <= plan.out.size(),
                        "the limbs that a division keeps must exist and be in ascending order");
    next = to + count;
  }
  const std::size_t divisors = plan.divisors();
  for (const auto& [from, to, count] : plan.divided) {
    require<ShapeError>(from + count <= plan.primes.size() && to + count <= divisors,
                        "the limbs that a division divides by must exist");
  }
  require<ShapeError>((plan.rest != nullptr) == (divisors > 0),
                      "a division must have a conversion exactly if it divides by limbs");
  if (!plan.rest) return;
  const math::Conversion& c = plan.rest->conversion();
  require<ShapeError>(c.own.empty() && c.sources() == divisors && c.targets() == plan.out.size(),
                      "the conversion of a division must be from its divided limbs to its result");
}

void check_turn(const PermutationConstant& turn, std::size_t n) {
  const Permutation& p = turn.permutation();
  require<ShapeError>(
      p.source.size() == n && p.negate.empty(),
      "a permutation of a key switch must be an automorphism of the NTT domain of this degree, without signs");
}

void check_wires(const LayerConstant& layer, const View& wires, std::size_t dimension) {
  require<ShapeError>(wires.word == Word::w64 && wires.axes == 1 && wires.limbs == 1 &&
                          (dimension == 0 || wires.n == lwe_words(dimension)) && wires.n > 0 && wires.n % 64 == 0 &&
                          wires.stride[0] >= 0,
                      "wires must be LWE ciphertexts [item][wire] of 64-bit words, not reversed");
  require<ShapeError>(wires.components >= layer.layer().wires(), "`wires` must have a component for each wire of the layer");
}

void check_narrow(const LayerConstant& layer, const View& wires, const View& narrow, std::size_t dimension) {
  require<ShapeError>(narrow.word == Word::w32 && narrow.axes == 1 && narrow.limbs == 1 &&
                          narrow.n == lwe_words(dimension) && narrow.stride[0] >= 0,
                      "narrow ciphertexts must be LWE ciphertexts [item][row] of 32-bit words, not reversed");
  require<ShapeError>(narrow.items() == wires.items() && narrow.components >= layer.layer().rows(),
                      "`narrow` must have an item for each item of `wires` and a component for each row");
}

void check_call(const Add& c) { check_alike(c.ring, c.primes, {&c.a, &c.b, &c.out}, c.out); }
void check_call(const Sub& c) { check_alike(c.ring, c.primes, {&c.a, &c.b, &c.out}, c.out); }
void check_call(const Neg& c) { check_alike(c.ring, c.primes, {&c.a, &c.out}, c.out); }
void check_call(const Mul& c) { check_factors(c.ring, c.primes, c.a, c.b, c.out); }
void check_call(const MulAccumulate& c) { check_factors(c.ring, c.primes, c.a, c.b, c.out); }

void check_call(const MulConstants& c) {
  check_alike(c.ring, c.primes, {&c.a, &c.out}, c.out);
  check_constants(c.ring, c.primes, c.c);
}

void check_call(const AddConstants& c) {
  c.domain == math::Domain::ntt ? check_alike(c.ring, c.primes, {&c.a, &c.out}, c.out)
                                : check_transform(c.ring, c.primes, c.a, c.out);
  check_constants(c.ring, c.primes, c.c);
}

void check_call(const WeightedSum& c) {
  const std::vector<LimbConstants>& weights = *c.weights;
  require<ShapeError>(!c.x.empty() && c.x.size() <= WeightedSum::kMost, "a weighted sum must have 1 to 8 terms");
  require<ShapeError>(weights.size() == c.x.size(), "a weighted sum must have one weight for each term");
  check_alike(c.ring, c.primes, {&c.out}, c.out);
  for (const View& x : c.x) {
    check_alike(c.ring, c.primes, {&x}, c.out);
    require<ShapeError>(!runs_into(x, c.out),
                        "a term of a weighted sum must be the same view as the result, or not overlap it");
  }
  for (const LimbConstants& w : weights) check_constants(c.ring, c.primes, w);
  if (c.constant) check_constants(c.ring, c.primes, *c.constant);
}

void check_call(const ForwardNtt& c) { check_transform(c.ring, c.primes, c.a, c.out); }
void check_call(const InverseNtt& c) { check_transform(c.ring, c.primes, c.a, c.out); }

void check_call(const Permute& c) {
  check_transform(c.ring, c.primes, c.a, c.out);
  require<ShapeError>(c.permutation->permutation().source.size() == c.out.n,
                      "a permutation must have the length of the ring's degree");
  require<ShapeError>(c.a.data != c.out.data, "a permutation cannot work in place: its result must be another view");
}

void check_call(const Convert& c) {
  const math::Conversion& k = c.conversion->conversion();
  require<ShapeError>(c.x.limbs == k.sources(), "the input of a conversion must have one limb for each source");
  require<ShapeError>((c.place ? c.place->size() : c.out.limbs) == k.targets(),
                      "the output of a conversion must have one limb for each target");
  if (c.place) {
    for (PrimeIndex l : *c.place) require<ShapeError>(l < c.out.limbs, "an output limb of a conversion is out of range");
  }
  check_same(c.x, c.out);
  require<ShapeError>(c.x.n == c.out.n, "the input and output of a conversion must have one degree");
  require<ShapeError>(std::has_single_bit(c.out.n) || (c.out.n > 0 && c.out.n % kSlice == 0),
                      "the operands of a conversion must have a power of two or a multiple of 64 coefficients");
  check_word(k.from, c.x);
  check_word(k.to, c.out);
  require<ShapeError>(c.own.has_value() == !k.own.empty(),
                      "a conversion must have an own operand exactly if it has own constants");
  if (c.own) {
    check_same(*c.own, c.out);
    require<ShapeError>(c.own->limbs == c.out.limbs && c.own->word == c.out.word && c.own->n == c.out.n,
                        "the own operand of a conversion must have the limbs, degree and words of its output");
  }
}

void check_call(const InnerProduct& c) {
  for (const View* v : std::initializer_list<const View*>{&c.digits, &c.out})
    check_slice(*c.ring, c.primes, *v, c.out), check_batch(*v, c.out);
  check_key(*c.ring, c.key, c.key_limbs, c.primes.size(), checked_mul(c.terms(), c.out.components), c.out.n);
  if (c.turns.empty()) return;
  check_ring(*c.ring, c.primes, c.out);
  require<ShapeError>(c.digits.components == 1, "an inner product of permuted digits must have one component of digits");
  require<ShapeError>(c.digits.data != c.out.data, "a permutation cannot work in place: its result must be another view");
  for (const PermutationHandle& turn : c.turns) {
    if (turn) check_turn(*turn, c.out.n);
  }
}

void check_degrees(const View& a, const View& b, const View& out) {
  require<ShapeError>(a.components > 0 && b.components > 0 && a.components + b.components == out.components + 1,
                      "a product must have one component fewer than its factors together");
}

void check_call(const Tensor& c) {
  for (const View* v : std::initializer_list<const View*>{&c.a, &c.b, &c.out})
    check_slice(*c.ring, c.primes, *v, c.out), check_batch(*v, c.out);
  check_degrees(c.a, c.b, c.out);
}

void check_call(const Product& c) {
  for (const View* v : std::initializer_list<const View*>{&c.in, &c.out}) check_slice(*c.ring, c.primes, *v, c.out);
  check_result(c.out);
  const GatheredProduct& g = c.product->product();
  require<ShapeError>(c.in.components == c.out.components, "operands must have equal numbers of components");
  require<ShapeError>(c.in.items() == g.inputs, "a matrix product must have the inputs of its plan");
  require<ShapeError>(c.out.items() == g.groups * g.outputs * g.positions,
                      "a matrix product must have groups * outputs * positions results");
}

void check_call(const LimbSums& c) {
  require<ShapeError>(!c.to.empty() && c.from.size() <= LimbSums::kMostFrom && c.to.size() <= LimbSums::kMostTo &&
                          c.turns.size() <= LimbSums::kMostTurns,
                      "sums of limbs must have at most 64 operands, 8 results and 32 permutations");
  require<ParameterError>(c.ring->ring().transforms(),
                          "this kernel needs a ring with NTTs; this ring has only rows of residues");
  const auto check_operand = [&](const View& v) {
    require<MismatchError>(v.word == c.ring->ring().word(), "an operand must have the word size of its ring");
    require<ShapeError>(v.n == c.ring->ring().n() && v.axes <= 1,
                        "an operand must have the degree of its ring and at most one batch axis");
    check_batch(v, c.to[0]);
  };
  for (const View& v : c.from)
    require<ShapeError>(v.items() == c.to[0].items() && v.axes == c.to[0].axes, "operands must have equal batch sizes");
  for (const View& v : c.from) check_operand(v);
  for (const View& v : c.to) check_operand(v);
  for (const PermutationHandle& turn : c.turns)
    require<ShapeError>(turn->permutation().source.size() == c.ring->ring().n(),
                        "a permutation must have the length of the ring's degree");
  std::set<const std::byte*> written;
  const auto limb = [](const auto& views, const LimbSumList::At& at) {
    require<ShapeError>(
        at.operand < views.size() && at.component < views[at.operand].components && at.limb < views[at.operand].limbs,
        "a sum of limbs refers to a limb that no operand has");
    return views[at.operand].address(0, at.component, at.limb);
  };
  const LimbSumList& list = c.sums->list();
  for (const LimbSumList::Result& r : list.results) {
    require<ShapeError>(r.prime < c.ring->ring().primes().size(), "a prime index must be below the ring's number of primes");
    require<ShapeError>(written.insert(limb(c.to, r.to)).second, "two sums of limbs must not write the same result");
    require<ShapeError>(r.constant < c.ring->ring().prime(r.prime), "a constant must be below its modulus");
  }
  for (const LimbSumList::Result& r : list.results) {
    for (u32 k = 0; k < r.count; ++k) {
      const LimbSumList::Term& t = list.terms[r.first + k];
      require<ShapeError>(!written.contains(limb(c.from, t.a)), "a sum of limbs must not read a result");
      if (t.b.operand != LimbSumList::kNone)
        require<ShapeError>(!written.contains(limb(c.from, t.b)), "a sum of limbs must not read a result");
      require<ShapeError>(t.turn == LimbSumList::kNone || t.turn < c.turns.size(),
                          "the permutation of a term is out of range");
      require<ShapeError>(t.weight < c.ring->ring().prime(r.prime), "a constant must be below its modulus");
    }
  }
}

void check_call(const Sample& c) {
  check_ring(*c.ring, c.primes, c.out);
  check_result(c.out);
  // Larger numbers of items or components would repeat the ChaCha20 block of another draw.
  const Draw& draw = c.draw;
  require<ShapeError>(c.out.components <= 256 && draw.first_item + c.out.items() <= u64{1} << 32,
                      "a draw must have at most 256 components and 2^32 items");
}

void check_call(const Copy& c) { check_copy(c.a, c.out); }
void check_call(const Gather& c) {
  for (const Piece& p : c.pieces) check_copy(p.from, p.to);
}
void check_call(const Zero& c) { check_result(c.out); }

void check_call(const ByteProduct& c) {
  for (const View* v : std::initializer_list<const View*>{&c.bytes, &c.words, &c.out})
    require<ShapeError>(v->word == Word::w32 && v->limbs == 1,
                        "the operands of a product of bytes must have one limb of 32-bit words");
  require<ShapeError>(
      c.bytes.items() == 1 && c.words.components == 1 && c.out.components == 1 && c.out.n == c.bytes.components,
      "a product of bytes must have one item of bytes and a word of the result for each of its components");
  require<ShapeError>(c.bytes.n > 0 && c.bytes.n % kSlice == 0 && c.words.n == 4 * c.bytes.n,
                      "a product of bytes must have one word for each byte, and a multiple of 256 bytes");
  check_batch(c.words, c.out);
  require<ShapeError>(c.words.data != c.out.data && c.bytes.data != c.out.data,
                      "a product of bytes cannot work in place: its result must be another view");
}

void check_call(const Decompose& c) {
  check_ring(*c.plan->ring, c.plan->chain, c.x);
  check_ring(*c.plan->ring, c.plan->extended, c.digits);
  check_batch(c.x, c.digits);
  require<ShapeError>(c.x.components == 1 && c.digits.components == c.plan->digits.size(),
                      "a decomposition must have one input component and one output component for each digit");
}

template <class Switch>
void check_switch(const Switch& c) {
  const KeySwitchPlan& plan = *c.plan;
  require<ShapeError>(c.out.components == 2, "the result of a key switch must have two components");
  check_key(*plan.ring, c.key, plan.key_limbs, plan.extended.size(), 2 * plan.digits.size(), c.out.n);
  if (c.add) check_added(plan, *c.add, c.out);
  if (c.domain == math::Domain::coefficient) {
    check_ring(*plan.ring, plan.chain, c.out);
    require<ShapeError>(!c.turn, "a key switch in the coefficient domain must not have an automorphism");
    require<ShapeError>((plan.mod_down != nullptr) == (plan.special.size() > 0),
                        "a key switch must have a division by P exactly if it has special primes");
    return;
  }
  require<ShapeError>(plan.down.ring && plan.down.primes == plan.extended,
                      "the division of a key switch must be of its extended primes");
  check_divide(plan.down, c.out);
  if (c.turn) check_turn(*c.turn, c.out.n);
}

void check_call(const ApplyKey& c) {
  check_ring(*c.plan->ring, c.plan->extended, c.digits);
  check_batch(c.digits, c.out);
  require<ShapeError>(c.digits.components == c.plan->digits.size(), "a key switch must have one component for each digit");
  check_switch(c);
}

void check_call(const ApplyKeys& c) {
  const std::size_t count = c.outs.size();
  const auto one_or_each = [&](const std::vector<In>& views) { return views.size() == 1 || views.size() == count; };
  require<ShapeError>(count > 0 && c.keys.size() == count && c.turns.size() == count,
                      "each of several key switches must have a key, an automorphism (or null) and a result");
  require<ShapeError>(one_or_each(c.digits) && (c.added.empty() || one_or_each(c.added)),
                      "several key switches must have one digits operand and one addend for all, or one for each");
  for (std::size_t i = 0; i < count; ++i) {
    check_same(c.outs[i], c.outs[0]);
    check_call(c.one(i));
    if (!c.added.empty()) {
      require<ShapeError>(c.one(i).add->components == c.added[0].components,
                          "the addends of several key switches must have equal numbers of components");
    }
  }
}

void check_call(const KeySwitch& c) {
  check_ring(*c.plan->ring, c.plan->chain, c.x);
  check_batch(c.x, c.out);
  require<ShapeError>(c.x.components == 1, "the input of a key switch must have one component");
  check_switch(c);
}

void check_call(const PartialKeySwitch& c) {
  const KeySwitchPlan& plan = *c.plan;
  check_ring(*plan.ring, plan.chain, c.x);
  check_batch(c.x, c.out), check_batch(c.coefficients, c.out);
  require<ShapeError>(c.x.components == 1 && c.coefficients.components == 1,
                      "the input of a key switch must have one component");
  require<ShapeError>(c.coefficients.word == c.x.word && c.coefficients.n == c.x.n,
                      "a polynomial and its coefficients must have one word size and degree");
  std::size_t next = 0;
  for (const KeySwitchPlan::Digit& digit : plan.digits) {
    const KeySwitchPlan::Digit::Source source = digit.raised_from();
    require<ShapeError>(source.first == next && source.count <= c.coefficients.limbs - next &&
                            (!digit.raise || digit.raise->conversion().sources() == source.count),
                        "the digits of a key switch must cover the polynomial's limbs in order");
    next += source.count;
  }
  require<ShapeError>(next == c.coefficients.limbs, "the digits of a key switch must cover the polynomial's limbs in order");
  check_switch(c);
}

void check_call(const Divide& c) {
  check_ring(*c.plan->ring, c.plan->primes, c.x);
  check_same(c.x, c.out);
  check_divide(*c.plan, c.out);
}

void check_steps(const std::vector<PermutationHandle>& steps, std::size_t n) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    require<ShapeError>(steps[i] || i == 0, "the identity step must be the first");
    if (steps[i]) check_turn(*steps[i], n);
  }
}

void check_terms(const std::vector<LinearPlan::Term>& terms, std::size_t babies, std::size_t giants) {
  require<ShapeError>(!terms.empty() && terms[0].giant == 0 && std::size_t{terms.back().giant} + 1 == giants,
                      "a linear sum must have at least one term for each giant step");
  for (std::size_t i = 0; i < terms.size(); ++i) {
    require<ShapeError>(terms[i].baby < babies, "a term of a linear sum refers to a missing baby step");
    if (i == 0) continue;
    const bool same = terms[i].giant == terms[i - 1].giant;
    require<ShapeError>(same ? terms[i].baby > terms[i - 1].baby : terms[i].giant == terms[i - 1].giant + 1,
                        "the terms of a linear sum must be in ascending order");
  }
}

void check_call(const LinearSum& c) {
  const KeySwitchPlan& plan = *c.plan->key_switch;
  check_ring(*plan.ring, plan.chain, c.x);
  check_batch(c.x, c.out);
  require<ShapeError>(c.x.components == 2 && c.out.components == 2,
                      "the ciphertexts of a linear sum must have two components");
  require<ShapeError>(plan.down.primes == plan.extended, "the division of a linear sum must be of its extended primes");
  check_divide(plan.down, c.out);
  check_steps(c.plan->babies, c.out.n), check_steps(c.plan->giants, c.out.n);
  check_terms(c.plan->terms, c.plan->babies.size(), c.plan->giants.size());
  require<ShapeError>((c.plan->mod_down != nullptr) == (plan.special.size() > 0),
                      "a linear sum must have a division by P exactly if it has special primes");
  if (c.plan->mod_down) {
    const math::Conversion& k = c.plan->mod_down->conversion();
    require<ShapeError>(!k.own.empty() && k.sources() == plan.special.size() && k.targets() == plan.chain.size(),
                        "the division by P of a linear sum must be from its special primes to its chain");
  }
  require<ShapeError>(c.keys.size() == LinearPlan::turning(c.plan->babies) + LinearPlan::turning(c.plan->giants),
                      "a linear sum must have one key for each step except the identity");
  for (const View& key : c.keys)
    check_key(*plan.ring, key, plan.key_limbs, plan.extended.size(), 2 * plan.digits.size(), c.out.n);
  check_ring(*plan.ring, plan.extended, unrolled(c.plaintexts, c.out.n));
  require<ShapeError>(c.plaintexts.items() == 1 && c.plaintexts.components == c.plan->terms.size(),
                      "a linear sum must have one plaintext for each term");
}

/// Checks the keys of steps over the limbs of `like`: each key must have at least two components for each digit of the
/// call.
template <class Steps>
void check_step_keys(const Steps& c, const View& like) {
  check_ring(*c.ring, c.primes, like);
  check_ring(*c.ring, c.primes, c.digits);
  check_steps(c.turns, like.n);
  require<ShapeError>(c.digits.components > 0 && c.digits.data != like.data,
                      "the digits and the result of steps must be different views");
  for (const View& key : c.keys)
    check_key(*c.ring, key, c.key_limbs, c.primes.size(), checked_mul(2, c.digits.components), like.n);
}

void check_call(const BabySteps& c) {
  check_step_keys(c, c.sums);
  require<ShapeError>(c.x.limbs > 0 && c.x.limbs <= c.primes.size(),
                      "the ciphertext of baby steps must have the first of their primes");
  check_ring(*c.ring, PrimeList(c.primes.begin(), c.x.limbs), c.x);
  require<ShapeError>(c.x.components == 2 && c.sums.components == 2,
                      "the ciphertexts of baby steps must have two components");
  require<ShapeError>(c.digits.items() == c.x.items() && !c.terms.empty() && c.sums.axes == 1 &&
                          c.sums.items() == checked_mul(c.giants(), c.x.items()),
                      "baby steps must have a sum for each giant step and item");
  check_result(c.sums);
  check_terms(c.terms, c.turns.size(), c.giants());
  require<ShapeError>(c.keys.size() == LinearPlan::turning(c.turns),
                      "baby steps must have one key for each step except the identity");
  check_ring(*c.ring, c.primes, unrolled(c.plaintexts, c.sums.n));
  require<ShapeError>(c.plaintexts.items() == 1 && c.plaintexts.components == c.terms.size(),
                      "baby steps must have one plaintext for each term");
  for (std::size_t l = 0; l < c.x.limbs; ++l)
    require<ShapeError>(c.weight[l] < c.ring->ring().prime(c.primes[l]), "a weight must be below its modulus");
}

void check_call(const GiantSteps& c) {
  check_step_keys(c, c.total);
  check_ring(*c.ring, c.primes, c.sums);
  require<ShapeError>(c.sums.components == 1 && c.total.components == 2,
                      "giant steps must have sums of one component and a total of two");
  require<ShapeError>(!c.turns.empty() && c.turns[0] && c.keys.size() == c.turns.size(),
                      "each giant step must have an automorphism and a key");
  const std::size_t all = checked_mul(c.turns.size(), c.total.items());
  require<ShapeError>(c.sums.axes == 1 && c.digits.axes == 1 && c.sums.items() == all && c.digits.items() == all,
                      "giant steps must have a sum and digits for each step and item");
  require<ShapeError>(c.sums.data != c.total.data, "a permutation cannot work in place: its result must be another view");
  check_result(c.total);
}

void check_call(const ScaledTensor& c) {
  for (const View* v : std::initializer_list<const View*>{&c.a, &c.b, &c.out})
    check_ring(*c.plan->ring, c.plan->chain, *v), check_batch(*v, c.out);
  check_degrees(c.a, c.b, c.out);
}

void check_call(const Combine& c) { check_wires(*c.layer, c.wires, 0); }

/// Checks that a key is present: programs store calls without keys and set them later.
void check_has(const Constant* key) {
  require<MismatchError>(key != nullptr, "a call has no key; set its key before it is enqueued");
}

void check_call(const LweKeySwitch& c) {
  check_has(c.key.get());
  check_wires(*c.layer, c.wires, c.key->shape().from);
  check_narrow(*c.layer, c.wires, c.narrow, c.key->shape().to);
}

void check_call(const Bootstrap& c) {
  check_has(c.key.get());
  check_wires(*c.layer, c.wires, c.key->shape().wide());
  check_narrow(*c.layer, c.wires, c.narrow, c.key->shape().n);
  require<ShapeError>(!c.layer->layer().linear() && c.layer->layer().degree == c.key->shape().degree,
                      "the tables of a layer must have N coefficients, as its key");
}

void check_call(const Evaluate& c) {
  if (c.layer->layer().linear()) return check_wires(*c.layer, c.wires, 0);
  check_has(c.key.get()), check_has(c.switch_key.get());
  check_wires(*c.layer, c.wires, c.key->shape().wide());
  check_narrow(*c.layer, c.wires, c.narrow, c.key->shape().n);
  require<ShapeError>(c.switch_key->shape().from == c.key->shape().wide() && c.switch_key->shape().to == c.key->shape().n,
                      "the key-switching key and the bootstrapping key must have matching dimensions");
  require<ShapeError>(c.layer->layer().degree == c.key->shape().degree,
                      "the tables of a layer must have N coefficients, as its key");
}

}  // namespace

void check(const Call& call) {
  std::visit([](const auto& c) { check_call(c); }, call);
}

bool idle(const Call& call) {
  return std::visit(
      [](const auto& c) {
        if constexpr (requires {
                        c.layer;
                        c.wires;
                      })
          return c.wires.items() == 0 || c.layer->layer().rows() == 0;
        return false;
      },
      call);
}

}  // namespace heliograph::device
