// Context of a BFV or BGV parameter set: the RLWE context, the plaintext rings and the scheme's rules.
#pragma once

#include <algorithm>
#include <mutex>

#include "heliograph/exact.h"
#include "schemes/exact/bound.h"
#include "schemes/exact/spec.h"
#include "schemes/ring_keys.h"
#include "schemes/tail.h"

namespace heliograph::exact {

using math::Domain;
using math::u64;
using ring::RnsTensor;
using rlwe::Key256;

struct PlainModulus {
  u64 t = 0;
  std::shared_ptr<const device::RingConstant> ring;  // ring modulo t; null if t has no slots
};

class Context : public schemes::RingContext<Context, Spec> {
 public:
  Context(Spec spec, std::shared_ptr<device::Device> own_device);

  static Spec canonical(const Spec& given);
  static bool reads(const std::string& scheme) { return family_of(scheme) != nullptr; }
  static Spec spec_from(const io::Json& json) { return spec_from_json(json); }
  static const std::string& scheme_of(const Spec& spec) { return spec.scheme; }

  const Family& family() const { return *family_; }
  Rules& rules() { return *rules_; }
  device::PrimeList public_key_primes() const { return device::PrimeList::range(0, spec().chain.size()); }
  std::size_t parts() const { return plain_.size(); }
  const PlainModulus& plain(std::size_t part) const { return plain_[part]; }
  /// Returns t/2, rounded down: the largest magnitude that can be encrypted and, for odd t, decrypted.
  const Magnitude& most() const { return most_; }
  bool has_slots() const { return !slot_positions_.empty(); }
  std::size_t slots() const { return spec().slots ? spec().slots : spec().n; }
  /// Returns the NTT position of each slot: the N/2 slots of row 0, then of row 1.
  const std::vector<math::u32>& slot_positions() const { return slot_positions_; }

  /// Returns the Galois element of a rotation to the left, 3^steps modulo 2N. The column swap is 2N - 1.
  u64 row_galois(std::int64_t steps) const;
  u64 column_galois() const { return 2 * spec().n - 1; }

 private:
  const Family* family_ = nullptr;
  std::unique_ptr<Rules> rules_;
  std::vector<PlainModulus> plain_;
  std::vector<math::u32> slot_positions_;
  Magnitude most_;
};

using Tail = schemes::Tail<u64>;

struct CiphertextData {
  std::shared_ptr<Context> context;
  rlwe::KeyId key{};
  std::vector<RnsTensor> parts;  // one per plaintext modulus, in the set's order from index `first_part`
  std::size_t first_part = 0;
  Packing packing = Packing::slots;
  std::size_t width = 0;      // number of values per ciphertext
  std::vector<u64> factors;   // factor of each part's message modulo t; 1, except for switched BGV ciphertexts
  std::vector<double> noise;  // log2 of each part's noise bound, if all files are truthful; NaN: unknown
  bool vouched = true;        // the noise bound is trusted: neither operands nor keys came from a file
  std::vector<Key256> seeds;  // mask seeds of fresh secret-key encryptions, one per part; else empty
  bool fresh = false;         // an encryption before any operation
  /// independent: the items' noises are independent, so the noise of a sum grows with the root of the sum of squared
  /// weights. distinct: the items are different ciphertexts, so multiplication makes their noises independent again.
  bool independent = false, distinct = false;
  /// Contents of the slots from `width` on, one tail per part; zero if there are none. Coefficients have zero tails.
  std::vector<Tail> tails;
  /// Bounds on the integers in all slots or coefficients, padding included.
  Bounds bounds = {};

  const RnsTensor& front() const { return parts.front(); }
  std::size_t level() const { return front().primes().size(); }
  std::size_t degree() const { return front().components() - 1; }
  Shape shape() const { return front().shape(); }
  bool seeded() const { return !seeds.empty(); }
  bool shared() const {
    return std::any_of(parts.begin(), parts.end(), [](const RnsTensor& t) { return t.shared(); });
  }
  std::size_t bytes() const;
  /// Returns whether the tensor holds all plaintext moduli of the set.
  bool whole() const;
};

struct PlaintextData {
  std::shared_ptr<Context> context;
  Packing packing = Packing::slots;
  std::size_t width = 0;
  Shape shape;
  std::vector<RnsTensor> lifted;           // centred, NTT domain, all chain primes; computed at first use
  std::vector<device::View> coefficients;  // the coefficients modulo t: [items] of one 64-bit limb, one view per part
  std::vector<double> log_norm;            // log2 of the largest canonical norm over the items
  Magnitude largest, row;                  // largest magnitude of a value; largest sum of the magnitudes in a ciphertext
};

// Files: files.cpp. growth_from throws DamagedFileError if the bound is not one that to_json wrote. Writes a bound to a
/// header; growth_from reads and checks the bound.
io::Json to_json(const Growth& bound);
Growth growth_from(const io::Json& json);
io::Container describe(const CiphertextData& x, ring::Words words);
Ciphertext read(io::Container&& from, const Allowed& allowed, schemes::As<Ciphertext>);

/// Largest magnitude that one key encrypted in one process without a declared bound: D of Growth.
class Encrypted {
 public:
  /// `read`: the key came from a file, so other processes may have it too.
  explicit Encrypted(bool read);
  Growth::Session session() const { return session_; }
  void add(const Magnitude& largest);
  Magnitude largest() const;

 private:
  Growth::Session session_ = 0;
  mutable std::mutex lock_;
  Magnitude largest_;
};

struct SecretKeyData : schemes::RingSecretKey<Context> {
  std::shared_ptr<Encrypted> encrypted = std::make_shared<Encrypted>(read);
};
struct PublicKeyData : schemes::RingPublicKey<Context> {};
struct EvaluationKeysData : schemes::RingEvaluationKeys<Context> {
  static constexpr math::u64 kRotation = 3;                     // automorphism of the row rotation by one slot
  std::size_t period() const { return context->spec().n / 2; }  // period of row rotations
};

using schemes::require_same;

/// Throws MismatchError unless two ciphertexts hold the same plaintext moduli.
void require_same_moduli(const CiphertextData& a, const CiphertextData& b);
/// Throws MismatchError if some plaintext moduli are missing.
void require_whole(const CiphertextData& a, const char* purpose);

}  // namespace heliograph::exact
