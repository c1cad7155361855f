// A parameter set of BFV or BGV at work: the RLWE context, the plaintext rings and the scheme's rules.
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

/// One plaintext modulus.
struct PlainModulus {
  u64 t = 0;
  std::shared_ptr<const device::RingConstant> ring;  // null where t has no slots
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
  /// What public keys are given in.
  device::PrimeList public_key_primes() const { return device::PrimeList::range(0, spec().chain.size()); }
  std::size_t parts() const { return plain_.size(); }
  const PlainModulus& plain(std::size_t part) const { return plain_[part]; }
  /// t/2, rounded down: the largest magnitude that is encrypted, and for odd t the largest that is decrypted as itself.
  const Magnitude& most() const { return most_; }
  bool has_slots() const { return !slot_positions_.empty(); }
  std::size_t slots() const { return spec().slots ? spec().slots : spec().n; }
  /// NTT position of each slot: row 0's N/2 slots, then row 1's.
  const std::vector<math::u32>& slot_positions() const { return slot_positions_; }

  /// 3^steps (left) modulo 2N; the column swap is 2N - 1.
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
  std::vector<RnsTensor> parts;  // one for each plaintext modulus, from the set's `first_part`-th on
  std::size_t first_part = 0;
  Packing packing = Packing::slots;
  std::size_t width = 0;      // values used in each ciphertext
  std::vector<u64> factors;   // what each part's message is multiplied by, modulo t: 1 but for BGV's switched ones
  std::vector<double> noise;  // log2 of the model's bound if files are what they say, one for each part; NaN: unknown
  bool vouched = true;        // nothing came from a file, keys included: the bound is this process's own
  std::vector<Key256> seeds;  // masks' seeds of fresh secret-key encryptions, one for each part; else empty
  bool fresh = false;         // an encryption nothing was computed on
  /// Whether the items' noises may be taken as independent (sums then grow with the root of the squared weights), and
  /// whether the items are known to be different ciphertexts, so that a multiplication makes them independent again.
  bool independent = false, distinct = false;
  /// In the slots from `width` on, one for each part; zero where there are none, and for coefficients.
  std::vector<Tail> tails;
  /// Of the integers, in all slots or coefficients: those behind the values too.
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
  /// Whether all plaintext moduli of the set are there.
  bool whole() const;
};

struct PlaintextData {
  std::shared_ptr<Context> context;
  Packing packing = Packing::slots;
  std::size_t width = 0;
  Shape shape;
  std::vector<RnsTensor> lifted;           // centred, NTT domain, all chain primes; made at first use
  std::vector<device::View> coefficients;  // modulo t: [items] of one 64-bit limb, one for each part
  std::vector<double> log_norm;            // log2 of the largest canonical norm over the items
  Magnitude largest, row;                  // magnitude of a value; sum of a ciphertext's magnitudes, over the items
};

// Files (files.cpp).
/// A bound in a header, and the checked reading of it (DamagedFileError).
io::Json to_json(const Growth& bound);
Growth growth_from(const io::Json& json);
io::Container describe(const CiphertextData& x, ring::Words words);
Ciphertext read(io::Container&& from, const Allowed& allowed, schemes::As<Ciphertext>);

/// What one key encrypted in one process, no bound said: D of Growth.
class Encrypted {
 public:
  /// `read`: the key came from a file, and others have it.
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
  std::size_t period() const { return context->spec().n / 2; }  // of the rotations of rows
};

using schemes::require_same;

/// Throws MismatchError unless two ciphertexts hold the same plaintext moduli.
void require_same_moduli(const CiphertextData& a, const CiphertextData& b);
/// Throws MismatchError where some plaintext moduli are missing.
void require_whole(const CiphertextData& a, const char* purpose);

}  // namespace heliograph::exact
