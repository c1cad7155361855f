// Decryption of results for publication: noise flooding.
#include <cmath>
#include <cstring>
#include <optional>

#include "lwe/gaussian.h"
#include "schemes/ckks/decrypt.h"

namespace heliograph::ckks {

namespace {

/// Draws rounded Gaussian integers from a private ChaCha20 stream.
class Gaussian {
 public:
  Gaussian(const Key256& key, double sigma) : key_(key), sigma_(sigma) {}
  ~Gaussian() { wipe(words_.data(), sizeof words_); }

  double operator()() {
    has_second_ = !has_second_;
    if (!has_second_) return second_.get();
    const u64 radius = next();
    const lwe::Deviates two = lwe::deviates_from(radius, next());
    second_ = Secret(lwe::nearest_whole(sigma_ * two.second));
    return lwe::nearest_whole(sigma_ * two.first);
  }

 private:
  u64 next() {
    if (used_ == words_.size()) {
      auto block =
          math::chacha20_block(key_, static_cast<math::u32>(blocks_), {static_cast<math::u32>(blocks_ >> 32), 0, 0});
      const WipeAtEnd end(block);
      std::memcpy(words_.data(), block.data(), sizeof block);
      ++blocks_, used_ = 0;
    }
    return words_[used_++];
  }

  Secret<Key256> key_;
  double sigma_;
  bool has_second_ = false;
  Secret<double> second_;
  std::array<u64, 8> words_{};  // position in a block of the stream
  std::size_t used_ = words_.size();
  u64 blocks_ = 0;
};

}  // namespace

Values SecretKey::decrypt_for_publication(const Ciphertext& ciphertext, double noise_bits, double precision,
                                          Checked checked) const {
  const CiphertextData& x = ciphertext.data();
  require_same(x, data_->context, data_->key.id(), "this secret key");
  require<ParameterError>(noise_bits >= 0 && noise_bits <= 128, "the noise for publication must be 0 to 128 bits");
  if (checked == Checked::proof) require_vouched(x);
  const double given = std::log2(x.scale) - precision;  // NaN if the caller gives no precision
  const double known = x.noise.vouched;                 // trusted noise, which never comes from a file
  const double bound = std::isnan(known) || given > known ? given : known;
  if (std::isnan(bound))
    throw NoiseError(
        "cannot hide the noise of this ciphertext, because no bound on it is known; give the precision that the same "
        "computation has on fresh encryptions");
  // The bound on the canonical norm also bounds the Euclidean norm of the coefficients, which is the sensitivity of the
  // Gaussian mechanism.
  const double log_sigma = bound + noise_bits;
  const double after = data_->context->noise().random(2 * log_sigma);
  if (after >= std::log2(x.scale))
    throw NoiseError("cannot publish: noise of 2^" +
                     std::to_string(static_cast<int>(std::ceil(std::min(after - std::log2(x.scale), 1e6)))) +
                     " would be added to each value, and no correct bit would be left; use fewer bits or a larger scale");
  std::optional<Gaussian> gaussian;  // drawn in the key holder
  return decrypted(*data_, x, checked, [&](std::span<double> polynomials) {
    if (!gaussian) gaussian.emplace(data_->entropy->next_secret(), std::exp2(log_sigma));
    for (double& v : polynomials) v += (*gaussian)();
  });
}

}  // namespace heliograph::ckks
