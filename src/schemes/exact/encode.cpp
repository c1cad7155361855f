// Values to polynomials and back.
#include "schemes/exact/encode.h"

#include <cmath>
#include <cstring>

namespace heliograph::exact {

PlainBatch make_plain_batch(Context& c, std::size_t items, ring::Secrecy secrecy) {
  const std::size_t n = c.spec().n;
  const device::View shape = device::View::dense(nullptr, math::Word::w64, {items}, 1, 1, n);
  return {.view = shape.in(c.engine().allocate(shape, device::PrimeList{0}, secrecy)), .secrecy = secrecy};
}

void require_packing(const Context& c, Packing packing) {
  if (packing == Packing::slots && !c.has_slots()) {
    throw SlotsError("this set has no slots: a plaintext modulus is not a prime that is 1 modulo 2N; use coefficients");
  }
}

void check_values(const Context& c, const Values& values, Packing packing) {
  require_packing(c, packing);
  const std::size_t width = packing == Packing::slots ? c.slots() : c.spec().n;
  if (values.width > width) {
    throw ShapeError(std::to_string(values.width) + " values do not fit " + std::to_string(width) +
                     (packing == Packing::slots ? " slots" : " coefficients"));
  }
  require<ShapeError>(values.data.size() == ring::element_count(values.shape) * values.width,
                      "values and shape do not agree");
  // |v| <= M/2 for M the product of the plaintext moduli; beyond 2^63 every value fits.
  math::u128 product = 1;
  for (std::size_t i = 0; i < c.parts() && product < (math::u128{1} << 64); ++i) product *= c.plain(i).t;
  if (product >= (math::u128{1} << 64)) return;
  const auto high = static_cast<std::int64_t>(product == 2 ? 1 : (product - 1) / 2);
  const auto low = product == 2 ? 0 : -static_cast<std::int64_t>(product / 2);
  for (std::int64_t v : values.data) {
    if (v < low || v > high) {
      throw PlaintextRangeError(std::to_string(v) + " is not between " + std::to_string(low) + " and " +
                                std::to_string(high) + ", what the plaintext modulus holds");
    }
  }
}

void upload_values(Context& c, std::size_t part, const Values& values, Packing packing, std::size_t first,
                   const PlainBatch& to) {
  const std::size_t n = c.spec().n, items = to.view.items();
  const u64 t = c.plain(part).t;
  SecretVector<u64> words(items * n);
  for (std::size_t i = 0; i < items; ++i) {
    const std::int64_t* source = values.data.data() + (first + i) * values.width;
    u64* target = words.data() + i * n;
    const math::u32* position = packing == Packing::slots ? c.slot_positions().data() : nullptr;
    for (std::size_t k = 0; k < values.width; ++k) {
      const std::int64_t v = source[k];
      const u64 residue = v >= 0 && static_cast<u64>(v) < t ? static_cast<u64>(v) : math::signed_mod(v, t);
      target[position ? position[k] : k] = residue;
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
  // On a device that computes nothing: a polynomial of uniform coefficients, six deviations.
  if (e.device().counter()) return std::log2(6 * static_cast<double>(t) * std::sqrt(static_cast<double>(n) / 12));
  std::vector<u64> words(items * n);
  e.download(b.view, std::as_writable_bytes(std::span(words)));
  const rlwe::CanonicalNorm norm(n);
  std::vector<double> polynomial(n);
  double largest = 1;
  for (std::size_t i = 0; i < items; ++i) {
    for (std::size_t k = 0; k < n; ++k) {  // as lift() centres: t/2 goes to -t/2
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
      const Magnitude value = magnitude_of(values.data[i * values.width + k]);
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
