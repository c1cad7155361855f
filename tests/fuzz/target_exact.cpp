// Objects of BFV and BGV: what is read is used, by itself and with the keys it should belong to.
#include "heliograph/bfv.h"
#include "heliograph/bgv.h"
#include "heliograph/files.h"
#include "shapes.h"

namespace heliograph::fuzz {

namespace {

using bfv::Ciphertext;
using bfv::EvaluationKeys;
using bfv::Packing;
using bfv::Parameters;
using bfv::PublicKey;
using bfv::SecretKey;

const std::string kSeed(32, 's');
constexpr std::size_t kN = 1024;

bfv::Values values(const Shape& shape) {
  bfv::Values v{.shape = shape, .width = 4};
  for (std::size_t i = 0; i < 4 * items_of(shape); ++i) v.data.push_back(static_cast<std::int64_t>(i % 5));
  return v;
}

/// A small key of each scheme with all that belongs to it.
struct Party {
  explicit Party(const bfv::Spec& spec)
      : parameters(spec),
        secret(SecretKey::generate_for_test(parameters, kSeed)),
        keys(secret.evaluation_keys(true, {1}, true)),
        x(secret.encrypt(values({2}), Packing::slots)) {}
  Parameters parameters;
  SecretKey secret;
  EvaluationKeys keys;
  Ciphertext x;

  std::vector<Bytes> ciphertexts() const {
    const Ciphertext one = bfv::index(x, 0, 0), square = bfv::multiply(one, one, nullptr);
    const Ciphertext coefficients = secret.encrypt(values({1, 1}), Packing::coefficients);
    return {x.to_bytes(),      bfv::add(one, one).to_bytes(), bfv::switch_level(one, 1).to_bytes(),
            square.to_bytes(), coefficients.to_bytes(),       bfv::slice(x, 0, 0, 1, 0).to_bytes()};
  }
};

template <bool bgv>
const Party& party() {
  static const Party made((bgv ? bgv::make_spec : bfv::make_spec)(kN, 54, 1, {12289}, "w32", 0, true));
  return made;
}

void use_alone(const Ciphertext& x) {
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

void use_together(const Ciphertext& x, const Party& p, std::size_t choice) {
  if (!is_small(x.shape())) return;
  attempt([&] { bfv::subtract(x, p.x); });
  switch (choice) {
    case 0:
      attempt([&] { bfv::multiply_switched(x, p.x, &p.keys).bytes(); });
      break;
    case 1:
      attempt([&] { bfv::relinearize(x, p.keys); });
      break;
    case 2:
      attempt([&] { bfv::rotate_rows(x, {1}, p.keys); });
      break;
    case 3:
      attempt([&] { bfv::rotate_columns(x, p.keys); });
      break;
    case 4:
      attempt([&] { p.secret.decrypt(x); });
      break;
    case 5:
      attempt([&] { p.secret.noise_budget(x); });
      break;
    case 6:
      attempt([&] { bfv::switch_level(x, 0); });
      attempt([&] { bfv::switch_level(x, 1); });
      break;
    case 7:
      attempt([&] { bfv::matmul({1, -2}, 1, 2, x, {3}); });
      attempt([&] { bfv::multiply_integers(x, {{-1}, {}, 1}); });
      attempt([&] { bfv::add_integers(x, {{1, 2}, {2}, 1}); });
      break;
    case 8:
      attempt([&] { bfv::multiply(x, bfv::encode(x.parameters(), values({2}), x.packing())); });
      break;
    case 9:
      attempt([&] { bfv::conv2d(x, {1, 1}, {1, 1, 1, 2}, {}); });
      break;
    default:
      break;
  }
}

template <bool bgv>
void run_ciphertext(std::span<const std::byte> input) {
  const Party& p = party<bgv>();
  Ciphertext x;
  if (!attempt([&] { x = Ciphertext::from_bytes(Bytes(input.begin(), input.end())); })) return;
  use_alone(x);
  use_together(x, p, choice(input, 32));
}

template <bool bgv>
void run_public_key(std::span<const std::byte> input) {
  const Party& p = party<bgv>();
  attempt([&] {
    const PublicKey key = PublicKey::from_bytes(Bytes(input.begin(), input.end()));
    expect(PublicKey::from_bytes(key.to_bytes()).to_bytes() == key.to_bytes(), "a public key is written otherwise");
    if (choice(input, 16) != 0) return;
    for (const Packing packing : {Packing::slots, Packing::coefficients})
      attempt([&] { p.secret.decrypt(key.encrypt(values({2}), packing)); });
  });
}

template <bool bgv>
void run_evaluation_keys(std::span<const std::byte> input) {
  const Party& p = party<bgv>();
  attempt([&] {
    const EvaluationKeys keys = EvaluationKeys::from_bytes(Bytes(input.begin(), input.end()));
    keys.has_columns(), keys.has_relinearization(), keys.bytes();
    const std::vector<std::int64_t> rotations = keys.rotations();
    expect(EvaluationKeys::from_bytes(keys.to_bytes()).to_bytes() == keys.to_bytes(),
           "evaluation keys are written otherwise");
    if (choice(input, 16) != 0) return;
    attempt([&] { bfv::multiply(bfv::multiply(p.x, p.x, &keys), p.x, &keys); });
    attempt([&] { bfv::rotate_rows(p.x, rotations, keys); });
    attempt([&] { bfv::rotate_columns(p.x, keys); });
  });
}

template <bool bgv>
void run_secret_key(std::span<const std::byte> input) {
  const Party& p = party<bgv>();
  const MemoryFile file(input);
  attempt([&] { inspect(file.path()); });
  attempt([&] { kind_of(file.path()); });
  attempt([&] {
    const SecretKey key = SecretKey::load(file.path());
    if (choice(input, 16) != 0) return;
    attempt([&] { key.decrypt(p.x); });
    attempt([&] { key.noise_budget(p.x); });
    attempt([&] { key.decrypt(key.public_key().encrypt(values({1}), Packing::coefficients)); });
    attempt([&] { key.evaluation_keys(true, {1}, false).to_bytes(); });
  });
}

template <bool bgv>
struct Bases {
  static const std::vector<Bytes>& ciphertexts() {
    static const std::vector<Bytes> all = party<bgv>().ciphertexts();
    return all;
  }
  static const std::vector<Bytes>& public_keys() {
    static const std::vector<Bytes> all = {party<bgv>().secret.public_key().to_bytes()};
    return all;
  }
  static const std::vector<Bytes>& evaluation_keys() {
    static const std::vector<Bytes> all = {party<bgv>().keys.to_bytes(),
                                           party<bgv>().secret.evaluation_keys(false, {}, false).to_bytes()};
    return all;
  }
  static const std::vector<Bytes>& secret_keys() {
    static const std::vector<Bytes> all = {saved([](const std::string& path) { party<bgv>().secret.save(path); })};
    return all;
  }
};

template <bool bgv>
void append(std::vector<Target>& all, const std::string& scheme) {
  using B = Bases<bgv>;
  all.push_back({scheme + "-ciphertext", run_ciphertext<bgv>, B::ciphertexts, true});
  all.push_back({scheme + "-public-key", run_public_key<bgv>, B::public_keys, true});
  all.push_back({scheme + "-evaluation-keys", run_evaluation_keys<bgv>, B::evaluation_keys, true});
  all.push_back({scheme + "-secret-key", run_secret_key<bgv>, B::secret_keys, true});
}

}  // namespace

std::vector<Target> exact_targets() {
  std::vector<Target> all;
  append<false>(all, "bfv");
  append<true>(all, "bgv");
  return all;
}

}  // namespace heliograph::fuzz
