// Accessors of the public handles (objects.h, exact.h).
#include "schemes/objects.h"

#include <algorithm>
#include <cmath>

#include "schemes/exact/context.h"

HELIOGRAPH_RING_OBJECTS(exact)

namespace heliograph::exact {

bool Parameters::has_slots() const { return context()->has_slots(); }

std::size_t Parameters::ciphertext_bytes(std::size_t degree) const {
  const rlwe::RingParameters& r = context()->rlwe().parameters();
  return (degree + 1) * context()->parts() * r.chain.size() * r.n * math::word_bytes(r.word);
}

Shape Plaintext::shape() const { return data_->shape; }

std::uintptr_t Ciphertext::address() const { return reinterpret_cast<std::uintptr_t>(data_->front().view().data); }
std::size_t Ciphertext::degree() const { return data_->degree(); }
std::size_t Ciphertext::level() const { return data_->level(); }
std::size_t Ciphertext::slots() const { return data_->width; }
bool Ciphertext::tail_known() const {
  return std::all_of(data_->tails.begin(), data_->tails.end(),
                     [](const Tail& t) { return t.kind() == Tail::Kind::known || t.kind() == Tail::Kind::even; });
}
Packing Ciphertext::packing() const { return data_->packing; }
bool Ciphertext::fresh() const { return data_->fresh; }
bool Ciphertext::vouched() const { return data_->vouched; }

std::size_t Ciphertext::first_modulus() const { return data_->first_part; }

std::vector<std::uint64_t> Ciphertext::plain_moduli() const {
  const auto first = data_->context->spec().plain_moduli.begin() + static_cast<std::ptrdiff_t>(data_->first_part);
  return {first, first + static_cast<std::ptrdiff_t>(data_->parts.size())};
}

namespace {

std::string hex_of(const Magnitude& bound) { return bound.known() ? bound.hex() : ""; }

}  // namespace

std::string Ciphertext::bound() const { return hex_of(data_->bounds.assumed.at(data_->context->most())); }
std::string Ciphertext::vouched_bound() const { return data_->vouched ? hex_of(data_->bounds.vouched) : ""; }

double Ciphertext::noise_budget() const {
  double least = 1e9;
  for (std::size_t part = 0; part < data_->parts.size(); ++part) {
    if (std::isnan(data_->noise[part])) return data_->noise[part];
    least =
        std::min(least, data_->context->rules().noise_limit(data_->first_part + part, data_->level()) - data_->noise[part]);
  }
  return least;
}

}  // namespace heliograph::exact
