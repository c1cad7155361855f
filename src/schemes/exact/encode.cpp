// Conversion of values to polynomials and back.
#include "schemes/exact/encode.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/checked.h"

namespace heliograph::exact {

PlainBatch make_plain_batch(Context& c, std::size_t items, ring::Secrecy secrecy) {
  const std::size_t n = c.spec().n;
  const device::View shape = device::View::dense(nullptr, math::Word::w64, {items}, 1, 1, n);
  return {.view = shape.in(c.engine().allocate(shape, device::PrimeList{0}, secrecy)), .secrecy = secrecy};
}

void require_packing(const Context& c, Packing packing) {
  if (packing == Packing::slots && !c.has_slots()) {
    throw SlotsError("this set has no slots: a plaintext modulus is not a prime congruent to 1 modulo 2N; use coefficients");
  }
}

void check_values(const Context& c, const Values& values, Packing packing) {
  require_packing(c, packing);
  const std::size_t width = packing == Packing::slots ? c.slots() : c.spec().n;
  if (values.width > width) {
    throw ShapeError(std::to_string(values.width) + " values do not fit " + std::to_string(width) +
                     (packing == Packing::slots ? " slots" : " coefficients"));
  }
  const std::size_t count = checked_product(ring::element_count(values.shape), values.width);
  require<ShapeError>(values.words > 0 && values.data.size() == checked_mul(count, values.words),
                      "the number of values must be the product of shape, width and words");
  if (values.words > 1) {
    const Magnitude whole = Magnitude::product_of(c.spec().plain_moduli), high = whole.half();
    const bool even = high + high == whole;
    for (std::size_t at = 0; at < count; ++at) {
      const bool negative = values.data[(at + 1) * values.words - 1] < 0;
      const Magnitude value = magnitude_of(values, at);
      if (!(value <= high) || (even && !negative && value == high))
        throw PlaintextRangeError("a value of " + std::to_string(value.known() ? value.bits() : 0) +
                                  " bits is beyond half the plaintext modulus, whose bits are " +
                                  std::to_string(whole.bits()));
    }
    return;
  }
  // Every value is valid if |v| <= M/2, where M is the product of the plaintext moduli. If M is at least 2^64, every
  // 64-bit value is valid.
  math::u128 product = 1;
  for (std::size_t i = 0; i < c.parts() && product < (math::u128{1} << 64); ++i) product *= c.plain(i).t;
  if (product >= (math::u128{1} << 64)) return;
  const auto high = static_cast<std::int64_t>(product == 2 ? 1 : (product - 1) / 2);
  const auto low = product == 2 ? 0 : -static_cast<std::int64_t>(product / 2);
  for (std::int64_t v : values.data) {
    if (v < low || v > high) {
      throw PlaintextRangeError(std::to_string(v) + " is not between " + std::to_string(low) + " and " +
                                std::to_string(high) + ", the range of the plaintext modulus");
    }
  }
}

u64 residue_of(const Values& values, std::size_t at, u64 t) {
  const std::int64_t* words = values.data.data() + at * values.words;
  const std::int64_t top = words[values.words - 1];
  u64 residue = top >= 0 && static_cast<u64>(top) < t ? static_cast<u64>(top) : math::signed_mod(top, t);
  for (std::size_t k = values.words - 1; k-- > 0;)
    residue = static_cast<u64>((math::u128{residue} << 64 | static_cast<u64>(words[k])) % t);
  return residue;
}

Magnitude magnitude_of(const Values& values, std::size_t at) {
  const std::int64_t* words = values.data.data() + at * values.words;
  if (values.words == 1) return magnitude_of(*words);
  std::vector<u64> found(words, words + values.words);
  if (words[values.words - 1] < 0) {
    bool carry = true;
    for (u64& word : found) word = ~word + static_cast<u64>(carry), carry = carry && word == 0;
  }
  return Magnitude::of_words(std::move(found));
}

Magnitude largest_of(const Values& values) {
  if (values.words == 1) {
    u64 largest = 0;
    for (const std::int64_t v : values.data) largest = std::max(largest, magnitude_of(v));
    return largest;
  }
  Magnitude largest;
  for (std::size_t at = 0; at < values.data.size() / values.words; ++at) largest = larger(largest, magnitude_of(values, at));
  return largest;
}

void upload_values(Context& c, std::size_t part, const Values& values, Packing packing, std::size_t first,
                   const PlainBatch& to) {
  const std::size_t n = c.spec().n, items = to.view.items();
  const u64 t = c.plain(part).t;
  SecretVector<u64> words(items * n);
  for (std::size_t i = 0; i < items; ++i) {
    const std::size_t source = (first + i) * values.width;
    u64* target = words.data() + i * n;
    const math::u32* position = packing == Packing::slots ? c.slot_positions().data() : nullptr;
    for (std::size_t k = 0; k < values.width; ++k) {
      target[position ? position[k] : k] = residue_of(values, source + k, t);
    }
  }
  ring::Engine& e = c.engine();
  e.upload(std::as_bytes(std::span(words)), to.view);
  if (packing == Packing::slots) {
    e.enqueue(device::InverseNtt{c.plain(part).ring, device::PrimeList{0}, to.view, to.view});
  }
}

void download_values(Context& c, std::size_t part, Packing packing, std::size_t width, const PlainBatch& from, u64* out) {
  const std::size_t n = c.spec().n, items = from.view.items();
  ring::Engine& e = c.engine();
  if (packing == Packing::slots) {
    e.enqueue(device::ForwardNtt{c.plain(part).ring, device::PrimeList{0}, from.view, from.view});
  }
  SecretVector<u64> words(items * n);
  e.download(from.view, std::as_writable_bytes(std::span(words)));
  for (std::size_t i = 0; i < items; ++i) {
    for (std::size_t k = 0; k < width; ++k) {
      out[i * width + k] = words[i * n + (packing == Packing::slots ? c.slot_positions()[k] : k)];
    }
  }
}

double log_norm_of(Context& c, const PlainBatch& b, u64 t) {
  const std::size_t n = c.spec().n, items = b.view.items();
  ring::Engine& e = c.engine();
  // The null device has no coefficients: return six standard deviations of the norm of a polynomial with uniform
  // coefficients.
  if (e.device().counter()) return std::log2(6 * static_cast<double>(t) * std::sqrt(static_cast<double>(n) / 12));
  std::vector<u64> words(items * n);
  e.download(b.view, std::as_writable_bytes(std::span(words)));
  const rlwe::CanonicalNorm norm(n);
  std::vector<double> polynomial(n);
  double largest = 1;
  for (std::size_t i = 0; i < items; ++i) {
    for (std::size_t k = 0; k < n; ++k) {  // centre as lift() does: t/2 becomes -t/2
      const u64 v = words[i * n + k];
      polynomial[k] = static_cast<double>(v) - (2 * v >= t ? static_cast<double>(t) : 0);
    }
    largest = std::max(largest, norm(polynomial));
  }
  return std::log2(largest);
}

RnsTensor scale_up(Context& c, std::size_t part, const PlainBatch& b, std::size_t level, u64 factor) {
  ring::Engine& e = c.engine();
  RnsTensor out(c.rlwe().engine(), {b.view.items()}, 1, c.rlwe().chain(level), Domain::coefficient, b.secrecy);
  if (out.items()) e.enqueue(device::Convert{c.rules().encoding(part, level, factor), b.view, std::nullopt, out.view()});
  return out;
}

Plaintext encode(const Parameters& parameters, const Values& values, Packing packing) {
  const std::shared_ptr<Context>& c = parameters.context();
  check_values(*c, values, packing);
  const std::size_t items = ring::element_count(values.shape);
  auto data = std::make_shared<PlaintextData>();
  data->context = c, data->packing = packing, data->width = values.width, data->shape = values.shape;
  for (std::size_t i = 0; i < items; ++i) {
    Magnitude row;
    for (std::size_t k = 0; k < values.width; ++k) {
      const Magnitude value = magnitude_of(values, i * values.width + k);
      data->largest = larger(data->largest, value), row = row + value;
    }
    data->row = larger(data->row, row);
  }
  ring::Engine& e = c->engine();
  const auto chain = c->rlwe().chain(c->rlwe().top_level());
  for (std::size_t part = 0; part < c->parts(); ++part) {
    const PlainBatch b = make_plain_batch(*c, items, ring::Secrecy::open);
    if (items) upload_values(*c, part, values, packing, 0, b);
    data->log_norm.push_back(log_norm_of(*c, b, c->plain(part).t));
    RnsTensor lifted(c->rlwe().engine(), {items}, 1, chain, Domain::coefficient);
    if (items) e.enqueue(device::Convert{c->rules().lift(part), b.view, std::nullopt, lifted.view()});
    data->lifted.push_back(ring::to_domain(lifted, Domain::ntt).reshape(values.shape));
    data->coefficients.push_back(b.view);
  }
  return Plaintext(std::move(data));
}

}  // namespace heliograph::exact
