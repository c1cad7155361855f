#include "schemes/exact/context.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "base/shared.h"
#include "math/primes.h"
#include "mesh/mesh.h"
#include "schemes/exact/spec.h"

namespace heliograph::exact {

namespace {

void check_plain_moduli(const Spec& s) {
  require<ParameterError>(!s.plain_moduli.empty() && s.plain_moduli.size() <= 64,
                          "the number of plaintext moduli must be 1 to 64");
  for (std::size_t i = 0; i < s.plain_moduli.size(); ++i) {
    const u64 t = s.plain_moduli[i];
    require<ParameterError>(t >= 2 && t < (u64{1} << 60), "a plaintext modulus must be at least 2 and below 2^60");
    for (const auto* list : {&s.chain, &s.auxiliary}) {
      for (u64 q : *list)
        require<ParameterError>(std::gcd(q, t) == 1, "a plaintext modulus must be coprime to the ciphertext primes");
    }
    for (std::size_t k = 0; k < i; ++k) {
      require<ParameterError>(std::gcd(s.plain_moduli[k], t) == 1, "plaintext moduli must be coprime");
    }
    require<ParameterError>(!s.exact || t % 2 == 1, "the plaintext moduli of a set of exact integers must be odd");
  }
}

}  // namespace

Context::Context(Spec given, std::shared_ptr<device::Device> own_device)
    : RingContext(std::move(given), std::move(own_device)), family_(family_of(spec().scheme)) {
  if (family_ == nullptr)
    throw ParameterError("unknown scheme \"" + spec().scheme + "\" of exact integers: it must be bfv or bgv");
  require<ParameterError>(spec().n >= 1024, "N must be at least 2^10");
  require<ParameterError>(spec().slots <= spec().n, "slots must be at most N");
  check_plain_moduli(spec());
  open();
  most_ = Magnitude::product_of(spec().plain_moduli).half();
  rules_ = family_->rules(rlwe_shared(), spec().plain_moduli);
  const std::size_t n = spec().n;
  bool slots = true;
  for (u64 t : spec().plain_moduli) slots = slots && t % (2 * n) == 1 && math::is_prime(t);
  for (u64 t : spec().plain_moduli) {
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
  const std::int64_t row = static_cast<std::int64_t>(spec().n / 2);
  return math::pow_mod(3, static_cast<u64>(((steps % row) + row) % row), 2 * spec().n);
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
  throw MismatchError("the tensors hold different plaintext moduli: one " + moduli_text(a) + ", the other " +
                      moduli_text(b));
}

void require_whole(const CiphertextData& a, const char* purpose) {
  if (!a.whole()) throw MismatchError("this tensor holds " + moduli_text(a) + "; join all of them before " + purpose);
}

namespace {

/// Returns the named sets, by the hashes of their numbers.
std::map<std::string, std::string> known_names() {
  std::map<std::string, std::string> names;
  for (const char* ending : {"", "/w32"}) {
    for (const Family* family : kFamilies) {
      for (const std::string& name : named_specs(*family))
        names.emplace(hash_of(named_spec(*family, name + ending, true)), name + ending);
    }
  }
  return names;
}

}  // namespace

Spec Context::canonical(const Spec& given) {
  static const std::map<std::string, std::string> known = known_names();
  Spec s = schemes::honest(given);
  if (const auto found = known.find(hash_of(s)); found != known.end()) s.name = found->second;
  return s;
}

Encrypted::Encrypted(bool read) {
  while (read && session_ == 0) fill_random({reinterpret_cast<unsigned char*>(&session_), sizeof session_});
}

Magnitude Encrypted::largest() const {
  const std::lock_guard guard(lock_);
  return largest_;
}

void Encrypted::add(const Magnitude& largest) {
  const std::lock_guard guard(lock_);
  largest_ = larger(largest_, largest);
}

std::size_t CiphertextData::bytes() const {
  std::size_t total = 0;
  for (const RnsTensor& part : parts) total += part.bytes();
  return total;
}

}  // namespace heliograph::exact
