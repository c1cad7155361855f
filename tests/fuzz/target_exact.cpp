// Fuzz targets for saved ciphertexts and keys of BFV and BGV.
#include "heliograph/bfv.h"
#include "heliograph/bgv.h"
#include "scheme.h"

namespace heliograph::fuzz {

namespace {

using bfv::Ciphertext;
using bfv::EvaluationKeys;
using bfv::Packing;
using bfv::PublicKey;
using bfv::SecretKey;

bfv::Values values(const Shape& shape) {
  bfv::Values v{.shape = shape, .width = 4};
  for (std::size_t i = 0; i < 4 * items_of(shape); ++i) v.data.push_back(static_cast<std::int64_t>(i % 5));
  return v;
}

/// A small secret key of a scheme with its public objects.
template <bool bgv>
struct Party {
  using Scheme = exact::Scheme;
  static constexpr std::size_t kChoices = 32;

  bfv::Parameters parameters{(bgv ? bgv::make_spec : bfv::make_spec)(1024, 54, 1, {12289}, 32, 0, true)};
  SecretKey secret = SecretKey::generate_for_test(parameters, std::string(32, 's'));
  EvaluationKeys keys = secret.evaluation_keys(true, {1}, true);
  Ciphertext own = secret.encrypt(values({2}), Packing::slots);

  std::vector<Bytes> ciphertexts() const {
    const Ciphertext one = bfv::index(own, 0, 0), square = bfv::multiply(one, one, nullptr);
    const Ciphertext coefficients = secret.encrypt(values({1, 1}), Packing::coefficients);
    return {own.to_bytes(),    bfv::add(one, one).to_bytes(), bfv::switch_level(one, 1).to_bytes(),
            square.to_bytes(), coefficients.to_bytes(),       bfv::slice(own, 0, 0, 1, 0).to_bytes()};
  }
  std::vector<Bytes> evaluation_keys() const {
    return {keys.to_bytes(), secret.evaluation_keys(false, {}, false).to_bytes()};
  }

  void use_alone(const Ciphertext& x) const {
    attempt([&] { x.key_id(), x.degree(), x.level(), x.slots(), x.packing(), x.seeded(), x.bytes(), x.noise_budget(); });
    attempt([&] { x.plain_moduli(); });
    use_bytes(x);
    use_shapes(x);
    if (!is_small(x.shape())) return;
    for (std::size_t axis = 0; axis <= x.shape().size(); ++axis) attempt([&] { bfv::sum(x, axis).bytes(); });
    attempt([&] { bfv::add(x, bfv::negate(x)); });
    attempt([&] { bfv::take_moduli(x, {0, 1}); });
    attempt([&] { bfv::sum_pool2d(x, 2); });
  }

  void use_together(const Ciphertext& x, std::size_t choice) const {
    attempt([&] { bfv::subtract(x, own); });
    const std::vector<std::function<void()>> uses = {
        [&] { bfv::multiply_switched(x, own, &keys).bytes(); },
        [&] { bfv::relinearize(x, keys); },
        [&] { bfv::rotate_rows(x, {1}, keys); },
        [&] { bfv::rotate_columns(x, keys); },
        [&] { secret.decrypt(x); },
        [&] { secret.noise_budget(x); },
        [&] {
          attempt([&] { bfv::switch_level(x, 0); });
          attempt([&] { bfv::switch_level(x, 1); });
        },
        [&] {
          attempt([&] { bfv::matmul({1, -2}, 1, 2, x, {3}); });
          attempt([&] { bfv::multiply_integers(x, {{-1}, {}, 1}); });
          attempt([&] { bfv::add_integers(x, {{1, 2}, {2}, 1}); });
        },
        [&] { bfv::multiply(x, bfv::encode(x.parameters(), values({2}), x.packing())); },
        [&] {
          bfv::conv2d(x, {1, 1}, {1, 1, 1, 2}, {});
        },
    };
    use_one(uses, choice);
  }

  void use(const PublicKey& key) const {
    for (const Packing packing : {Packing::slots, Packing::coefficients})
      attempt([&] { secret.decrypt(key.encrypt(values({2}), packing)); });
  }
  void look_at(const EvaluationKeys& read) const {
    read.has_columns(), read.has_relinearization(), read.rotations(), read.bytes();
  }
  void use(const EvaluationKeys& read) const {
    attempt([&] { bfv::multiply(bfv::multiply(own, own, &read), own, &read); });
    attempt([&] { bfv::rotate_rows(own, read.rotations(), read); });
    attempt([&] { bfv::rotate_columns(own, read); });
  }
  void use(const SecretKey& read) const {
    attempt([&] { read.decrypt(own); });
    attempt([&] { read.noise_budget(own); });
    attempt([&] { read.decrypt(read.public_key().encrypt(values({1}), Packing::coefficients)); });
    attempt([&] { read.evaluation_keys(true, {1}, false).to_bytes(); });
  }
};

}  // namespace

std::vector<Target> exact_targets() {
  std::vector<Target> all = SchemeTargets<Party<false>>::all("bfv");
  for (Target& target : SchemeTargets<Party<true>>::all("bgv")) all.push_back(std::move(target));
  return all;
}

}  // namespace heliograph::fuzz
