// Automorphisms, and sums over slots and axes.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "base/progress.h"
#include "rlwe/rotate.h"
#include "rlwe/transformed.h"
#include "schemes/ckks/operations.h"

namespace heliograph::ckks {

namespace {

constexpr const char* kNoConjugation = "conjugation is not among the keys (make them with conjugate=True)";

/// Throws LevelError if a missing usual key exists for lower levels than the operand's.
void refuse_level(const EvaluationKeys& keys, u64 galois, std::int64_t steps, std::size_t level) {
  const auto& all = keys.data().keys.level_rotations;
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    if (it->first >= level || !it->second.contains(galois)) continue;
    const bool swaps = galois == keys.data().context->conjugation();
    const std::string what = swaps ? "conjugation" : "rotation " + std::to_string(steps);
    throw LevelError("the key of " + what + " was made for level " + std::to_string(it->first) +
                     " and below, but this ciphertext is at level " + std::to_string(level) +
                     "; lower the ciphertext, or make keys for a higher level");
  }
}

schemes::Turns turns_of(const EvaluationKeys& keys, const std::vector<u64>& galois, const std::vector<std::int64_t>& steps,
                        std::size_t level) {
  try {
    return schemes::turns_of(keys, galois, steps, keys.data().context->conjugation(), kNoConjugation);
  } catch (const MissingKeyError&) {
    for (std::size_t i = 0; i < galois.size(); ++i)
      if (galois[i] != 1 && !keys.data().keys.rotations.contains(galois[i])) refuse_level(keys, galois[i], steps[i], level);
    throw;
  }
}

/// Automorphisms of a call whose keys have one gadget.
struct TurnGroup {
  std::size_t key_level = 0;
  std::vector<std::size_t> indices;  // into the automorphisms of the call
  schemes::Turns turns;
};

std::vector<TurnGroup> groups_of(const EvaluationKeys& keys, const std::vector<u64>& galois,
                                 const std::vector<std::int64_t>& steps, std::size_t level) {
  std::map<std::size_t, TurnGroup> groups;
  for (std::size_t i = 0; i < galois.size(); ++i)
    if (galois[i] != 1) groups[key_level_of(keys, {galois[i]}, level)].indices.push_back(i);
  for (std::size_t i = 0; i < galois.size(); ++i)  // a group of another automorphism also copies the operand
    if (galois[i] == 1) (groups.empty() ? groups[0] : groups.begin()->second).indices.push_back(i);
  std::vector<TurnGroup> list;
  for (auto& [key_level, group] : groups) {
    group.key_level = key_level;
    std::vector<u64> some;
    std::vector<std::int64_t> some_steps;
    for (const std::size_t i : group.indices) some.push_back(galois[i]), some_steps.push_back(steps[i]);
    if (key_level == 0) {
      group.turns = turns_of(keys, some, some_steps, level);
    } else {
      for (std::size_t i = 0; i < some.size(); ++i)
        group.turns.keys.push_back(some[i] == 1 ? nullptr : &rotation_key(keys, some[i], some_steps[i], key_level, level));
    }
    list.push_back(std::move(group));
  }
  return list;
}

}  // namespace

std::size_t key_level_of(const EvaluationKeys& keys, const std::vector<u64>& galois, std::size_t level) {
  for (const auto& [key_level, some] : keys.data().keys.level_rotations)
    if (key_level >= level && std::all_of(galois.begin(), galois.end(), [&](u64 g) { return g == 1 || some.contains(g); }))
      return key_level;
  return 0;
}

const rlwe::SwitchKey& rotation_key(const EvaluationKeys& keys, u64 galois, std::int64_t steps, std::size_t key_level,
                                    std::size_t level) {
  if (key_level > 0) return keys.data().keys.level_rotations.at(key_level).at(galois);
  if (!keys.data().keys.rotations.contains(galois)) refuse_level(keys, galois, steps, level);
  return schemes::key_of(keys, galois, steps, keys.data().context->conjugation(), kNoConjugation);
}

CiphertextData turned(const Ciphertext& x, const std::vector<u64>& galois, const std::vector<std::int64_t>& steps,
                      const EvaluationKeys& keys, bool stack) {
  require_same(x.data(), keys.data().context, keys.data().keys.id, "these evaluation keys");
  Context& c = *x.data().context;
  const std::size_t level = x.data().level;
  const std::vector<TurnGroup> groups = groups_of(keys, galois, steps, level);
  const Ciphertext a = of_degree_one(x, keys);
  CiphertextData r = derived(a.data());
  const ring::Stack out(a.data().tensor, galois.size(), stack);
  std::optional<Noise> most;
  for (const TurnGroup& group : groups) {
    const Noise key_switch = c.random(c.key_switch_noise(level, group.key_level));
    const Noise noise = group.turns.noise(a.data().noise, [&](const Noise& before) { return both(before, key_switch); });
    most = most ? larger(*most, noise) : noise;
    const auto plan = c.switch_plan(group.key_level, level, level);
    std::vector<RnsTensor> to;
    std::vector<u64> some;
    for (const std::size_t i : group.indices) to.push_back(out.entries()[i]), some.push_back(galois[i]);
    if (group.turns.plan) {
      const auto rotate_by = [&](const RnsTensor& from, const std::vector<std::int64_t>& by,
                                 const std::vector<RnsTensor>& results) {
        const auto elements = schemes::galois_of(by, [&](std::int64_t s) { return c.galois(s); });
        rlwe::rotate(from, elements, turns_of(keys, elements, by, level).keys, results, plan, nullptr);
      };
      rlwe::rotate(*group.turns.plan, a.data().tensor, to, rotate_by);
    } else {
      rlwe::rotate(a.data().tensor, some, group.turns.keys, to, plan, nullptr);
    }
  }
  r.noise = after_keys(*most, keys.data());
  r.tensor = out.whole();
  return r;
}

namespace {

/// Sums along an axis and drops it. Sums of residues are exact in any order.
RnsTensor summed(Context& c, const RnsTensor& x, std::size_t axis) {
  Shape shape = x.shape();
  const std::size_t count = shape[axis];
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  const RnsTensor out(c.rlwe().engine(), shape, x.components(), x.primes(), x.domain());
  ring::Engine& e = c.engine();
  if (out.items() == 0) return out;
  if (count == 0) {
    e.enqueue(device::Zero{out.view()});
    return out;
  }
  RnsTensor rest = x;
  for (std::size_t left = count; left > 1;) {  // adds the second half of the axis to the first half
    const std::size_t half = (left + 1) / 2, other = left - half;
    const RnsTensor sums = ring::add(rest.slice(axis, 0, 1, other), rest.slice(axis, half, 1, other));
    if (other == half) {
      rest = sums;
    } else {
      rest = ring::concatenate({sums, rest.slice(axis, other, 1, 1)}, axis);
    }
    left = half;
  }
  return rest.drop_axis(axis, 0);
}

void require_axis(const Shape& shape, std::size_t axis) {
  if (axis >= shape.size())
    throw ShapeError("axis out of range: no axis " + std::to_string(axis) + " in " + ring::to_string(shape));
}

double log2_count(std::size_t count) { return std::log2(static_cast<double>(std::max<std::size_t>(1, count))); }

CiphertextData described_sum(const CiphertextData& x, std::size_t count) {
  CiphertextData r = derived(x);
  r.noise = x.noise.times(log2_count(count));
  return r;
}

/// Sums op(a, b) over `axis`, some products at a time, to limit memory.
template <class Factor, class Multiply>
Ciphertext summed_products(const Ciphertext& a, const Factor& b, std::size_t axis, Multiply product_of) {
  const std::size_t count = a.shape()[axis];
  const std::size_t stretch = a.data().tensor.items() > 0 ? 16 : std::max<std::size_t>(1, count);  // no items: one stretch
  Ciphertext total;
  for (std::size_t first = 0; first < count || first == 0; first += stretch) {
    const std::size_t some = std::min(stretch, count - first);
    const Ciphertext part = sum(product_of(slice(a, axis, first, 1, some), b, first, some), axis);
    total = first == 0 ? part : add(total, part);
  }
  return total;
}

Ciphertext finished_product(const Ciphertext& sums, std::size_t count, const EvaluationKeys& keys) {
  const double sum_steps = log2_count(count);
  ProgressSteps steps(1 + sum_steps);
  const Ciphertext product = steps.part(1, [&] { return relinearize_rescale(sums, keys); });
  return steps.part(sum_steps, [&] { return sum_slots(product, count, keys); });
}

}  // namespace

Ciphertext rotate(const Ciphertext& a, const std::vector<std::int64_t>& steps, const EvaluationKeys& keys) {
  const auto galois = schemes::galois_of(steps, [&](std::int64_t s) { return a.data().context->galois(s); });
  const Ciphertext x = own(a);
  CiphertextData r = turned(x, galois, steps, keys, true);
  r.width = r.context->slots();                    // values move into padding slots
  const auto stays_inside = [&](std::int64_t s) {  // the rotation moves values to the right, and none wraps around
    const auto period = static_cast<std::int64_t>(r.context->period());
    return x.slots() + static_cast<std::size_t>(((-s % period) + period) % period) <= r.width;
  };
  if (x.data().tail.kind() == Tail::Kind::even)
    r.tail = Tail::even();
  else
    r.tail = x.data().tail.is_zero() && std::all_of(steps.begin(), steps.end(), stays_inside) ? Tail() : Tail::turned();
  Shape same = x.shape();
  same.insert(same.begin(), 1);
  r.ranges = x.data()
                 .ranges.map([&](const Range& a) { return moved(a, x.data().packing(), x.data().tail); })
                 .broadcast(same, r.shape());
  return finish(std::move(r));
}

Ciphertext conjugate(const Ciphertext& a, const EvaluationKeys& keys) {
  CiphertextData r = turned(a, {a.data().context->conjugation()}, {0}, keys, false);
  r.tail = a.data().tail.map([](const auto& v) { return std::conj(v); });
  return finish(std::move(r));
}

Ciphertext parts_doubled(const Ciphertext& a, const EvaluationKeys& keys) {
  const Ciphertext x = of_degree_one(a, keys), turned = conjugate(x, keys);
  Shape shape = x.shape();
  shape.insert(shape.begin(), 1);
  const Ciphertext real = add(x, turned), imaginary = multiply_i(subtract(turned, x));
  CiphertextData r = concatenate({reshape(real, shape), reshape(imaginary, shape)}, 0).data();
  r.complex = false;
  return finish(std::move(r));
}

namespace {

/// Turns sums over all slots into sums over the values, by subtracting the known contents of padding slots.
Ciphertext sum_of_values(const CiphertextData& sums, const CiphertextData& x) {
  Context& c = *x.context;
  CiphertextData r = derived(sums);
  r.width = x.width, r.tail = Tail::even();
  if (x.tail.is_number()) {
    const auto behind = static_cast<double>(c.period() - x.width);
    std::vector<std::complex<double>> numbers(x.tensor.items());
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = -behind * x.tail.at(i);
    r.tensor = plus_numbers(c, sums.tensor, sums.scale, numbers);
    r.noise = both(r.noise, rlwe::log2_sum(rlwe::Figure(0), tail_noise(x) + log2_count(c.period())));
  } else {
    r.tensor = sums.tensor;
  }
  const Packing packing = x.packing();
  r.ranges = x.ranges.map([&](const Range& a) { return summed_values(a, packing); });
  return finish(std::move(r));
}

}  // namespace

Ciphertext sum_slots(const Ciphertext& a, std::size_t count, const EvaluationKeys& keys) {
  Context& c = *a.data().context;
  require<ShapeError>(std::has_single_bit(count) && count <= c.period(),
                      "the number of slots to sum must be a power of two of at most the period");
  for (std::size_t k = 1; k < count; k *= 2) {  // missing keys are reported before the computation starts
    const u64 g = c.galois(static_cast<std::int64_t>(k));
    groups_of(keys, {g}, {static_cast<std::int64_t>(k)}, a.level());
  }
  const bool all = count == c.period() && a.slots() < count;
  Ciphertext x = count > 1 ? of_degree_one(a, keys) : a;
  if (all && x.data().tail.kind() == Tail::Kind::even)
    return multiply_constants(x, {{static_cast<double>(x.slots())}, {}, 1, false}, 1);
  if (all && x.data().tail.kind() != Tail::Kind::known) x = masked(x);
  if (!all && count > 1) x = own(x);
  Ciphertext sums = x;
  ProgressSteps progress(log2_count(count));
  const double log_n = std::log2(static_cast<double>(c.spec().n));
  Noise noise = of_rotations(x.data().noise, log2_count(count), log_n);
  for (std::size_t k = 1; k < count; k *= 2) {
    const auto steps = static_cast<std::int64_t>(k);
    CiphertextData r = turned(sums, {c.galois(steps)}, {steps}, keys, false);
    const CiphertextData& own = sums.data();
    // Adds the noise of this key switch. Later steps rotate and add this noise too.
    const TurnGroup group = groups_of(keys, {c.galois(steps)}, {steps}, x.level()).front();
    const std::size_t switches = group.turns.switches;
    const Noise key_switch = c.random(c.key_switch_noise(x.level(), group.key_level));
    noise = both(noise, of_rotations(key_switch.times(log2_count(switches)), log2_count(count / (2 * k)), log_n));
    r.noise = after_keys(noise, keys.data());
    r.tensor = ring::add(own.tensor, r.tensor);
    if (!all) r.width = c.slots();  // values move into padding slots
    const Packing packing = own.packing();
    r.ranges = own.ranges.map([&](const Range& a) { return sum(a, moved(a, packing, own.tail)); });
    if (x.data().tail.kind() == Tail::Kind::even) r.tail = Tail::even();
    if (!all && x.data().tail.is_own()) r.tail = Tail::turned();
    sums = finish(std::move(r));
    progress.add();
  }
  if (all) return sum_of_values(sums.data(), x.data());
  if (count == 1 || count != c.period()) return sums;
  CiphertextData r = sums.data();  // every slot has the sum of all values
  const Packing packing = x.data().packing();
  r.ranges = Ranges::both(r.ranges, x.shape(), x.data().ranges, x.shape(), x.shape(),
                          [&](const Range& u, const Range& v) { return narrowed(u, summed_values(v, packing)); });
  return finish(std::move(r));
}

Ciphertext sum(const Ciphertext& a, std::size_t axis) {
  const CiphertextData& x = a.data();
  require_axis(x.shape(), axis);
  CiphertextData r = described_sum(x, x.shape()[axis]);
  r.ranges = x.ranges.summed(x.shape(), axis);
  r.tensor = summed(*x.context, x.tensor, axis);
  r.tail = x.tail.summed(x.shape(), axis, std::plus<>());
  return finish(std::move(r));
}

Ciphertext inner_product(const Ciphertext& x, const Ciphertext& y, std::size_t axis, std::size_t count,
                         const EvaluationKeys& keys) {
  require_same(x.data(), keys.data().context, keys.data().keys.id, "these evaluation keys");
  relinearization_key(keys);
  const Shape shape = ring::broadcast_shapes(x.shape(), y.shape());
  require_axis(shape, axis);
  const std::size_t level = std::min(x.level(), y.level());
  const Ciphertext a = broadcast_to(lower(of_degree_one(x, keys), level), shape);
  const Ciphertext b = broadcast_to(lower(of_degree_one(y, keys), level), shape);
  const auto product_of = [&](const Ciphertext& some, const Ciphertext& all, std::size_t first, std::size_t many) {
    return multiply(some, slice(all, axis, first, 1, many));
  };
  return finished_product(summed_products(a, b, axis, product_of), count, keys);
}

Ciphertext inner_product(const Ciphertext& x, const Plaintext& y, std::size_t axis, std::size_t count,
                         const EvaluationKeys& keys) {
  require_same(x.data(), keys.data().context, keys.data().keys.id, "these evaluation keys");
  const Shape shape = ring::broadcast_shapes(x.shape(), y.shape());
  require_axis(shape, axis);
  const Ciphertext a = broadcast_to(x, shape);
  PlaintextData whole = y.data();
  whole.tensor = whole.tensor.broadcast_to(shape);
  const auto product_of = [&](const Ciphertext& some, const PlaintextData& all, std::size_t first, std::size_t many) {
    auto part = std::make_shared<PlaintextData>(all);
    part->tensor = all.tensor.slice(axis, first, 1, many);
    part->shape = part->tensor.shape();
    return multiply(some, Plaintext(std::move(part)));
  };
  return finished_product(summed_products(a, whole, axis, product_of), count, keys);
}

}  // namespace heliograph::ckks
