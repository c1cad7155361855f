#include "schemes/exact/context.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/shared.h"
#include "math/primes.h"
#include "mesh/mesh.h"
#include "schemes/exact/spec.h"
#include "schemes/exact/spec_text.h"

namespace heliograph::exact {

namespace {

rlwe::RingParameters ring_parameters(const Spec& s) {
  if (family_of(s.scheme) == nullptr)
    throw ParameterError("there is no scheme \"" + s.scheme + "\" of exact integers in slots; there are bfv and bgv");
  if (s.edition != "w64" && s.edition != "w32")
    throw ParameterError("there is no edition \"" + s.edition + "\"; there are w64 and w32");
  return {.n = s.n,
          .word = s.edition == "w32" ? math::Word::w32 : math::Word::w64,
          .chain = s.chain,
          .special = s.special,
          .auxiliary = s.auxiliary,
          .digits = s.digits};
}

void check_security(const Spec& s, const rlwe::RingParameters& r) {
  if (rlwe::is_secure(r) || s.insecure) return;
  const int bound = rlwe::largest_secure_log_qp(s.n);
  throw SecurityError("log QP = " + std::to_string(static_cast<int>(std::ceil(r.log_qp()))) +
                      " at N = " + std::to_string(s.n) + " is below 128 bits of security (" +
                      (bound ? "at most " + std::to_string(bound) : std::string("N must be 2^10 to 2^17")) +
                      "); say insecure=True to use it all the same");
}

void check_plain_moduli(const Spec& s) {
  require<ParameterError>(!s.plain_moduli.empty() && s.plain_moduli.size() <= 64, "a set has 1 to 64 plaintext moduli");
  for (std::size_t i = 0; i < s.plain_moduli.size(); ++i) {
    const u64 t = s.plain_moduli[i];
    require<ParameterError>(t >= 2 && t < (u64{1} << 60), "a plaintext modulus lies between 2 and 2^60");
    for (const auto* list : {&s.chain, &s.auxiliary}) {
      for (u64 q : *list)
        require<ParameterError>(std::gcd(q, t) == 1, "a plaintext modulus must be coprime to the ciphertext primes");
    }
    for (std::size_t k = 0; k < i; ++k) {
      require<ParameterError>(std::gcd(s.plain_moduli[k], t) == 1, "plaintext moduli must be coprime");
    }
  }
}

}  // namespace

Context::Context(Spec spec, std::shared_ptr<device::Device> own_device)
    : spec_(std::move(spec)), hash_(hash_of(spec_)), own_device_(std::move(own_device)) {
  const rlwe::RingParameters r = ring_parameters(spec_);
  require<ParameterError>(spec_.n >= 1024, "N must be at least 2^10");
  require<ParameterError>(spec_.slots <= spec_.n, "there are at most N slots");
  check_plain_moduli(spec_);
  check_security(spec_, r);
  rlwe_ = std::make_shared<rlwe::Context>(own_device_ ? *own_device_ : mesh::default_device(), r);
  family_ = family_of(spec_.scheme);
  rules_ = family_->rules(rlwe_, spec_.plain_moduli);
  const std::size_t n = spec_.n;
  bool slots = true;
  for (u64 t : spec_.plain_moduli) slots = slots && t % (2 * n) == 1 && math::is_prime(t);
  for (u64 t : spec_.plain_moduli) {
    PlainModulus p{.t = t};
    if (slots) p.ring = engine().kernels().prepare(std::make_shared<math::Ring>(n, math::Word::w64, std::vector<u64>{t}));
    plain_.push_back(p);
  }
  if (!slots) return;
  slot_positions_.resize(n);
  const int bits = std::countr_zero(n);
  for (u64 c = 0, power = 1; c < n / 2; ++c, power = power * 3 % (2 * n)) {
    slot_positions_[c] = static_cast<math::u32>(math::reverse_bits((power - 1) / 2, bits));
    slot_positions_[n / 2 + c] = static_cast<math::u32>(math::reverse_bits((2 * n - power - 1) / 2, bits));
  }
}

u64 Context::row_galois(std::int64_t steps) const {
  const std::int64_t row = static_cast<std::int64_t>(spec_.n / 2);
  return math::pow_mod(3, static_cast<u64>(((steps % row) + row) % row), 2 * spec_.n);
}

void require_same(const CiphertextData& a, const std::shared_ptr<Context>& context, const rlwe::KeyId& key,
                  const char* what) {
  if (a.context != context) {
    if (a.context->spec().scheme != context->spec().scheme) {
      throw MismatchError(std::string("the ciphertext and ") + what +
                          " are of different schemes: " + a.context->spec().scheme + " and " + context->spec().scheme);
    }
    if (a.context->spec().edition != context->spec().edition) {
      throw MismatchError(std::string("the ciphertext and ") + what +
                          " are of different editions: " + a.context->spec().edition + " and " + context->spec().edition);
    }
    throw MismatchError(std::string("the ciphertext and ") + what + " are of different parameters: " +
                        short_text(a.context->spec()) + " and " + short_text(context->spec()));
  }
  if (a.key != key) {
    throw WrongKeyError(std::string("the ciphertext is of key ") + rlwe::to_string(a.key).substr(0, 8) + ", " + what +
                        " of key " + rlwe::to_string(key).substr(0, 8));
  }
}

bool CiphertextData::whole() const { return parts.size() == context->parts(); }

namespace {

std::string moduli_text(const CiphertextData& x) {
  const std::string all = " of " + std::to_string(x.context->parts()) + " plaintext moduli";
  if (x.whole()) return "all" + all;
  if (x.parts.size() == 1) return "number " + std::to_string(x.first_part + 1) + all;
  return "numbers " + std::to_string(x.first_part + 1) + " to " + std::to_string(x.first_part + x.parts.size()) + all;
}

}  // namespace

void require_same_moduli(const CiphertextData& a, const CiphertextData& b) {
  if (a.first_part == b.first_part && a.parts.size() == b.parts.size()) return;
  throw MismatchError("one tensor holds " + moduli_text(a) + ", the other " + moduli_text(b));
}

void require_whole(const CiphertextData& a, const char* purpose) {
  if (!a.whole()) throw MismatchError("this tensor holds " + moduli_text(a) + ": join them before " + purpose);
}

namespace {

/// The sets that have names, by their numbers' hashes.
std::map<std::string, std::string> known_names() {
  std::map<std::string, std::string> names;
  for (const char* edition : {"", "/w32"}) {
    for (const Family* family : kFamilies) {
      for (const std::string& name : named_specs(*family))
        names.emplace(hash_of(named_spec(*family, name + edition, true)), name + edition);
    }
  }
  return names;
}

/// The set by its numbers alone: under the name we know them by, marked insecure only where it is.
Spec canonical(const Spec& given) {
  static const std::map<std::string, std::string> known = known_names();
  Spec s = given;
  s.insecure = s.insecure && !rlwe::is_secure(ring_parameters(s));
  if (const auto found = known.find(hash_of(s)); found != known.end()) s.name = found->second;
  return s;
}

}  // namespace

std::shared_ptr<Context> open_context(const Spec& given) {
  static Shared<Context> open;
  const Spec spec = canonical(given);
  ring::confirm_parameters(spec.scheme + " of N = " + std::to_string(spec.n), hash_of(spec));
  return open.open(hash_of(spec), [&] { return std::make_shared<Context>(spec, nullptr); });
}

}  // namespace heliograph::exact
