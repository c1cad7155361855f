#include "schemes/ckks/bootstrapping.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "base/progress.h"
#include "schemes/ckks/encode.h"

namespace heliograph::ckks {

namespace {

using device::PrimeList;
using device::View;
using Complex = std::complex<double>;
using Vector = std::vector<Complex>;

/// Scale of the first matrix's diagonals, before multiplication by special primes.
constexpr double kDiagonalScale = 0x1p58;

double log2_of(const Context& c, const PrimeList& primes) { return rlwe::log2_product(c.rlwe().moduli(primes)); }

/// Returns the shortest prefix of `primes` whose product has `bits` bits.
PrimeList with_bits(const Context& c, const PrimeList& primes, double bits) {
  PrimeList some;
  for (const math::PrimeIndex p : primes) {
    if (some.size() > 0 && log2_of(c, some) >= bits) break;
    some.push_back(p);
  }
  require<ParameterError>(log2_of(c, some) >= bits,
                          "the set has too few special primes for bootstrapping; choose a set with bootstrap=True");
  return some;
}

/// Returns log2 of the largest modulus that is secure for the encryption under the sparse key
/// (docs/bootstrapping-security.md).
double sparse_room(std::size_t n) { return n >= (1 << 16) ? 240 : n == (1 << 15) ? 100 : 0; }

PrimeList reversed(const PrimeList& primes) {
  PrimeList list;
  for (std::size_t i = primes.size(); i-- > 0;) list.push_back(primes[i]);
  return list;
}

/// Returns the product of two matrices modulo `size`; a is applied last. Diagonals may be given by one period.
Diagonals composed(const Diagonals& a, const Diagonals& b, std::size_t size) {
  Diagonals product;
  for (const auto& [k, left] : a) {
    for (const auto& [l, right] : b) {
      auto& to = product[(k + l) & (size - 1)];
      to.resize(std::max(left.size(), right.size()));
      for (std::size_t i = 0; i < to.size(); ++i) {
        const Complex x = left[i & (left.size() - 1)],
                      y = right[(i + k) & (right.size() - 1)];  // a library's complex product may have other bits
        to[i] += Complex(x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real());
      }
    }
  }
  return product;
}

/// Returns butterflies at distance 2^layer. Forward: (u, v) becomes (u + z v, u - z v); inverse, times 2: (u + v, (u - v) /
/// z).
Diagonals butterflies(const Embedding& embedding, std::size_t size, std::size_t layer, bool inverse) {
  const std::size_t half = std::size_t{1} << layer, order = 8 * half, step = 2 * embedding.n() / order;
  std::vector<Complex> same(size, 1), up(size), down(size);
  std::size_t power = 1;  // powers of 5, modulo `order`
  for (std::size_t j = 0; j < half; ++j, power = power * 5 % order) {
    const Complex root = embedding.root(power * step), z = inverse ? std::conj(root) : root;
    for (std::size_t first = 0; first < size; first += 2 * half) {
      const std::size_t low = first + j, high = low + half;
      same[high] = -z;
      up[low] = inverse ? 1 : z;
      down[high] = inverse ? z : 1;
    }
  }
  Diagonals d;
  d[0] = std::move(same);
  d[half] = std::move(up);
  if (2 * half == size)  // the two butterfly distances are equal
    for (std::size_t i = half; i < size; ++i) d[half][i] = down[i];
  else
    d[size - half] = std::move(down);
  return d;
}

}  // namespace

Sine sine_of(const Bootstrapping& b) {
  if (b.log_scale > kLongest64) return {kLongSineCoefficients, kLongSineDoublings, kLongSineError};
  return {kSineCoefficients, kSineDoublings, kSineError};
}

Bootstrapper::Bootstrapper(Context& c) : context_(c), places_(c.spec().n / 2), slots_(c.period()) {
  const Bootstrapping& b = c.spec().bootstrapping;
  require<ParameterError>(b.levels > 0, "this parameter set has no bootstrapping; choose one with bootstrap=True");
  const auto layers = static_cast<std::size_t>(std::countr_zero(places_)),
             own = static_cast<std::size_t>(std::countr_zero(slots_));
  require<ParameterError>(b.entry <= layers, "entry must be at most the layers of the transform, log2(N/2)");
  // The stages have similar sizes, in descending order. With one slot, a stage without layers only multiplies.
  for (std::size_t first = 0, parts = std::min(b.entry, std::max<std::size_t>(own, 1)); parts > 0; --parts) {
    const std::size_t count = (own - first + parts - 1) / parts;
    to_coefficients_.push_back({first, count});
    first += count;
  }
  // The first stage is the cheapest per layer and gets two fifths of the layers; the other stages share the rest.
  static_assert(kCoefficientsToSlots == 2);
  const std::size_t in_first = (2 * layers + 2) / 5, rest = layers - in_first, low = rest / 2;
  to_slots_ = {{rest, in_first}, {low, rest - low}, {0, low}};

  low_ = c.rlwe().chain(1), raised_ = c.rlwe().chain(c.raised_level());
  const PrimeList special = c.rlwe().special();
  // The special primes of this switch have 6 bits less than its one digit. The noise of the switch then exceeds its
  // rounding but stays below the noise of the message. The sparse key's modulus allows no more bits.
  to_sparse_special_ = with_bits(c, special, c.log_modulus(1) - 6);
  require<SecurityError>(c.spec().insecure || c.log_modulus(1) + log2_of(c, to_sparse_special_) <= sparse_room(c.spec().n),
                         "the modulus of the encryption under the sparse key is too large for 128 bits of security");
  first_special_ = with_bits(c, special, c.log_modulus(1) + 30);
  to_coefficients_keys_.special = with_bits(c, special, c.log_modulus(b.entry + 1) + 4);
  to_coefficients_keys_.primes = joined(c.primes_up_to(b.entry + 1), to_coefficients_keys_.special);
  make_factors();
  // Bound on a coefficient of a product: the number of diagonals, times the norm of a diagonal (at most sqrt(N)), times a
  // coefficient of the body.
  const double most = c.log_modulus(1) + log2_of(c, first_special_) + std::log2(factors_[0]) +
                      std::log2(static_cast<double>(c.spec().n)) / 2 + static_cast<double>(in_first);
  body_primes_ = with_bits(c, reversed(raised_), most + 2);
}

void Bootstrapper::make_factors() {
  const Context& c = context_;
  const std::size_t top = c.raised_level();
  // Converts an integer t to the integer that encodes t / (q range) at the scale where the sine begins. Each matrix
  // product divides by its level's ratio and multiplies by the level's scale.
  double total = c.scale(top - kCoefficientsToSlots) / (lowest_modulus() * kSineRange) / static_cast<double>(places_);
  for (std::size_t l = top; l > top - kCoefficientsToSlots; --l) total *= c.ratio(l) / c.scale(l);
  // The first matrix has a large scale, so its factor may be small. Each later matrix has its level's scale. The shares
  // of the factor keep the values above each stage's rounding by about as much as the last stage can.
  const double share = std::log2(total);
  double special = 1;
  for (const u64 p : c.rlwe().moduli(first_special_)) special *= static_cast<double>(p);
  multiplier_ = std::rint(special / kDiagonalScale * std::exp2(std::round(0.63 * share)));
  require<ParameterError>(multiplier_ >= 1,
                          "the set's special primes are too short for bootstrapping; choose a set with bootstrap=True");
  factors_ = {multiplier_ * kDiagonalScale / special, std::exp2(std::round(0.12 * share))};
  factors_.push_back(total / factors_[0] / factors_[1]);
}

double Bootstrapper::lowest_modulus() const {
  double q = 1;
  for (const u64 p : context_.rlwe().moduli(low_)) q *= static_cast<double>(p);
  return q;
}

std::set<std::size_t> Bootstrapper::numbers(const Layers& layers) const {
  const std::size_t size = period(layers);
  std::set<std::size_t> all = {0};
  for (std::size_t l = layers.first; l < layers.first + layers.count; ++l) {
    const std::size_t half = std::size_t{1} << l, back = half < slots_ ? slots_ - half : half;
    std::set<std::size_t> more;
    for (const std::size_t k : all) more.insert({k, (k + half) & (size - 1), (k + back) & (size - 1)});
    all = std::move(more);
  }
  return all;
}

Diagonals Bootstrapper::matrix(const Layers& layers, bool inverse, double factor) const {
  const std::size_t size = period(layers);
  Diagonals product = {{0, {Complex(1)}}};
  for (std::size_t i = 0; i < layers.count; ++i) {
    const std::size_t layer = inverse ? layers.first + layers.count - 1 - i : layers.first + i,
                      half = std::size_t{1} << layer;
    const Diagonals next = half < slots_ ? butterflies(context_.embedding(), slots_, layer, inverse)
                                         : Diagonals{{0, {Complex(1)}}, {half, {Complex(1)}}};
    product = composed(next, product, size);
  }
  for (auto& [k, values] : product) {
    for (Complex& v : values) v *= factor;
    const std::size_t repeats = values.size();
    values.resize(size);
    for (std::size_t i = repeats; i < size; ++i) values[i] = values[i - repeats];
  }
  return product;
}

Diagonals Bootstrapper::to_coefficients(std::size_t stage, double factor) const {
  return matrix(to_coefficients_[stage], false, factor);
}

Repetition Bootstrapper::part_of(std::size_t stage, const Repetition& repetition) const {
  const Layers& layers = to_coefficients_[stage];
  const std::size_t first = std::size_t{1} << layers.first, end = first << layers.count;
  // The layer at distance `period` is the first one that sees blocks of different contents.
  const bool within = first <= repetition.period && repetition.period < end;
  // Diagonals whose distance is a multiple of the period exist only up to the period `end`.
  return {repetition.period > end ? slots_ : std::max(repetition.period, first), repetition.alternating && within};
}

Diagonals Bootstrapper::to_coefficients(std::size_t stage, double factor, const Repetition& repetition) const {
  const Repetition part = part_of(stage, repetition);
  Diagonals sums;
  for (const auto& [k, values] : to_coefficients(stage, factor)) {
    Vector& to = sums[k & (part.period - 1)];
    to.resize(values.size());
    for (std::size_t i = 0; i < to.size(); ++i) {
      const Complex v = values[i];
      to[i] += part.alternating && (((i + k) & part.period) != 0) ? Complex(v.imag(), -v.real()) : v;
    }
  }
  return sums;
}

std::size_t Bootstrapper::baby_steps(std::size_t stage) const {
  return Steps(numbers(to_coefficients_[stage]), period(to_coefficients_[stage])).baby;
}

Diagonals Bootstrapper::to_slots(std::size_t stage, bool packed) const {
  Diagonals diagonals = matrix(to_slots_[stage], true, factors_[stage]);
  if (!packed) return diagonals;
  for (auto& [k, values] : diagonals) {
    const Vector once = values;
    values.resize(std::max(once.size(), 2 * slots_));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Complex v = once[i & (once.size() - 1)];
      values[i] = i & slots_ ? Complex(v.imag(), -v.real()) : v;
    }
  }
  return diagonals;
}

std::set<u64> Bootstrapper::turns(const Layers& layers) const {
  const Steps steps(numbers(layers), period(layers));
  std::set<u64> all;
  for (const auto& some : {steps.babies, steps.giants})
    for (const std::int64_t step : some) all.insert(context_.galois(step, places_));
  all.erase(1);
  return all;
}

std::vector<u64> Bootstrapper::turns() const {
  std::set<u64> all;
  for (std::size_t stage = 1; stage < to_slots_.size(); ++stage) all.merge(turns(to_slots_[stage]));
  if (packs()) all.insert(swap());
  return {all.begin(), all.end()};
}

rlwe::BootstrappingLayouts Bootstrapper::layouts() const {
  std::set<u64> all;
  for (const Layers& layers : to_coefficients_) all.merge(turns(layers));
  return {.to_sparse = {joined(low_, to_sparse_special_), 1},
          .first_matrix = {joined(raised_, first_special_), numbers(to_slots_[0]).size()},
          .to_coefficients = {to_coefficients_keys_.primes, 1},
          .turns = {all.begin(), all.end()}};
}

std::vector<u64> Bootstrapper::first_galois() const {
  std::vector<u64> galois;
  for (const std::size_t k : numbers(to_slots_[0])) galois.push_back(context_.galois(static_cast<std::int64_t>(k), places_));
  return galois;
}

RnsTensor Bootstrapper::first_diagonals(Context& c, const PrimeList& primes) const {
  const Diagonals diagonals = matrix(to_slots_[0], true, 1);
  Values values{{}, {diagonals.size()}, period(to_slots_[0]), true};
  for (const auto& [k, entries] : diagonals) values.data.insert(values.data.end(), entries.begin(), entries.end());
  RnsTensor all(c.rlwe().engine(), {}, diagonals.size(), primes, Domain::ntt);
  ring::Engine& e = c.engine();
  const device::LimbConstants multiplier = constants_of(multiplier_, c.rlwe().moduli(primes));
  const std::size_t stretch = encoding_stretch(c, primes.size());
  for (std::size_t first = 0; first < diagonals.size(); first += stretch) {
    const std::size_t count = std::min(stretch, diagonals.size() - first);
    const RnsTensor some = upload_polynomials(c, rounded_polynomials(c, values, kDiagonalScale, first, count), primes,
                                              ring::Secrecy::open, true);
    const View to = all.with_components(first, count).view();
    e.enqueue(device::ForwardNtt{e.prepared(), primes, some.view(), to});
    e.enqueue(device::MulConstants{e.prepared(), primes, to, multiplier, to});
  }
  return all;
}

rlwe::SwitchKey one_digit_key(const rlwe::SecretKey& secret, const RnsTensor& target, const rlwe::KeyLayout& layout,
                              const PrimeList& special, rlwe::Entropy& entropy) {
  rlwe::Context& c = *secret.context();
  ring::Engine& e = *c.engine();
  device::LimbConstants constants{};  // product of the special primes, which is 0 modulo each of them
  const std::vector<u64> moduli = c.moduli(layout.primes);
  for (std::size_t l = 0; l < moduli.size(); ++l) {
    constants[l] = 1 % moduli[l];
    for (const u64 p : c.moduli(special)) constants[l] = math::mul_mod(constants[l], p % moduli[l], moduli[l]);
  }
  const RnsTensor message(c.engine(), {}, 1, layout.primes, Domain::ntt, ring::Secrecy::passing);
  e.enqueue(device::MulConstants{e.prepared(), layout.primes, target.view(), constants, message.view()});
  return rlwe::make_key(
      secret, layout, [&](std::size_t) { return message; }, entropy);
}

rlwe::SwitchKey first_matrix_key(Context& context, const rlwe::SecretKey& dense, const rlwe::SecretKey& sparse,
                                 const Bootstrapper& how, rlwe::Entropy& entropy) {
  ring::Engine& e = context.engine();
  const rlwe::KeyLayout layout = how.layouts().first_matrix;
  const RnsTensor diagonals = how.first_diagonals(context, layout.primes);
  const std::vector<u64> galois = how.first_galois();
  const RnsTensor message(context.rlwe().engine(), {}, 1, layout.primes, Domain::ntt, ring::Secrecy::passing);
  const RnsTensor s = ring::limbs_of(sparse.transformed(), layout.primes);
  const auto turned = [&](std::size_t i) {
    const RnsTensor key = galois[i] == 1 ? s : ring::automorphism(s, galois[i]);
    e.enqueue(device::Mul{e.prepared(), layout.primes, key.view(), diagonals.with_components(i, 1).view(), message.view()});
    return message;
  };
  return rlwe::make_key(dense, layout, turned, entropy);
}

Raise::Raise(Context& c, const Bootstrapper& how)
    : context_(c), raised_(how.raised()), extended_(how.layouts().first_matrix.primes), body_(how.body_primes()) {
  ring::Engine& e = c.engine();
  for (const u64 g : how.first_galois()) turns_.push_back(g == 1 ? nullptr : e.automorphism(g, Domain::ntt));
  to_sparse_ = c.rlwe().own_switch_plan(how.low(), how.to_sparse_special(), how.low(), how.layouts().to_sparse.primes);
  const auto extend = [&](const PrimeList& from, const PrimeList& to) {
    return e.kernels().prepare(math::extend_base(c.rlwe().moduli(from), c.rlwe().moduli(to)));
  };
  mask_up_ = extend(how.low(), extended_), body_up_ = extend(how.low(), body_), sum_up_ = extend(body_, extended_);
  down_ = c.rlwe().own_divide_plan(extended_, raised_);
  diagonals_ = how.first_diagonals(c, body_);
}

RnsTensor Raise::operator()(const RnsTensor& x, const rlwe::BootstrappingKeys& keys) const {
  const std::shared_ptr<ring::Engine>& engine = context_.rlwe().engine();
  ring::Engine& e = *engine;
  const RnsTensor to_sparse = keys.to_sparse.pairs(), first = keys.first_matrix.pairs();
  const RnsTensor low(engine, x.shape(), 2, x.primes(), Domain::ntt);
  e.enqueue(device::KeySwitch{to_sparse_, Domain::ntt, x.with_components(1, 1).view(), to_sparse.view(),
                              x.with_components(0, 1).view(), low.view()});
  const RnsTensor coefficients = ring::to_domain(low, Domain::coefficient);
  const RnsTensor out(engine, x.shape(), 2, raised_, Domain::ntt);
  const std::size_t each = 6 * (extended_.size() + body_.size()) * context_.spec().n * x.view().word_size();
  const std::size_t stretch = e.items_at_once(each, x.items());
  ProgressSteps steps(x.items());
  for (std::size_t at = 0; at < x.items(); at += stretch) {
    const std::size_t count = std::min(stretch, x.items() - at);
    raise(coefficients.slice(0, at, 1, count), first, out.slice(0, at, 1, count));
    steps.add(count);
  }
  return out;
}

void Raise::raise(const RnsTensor& x, const RnsTensor& first, const RnsTensor& out) const {
  const std::shared_ptr<ring::Engine>& engine = x.engine();
  ring::Engine& e = *engine;
  const auto up = [&](const RnsTensor& a, const auto& conversion, const PrimeList& primes) {
    return ring::to_domain(ring::convert(a, nullptr, conversion, engine, primes), Domain::ntt);
  };
  const auto place = [](const PrimeList& primes) { return PrimeList::range(0, primes.size()); };
  PrimeList key_limbs;  // a bootstrap to a lower level uses some limbs of the key
  for (const math::PrimeIndex p : extended_)
    key_limbs.push_back(
        static_cast<math::PrimeIndex>(std::find(first.primes().begin(), first.primes().end(), p) - first.primes().begin()));
  // Multiplies the body by the diagonals, modulo a few primes that determine the product, then extends it to all primes.
  const RnsTensor body(engine, x.shape(), 1, body_, Domain::ntt);
  e.enqueue(device::InnerProduct{e.prepared(), body_, up(x.with_components(0, 1), body_up_, body_).view(), diagonals_.view(),
                                 place(body_), body.view(), turns_});
  const RnsTensor whole = up(ring::to_domain(body, Domain::coefficient), sum_up_, extended_);
  const RnsTensor sum(engine, x.shape(), 2, extended_, Domain::ntt);
  e.enqueue(device::InnerProduct{e.prepared(), extended_, up(x.with_components(1, 1), mask_up_, extended_).view(),
                                 first.view(), key_limbs, sum.view(), turns_});
  const View sum_body = sum.with_components(0, 1).view();
  e.enqueue(device::Add{e.prepared(), extended_, sum_body, whole.view(), sum_body});
  e.enqueue(device::Divide{down_, sum.view(), out.view()});
}

BootstrappingPlan::BootstrappingPlan(Context& c, const Bootstrapper& how) : raise(c, how), context_(c), how_(how) {
  for (std::size_t stage = 1; stage < how.stages_to_slots(); ++stage) to_slots_.push_back(to_slots(stage, false));
}

namespace {

std::size_t size_of(const Diagonals& matrix) { return matrix.begin()->second.size(); }

}  // namespace

LinearSum BootstrappingPlan::to_slots(std::size_t stage, bool packed) const {
  const Diagonals matrix = how_.to_slots(stage, packed);
  return sum_of(context_, views_of(matrix), size_of(matrix), context_.raised_level() + 1 - stage);
}

std::vector<LinearSum> BootstrappingPlan::to_slots(bool packed) {
  if (!packed) return to_slots_;
  const std::lock_guard lock(mutex_);
  const device::Unobserved alone;
  if (!last_packed_) last_packed_ = to_slots(to_slots_.size(), true);
  std::vector<LinearSum> sums = to_slots_;
  sums.back() = *last_packed_;
  return sums;
}

PlaintextData BootstrappingPlan::alternating(Complex first, Complex second, std::size_t period, std::size_t level,
                                             double scale) {
  const std::lock_guard lock(mutex_);
  const device::Unobserved alone;
  const auto is = [&](const Alternating& a) {
    return a.first == first && a.second == second && a.period == period && a.plaintext.level == level &&
           a.plaintext.scale == scale;
  };
  const auto make = [&] {
    Values values{{}, {}, std::max(2 * period, context_.period()), true};
    for (std::size_t i = 0; i < values.width; ++i) values.data.push_back(i & period ? second : first);
    const RnsTensor polynomial =
        upload_polynomials(context_, rounded_polynomials(context_, values, scale, 0, 1), context_.rlwe().chain(level));
    // The declared width is that of the set's tensors, with which the plaintext combines.
    PlaintextData data{
        .tensor = ring::to_domain(polynomial, Domain::ntt).drop_axis(0, 0), .level = level, .width = context_.period()};
    data.scale = scale, data.bound = std::log2(std::max(std::abs(first), std::abs(second))), data.complex = true;
    return std::make_shared<const Alternating>(Alternating{first, second, period, std::move(data)});
  };
  return alternating_.get(is, make, [](const Alternating&) { return std::size_t{1}; })->plaintext;
}

std::vector<LinearSum> BootstrappingPlan::to_coefficients(double factor, const Repetition& repetition) {
  constexpr std::size_t kept = 4;  // cached factors: each bound of a bootstrap and each size of a table has its own
  const std::lock_guard lock(mutex_);
  const device::Unobserved alone;  // the matrices are constants, not part of a recorded computation
  const std::size_t all = how_.stages_to_coefficients();
  const auto stage = [&](std::size_t i, double by) {
    const Diagonals matrix = how_.to_coefficients(i, by, repetition);
    return sum_of(context_, views_of(matrix), size_of(matrix), all + 1 - i, how_.baby_steps(i),
                  &how_.to_coefficients_keys());
  };
  const Repetition part = how_.part_of(0, repetition);
  auto& first = first_to_coefficients_;
  const auto found =
      std::find_if(first.begin(), first.end(), [&](const First& f) { return f.factor == factor && f.part == part; });
  if (found == first.end()) {
    if (first.size() == kept) first.pop_back();
    first.push_front({factor, part, stage(0, factor)});
  } else {
    std::rotate(first.begin(), found, found + 1);
  }
  std::vector<LinearSum> sums = {first.front().sum};
  for (std::size_t i = 1; i < all; ++i) {
    const auto [period, alternating] = how_.part_of(i, repetition);
    auto& more = more_to_coefficients_[{i, period, alternating}];
    if (!more.context) more = stage(i, 1);
    sums.push_back(more);
  }
  return sums;
}

const Bootstrapper& Context::bootstrapper() {
  const std::lock_guard lock(mutex_);
  if (!bootstrapper_) bootstrapper_ = std::make_shared<Bootstrapper>(*this);
  return *bootstrapper_;
}

rlwe::BootstrappingLayouts Context::bootstrapping_layouts() { return bootstrapper().layouts(); }

BootstrappingPlan& Context::bootstrapping() {
  const Bootstrapper& how = bootstrapper();
  const std::lock_guard lock(bootstrapping_mutex_);
  if (!bootstrapping_) {
    const device::Unobserved alone;  // the plan is a constant, not part of a recorded computation
    bootstrapping_ = std::make_shared<BootstrappingPlan>(*this, how);
  }
  return *bootstrapping_;
}

}  // namespace heliograph::ckks
