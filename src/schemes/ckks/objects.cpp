// Accessors of the public handles (objects.h, ckks.h).
#include "schemes/objects.h"

#include <cmath>
#include <limits>

#include "schemes/ckks/bootstrapping.h"

HELIOGRAPH_RING_OBJECTS(ckks)

namespace heliograph::ckks {

std::size_t Parameters::top_level() const { return context()->top_level(); }
std::size_t Parameters::bootstrapping_level() const {
  const Bootstrapping& b = context()->spec().bootstrapping;
  return b.levels > 0 ? b.entry + 1 : 0;
}
std::size_t Parameters::bootstrapping_key_bytes() const {
  if (bootstrapping_level() == 0) return 0;
  const Bootstrapper& how = context()->bootstrapper();
  const rlwe::Context& c = context()->rlwe();
  const std::size_t switches = how.turns().size() + 2;  // relinearization, conjugation
  return switches * context()->switch_key_bytes() + how.layouts().bytes(c);
}
double Parameters::scale(std::size_t level) const { return context()->scale(context()->require_level(level)); }

std::size_t Parameters::level_limbs(std::size_t level) const {
  return context()->rlwe().chain(context()->require_level(level)).size();
}

std::size_t Parameters::period() const { return context()->period(); }
double Parameters::room() const { return std::exp2(context()->room()); }
double Parameters::input_bound() const { return context()->input_magnitude(); }
std::string Parameters::difference(const Parameters& other) const {
  return schemes::difference(context()->spec(), other.context()->spec());
}

std::size_t Parameters::ciphertext_bytes(std::size_t degree, std::size_t level) const {
  const rlwe::RingParameters& r = context()->rlwe().parameters();
  return (degree + 1) * level_limbs(level) * r.n * math::word_bytes(r.word);
}

Shape Plaintext::shape() const { return data_->shape; }
std::size_t Plaintext::level() const { return data_->level; }
double Plaintext::scale() const { return data_->scale; }

std::uintptr_t Ciphertext::address() const { return reinterpret_cast<std::uintptr_t>(data_->tensor.view().data); }
std::size_t Ciphertext::degree() const { return data_->degree(); }
std::size_t Ciphertext::level() const { return data_->level; }
double Ciphertext::scale() const { return data_->scale; }
std::size_t Ciphertext::slots() const { return data_->width; }
bool Ciphertext::tail_known() const {
  return data_->tail.kind() == Tail::Kind::known || data_->tail.kind() == Tail::Kind::even;
}
bool Ciphertext::complex() const { return data_->complex; }
bool Ciphertext::fresh() const { return data_->fresh; }

double Ciphertext::precision() const {
  const CiphertextData& x = *data_;
  const double noise = x.noise.vouched;
  if (!std::isnan(noise) && !fits(x).vouched) return -std::numeric_limits<double>::infinity();
  const double bits = std::log2(x.scale) - noise;
  return bits < 0 ? 0 : bits;  // preserves NaN
}

Interval Ciphertext::bounds() const {
  const Range r = data_->ranges.merged().assumed;
  return {r.low, r.high};
}

std::vector<ValueBounds> Ciphertext::value_bounds(bool vouched) const {
  std::vector<ValueBounds> all;
  for (const RangePair& pair : data_->ranges.list()) {
    const Range& r = vouched ? pair.vouched : pair.assumed;
    all.push_back({{r.low, r.high}, r.peak, r.rms, r.mean, r.declared.given});
  }
  return all;
}

double Ciphertext::known_bound() const { return ckks::known_bound(*data_); }

double Ciphertext::assumed_precision() const {
  const double bits = std::log2(data_->scale) - data_->noise.assumed;
  return bits < 0 ? 0 : bits;  // preserves NaN
}

bool Ciphertext::rests_on_declaration() const {
  const RangePair all = data_->ranges.merged();
  return all.vouched.declared.given || all.assumed.declared.given;
}
bool Ciphertext::awaits_guard() const {
  const RangePair all = data_->ranges.merged();
  return all.vouched.declared.unguarded || all.assumed.declared.unguarded;
}

double Ciphertext::bits_beyond_room() const {
  const CiphertextData& x = *data_;
  return rlwe::log2_sum(x.ranges.coefficient() + std::log2(x.scale), x.noise).assumed - std::log2(x.scale) - fits(x).room;
}

Standing Ciphertext::standing() const {
  const CiphertextData& x = *data_;
  const Fits f = fits(x);
  if (f.vouched) return Standing::vouched;
  if (f.assumed) return Standing::assumed;
  return x.tail.kind() == Tail::Kind::known && x.context->period() >= x.width + 2 ? Standing::places : Standing::open;
}

bool Ciphertext::may_outgrow() const {
  const Fits f = fits(*data_);
  return f.vouched_out || (f.assumed_out && !f.vouched);
}

}  // namespace heliograph::ckks
