// Whether a call's operands fit its kernel.
#include <algorithm>
#include <bit>
#include <functional>
#include <set>
#include <type_traits>

#include "base/checked.h"
#include "device/call.h"
#include "device/shape.h"

namespace heliograph::device {

namespace {

constexpr std::size_t kSlice = 64;  // a slice of the coefficients is a multiple of so many words

/// All but the degree.
void check_limbs(const RingConstant& ring, const PrimeList& primes, const View& v) {
  require<MismatchError>(v.word == ring.ring().word(), "an operand's word is not the ring's");
  require<ShapeError>(v.limbs == primes.size(), "an operand does not have one limb for each prime");
  for (PrimeIndex p : primes) require<ShapeError>(p < ring.ring().primes().size(), "a prime index is beyond the ring's");
}

void check_ring(const RingConstant& ring, const PrimeList& primes, const View& v) {
  require<ParameterError>(ring.ring().transforms(), "rows of residues are no polynomials: this kernel is for a ring");
  require<ShapeError>(v.n == ring.ring().n(), "an operand's degree is not the ring's");
  check_limbs(ring, primes, v);
}

/// Of the ring, all of its coefficients or the slice that `out` has.
void check_slice(const RingConstant& ring, const PrimeList& primes, const View& v, const View& out) {
  const std::size_t n = ring.ring().n();
  require<ShapeError>(v.n == out.n && (v.n == n || (v.n < n && v.n > 0 && v.n % kSlice == 0)),
                      "an operand's degree is not the ring's, nor are all operands the same multiple of 64 coefficients");
  check_limbs(ring, primes, v);
}

/// A result has memory of its own for each item.
void check_result(const View& out) {
  for (int i = 0; i < out.axes; ++i)
    require<ShapeError>(out.stride[i] != 0 || out.shape[i] <= 1 || out.items() == 0, "a result cannot broadcast");
}

void check_batch(const View& a, const View& out) {
  require<ShapeError>(a.items() == out.items(), "operands have different batch sizes");
  check_result(out);
}

void check_same(const View& a, const View& out) {
  check_batch(a, out);
  require<ShapeError>(a.components == out.components, "operands have different numbers of components");
}

void check_copy(const View& a, const View& out) {
  check_same(a, out);
  require<ShapeError>(a.limbs == out.limbs && a.n == out.n && a.word == out.word, "a copy's operands do not fit");
}

void check_word(const std::vector<u64>& moduli, const View& v) {
  for (u64 q : moduli)
    require<MismatchError>(v.word == Word::w64 || q <= u64{1} << 32, "a modulus does not fit its operand's word");
}

void check_key(const RingConstant& ring, const View& key, const PrimeList& key_limbs, std::size_t limbs,
               std::size_t components, std::size_t n) {
  require<ShapeError>(key.n == n && key.items() == 1, "a key does not fit the ring");
  require<MismatchError>(key.word == ring.ring().word(), "an operand's word is not the ring's");
  require<ShapeError>(key.components >= components, "a key has too few digits");
  require<ShapeError>(key_limbs.size() == limbs, "one key limb is needed for each prime");
  for (PrimeIndex l : key_limbs) require<ShapeError>(l < key.limbs, "a key limb is out of range");
}

void check_added(const KeySwitchPlan& plan, const View& add, const View& out) {
  check_ring(*plan.ring, plan.chain, add);
  check_batch(add, out);
  require<ShapeError>(add.components == 1 || add.components == 2, "a key switch adds one or two components");
}

/// Inputs and result of one shape: all coefficients or slices of them.
void check_alike(const RingHandle& ring, const PrimeList& primes, std::initializer_list<const View*> views,
                 const View& out) {
  for (const View* v : views) check_slice(*ring, primes, *v, out), check_same(*v, out);
}

/// A view whose limbs may have one word for a run of `n`'s, as if it had all.
View unrolled(View v, std::size_t n) {
  require<ShapeError>(v.n > 0 && n % v.n == 0 && std::has_single_bit(n / v.n),
                      "an operand's limbs have neither all words nor one for each run, a power of two, of them");
  v.n = n;
  return v;
}

/// A factor of one component serves each of the result's; a word of the second one a run of its words.
void check_factors(const RingHandle& ring, const PrimeList& primes, const View& a, const View& b, const View& out) {
  const View whole = unrolled(b, out.n);
  for (const View* v : std::initializer_list<const View*>{&a, &whole, &out})
    check_slice(*ring, primes, *v, out), check_batch(*v, out);
  for (const View* v : {&a, &b}) {
    require<ShapeError>(v->components == out.components || v->components == 1,
                        "operands have different numbers of components");
  }
}

void check_constants(const RingHandle& ring, const PrimeList& primes, const LimbConstants& c) {
  for (std::size_t l = 0; l < primes.size(); ++l)
    require<ShapeError>(c[l] < ring->ring().prime(primes[l]), "a constant is not reduced");
}

/// Whether an operand of the result's shape certainly shares words with it that are not its own place's: both begin at one word
/// and go on differently, or both are dense. What is strided otherwise is not told apart.
bool runs_into(const View& a, const View& out) {
  if (out.words() == 0) return false;
  const auto apart = [](std::size_t count, auto one, auto other) { return count > 1 && one != other; };
  bool differ = apart(out.components, a.component_stride, out.component_stride) ||
                apart(out.limbs, a.limb_stride, out.limb_stride) || (a.axes != out.axes || a.shape != out.shape);
  for (int i = 0; i < out.axes && !differ; ++i) differ = apart(out.shape[i], a.stride[i], out.stride[i]);
  if (a.data == out.data) return differ;
  const std::less<const std::byte*> before;
  return is_dense(a) && is_dense(out) && before(a.data, out.data + out.bytes()) && before(out.data, a.data + a.bytes());
}

void check_transform(const RingHandle& ring, const PrimeList& primes, const View& a, const View& out) {
  for (const View* v : {&a, &out}) check_ring(*ring, primes, *v), check_same(*v, out);
}

void check_divide(const DividePlan& plan, const View& out) {
  check_ring(*plan.ring, plan.out, out);
  std::size_t next = 0;
  for (const auto& [from, to, count] : plan.kept) {
    require<ShapeError>(from + count <= plan.primes.size() && to >= next && to + count <= plan.out.size(),
                        "a division keeps limbs that are not there, or in another order");
    next = to + count;
  }
  const std::size_t divisors = plan.divisors();
  for (const auto& [from, to, count] : plan.divided) {
    require<ShapeError>(from + count <= plan.primes.size() && to + count <= divisors,
                        "a division divides by limbs that are not there");
  }
  require<ShapeError>((plan.rest != nullptr) == (divisors > 0), "a division's conversion is missing or not wanted");
  if (!plan.rest) return;
  const math::Conversion& c = plan.rest->conversion();
  require<ShapeError>(c.own.empty() && c.sources() == divisors && c.targets() == plan.out.size(),
                      "a division's conversion does not fit it");
}

void check_turn(const PermutationConstant& turn, std::size_t n) {
  const Permutation& p = turn.permutation();
  require<ShapeError>(p.source.size() == n && p.negate.empty(), "not a permutation of the NTT domain of this degree");
}

void check_wires(const LayerConstant& layer, const View& wires, std::size_t dimension) {
  require<ShapeError>(wires.word == Word::w64 && wires.axes == 1 && wires.limbs == 1 &&
                          (dimension == 0 || wires.n == lwe_words(dimension)) && wires.n > 0 && wires.n % 64 == 0 &&
                          wires.stride[0] >= 0,
                      "wires are LWE ciphertexts [item][wire] of 64-bit words, the first item first");
  require<ShapeError>(wires.components >= layer.layer().wires(), "the layer has more wires than there is room for");
}

void check_narrow(const LayerConstant& layer, const View& wires, const View& narrow, std::size_t dimension) {
  require<ShapeError>(narrow.word == Word::w32 && narrow.axes == 1 && narrow.limbs == 1 &&
                          narrow.n == lwe_words(dimension) && narrow.stride[0] >= 0,
                      "narrow ciphertexts are LWE ciphertexts [item][row] of 32-bit words, the first item first");
  require<ShapeError>(narrow.items() == wires.items() && narrow.components >= layer.layer().rows(),
                      "there is less room for narrow ciphertexts than rows");
}

// One function for each kernel.

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
  require<ShapeError>(!c.x.empty() && c.x.size() <= WeightedSum::kMost, "a weighted sum has 1 to 8 terms");
  require<ShapeError>(weights.size() == c.x.size(), "a weighted sum has one weight for each term");
  check_alike(c.ring, c.primes, {&c.out}, c.out);
  for (const View& x : c.x) {
    check_alike(c.ring, c.primes, {&x}, c.out);
    require<ShapeError>(!runs_into(x, c.out), "a term of a weighted sum overlaps its result, and is not it");
  }
  for (const LimbConstants& w : weights) check_constants(c.ring, c.primes, w);
  if (c.constant) check_constants(c.ring, c.primes, *c.constant);
}

void check_call(const ForwardNtt& c) { check_transform(c.ring, c.primes, c.a, c.out); }
void check_call(const InverseNtt& c) { check_transform(c.ring, c.primes, c.a, c.out); }

void check_call(const Permute& c) {
  check_transform(c.ring, c.primes, c.a, c.out);
  require<ShapeError>(c.permutation->permutation().source.size() == c.out.n,
                      "a permutation's length is not the ring's degree");
  require<ShapeError>(c.a.data != c.out.data, "a permutation cannot work in place");
}

void check_call(const Convert& c) {
  const math::Conversion& k = c.conversion->conversion();
  require<ShapeError>(c.x.limbs == k.sources(), "a conversion's input does not have one limb for each source");
  require<ShapeError>((c.place ? c.place->size() : c.out.limbs) == k.targets(),
                      "a conversion's output does not have one limb for each target");
  if (c.place) {
    for (PrimeIndex l : *c.place) require<ShapeError>(l < c.out.limbs, "a conversion's output limb is out of range");
  }
  check_same(c.x, c.out);
  require<ShapeError>(c.x.n == c.out.n, "a conversion does not change the degree");
  require<ShapeError>(std::has_single_bit(c.out.n) || (c.out.n > 0 && c.out.n % kSlice == 0),
                      "a conversion's operands are neither of a degree nor slices of multiples of 64 coefficients");
  check_word(k.from, c.x);
  check_word(k.to, c.out);
  require<ShapeError>(c.own.has_value() == !k.own.empty(), "a conversion's own operand is missing or not wanted");
  if (c.own) {
    check_same(*c.own, c.out);
    require<ShapeError>(c.own->limbs == c.out.limbs && c.own->word == c.out.word && c.own->n == c.out.n,
                        "a conversion's own operand does not fit");
  }
}

void check_call(const InnerProduct& c) {
  for (const View* v : std::initializer_list<const View*>{&c.digits, &c.out})
    check_slice(*c.ring, c.primes, *v, c.out), check_batch(*v, c.out);
  check_key(*c.ring, c.key, c.key_limbs, c.primes.size(), checked_mul(c.terms(), c.out.components), c.out.n);
  if (c.turns.empty()) return;
  check_ring(*c.ring, c.primes, c.out);
  require<ShapeError>(c.digits.components == 1, "an inner product turns one component");
  require<ShapeError>(c.digits.data != c.out.data, "a permutation cannot work in place");
  for (const PermutationHandle& turn : c.turns) {
    if (turn) check_turn(*turn, c.out.n);
  }
}

/// Of polynomials in the secret.
void check_degrees(const View& a, const View& b, const View& out) {
  require<ShapeError>(a.components > 0 && b.components > 0 && a.components + b.components == out.components + 1,
                      "a product has one component fewer than its factors together");
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
  require<ShapeError>(c.in.components == c.out.components, "operands have different numbers of components");
  require<ShapeError>(c.in.items() == g.inputs, "a matrix product has another number of inputs");
  require<ShapeError>(c.out.items() == g.groups * g.outputs * g.positions, "a matrix product has another number of outputs");
}

void check_call(const LimbSums& c) {
  require<ShapeError>(!c.to.empty() && c.from.size() <= LimbSums::kMostFrom && c.to.size() <= LimbSums::kMostTo &&
                          c.turns.size() <= LimbSums::kMostTurns,
                      "sums of limbs have 64 operands, 8 results' and 32 turns at most");
  require<ParameterError>(c.ring->ring().transforms(), "rows of residues are no polynomials: this kernel is for a ring");
  const auto check_operand = [&](const View& v) {
    require<MismatchError>(v.word == c.ring->ring().word(), "an operand's word is not the ring's");
    require<ShapeError>(v.n == c.ring->ring().n() && v.axes <= 1,
                        "an operand's degree is not the ring's, or it has more than a batch");
    check_batch(v, c.to[0]);
  };
  for (const View& v : c.from)
    require<ShapeError>(v.items() == c.to[0].items() && v.axes == c.to[0].axes, "operands have different batch sizes");
  for (const View& v : c.from) check_operand(v);
  for (const View& v : c.to) check_operand(v);
  for (const PermutationHandle& turn : c.turns)
    require<ShapeError>(turn->permutation().source.size() == c.ring->ring().n(),
                        "a permutation's length is not the ring's degree");
  std::set<const std::byte*> written;
  const auto limb = [](const auto& views, const LimbSumList::At& at) {
    require<ShapeError>(
        at.operand < views.size() && at.component < views[at.operand].components && at.limb < views[at.operand].limbs,
        "a sum of limbs names a limb that no operand has");
    return views[at.operand].address(0, at.component, at.limb);
  };
  const LimbSumList& list = c.sums->list();
  for (const LimbSumList::Result& r : list.results) {
    require<ShapeError>(r.prime < c.ring->ring().primes().size(), "a prime index is beyond the ring's");
    require<ShapeError>(written.insert(limb(c.to, r.to)).second, "two sums of limbs have one result");
    require<ShapeError>(r.constant < c.ring->ring().prime(r.prime), "a constant is not reduced");
  }
  for (const LimbSumList::Result& r : list.results) {
    for (u32 k = 0; k < r.count; ++k) {
      const LimbSumList::Term& t = list.terms[r.first + k];
      require<ShapeError>(!written.contains(limb(c.from, t.a)), "a sum of limbs reads a result");
      if (t.b.operand != LimbSumList::kNone)
        require<ShapeError>(!written.contains(limb(c.from, t.b)), "a sum of limbs reads a result");
      require<ShapeError>(t.turn == LimbSumList::kNone || t.turn < c.turns.size(), "a sum of limbs has no such turn");
      require<ShapeError>(t.weight < c.ring->ring().prime(r.prime), "a constant is not reduced");
    }
  }
}

void check_call(const Sample& c) {
  check_ring(*c.ring, c.primes, c.out);
  check_result(c.out);
  // Beyond these a draw would repeat another's block.
  const Draw& draw = c.draw;
  require<ShapeError>(c.out.components <= 256 && draw.first_item + c.out.items() <= u64{1} << 32,
                      "a draw's position is out of range");
}

void check_call(const Copy& c) { check_copy(c.a, c.out); }
void check_call(const Gather& c) {
  for (const Piece& p : c.pieces) check_copy(p.from, p.to);
}
void check_call(const Zero& c) { check_result(c.out); }

void check_call(const ByteProduct& c) {
  for (const View* v : std::initializer_list<const View*>{&c.bytes, &c.words, &c.out})
    require<ShapeError>(v->word == Word::w32 && v->limbs == 1,
                        "bytes, and what they are multiplied with, lie in one limb of 32-bit words");
  require<ShapeError>(
      c.bytes.items() == 1 && c.words.components == 1 && c.out.components == 1 && c.out.n == c.bytes.components,
      "a product of bytes has a result for each component of the bytes, of which there is one batch");
  require<ShapeError>(c.bytes.n > 0 && c.bytes.n % kSlice == 0 && c.words.n == 4 * c.bytes.n,
                      "a product of bytes takes a word for each byte, and a multiple of 256 of them");
  check_batch(c.words, c.out);
  require<ShapeError>(c.words.data != c.out.data && c.bytes.data != c.out.data, "a product of bytes cannot work in place");
}

void check_call(const Decompose& c) {
  check_ring(*c.plan->ring, c.plan->chain, c.x);
  check_ring(*c.plan->ring, c.plan->extended, c.digits);
  check_batch(c.x, c.digits);
  require<ShapeError>(c.x.components == 1 && c.digits.components == c.plan->digits.size(),
                      "one polynomial becomes one component a digit");
}

/// What both forms of a key switch want of key, addend and result.
template <class Switch>
void check_switch(const Switch& c) {
  const KeySwitchPlan& plan = *c.plan;
  require<ShapeError>(c.out.components == 2, "a key switch gives two components");
  check_key(*plan.ring, c.key, plan.key_limbs, plan.extended.size(), 2 * plan.digits.size(), c.out.n);
  if (c.add) check_added(plan, *c.add, c.out);
  if (c.domain == math::Domain::coefficient) {
    check_ring(*plan.ring, plan.chain, c.out);
    require<ShapeError>(!c.turn, "in the coefficient domain a key switch turns nothing");
    require<ShapeError>((plan.mod_down != nullptr) == (plan.special.size() > 0),
                        "a key switch's division by P is missing or not wanted");
    return;
  }
  require<ShapeError>(plan.down.ring && plan.down.primes == plan.extended, "a key switch's division is not of its sums");
  check_divide(plan.down, c.out);
  if (c.turn) check_turn(*c.turn, c.out.n);
}

void check_call(const ApplyKey& c) {
  check_ring(*c.plan->ring, c.plan->extended, c.digits);
  check_batch(c.digits, c.out);
  require<ShapeError>(c.digits.components == c.plan->digits.size(), "a key switch takes one component a digit");
  check_switch(c);
}

void check_call(const ApplyKeys& c) {
  const std::size_t count = c.outs.size();
  const auto one_or_each = [&](const std::vector<In>& views) { return views.size() == 1 || views.size() == count; };
  require<ShapeError>(count > 0 && c.keys.size() == count && c.turns.size() == count,
                      "several key switches have a key, a turn and a result each");
  require<ShapeError>(one_or_each(c.digits) && (c.added.empty() || one_or_each(c.added)),
                      "several key switches have digits and addends for all or for each");
  for (std::size_t i = 0; i < count; ++i) {
    check_same(c.outs[i], c.outs[0]);
    check_call(c.one(i));
    if (!c.added.empty()) {
      require<ShapeError>(c.one(i).add->components == c.added[0].components, "addends of several key switches are alike");
    }
  }
}

void check_call(const KeySwitch& c) {
  check_ring(*c.plan->ring, c.plan->chain, c.x);
  check_batch(c.x, c.out);
  require<ShapeError>(c.x.components == 1, "a key switch takes one component");
  check_switch(c);
}

void check_call(const Divide& c) {
  check_ring(*c.plan->ring, c.plan->primes, c.x);
  check_same(c.x, c.out);
  check_divide(*c.plan, c.out);
}

void check_steps(const std::vector<PermutationHandle>& steps, std::size_t n) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    require<ShapeError>(steps[i] || i == 0, "a step that turns nothing comes first");
    if (steps[i]) check_turn(*steps[i], n);
  }
}

void check_terms(const LinearPlan& plan) {
  const auto& terms = plan.terms;
  require<ShapeError>(!terms.empty() && terms[0].giant == 0 && terms.back().giant + 1 == plan.giants.size(),
                      "a linear sum has terms, at least one for each giant step");
  for (std::size_t i = 0; i < terms.size(); ++i) {
    require<ShapeError>(terms[i].baby < plan.babies.size(), "a linear sum's term is of no baby step");
    if (i == 0) continue;
    const bool same = terms[i].giant == terms[i - 1].giant;
    require<ShapeError>(same ? terms[i].baby > terms[i - 1].baby : terms[i].giant == terms[i - 1].giant + 1,
                        "a linear sum's terms are not in ascending order");
  }
}

void check_call(const LinearSum& c) {
  const KeySwitchPlan& plan = *c.plan->key_switch;
  check_ring(*plan.ring, plan.chain, c.x);
  check_batch(c.x, c.out);
  require<ShapeError>(c.x.components == 2 && c.out.components == 2, "a linear sum is of ciphertexts of two components");
  require<ShapeError>(plan.down.primes == plan.extended, "a linear sum's division is not of its sums");
  check_divide(plan.down, c.out);
  check_steps(c.plan->babies, c.out.n), check_steps(c.plan->giants, c.out.n);
  check_terms(*c.plan);
  require<ShapeError>((c.plan->mod_down != nullptr) == (plan.special.size() > 0),
                      "a linear sum's division by P is missing or not wanted");
  if (c.plan->mod_down) {
    const math::Conversion& k = c.plan->mod_down->conversion();
    require<ShapeError>(!k.own.empty() && k.sources() == plan.special.size() && k.targets() == plan.chain.size(),
                        "a linear sum's division by P does not fit it");
  }
  require<ShapeError>(c.keys.size() == LinearPlan::turning(c.plan->babies) + LinearPlan::turning(c.plan->giants),
                      "a linear sum has one key for each step that turns");
  for (const View& key : c.keys)
    check_key(*plan.ring, key, plan.key_limbs, plan.extended.size(), 2 * plan.digits.size(), c.out.n);
  check_ring(*plan.ring, plan.extended, unrolled(c.plaintexts, c.out.n));
  require<ShapeError>(c.plaintexts.items() == 1 && c.plaintexts.components == c.plan->terms.size(),
                      "a linear sum has one plaintext for each term");
}

void check_call(const BfvMultiply& c) {
  for (const View* v : std::initializer_list<const View*>{&c.a, &c.b, &c.out})
    check_ring(*c.plan->ring, c.plan->chain, *v), check_batch(*v, c.out);
  check_degrees(c.a, c.b, c.out);
}

void check_call(const Combine& c) { check_wires(*c.layer, c.wires, 0); }

/// What a program takes out of a call and its keys put in again.
void check_has(const Constant* key) { require<MismatchError>(key != nullptr, "a call without its key"); }

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
                      "a layer's tables have the key's N coefficients");
}

void check_call(const Evaluate& c) {
  if (c.layer->layer().linear()) return check_wires(*c.layer, c.wires, 0);
  check_has(c.key.get()), check_has(c.switch_key.get());
  check_wires(*c.layer, c.wires, c.key->shape().wide());
  check_narrow(*c.layer, c.wires, c.narrow, c.key->shape().n);
  require<ShapeError>(c.switch_key->shape().from == c.key->shape().wide() && c.switch_key->shape().to == c.key->shape().n,
                      "the two keys do not belong together");
  require<ShapeError>(c.layer->layer().degree == c.key->shape().degree, "a layer's tables have the key's N coefficients");
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
