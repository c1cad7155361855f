// Keys of LWE and GLWE over the torus, and encryption. The seeds that are published determine masks only.
#pragma once

#include <functional>
#include "base/secret.h"
#include "device/tfhe.h"
#include "lwe/sampling.h"
#include "ring/entropy.h"

namespace heliograph::lwe {

using ring::Entropy;

struct Parameters {
  device::BootstrapShape bootstrap;
  device::KeySwitchShape key_switch;
  Noise lwe_noise, glwe_noise;  // noise of encryptions under the narrow key, under the wide key

  std::size_t wide() const { return bootstrap.wide(); }
  std::size_t narrow() const { return bootstrap.n; }
};

struct SecretKey {
  SecretVector<unsigned char> narrow, wide;

  static SecretKey generate(const Parameters& parameters, const Key256& seed);
  /// Returns the wide key in the form that dot() takes: all ones for a bit of 1, else 0.
  SecretVector<u64> wide_masks() const;
};

/// Bodies of a seeded bootstrapping key, [group][value][r][digit][N], and of a key-switching key, [from][digit].
struct EvaluationKeys {
  Key256 seed{};  // public seed of the masks
  std::vector<u64> bootstrap;
  std::vector<u32> key_switch;
};
/// Makes the keys. `seed` is public and generates the masks; `secret_seed` generates the errors. Takes seconds for the
/// larger sets; `progress` may throw to stop.
EvaluationKeys make_evaluation_keys(const Parameters& parameters, const SecretKey& secret, const Key256& seed,
                                    const Key256& secret_seed);
/// Return all words of the keys, in the order of device::BootstrapShape and device::KeySwitchShape, from the bodies and the
/// seed of the masks.
std::vector<u64> expand_bootstrap_key(const Parameters& parameters, const Key256& seed, std::span<const u64> bodies);
std::vector<u32> expand_switch_key(const Parameters& parameters, const Key256& seed, std::span<const u32> bodies);

/// Encrypts `messages` (torus words) under the wide key. Ciphertext i has lwe_words(k * N) words, padded with zeros; the
/// draws of its masks and errors have the item number first_item + i.
void encrypt(const Parameters& parameters, std::span<const u64> wide_masks, std::span<const u64> messages,
             const Key256& seed, const Key256& error_seed, u32 first_item, std::span<u64> out);
/// Rebuilds the ciphertexts of `encrypt` from their bodies and the seed of the masks.
void expand(const Parameters& parameters, std::span<const u64> bodies, const Key256& seed, u32 first_item,
            std::span<u64> out);
/// Returns b - <a, s> for each ciphertext of lwe_words(k * N) words.
SecretVector<u64> phases(const Parameters& parameters, std::span<const u64> wide_masks, std::span<const u64> ciphertexts);

}  // namespace heliograph::lwe
