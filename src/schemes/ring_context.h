// A parameter set of polynomials modulo a chain of primes at work: what BFV's, BGV's and CKKS's have in common.
#pragma once

#include "rlwe/key_holder.h"
#include "schemes/context.h"

namespace heliograph::schemes {

/// ParameterError for editions that do not exist.
template <class Spec>
rlwe::RingParameters ring_parameters(const Spec& s) {
  if (s.edition != "w64" && s.edition != "w32")
    throw ParameterError("there is no edition \"" + s.edition + "\"; there are w64 and w32");
  rlwe::RingParameters r{.n = s.n,
                         .word = s.edition == "w32" ? math::Word::w32 : math::Word::w64,
                         .chain = s.chain,
                         .special = s.special,
                         .digits = s.digits};
  if constexpr (requires { s.auxiliary; }) r.auxiliary = s.auxiliary;
  if constexpr (requires { s.levels; }) r.levels = s.levels;
  return r;
}

/// The set marked insecure only where it is.
template <class Spec>
Spec honest(Spec s) {
  s.insecure = s.insecure && !rlwe::is_secure(ring_parameters(s));
  return s;
}

/// C is the scheme's own context.
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
  /// The same set where the secrets are: this one in one process, null in processes that have none.
  C* key_holder() { return sibling_.of(static_cast<C&>(*this)); }
  static std::string title(const Spec& spec) { return C::scheme_of(spec) + " of N = " + std::to_string(spec.n); }
  std::string scheme() const { return C::scheme_of(this->spec()); }

 protected:
  using Context<Spec>::Context;
  /// Throws SecurityError where the set is below 128 bits and not marked insecure.
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
