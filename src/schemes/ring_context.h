// Contexts of parameter sets over polynomials modulo a chain of primes: the common part of BFV, BGV and CKKS.
#pragma once

#include "rlwe/key_holder.h"
#include "schemes/context.h"
#include "schemes/word_size.h"

namespace heliograph::schemes {

/// Throws ParameterError for word sizes other than 64 and 32.
template <class Spec>
rlwe::RingParameters ring_parameters(const Spec& s) {
  require_word_size(s.word_size);
  rlwe::RingParameters r{.n = s.n,
                         .word = s.word_size == 32 ? math::Word::w32 : math::Word::w64,
                         .chain = s.chain,
                         .special = s.special,
                         .digits = s.digits};
  if constexpr (requires { s.auxiliary; }) r.auxiliary = s.auxiliary;
  if constexpr (requires { s.levels; }) r.levels = s.levels;
  return r;
}

/// Returns the set, with `insecure` true only if it has less than 128 bits of security.
template <class Spec>
Spec honest(Spec s) {
  s.insecure = s.insecure && !rlwe::is_secure(ring_parameters(s));
  return s;
}

/// C is the scheme's context, which derives from this class.
template <class C, class Spec>
class RingContext : public Context<Spec> {
 public:
  rlwe::Context& rlwe() { return *rlwe_; }
  const rlwe::Context& rlwe() const { return *rlwe_; }
  const std::shared_ptr<rlwe::Context>& rlwe_shared() const { return rlwe_; }
  ring::Engine& engine() { return *rlwe_->engine(); }
  const device::Session& session() const { return *rlwe_->engine(); }
  bool secure() const { return rlwe::is_secure(rlwe_->parameters()); }
  int security_bits() const { return rlwe::rough_security_bits(rlwe_->parameters()); }
  std::size_t switch_key_bytes() const {
    const rlwe::RingParameters& r = rlwe_->parameters();
    return 2 * r.digits.size() * (r.chain.size() + r.special.size()) * r.n * math::word_bytes(r.word);
  }
  /// Returns the context that holds secrets. In a single process, this context itself holds the secrets; over ranks, the
  /// result is null except in the key holder.
  C* key_holder() { return sibling_.of(static_cast<C&>(*this)); }
  static std::string title(const Spec& spec) { return C::scheme_of(spec) + " of N = " + std::to_string(spec.n); }
  std::string scheme() const { return C::scheme_of(this->spec()); }

 protected:
  using Context<Spec>::Context;
  /// Shares the engine of a context with the same primes, for another choice of the levels' primes.
  void open_beside(const RingContext& other) {
    rlwe_ = std::make_shared<rlwe::Context>(other.rlwe_->engine(), ring_parameters(this->spec()));
  }
  /// Throws SecurityError if the set has less than 128 bits of security and is not marked insecure.
  void open() {
    const rlwe::RingParameters r = ring_parameters(this->spec());
    rlwe::require_security(r, this->spec().insecure);
    rlwe_ = std::make_shared<rlwe::Context>(this->device(), r);
  }

 private:
  std::shared_ptr<rlwe::Context> rlwe_;
  rlwe::Sibling<C> sibling_;
};

}  // namespace heliograph::schemes
