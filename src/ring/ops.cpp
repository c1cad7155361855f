#include <algorithm>
#include <cstring>

#include "base/progress.h"
#include "device/expand.h"
#include "ring/tensor.h"

namespace heliograph::ring {

namespace {

void require_alike(const RnsTensor& a, const RnsTensor& b) {
  require<MismatchError>(a.engine() == b.engine(), "the operands must have the same parameter set");
  require<MismatchError>(a.primes() == b.primes(), "the operands must be at the same level");
  require<InternalError>(a.domain() == b.domain(), "the operands must be in the same domain");
}

Secrecy passed_on(const RnsTensor& a) { return a.secret() ? Secrecy::passing : Secrecy::open; }
Secrecy passed_on(const RnsTensor& a, const RnsTensor& b) { return a.secret() ? Secrecy::passing : passed_on(b); }

/// Computes out = a op b (op is Add or Sub) on the components that both have. Further components of the longer operand are
/// copied, or negated if the longer operand is subtracted.
template <class Op>
RnsTensor combine(const RnsTensor& a, const RnsTensor& b, bool over) {
  require_alike(a, b);
  Engine& e = *a.engine();
  const Shape shape = broadcast_shapes(a.shape(), b.shape());
  const RnsTensor x = a.broadcast_to(shape), y = b.broadcast_to(shape);
  const std::size_t common = std::min(x.components(), y.components()), all = std::max(x.components(), y.components());
  const bool fits = over && a.dense() && shape == a.shape() && a.components() == all && (a.secret() || !b.secret());
  const RnsTensor out = fits ? a : RnsTensor(a.engine(), shape, all, a.primes(), a.domain(), passed_on(a, b));
  if (out.items() == 0) return out;
  e.enqueue(Op{e.prepared(), a.primes(), x.view().with_components(0, common), y.view().with_components(0, common),
               out.view().with_components(0, common)});
  if (all > common && !fits) {
    const bool from_a = x.components() == all;
    const View more = (from_a ? x : y).view().with_components(common, all - common);
    const View room = out.view().with_components(common, all - common);
    if (std::is_same_v<Op, device::Sub> && !from_a)
      e.enqueue(device::Neg{e.prepared(), a.primes(), more, room});
    else
      e.enqueue(device::Copy{more, room});
  }
  return out;
}

}  // namespace

RnsTensor add(const RnsTensor& a, const RnsTensor& b, bool over) { return combine<device::Add>(a, b, over); }
RnsTensor subtract(const RnsTensor& a, const RnsTensor& b, bool over) { return combine<device::Sub>(a, b, over); }

RnsTensor negate(const RnsTensor& a) {
  Engine& e = *a.engine();
  RnsTensor out(a.engine(), a.shape(), a.components(), a.primes(), a.domain(), passed_on(a));
  if (a.items()) e.enqueue(device::Neg{e.prepared(), a.primes(), a.view(), out.view()});
  return out;
}

namespace {

bool is_one(const device::LimbConstants& weight, std::size_t limbs) {
  return std::all_of(weight.begin(), weight.begin() + static_cast<std::ptrdiff_t>(limbs), [](u64 w) { return w == 1; });
}

/// Sums any number of terms of one shape with the fewest calls.
void enqueue_sum(Engine& e, device::WeightedSum sum, const std::vector<device::In>& x,
                 const std::vector<device::LimbConstants>& weights) {
  const std::size_t limbs = sum.primes.size();
  const auto plain = [&](std::size_t k) { return is_one(weights[k], limbs); };
  if (x.size() == 1 && plain(0) && device::same_operand(x[0], sum.out)) {  // the result is already in its place
    const View part = sum.out.with_components(0, 1);
    if (sum.constant) e.enqueue(device::AddConstants{sum.ring, sum.primes, part, *sum.constant, Domain::ntt, part});
    return;
  }
  if (x.size() == 1 && !sum.constant) {
    if (plain(0)) return e.enqueue(device::Copy{x[0], sum.out});
    return e.enqueue(device::MulConstants{sum.ring, sum.primes, x[0], weights[0], sum.out});
  }
  if (x.size() == 2 && !sum.constant && plain(0) && plain(1))
    return e.enqueue(device::Add{sum.ring, sum.primes, x[0], x[1], sum.out});
  for (std::size_t first = 0; first < x.size();) {
    std::vector<device::LimbConstants> some;
    if (first > 0) {  // add the sum of the earlier calls
      sum.x = {View(sum.out)};
      some.emplace_back().fill(1);
      sum.constant.reset();
    }
    for (; first < x.size() && some.size() < device::WeightedSum::kMost; ++first)
      sum.x.push_back(x[first]), some.push_back(weights[first]);
    sum.weights = std::move(some);
    e.enqueue(sum);
  }
}

}  // namespace

RnsTensor weighted_sum(const std::vector<WeightedTerm>& terms, const std::optional<device::LimbConstants>& constant,
                       bool over) {
  const RnsTensor& lead = terms.front().x;
  require<InternalError>(!constant || lead.domain() == Domain::ntt, "a sum with a constant must be in the NTT domain");
  Shape shape = lead.shape();
  std::size_t all = 0;
  bool secret = false;
  for (const WeightedTerm& t : terms) {
    require_alike(lead, t.x);
    shape = broadcast_shapes(shape, t.x.shape());
    all = std::max(all, t.x.components());
    secret = secret || t.x.secret();
  }
  const bool fits = over && lead.dense() && shape == lead.shape() && lead.components() == all && (lead.secret() || !secret);
  const RnsTensor out =
      fits ? lead
           : RnsTensor(lead.engine(), shape, all, lead.primes(), lead.domain(), secret ? Secrecy::passing : Secrecy::open);
  if (out.items() == 0) return out;
  Engine& e = *lead.engine();
  for (std::size_t first = 0, end = all; first < all; first = end, end = all) {  // components with the same terms
    std::vector<device::In> x;
    std::vector<device::LimbConstants> weights;
    for (const WeightedTerm& t : terms) {
      if (t.x.components() > first) end = std::min(end, t.x.components());
    }
    for (const WeightedTerm& t : terms) {
      if (t.x.components() <= first) continue;
      x.push_back(t.x.broadcast_to(shape).view().with_components(first, end - first));
      weights.push_back(t.weight);
    }
    enqueue_sum(e,
                {.ring = e.prepared(),
                 .primes = lead.primes(),
                 .x = {},
                 .weights = {},
                 .constant = first == 0 && constant ? std::optional<device::Constants>(*constant) : std::nullopt,
                 .out = out.view().with_components(first, end - first)},
                x, weights);
  }
  return out;
}

RnsTensor to_domain(const RnsTensor& a, Domain domain) {
  if (a.domain() == domain) return a;
  Engine& e = *a.engine();
  RnsTensor out(a.engine(), a.shape(), a.components(), a.primes(), domain, passed_on(a));
  if (a.items() == 0) return out;
  if (domain == Domain::ntt) {
    e.enqueue(device::ForwardNtt{e.prepared(), a.primes(), a.view(), out.view()});
  } else {
    e.enqueue(device::InverseNtt{e.prepared(), a.primes(), a.view(), out.view()});
  }
  return out;
}

RnsTensor limbs_of(const RnsTensor& a, const PrimeList& primes) {
  std::vector<std::size_t> at;
  for (math::PrimeIndex p : primes) {
    at.push_back(static_cast<std::size_t>(std::find(a.primes().begin(), a.primes().end(), p) - a.primes().begin()));
    require<InternalError>(at.back() < a.primes().size(), "a tensor lacks a required prime");
  }
  bool together = true;
  for (std::size_t i = 1; i < at.size(); ++i) together = together && at[i] == at[i - 1] + 1;
  if (together) return a.with_limbs(at.empty() ? 0 : at[0], at.size());
  RnsTensor out(a.engine(), a.shape(), a.components(), primes, a.domain(), passed_on(a));
  Engine& e = *a.engine();
  for (std::size_t i = 0; i < at.size(); ++i)
    e.enqueue(device::Copy{a.with_limbs(at[i], 1).view(), out.with_limbs(i, 1).view()});
  return out;
}

RnsTensor copy(const RnsTensor& a) {
  Engine& e = *a.engine();
  RnsTensor out(a.engine(), a.shape(), a.components(), a.primes(), a.domain(), passed_on(a));
  if (a.items()) e.enqueue(device::Copy{a.view(), out.view()});
  return out;
}

RnsTensor concatenate(const std::vector<RnsTensor>& parts, std::size_t axis) {
  std::vector<Shape> shapes;
  std::size_t components = 0;
  for (const RnsTensor& p : parts) {
    if (!shapes.empty()) require_alike(parts.front(), p);
    shapes.push_back(p.shape());
    components = std::max(components, p.components());
  }
  const Shape shape = device::concatenate_shapes(shapes, axis);
  const RnsTensor& lead = parts.front();
  const bool secret = std::any_of(parts.begin(), parts.end(), [](const RnsTensor& p) { return p.secret(); });
  RnsTensor out(lead.engine(), shape, components, lead.primes(), lead.domain(), secret ? Secrecy::passing : Secrecy::open);
  Engine& e = *lead.engine();
  std::size_t at = 0;
  for (const RnsTensor& p : parts) {
    const std::size_t count = p.shape()[axis];
    if (p.items() == 0) continue;
    const View target = out.slice(axis, at, 1, count).view();
    e.enqueue(device::Copy{p.view(), target.with_components(0, p.components())});
    if (p.components() < components)
      e.enqueue(device::Zero{target.with_components(p.components(), components - p.components())});
    at += count;
  }
  return out;
}

RnsTensor multiply_polynomial(const RnsTensor& a, const RnsTensor& b) {
  require_alike(a, b);
  const Shape shape = broadcast_shapes(a.shape(), b.shape());
  RnsTensor out(a.engine(), shape, a.components(), a.primes(), Domain::ntt, passed_on(a, b));
  Engine& e = *a.engine();
  if (out.items()) {
    e.enqueue(device::Mul{e.prepared(), a.primes(), a.broadcast_to(shape).view(), b.broadcast_to(shape).view(), out.view()});
  }
  return out;
}

void add_constant_in_place(const RnsTensor& a, std::size_t first, std::size_t count,
                           const device::LimbConstants& constants) {
  require<InternalError>(a.dense(), "an addition in place needs a dense tensor");
  Engine& e = *a.engine();
  const View part = a.reshape({a.items()}).slice(0, first, 1, count).view().with_components(0, 1);
  if (count) e.enqueue(device::AddConstants{e.prepared(), a.primes(), part, constants, a.domain(), part});
}

RnsTensor automorphism(const RnsTensor& a, u64 galois) {
  Engine& e = *a.engine();
  RnsTensor out(a.engine(), a.shape(), a.components(), a.primes(), a.domain(), passed_on(a));
  if (a.items())
    e.enqueue(device::Permute{e.prepared(), a.primes(), e.automorphism(galois, a.domain()), a.view(), out.view()});
  return out;
}

void reserve_index(Engine& engine, device::GatheredProduct& p) {
  require<ShapeError>(p.inputs <= device::GatheredProduct::kNone / 2,
                      "the number of inputs of a matrix product must be below 2^31");
  const std::size_t entries = checked_product(p.groups, p.positions, p.terms);
  // Further memory: pointers to the inputs, and the windows of indices that are compared with each other.
  const std::size_t beside = checked_add(checked_mul(p.inputs, 32), checked_mul(p.positions, 128));
  engine.require_host_memory(checked_add(checked_mul(entries, 3 * sizeof(math::u32)), beside),
                             "the index table of this matrix product");
  p.index = engine.host_array<math::u32>(entries, "the index table of this matrix product");
  p.index.clear();
}

device::GatheredProduct matrix_product(Engine& engine, std::vector<math::i64> weights, std::size_t rows, std::size_t columns,
                                       const Shape& shape) {
  require<ShapeError>(weights.size() == checked_mul(rows, columns), "the number of weights must be rows x columns");
  if (shape.empty() || shape[0] != columns) {
    throw ShapeError("weights of shape " + to_string({rows, columns}) + " do not multiply a tensor of shape " +
                     to_string(shape));
  }
  const std::size_t positions = columns ? element_count(shape) / columns : 0;
  device::GatheredProduct p{.groups = 1,
                            .outputs = rows,
                            .positions = positions,
                            .terms = columns,
                            .inputs = columns * positions,
                            .weights = std::move(weights)};
  reserve_index(engine, p);
  for (std::size_t at = 0; at < positions; ++at) {
    for (std::size_t k = 0; k < columns; ++k) p.index.push_back(static_cast<math::u32>(k * positions + at));
  }
  return p;
}

RnsTensor gathered_product(const RnsTensor& a, const std::shared_ptr<const device::ProductConstant>& product,
                           const Shape& shape) {
  Engine& e = *a.engine();
  RnsTensor out(a.engine(), shape, a.components(), a.primes(), a.domain(), passed_on(a));
  const std::size_t limbs = a.primes().size();
  ProgressSteps steps(limbs);
  // Calls limb by limb only if there is a progress callback. One call for all limbs keeps the device busy and needs only one
  // exchange between the members of a mesh.
  const std::size_t step = steps.has_observer() && e.cuts_batches() ? 1 : limbs;
  for (std::size_t first = 0; first < limbs && out.items() > 0; first += step) {
    const RnsTensor in = a.with_limbs(first, step), part = out.with_limbs(first, step);
    e.enqueue(device::Product{e.prepared(), in.primes(), product, in.view(), part.view()});
    steps.add(step);
  }
  return out;
}

RnsTensor convert(const RnsTensor& a, const RnsTensor* own, const std::shared_ptr<const device::ConversionConstant>& c,
                  std::shared_ptr<Engine> target, PrimeList primes) {
  Engine& e = *a.engine();
  RnsTensor out(std::move(target), a.shape(), a.components(), primes, Domain::coefficient, passed_on(a));
  if (a.items()) e.enqueue(device::Convert{c, a.view(), own ? std::optional(own->view()) : std::nullopt, out.view()});
  return out;
}

namespace {

template <class Bytes>
Bytes downloaded(const RnsTensor& a) {
  const RnsTensor d = a.contiguous();
  Bytes bytes = d.engine()->template host_array<std::byte, Bytes>(d.bytes(), "reading a tensor");
  d.engine()->download(d.view(), bytes);
  return bytes;
}

}  // namespace

std::vector<std::byte> download(const RnsTensor& a) { return downloaded<std::vector<std::byte>>(a); }
SecretVector<std::byte> download_secret(const RnsTensor& a) { return downloaded<SecretVector<std::byte>>(a); }

void upload(const RnsTensor& to, std::span<const std::byte> from) {
  require<InternalError>(to.dense() && from.size() == to.bytes(), "an upload needs a dense tensor of its size");
  to.engine()->upload(from, to.view());
}

}  // namespace heliograph::ring
