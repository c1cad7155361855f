// Operations of ciphertexts with plaintexts and integers.
#include <algorithm>
#include <cmath>

#include "schemes/exact/derive.h"
#include "schemes/exact/encode.h"
#include "schemes/exact/tails.h"
#include "schemes/in_place.h"

namespace heliograph::exact {

namespace {

void require_plain(const CiphertextData& a, const PlaintextData& b) {
  require<MismatchError>(
      a.context == b.context,
      "the plaintext and the ciphertext have different parameter sets; encode it for the ciphertext's set");
  require<MismatchError>(a.packing == b.packing, "one operand packs slots, the other coefficients");
}

Ciphertext add_encoded(const Ciphertext& narrow, const Plaintext& y, bool negative, bool over) {
  const PlaintextData& b = y.data();
  require_plain(narrow.data(), b);
  const Ciphertext x = of_width(narrow, b.width);
  const CiphertextData& a = x.data();
  Context& c = *a.context;
  CiphertextData r = derived(a);
  r.width = std::max(a.width, b.width);
  r.distinct = r.independent = false;
  r.bounds = a.bounds.plus(b.largest);
  const Shape shape = ring::broadcast_shapes(a.shape(), b.shape);
  std::vector<RnsTensor> added;  // complete before the first part is overwritten, because an allocation may throw
  for (std::size_t part = 0; part < a.parts.size(); ++part) {
    const std::size_t modulus = a.first_part + part;
    const PlainBatch batch{.view = b.coefficients[modulus]};
    added.push_back(
        ring::to_domain(scale_up(c, modulus, batch, a.level(), a.factors[part]).reshape(b.shape), a.parts[part].domain()));
    r.noise[part] = rlwe::log2_sum(r.noise[part], c.rules().message_noise(modulus, b.log_norm[modulus], a.factors[part]));
    if (a.tails[part].kind() == Tail::Kind::known) r.tails[part] = a.tails[part].broadcast(a.shape(), shape);
  }
  over = over && &a == &narrow.data();
  for (std::size_t part = 0; part < a.parts.size(); ++part)
    r.parts.push_back((negative ? ring::subtract : ring::add)(a.parts[part], added[part], over));
  return finish(std::move(r));
}

void require_one(const Values& values) {
  require<ShapeError>(values.width == 1, "values must have one integer for each ciphertext");
}

std::vector<u64> residues_of(const Values& values, u64 t) {
  std::vector<u64> residues(values.data.size() / values.words);
  for (std::size_t at = 0; at < residues.size(); ++at) residues[at] = residue_of(values, at, t);
  return residues;
}

}  // namespace

Ciphertext add(const Ciphertext& a, const Plaintext& b) { return add_encoded(a, b, false, false); }
Ciphertext subtract(const Ciphertext& a, const Plaintext& b) { return add_encoded(a, b, true, false); }
void add_into(Ciphertext& a, const Plaintext& b) {
  schemes::become(a, b.shape(), b.data().width, [&](bool over) { return add_encoded(a, b, false, over); });
}
void subtract_into(Ciphertext& a, const Plaintext& b) {
  schemes::become(a, b.shape(), b.data().width, [&](bool over) { return add_encoded(a, b, true, over); });
}

Ciphertext multiply(const Ciphertext& narrow, const Plaintext& y) {
  const PlaintextData& b = y.data();
  require_plain(narrow.data(), b);
  const Ciphertext x = of_width(narrow, b.width);
  const CiphertextData& a = x.data();
  CiphertextData r = derived(a);
  r.width = std::max(a.width, b.width);
  r.distinct = r.independent = false;
  r.bounds = a.bounds.times(a.packing == Packing::slots ? b.largest : b.row);
  for (std::size_t part = 0; part < a.parts.size(); ++part) {
    const RnsTensor& factor = b.lifted[a.first_part + part];
    r.parts.push_back(
        ring::multiply_polynomial(ring::to_domain(a.parts[part], Domain::ntt), factor.with_limbs(0, a.level())));
    r.noise[part] += b.log_norm[a.first_part + part];  // the canonical norm of a product is at most the product of the norms
    r.tails[part] = {};                                // the plaintext has zeros in the padding slots
  }
  return finish(std::move(r));
}

device::LimbConstants scaled_constant(Context& c, std::size_t part, std::size_t level, u64 factor, u64 residue) {
  const auto residues = math::evaluate(c.rules().encoding(part, level, factor)->conversion(), {residue});
  device::LimbConstants constants{};
  std::copy(residues.begin(), residues.end(), constants.begin());
  return constants;
}

namespace {

/// Adds or subtracts integers. Negates residues, because -INT64_MIN overflows and -t/2 is not representable for even t.
Ciphertext add_scalars(const Ciphertext& x, const Values& values, bool negative, bool over) {
  const CiphertextData& a = x.data();
  Context& c = *a.context;
  check_values(c, values, Packing::coefficients);
  require_one(values);
  const Shape shape = ring::broadcast_shapes(a.shape(), values.shape);
  CiphertextData r = derived(a);
  r.bounds = a.bounds.plus(largest_of(values));
  std::vector<std::vector<u64>> residues;  // residues of each part's items
  if (shape != a.shape()) r.distinct = r.independent = false;
  for (std::size_t part = 0; part < a.parts.size();
       ++part) {  // all steps that may throw, before the first part is overwritten
    const std::size_t modulus = a.first_part + part;
    const u64 t = c.plain(modulus).t;
    c.rules().encoding(modulus, a.level(), a.factors[part]);
    r.noise[part] = rlwe::log2_sum(r.noise[part], c.rules().integer_noise(modulus));
    const auto op = [&](u64 v, u64 w) { return negative ? math::sub_mod(v, w, t) : math::add_mod(v, w, t); };
    r.tails[part] = a.tails[part].with(a.shape(), residues_of(values, t), values.shape, shape, op);
    residues.push_back(ring::broadcast_values(residues_of(values, t), values.shape, a.parts.front().broadcast_to(shape)));
    const RnsTensor wide = a.parts[part].broadcast_to(shape);
    r.parts.push_back(over && wide.dense() ? wide : ring::copy(wide));
  }
  for (std::size_t part = 0; part < a.parts.size(); ++part) {
    const std::size_t modulus = a.first_part + part;
    const u64 t = c.plain(modulus).t;
    const std::vector<u64>& scalars = residues[part];
    for (std::size_t i = 0, end; i < scalars.size(); i = end) {  // one addition for each run of equal integers
      for (end = i + 1; end < scalars.size() && scalars[end] == scalars[i];) ++end;
      const u64 residue = scalars[i];
      if (residue == 0) continue;
      ring::add_constant_in_place(r.parts[part], i, end - i,
                                  scaled_constant(c, modulus, a.level(), a.factors[part], negative ? t - residue : residue));
    }
  }
  return finish(std::move(r));
}

}  // namespace

Ciphertext add_integers(const Ciphertext& a, const Values& values) { return add_scalars(a, values, false, false); }
Ciphertext subtract_integers(const Ciphertext& a, const Values& values) { return add_scalars(a, values, true, false); }
void add_integers_into(Ciphertext& a, const Values& values) {
  schemes::become(a, values.shape, 0, [&](bool over) { return add_scalars(a, values, false, over); });
}
void subtract_integers_into(Ciphertext& a, const Values& values) {
  schemes::become(a, values.shape, 0, [&](bool over) { return add_scalars(a, values, true, over); });
}

Ciphertext multiply_integers(const Ciphertext& x, const Values& values) {
  const CiphertextData& a = x.data();
  Context& c = *a.context;
  check_values(c, values, Packing::coefficients);
  require_one(values);
  const Shape shape = ring::broadcast_shapes(a.shape(), values.shape);
  ring::Engine& e = c.engine();
  CiphertextData r = derived(a);
  r.bounds = a.bounds.times(largest_of(values));
  bool zero = false;
  for (std::size_t at = 0; at < values.data.size() / values.words; ++at) zero = zero || magnitude_of(values, at).is_zero();
  if (shape != a.shape() || zero) r.distinct = r.independent = false;
  for (std::size_t part = 0; part < a.parts.size(); ++part) {
    const u64 t = c.plain(a.first_part + part).t;
    const std::vector<u64> scalars =
        ring::broadcast_values(residues_of(values, t), values.shape, a.parts.front().broadcast_to(shape));
    const RnsTensor in = a.parts[part].broadcast_to(shape);
    const RnsTensor out(c.rlwe().engine(), shape, in.components(), in.primes(), in.domain());
    const std::vector<u64> moduli = c.rlwe().moduli(in.primes());
    const bool uniform = std::equal(scalars.begin() + (scalars.empty() ? 0 : 1), scalars.end(), scalars.begin());
    double largest = 1;
    for (std::size_t i = 0; i < scalars.size(); ++i) {
      const std::int64_t s = math::centered(scalars[i], t);
      largest = std::max(largest, std::abs(static_cast<double>(s)));
      if (uniform && i > 0) continue;
      device::LimbConstants constants{};
      for (std::size_t l = 0; l < moduli.size(); ++l) constants[l] = math::signed_mod(s, moduli[l]);
      const device::View from = uniform ? in.view() : in.view().item(i), to = uniform ? out.view() : out.view().item(i);
      e.enqueue(device::MulConstants{e.prepared(), in.primes(), from, constants, to});
    }
    r.parts.push_back(out);
    r.noise[part] += std::log2(largest);
    r.tails[part] = a.tails[part].with(a.shape(), residues_of(values, t), values.shape, shape, product_modulo(t));
  }
  return finish(std::move(r));
}

}  // namespace heliograph::exact
