// Argument checks of the contract, then the backend's own call.
#include "device/kernels.h"

#include <algorithm>
#include <bit>

#include "base/checked.h"
#include "device/composite.h"

namespace heliograph::device {

namespace {

constexpr std::size_t kSlice = 64;  // a slice of the coefficients is a multiple of so many words

/// All but the degree.
void check_limbs(const PreparedRing& ring, const PrimeList& primes, const View& v) {
  require<MismatchError>(v.word == ring.ring().word(), "an operand's word is not the ring's");
  require<ShapeError>(v.limbs == primes.size(), "an operand does not have one limb for each prime");
  for (PrimeIndex p : primes) require<ShapeError>(p < ring.ring().primes().size(), "a prime index is beyond the ring's");
}

void check_ring(const PreparedRing& ring, const PrimeList& primes, const View& v) {
  require<ParameterError>(ring.ring().transforms(), "rows of residues are no polynomials: this kernel is for a ring");
  require<ShapeError>(v.n == ring.ring().n(), "an operand's degree is not the ring's");
  check_limbs(ring, primes, v);
}

/// Of the ring, all of its coefficients or the slice that `out` has.
void check_slice(const PreparedRing& ring, const PrimeList& primes, const View& v, const View& out) {
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

void check_key(const PreparedRing& ring, const View& key, const PrimeList& key_limbs, std::size_t limbs,
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

}  // namespace

View Workspace::take(Word word, std::size_t items, std::size_t components, std::size_t limbs, std::size_t n) {
  const std::size_t need = bytes(word, items, components, limbs, n);
  require<InternalError>(need <= left_, "a composite kernel's workspace is too small");
  View v = View::dense(next_, word, {items}, components, limbs, n);
  next_ += need;
  left_ -= need;
  return v;
}

std::size_t Workspace::bytes(Word word, std::size_t items, std::size_t components, std::size_t limbs, std::size_t n) {
  return checked_add(checked_product(items, components, limbs, n, math::word_bytes(word)), 63) / 64 * 64;
}

Workspace Workspace::split(std::size_t bytes) {
  require<InternalError>(bytes <= left_, "a composite kernel's workspace is too small");
  Workspace part(next_, bytes);
  next_ += bytes;
  left_ -= bytes;
  return part;
}

void Kernels::add(Queue& q, const PreparedRing& ring, PrimeList primes, const View& a, const View& b, const View& out) {
  for (const View* v : {&a, &b, &out}) check_slice(ring, primes, *v, out), check_same(*v, out);
  do_add(q, ring, primes, a, b, out);
}

void Kernels::sub(Queue& q, const PreparedRing& ring, PrimeList primes, const View& a, const View& b, const View& out) {
  for (const View* v : {&a, &b, &out}) check_slice(ring, primes, *v, out), check_same(*v, out);
  do_sub(q, ring, primes, a, b, out);
}

void Kernels::neg(Queue& q, const PreparedRing& ring, PrimeList primes, const View& a, const View& out) {
  for (const View* v : {&a, &out}) check_slice(ring, primes, *v, out), check_same(*v, out);
  do_neg(q, ring, primes, a, out);
}

void Kernels::mul(Queue& q, const PreparedRing& ring, PrimeList primes, const View& a, const View& b, const View& out) {
  for (const View* v : {&a, &b, &out}) check_slice(ring, primes, *v, out), check_batch(*v, out);
  for (const View* v : {&a, &b}) {
    require<ShapeError>(v->components == out.components || v->components == 1,
                        "operands have different numbers of components");
  }
  do_mul(q, ring, primes, a, b, out);
}

void Kernels::mul_accumulate(Queue& q, const PreparedRing& ring, PrimeList primes, const View& a, const View& b,
                             const View& out) {
  for (const View* v : {&a, &b, &out}) check_slice(ring, primes, *v, out), check_batch(*v, out);
  for (const View* v : {&a, &b}) {
    require<ShapeError>(v->components == out.components || v->components == 1,
                        "operands have different numbers of components");
  }
  do_mul_accumulate(q, ring, primes, a, b, out);
}

void Kernels::mul_constants(Queue& q, const PreparedRing& ring, PrimeList primes, const View& a, const LimbConstants& c,
                            const View& out) {
  for (const View* v : {&a, &out}) check_slice(ring, primes, *v, out), check_same(*v, out);
  for (std::size_t l = 0; l < primes.size(); ++l)
    require<ShapeError>(c[l] < ring.ring().prime(primes[l]), "a constant is not reduced");
  do_mul_constants(q, ring, primes, a, c, out);
}

void Kernels::add_constants(Queue& q, const PreparedRing& ring, PrimeList primes, const View& a, const LimbConstants& c,
                            math::Domain domain, const View& out) {
  for (const View* v : {&a, &out}) {
    domain == math::Domain::ntt ? check_slice(ring, primes, *v, out) : check_ring(ring, primes, *v);
    check_same(*v, out);
  }
  for (std::size_t l = 0; l < primes.size(); ++l)
    require<ShapeError>(c[l] < ring.ring().prime(primes[l]), "a constant is not reduced");
  do_add_constants(q, ring, primes, a, c, domain, out);
}

void Kernels::forward_ntt(Queue& q, const PreparedRing& ring, PrimeList primes, const View& a, const View& out) {
  for (const View* v : {&a, &out}) check_ring(ring, primes, *v), check_same(*v, out);
  do_forward_ntt(q, ring, primes, a, out);
}

void Kernels::inverse_ntt(Queue& q, const PreparedRing& ring, PrimeList primes, const View& a, const View& out) {
  for (const View* v : {&a, &out}) check_ring(ring, primes, *v), check_same(*v, out);
  do_inverse_ntt(q, ring, primes, a, out);
}

void Kernels::permute(Queue& q, const PreparedRing& ring, PrimeList primes, const PreparedPermutation& p, const View& a,
                      const View& out) {
  for (const View* v : {&a, &out}) check_ring(ring, primes, *v), check_same(*v, out);
  require<ShapeError>(p.permutation().source.size() == out.n, "a permutation's length is not the ring's degree");
  require<ShapeError>(a.data != out.data, "a permutation cannot work in place");
  do_permute(q, ring, primes, p, a, out);
}

void Kernels::convert(Queue& q, const PreparedConversion& c, const View& x, const View* own, const View& out,
                      const PrimeList* place) {
  const math::Conversion& k = c.conversion();
  require<ShapeError>(x.limbs == k.sources(), "a conversion's input does not have one limb for each source");
  require<ShapeError>((place ? place->size() : out.limbs) == k.targets(),
                      "a conversion's output does not have one limb for each target");
  if (place) {
    for (PrimeIndex l : *place) require<ShapeError>(l < out.limbs, "a conversion's output limb is out of range");
  }
  check_same(x, out);
  require<ShapeError>(x.n == out.n, "a conversion does not change the degree");
  require<ShapeError>(std::has_single_bit(out.n) || (out.n > 0 && out.n % kSlice == 0),
                      "a conversion's operands are neither of a degree nor slices of multiples of 64 coefficients");
  check_word(k.from, x);
  check_word(k.to, out);
  require<ShapeError>((own != nullptr) == !k.own.empty(), "a conversion's own operand is missing or not wanted");
  if (own) {
    check_same(*own, out);
    require<ShapeError>(own->limbs == out.limbs && own->word == out.word && own->n == out.n,
                        "a conversion's own operand does not fit");
  }
  do_convert(q, c, x, own, out, place);
}

void Kernels::inner_product(Queue& q, const PreparedRing& ring, PrimeList primes, const View& digits, const View& key,
                            PrimeList key_limbs, const View& out) {
  for (const View* v : {&digits, &out}) check_slice(ring, primes, *v, out), check_batch(*v, out);
  check_key(ring, key, key_limbs, primes.size(), digits.components * out.components, out.n);
  do_inner_product(q, ring, primes, digits, key, key_limbs, out);
}

void Kernels::tensor(Queue& q, const PreparedRing& ring, PrimeList primes, const View& a, const View& b, const View& out) {
  for (const View* v : {&a, &b, &out}) check_slice(ring, primes, *v, out), check_batch(*v, out);
  require<ShapeError>(a.components + b.components == out.components + 1,
                      "a product has one component fewer than its factors together");
  do_tensor(q, ring, primes, a, b, out);
}

void Kernels::product(Queue& q, const PreparedRing& ring, PrimeList primes, const PreparedProduct& p, const View& in,
                      const View& out) {
  for (const View* v : {&in, &out}) check_slice(ring, primes, *v, out);
  check_result(out);
  const GatheredProduct& g = p.product();
  require<ShapeError>(in.components == out.components, "operands have different numbers of components");
  require<ShapeError>(in.items() == g.inputs, "a matrix product has another number of inputs");
  require<ShapeError>(out.items() == g.groups * g.outputs * g.positions, "a matrix product has another number of outputs");
  do_product(q, ring, primes, p, in, out);
}

void Kernels::sample(Queue& q, const PreparedRing& ring, PrimeList primes, const Draw& draw, const View& out) {
  check_ring(ring, primes, out);
  check_result(out);
  // Beyond these a draw would repeat another's block.
  require<ShapeError>(out.components <= 256 && draw.first_item + out.items() <= u64{1} << 32,
                      "a draw's position is out of range");
  do_sample(q, ring, primes, draw, out);
}

void Kernels::copy(Queue& q, const View& a, const View& out) {
  check_copy(a, out);
  do_copy(q, a, out);
}

void Kernels::gather(Queue& q, std::span<const Piece> pieces) {
  for (const Piece& p : pieces) check_copy(p.from, p.to);
  do_gather(q, pieces);
}

void Kernels::do_gather(Queue& q, std::span<const Piece> pieces) {
  for (const Piece& p : pieces) do_copy(q, p.from, p.to);
}

void Kernels::zero(Queue& q, const View& out) {
  check_result(out);
  do_zero(q, out);
}

void Kernels::decompose(Queue& q, const KeySwitchPlan& plan, const View& x, const View& digits, Workspace w) {
  check_ring(*plan.ring, plan.chain, x);
  check_ring(*plan.ring, plan.extended, digits);
  check_batch(x, digits);
  require<ShapeError>(x.components == 1 && digits.components == plan.digits.size(),
                      "one polynomial becomes one component a digit");
  do_decompose(q, plan, x, digits, w);
}

void Kernels::apply_key(Queue& q, const KeySwitchPlan& plan, const View& digits, const View& key, const View* add,
                        const View& out, Workspace w) {
  check_ring(*plan.ring, plan.extended, digits);
  check_ring(*plan.ring, plan.chain, out);
  check_batch(digits, out);
  require<ShapeError>(digits.components == plan.digits.size() && out.components == 2,
                      "a key switch takes one component a digit and gives two");
  check_key(*plan.ring, key, plan.key_limbs, plan.extended.size(), 2 * plan.digits.size(), out.n);
  if (add) check_added(plan, *add, out);
  do_apply_key(q, plan, digits, key, add, out, w);
}

void Kernels::key_switch(Queue& q, const KeySwitchPlan& plan, const View& x, const View& key, const View* add,
                         const View& out, Workspace w) {
  check_ring(*plan.ring, plan.chain, x);
  check_ring(*plan.ring, plan.chain, out);
  check_batch(x, out);
  require<ShapeError>(x.components == 1 && out.components == 2, "a key switch takes one component and gives two");
  check_key(*plan.ring, key, plan.key_limbs, plan.extended.size(), 2 * plan.digits.size(), out.n);
  if (add) check_added(plan, *add, out);
  do_key_switch(q, plan, x, key, add, out, w);
}

namespace {

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

void check_switch_ntt(const KeySwitchPlan& plan, const View& key, const View* add, const View& out,
                      const PreparedPermutation* turn) {
  require<ShapeError>(out.components == 2, "a key switch gives two components");
  require<ShapeError>(plan.down.primes == plan.extended, "a key switch's division is not of its sums");
  check_divide(plan.down, out);
  check_key(*plan.ring, key, plan.key_limbs, plan.extended.size(), 2 * plan.digits.size(), out.n);
  if (add) check_added(plan, *add, out);
  if (turn) {
    const Permutation& p = turn->permutation();
    require<ShapeError>(p.source.size() == out.n && p.negate.empty(), "not a permutation of the NTT domain of this degree");
  }
}

}  // namespace

void Kernels::divide(Queue& q, const DividePlan& plan, const View& x, const View& out, Workspace w) {
  check_ring(*plan.ring, plan.primes, x);
  check_same(x, out);
  check_divide(plan, out);
  do_divide(q, plan, x, out, w);
}

void Kernels::apply_key_ntt(Queue& q, const KeySwitchPlan& plan, const View& digits, const View& key, const View* add,
                            const View& out, Workspace w, const PreparedPermutation* turn) {
  check_ring(*plan.ring, plan.extended, digits);
  check_batch(digits, out);
  require<ShapeError>(digits.components == plan.digits.size(), "a key switch takes one component a digit");
  check_switch_ntt(plan, key, add, out, turn);
  do_apply_key_ntt(q, plan, digits, key, add, out, w, turn);
}

void Kernels::key_switch_ntt(Queue& q, const KeySwitchPlan& plan, const View& x, const View& key, const View* add,
                             const View& out, Workspace w, const PreparedPermutation* turn) {
  check_ring(*plan.ring, plan.chain, x);
  check_batch(x, out);
  require<ShapeError>(x.components == 1, "a key switch takes one component");
  check_switch_ntt(plan, key, add, out, turn);
  do_key_switch_ntt(q, plan, x, key, add, out, w, turn);
}

void Kernels::bfv_multiply(Queue& q, const MultiplyPlan& plan, const View& a, const View& b, const View& out, Workspace w) {
  for (const View* v : {&a, &b, &out}) check_ring(*plan.ring, plan.chain, *v), check_batch(*v, out);
  require<ShapeError>(a.components + b.components == out.components + 1,
                      "a product has one component fewer than its factors together");
  do_bfv_multiply(q, plan, a, b, out, w);
}

}  // namespace heliograph::device
