#include "circuits/switching/context.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/progress.h"

namespace heliograph::switching {

namespace {

using device::In;
using device::Out;

/// Returns floor(2^power x / q) modulo 2^bits for x modulo q: exact, because the quotient is not rounded.
math::Conversion digit_of(u64 q, unsigned power, unsigned bits) {
  const u64 base = u64{1} << bits;
  return {.from = {q},
          .to = {base},
          .inverse = {math::pow_mod(2, power, q)},
          .matrix = {math::neg_mod(math::inverse_mod(q % base, base), base)},
          .wrap = {1},
          .rounded = false,
          .fixed = math::fixed_point({q})};
}

/// Returns a polynomial with the constant in every limb.
device::LimbConstants everywhere(u64 value) {
  device::LimbConstants constants{};
  constants[0] = value;
  return constants;
}

unsigned digit_bits(u64 q) {
  const double bits = std::log2(static_cast<double>(q)) - kDroppedBits;
  return static_cast<unsigned>(std::ceil(bits / kDigits));
}

}  // namespace

void order(const device::Session& earlier, const device::Session& later, const View& view) {
  later.queue().after(*earlier.queue().record());
  later.queue().uses(view.memory);
}

Digits::Digits(ring::Engine& engine) : q_(engine.ring().prime(0)), bits_(digit_bits(q_)) {
  // Digits are rounded down. So an offset is first added to x: half a unit of the last digit, which rounds, and half a base
  // for each digit, which makes digits signed. The offset is the sum of q / (2 base^j) for j from 0 to kDigits. The
  // remainder of x after the digits then has mean 0.
  half_ = u64{1} << (bits_ - 1);
  const math::u128 whole = math::u128{1} << (bits_ * kDigits);
  math::u128 sum = 0;
  for (std::size_t j = 0; j <= kDigits; ++j) sum += math::u128{q_} * (whole >> (bits_ * j));
  offset_ = static_cast<u64>((sum + whole) / (2 * whole));
  for (unsigned j = 1; j <= kDigits; ++j) conversions_.push_back(engine.kernels().prepare(digit_of(q_, bits_ * j, bits_)));
}

u64 Digits::gadget(std::size_t digit) const {
  const unsigned power = bits_ * static_cast<unsigned>(digit);
  return (q_ + (u64{1} << (power - 1))) >> power;
}

RnsTensor Digits::operator()(const RnsTensor& x) const {
  ring::Engine& e = *x.engine();
  const RnsTensor moved(x.engine(), x.shape(), 1, x.primes(), Domain::coefficient);
  // Adds the constant at every position, by the rule of the NTT domain, because every coefficient needs the constant.
  e.enqueue(device::AddConstants{e.prepared(), x.primes(), x.view(), everywhere(offset_), Domain::ntt, moved.view()});
  const RnsTensor digits(x.engine(), x.shape(), kDigits, x.primes(), Domain::coefficient);
  for (std::size_t j = 0; j < kDigits; ++j)
    e.enqueue(device::Convert{conversions_[j], moved.view(), {}, digits.with_components(j, 1).view()});
  e.enqueue(
      device::AddConstants{e.prepared(), x.primes(), digits.view(), everywhere(q_ - half_), Domain::ntt, digits.view()});
  return ring::to_domain(digits, Domain::ntt);
}

double Digits::variance(double n, double error, double norm) const {
  const double base = std::exp2(bits_), square = (base * base + 2) / 12, q = static_cast<double>(q_);
  double sum = kDigits * n * square * error;
  for (std::size_t j = 1; j <= kDigits; ++j) {
    const double off = q / std::exp2(static_cast<double>(bits_ * j)) - static_cast<double>(gadget(j));
    sum += off * off * square * norm;
  }
  const double last = q / std::exp2(static_cast<double>(bits_) * kDigits);
  return sum + last * last / 12 * norm;
}

Context::Context(std::shared_ptr<ckks::Context> ckks, std::shared_ptr<tfhe::Context> tfhe)
    : ckks_(std::move(ckks)),
      tfhe_(std::move(tfhe)),
      wide_(tfhe_->lwe().wide()),
      low_((require_pair(), ckks_->rlwe().chain(1))),
      q_(static_cast<double>(ckks_->rlwe().moduli(low_)[0])),
      digits_(ckks_->engine()) {
  const u64 q = ckks_->rlwe().moduli(low_)[0];
  device::Device& device = ckks_->engine().device();
  const auto ring = [&](std::size_t n) { return std::make_shared<math::Ring>(n, math::Word::w64, std::vector{q}); };
  narrow_ = std::make_shared<rlwe::Context>(
      device, rlwe::RingParameters{.n = wide_, .word = math::Word::w64, .chain = {q}, .digits = {1}});
  pairs_ = std::make_shared<ring::Engine>(device, ring(2 * wide_));
  make_places();
  make_packing();
  const u64 turn = u64{1} << kTurnBits;
  math::Conversion positive = math::scale_to_plain({q}, turn), negative = positive;
  negative.inverse[0] = math::neg_mod(negative.inverse[0], q);
  to_turns_ = narrow_->engine()->kernels().prepare(std::move(positive));
  to_negative_turns_ = narrow_->engine()->kernels().prepare(std::move(negative));
}

void Context::require_pair() const {
  const ckks::Spec& c = ckks_->spec();
  const tfhe::Spec& t = tfhe_->spec();
  require<ParameterError>(c.bootstrapping.levels > 0,
                          "cannot switch: the CKKS set must have bootstrapping; choose one with bootstrap=True");
  require<ParameterError>(c.word_size == 64 && ckks_->rlwe().chain(1).size() == 1,
                          "cannot switch: the CKKS set must have 64-bit words and one prime at its lowest level");
  require<ParameterError>(t.message_bits > 0 && t.carry_bits >= t.message_bits,
                          "cannot switch: the TFHE set must encrypt digits with as many carry bits as message bits or more, "
                          "as \"2_2\" and \"1_1\"");
  if (!std::has_single_bit(wide_) || 2 * wide_ > c.n || wide_ % 64 != 0)
    throw ParameterError(
        "cannot switch: the dimension of TFHE's wide key must be a power of two of at least 64 that is at "
        "most N / 2 = " +
        std::to_string(c.n / 2) + ", not " + std::to_string(wide_));
  require<MismatchError>(&ckks_->engine().device() == &tfhe_->session().device(),
                         "cannot switch: both parameter sets must be on one device");
  const double deviation = std::log2(math::kSigma * std::sqrt(static_cast<double>(kErrors))) - ckks_->log_modulus(1);
  const double least = lwe::log2_least_secure_deviation(wide_);
  if (!c.insecure && !t.insecure && deviation < least)
    throw SecurityError("cannot switch: keys modulo " + std::to_string(ckks_->log_modulus(1)) + " bits under a key of " +
                        std::to_string(wide_) +
                        " bits have less than 128 bits of security; choose a CKKS set with a smaller "
                        "log_top or a TFHE set with a larger wide key");
}

void Context::make_places() {
  const std::size_t n = ckks_->spec().n, r = parts(), slots = ckks_->period();
  // Slot k is in coefficient gap * reverse(k) = j + r i, which is coefficient i of polynomial j of the split.
  const std::size_t gap = n / 2 / slots;
  used_parts_ = gap < r ? r / gap : 1, places_ = slots / used_parts_;
  const int part_bits = std::countr_zero(used_parts_), place_bits = std::countr_zero(places_);
  std::vector<std::size_t> order;
  for (std::size_t p = 0; p < used_parts_; ++p) order.push_back(math::reverse_bits(p, part_bits) * std::min(gap, r));
  for (std::size_t part = 0; part < r; ++part)
    if (part % std::min(gap, r) != 0) order.push_back(part);
  std::vector<math::u32> source(n), back(n);
  for (std::size_t p = 0; p < r; ++p) {
    for (std::size_t i = 0; i < wide_; ++i) {
      source[p * wide_ + i] = static_cast<math::u32>(order[p] + r * i);
      back[order[p] + r * i] = static_cast<math::u32>(p * wide_ + i);
    }
  }
  join_ = ckks_->engine().kernels().prepare(device::Permutation{std::move(back), {}});
  split_ = ckks_->engine().kernels().prepare(device::Permutation{std::move(source), {}});
  const std::size_t step = gap < r ? 1 : gap / r;
  const u64 q = narrow_->engine()->ring().prime(0);
  std::vector<u64> words(places_ * wide_);
  for (std::size_t i = 0; i < places_; ++i) {
    const std::size_t place = math::reverse_bits(i, place_bits) * step;
    words[i * wide_ + (wide_ - place) % wide_] = place == 0 ? 1 : q - 1;  // X^-place = -X^(d - place)
  }
  const RnsTensor monomials(narrow_->engine(), {places_}, 1, kFirst, Domain::coefficient);
  ring::upload(monomials, std::as_bytes(std::span(words)));
  monomials_ = ring::to_domain(monomials, Domain::ntt);
  first_ = RnsTensor(narrow_->engine(), {}, 1, kFirst, Domain::coefficient, ring::Secrecy::open, 64);
  words.assign(64, 0), words[0] = 1;
  ring::upload(first_, std::as_bytes(std::span(words)));
}

RnsTensor Context::to_wide(const RnsTensor& x, const rlwe::SwitchKey& key) const {
  ring::Engine& e = *x.engine();
  const RnsTensor coefficients = ring::to_domain(x, Domain::coefficient);
  const RnsTensor digits = digits_(coefficients.with_components(1, 1));
  const RnsTensor pairs = key.pairs();
  const RnsTensor sum(x.engine(), x.shape(), 2, low_, Domain::ntt);
  e.enqueue(device::InnerProduct{e.prepared(), low_, digits.view(), pairs.view(), kFirst, sum.view()});
  const View body = sum.with_components(0, 1).view();
  e.enqueue(device::Add{e.prepared(), low_, body, x.with_components(0, 1).view(), body});
  return ring::to_domain(sum, Domain::coefficient);
}

RnsTensor Context::divided(const RnsTensor& x) const {
  const std::size_t items = x.items(), r = parts();
  if (one_memory()) {
    order(*x.engine(), *narrow_->engine(), x.view());
    View view = x.view();
    view.axes = 2, view.n = wide_;
    view.shape[1] = r, view.stride[1] = static_cast<std::ptrdiff_t>(wide_);
    return RnsTensor(narrow_->engine(), {0}, 2, kFirst, Domain::coefficient).over(view);
  }
  const RnsTensor out(narrow_->engine(), {items, r}, 2, kFirst, Domain::coefficient);
  const std::vector<u64> words = downloaded(x);
  std::vector<u64> sorted(words.size());
  for (std::size_t row = 0; row < words.size() / wide_; ++row) {
    const std::size_t item = row / (2 * r), component = row / r % 2, part = row % r;
    std::copy_n(words.data() + row * wide_, wide_, sorted.data() + ((item * r + part) * 2 + component) * wide_);
  }
  ring::upload(out, std::as_bytes(std::span(sorted)));
  return out;
}

void Context::store(const RnsTensor& body, const RnsTensor& mask, const lwe::Tensor& out) const {
  ring::Engine& e = *narrow_->engine();
  const Shape shape = out.shape();
  if (one_memory()) {
    View to = out.view(), first = body.view();
    to.n = wide_;
    e.enqueue(device::Convert{to_negative_turns_, mask.view(), {}, to});
    to.data += wide_ * sizeof(u64), to.n = first.n = 64;
    const RnsTensor bodies(narrow_->engine(), shape, 1, kFirst, Domain::coefficient, ring::Secrecy::open, 64);
    e.enqueue(device::Mul{e.prepared(), kFirst, first, first_.broadcast_to(shape).view(), bodies.view()});
    e.enqueue(device::Convert{to_turns_, bodies.view(), {}, to});
    return;
  }
  const RnsTensor turns(narrow_->engine(), shape, 2, kFirst, Domain::coefficient);
  e.enqueue(device::Convert{to_turns_, body.view(), {}, turns.with_components(0, 1).view()});
  e.enqueue(device::Convert{to_negative_turns_, mask.view(), {}, turns.with_components(1, 1).view()});
  const std::vector<u64> from = downloaded(turns);
  std::vector<u64> words(turns.items() * tfhe_->words());
  for (std::size_t i = 0; i < turns.items(); ++i) {
    std::copy_n(from.data() + (2 * i + 1) * wide_, wide_, words.data() + i * tfhe_->words());
    words[i * tfhe_->words() + wide_] = from[2 * i * wide_];
  }
  const lwe::Tensor some = tfhe_->tensor(shape, 1);
  lwe::upload(some, words);
  tfhe_->session().enqueue(device::Copy{some.view(), out.view()});
}

lwe::Tensor Context::extract(const RnsTensor& x, std::size_t width) const {
  ring::Engine &wide = *x.engine(), &e = *narrow_->engine();
  const std::size_t items = x.items(), parts = std::min(used_parts_, (width + places_ - 1) / places_);
  const RnsTensor sorted(x.engine(), {items}, 2, low_, Domain::coefficient);
  wide.enqueue(device::Permute{wide.prepared(), low_, split_, x.view(), sorted.view()});
  const RnsTensor a = ring::to_domain(divided(sorted).slice(1, 0, 1, parts), Domain::ntt);

  const std::size_t places = parts == 1 ? std::min(places_, width) : places_;
  const lwe::Tensor out = tfhe_->tensor({items, parts, places}, 1);
  order(tfhe_->session(), e, out.view());
  const std::size_t each = items * parts * 6 * wide_ * sizeof(u64), stretch = e.items_at_once(each, places);
  ProgressSteps steps(static_cast<double>(places));
  for (std::size_t at = 0; at < places; at += stretch) {
    const std::size_t count = std::min(stretch, places - at);
    const Shape shape = {items, parts, count};
    const RnsTensor product(narrow_->engine(), shape, 2, kFirst, Domain::ntt);
    e.enqueue(device::Mul{e.prepared(), kFirst, a.reshape({items, parts, 1}).broadcast_to(shape).view(),
                          monomials_.slice(0, at, 1, count).broadcast_to(shape).view(), product.view()});
    const RnsTensor coefficients = ring::to_domain(product, Domain::coefficient);
    // The constant coefficient of a S is a_0 S_0 minus the sum of a_(d - i) S_i. The LWE mask is therefore -a(X^-1), for a
    // phase b - mask S.
    const RnsTensor mask = ring::automorphism(coefficients.with_components(1, 1), 2 * wide_ - 1);
    store(coefficients.with_components(0, 1), mask, out.slice(2, at, 1, count));
    steps.add(static_cast<double>(count));
  }
  order(e, tfhe_->session(), out.view());
  return out.reshape({items, parts * places}).slice(1, 0, 1, width);
}

double Context::variance() const {
  const double n = static_cast<double>(ckks_->spec().n);
  return digits_.variance(n, error_variance(), 2 * n / 3) / (q_ * q_);
}

}  // namespace heliograph::switching
