// Keys of LWE and GLWE over the torus, and encryption under them. Seeds that travel make masks alone.
#pragma once

#include <functional>
#include "base/secret.h"
#include "device/tfhe.h"
#include "lwe/sampling.h"
#include "ring/entropy.h"

namespace heliograph::lwe {

using ring::Entropy;

/// The shapes and the noise of a pair of keys.
struct Parameters {
  device::BootstrapShape bootstrap;
  device::KeySwitchShape key_switch;
  Noise lwe_noise, glwe_noise;  // of the narrow key and of the wide one

  std::size_t wide() const { return bootstrap.wide(); }
  std::size_t narrow() const { return bootstrap.n; }
};

/// Both keys: bits.
struct SecretKey {
  SecretVector<unsigned char> narrow, wide;

  static SecretKey generate(const Parameters& parameters, const Key256& seed);
  /// The wide key as masks for dot(): all ones where the bit is 1.
  SecretVector<u64> wide_masks() const;
};

/// Bodies of a seeded bootstrapping key, [group][value][r][digit][N], and of a key-switching key, [from][digit].
struct EvaluationKeys {
  Key256 seed{};  // of the masks
  std::vector<u64> bootstrap;
  std::vector<u32> key_switch;
};
/// `seed` is public, `secret_seed` is not and makes the errors. Takes seconds for the larger sets; `progress` may stop it.
EvaluationKeys make_evaluation_keys(const Parameters& parameters, const SecretKey& secret, const Key256& seed,
                                    const Key256& secret_seed, const std::function<void(double)>& progress = {});
/// The whole words of device::BootstrapShape and device::KeySwitchShape, from the masks' seed and the bodies.
std::vector<u64> expand_bootstrap_key(const Parameters& parameters, const Key256& seed, std::span<const u64> bodies);
std::vector<u32> expand_switch_key(const Parameters& parameters, const Key256& seed, std::span<const u32> bodies);

/// Encrypts `messages` (torus words) under the wide key: ciphertexts of lwe_words(k * N) words one after another into `out`,
/// padding 0. Ciphertext i has the masks and errors of item first_item + i.
void encrypt(const Parameters& parameters, std::span<const u64> wide_masks, std::span<const u64> messages,
             const Key256& seed, const Key256& error_seed, u32 first_item, std::span<u64> out);
/// Writes the masks of ciphertexts and the given bodies: what `encrypt` made, from its seed.
void expand(const Parameters& parameters, std::span<const u64> bodies, const Key256& seed, u32 first_item,
            std::span<u64> out);
/// b - <a, s> of ciphertexts of lwe_words(k * N) words each.
SecretVector<u64> phases(const Parameters& parameters, std::span<const u64> wide_masks, std::span<const u64> ciphertexts);

}  // namespace heliograph::lwe
