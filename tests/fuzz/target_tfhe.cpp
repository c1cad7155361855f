// Fuzz targets for saved ciphertexts and keys of TFHE.
#include "heliograph/tfhe.h"
#include "scheme.h"
#include "tfhe_rig.h"

namespace heliograph::fuzz {

namespace {

using tfhe::Ciphertext;
using tfhe::EvaluationKeys;
using tfhe::SecretKey;

/// Returns a set whose bootstrap takes less time than reading a file.
tfhe::Spec smallest() {
  tfhe::Spec s = test::small_tfhe();
  s.name.clear();
  s.n = 4, s.message_bits = s.carry_bits = 1, s.norm = 5;
  return s;
}

/// A small secret key with its public objects.
struct Party {
  using Scheme = tfhe::Scheme;
  static constexpr std::size_t kChoices = 64;

  tfhe::Parameters parameters{smallest()};
  SecretKey secret = SecretKey::generate_for_test(parameters, std::string(32, 's'));
  EvaluationKeys keys = secret.evaluation_keys();
  Ciphertext bits = secret.encrypt({1, 0}, {2}, {});
  Ciphertext bytes = secret.encrypt({200, 7}, {2}, tfhe::type_of("uint8"));

  std::vector<Bytes> ciphertexts() const {
    const Ciphertext one = tfhe::index(bits, 0, 0);
    return {bits.to_bytes(), bytes.to_bytes(), tfhe::compute(keys, {.name = "not"}, {one}).at(0).to_bytes(),
            tfhe::trivial(keys, {1}, {}, {}).to_bytes(), tfhe::slice(bits, 0, 0, 1, 0).to_bytes()};
  }
  std::vector<Bytes> evaluation_keys() const { return {keys.to_bytes()}; }

  void use_alone(const Ciphertext& x) const {
    attempt([&] { x.key_id(), x.type().text(), x.wires(), x.seeded(), x.bytes(), x.parameters().hash(); });
    use_bytes(x);
    use_shapes(x);
  }

  void use_together(const Ciphertext& x, std::size_t choice) const {
    const auto compute = [&](const char* name, const std::vector<Ciphertext>& operands) {
      attempt([&] { tfhe::compute(keys, {.name = name}, operands); });
    };
    const Ciphertext& like = x.type().boolean ? bits : bytes;
    const std::vector<std::function<void()>> uses = {
        [&] {
          compute("add", {x, like});
        },
        [&] {
          compute("xor", {x, like}), compute("not", {x});
        },
        [&] {
          compute("less", {like, x});
        },
        [&] {
          compute("select", {bits, x, like});
        },
        [&] {
          attempt([&] { secret.decrypt(x); });
          attempt([&] { secret.errors(x); });
        },
        [&] { tfhe::sum(keys, x, 0, x.type()); },
        [&] {
          compute("multiply", {x, like});
        },
        [&] { tfhe::matmul(keys, x, x); },
    };
    use_one(uses, choice);
  }

  void look_at(const EvaluationKeys& read) const { read.bytes(); }
  void use(const EvaluationKeys& read) const {
    attempt([&] { tfhe::compute(read, {.name = "and"}, {bits, bits}); });
    attempt([&] {
      const Ciphertext clear = tfhe::trivial(read, {1, 0}, {2}, {});
      tfhe::compute(read, {.name = "xor"}, {clear, tfhe::slice(clear, 0, 1, -1, 2)});
    });
  }
  void use(const SecretKey& read) const {
    attempt([&] { read.decrypt(bits); });
    attempt([&] { read.decrypt(read.encrypt({1}, {}, {})); });
    attempt([&] { read.evaluation_keys().to_bytes(); });
  }
};

}  // namespace

std::vector<Target> tfhe_targets() { return SchemeTargets<Party>::all("tfhe"); }

}  // namespace heliograph::fuzz
