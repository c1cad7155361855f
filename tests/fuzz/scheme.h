// Fuzz targets for the ciphertexts and keys of a scheme. The targets compute on each loaded object on its own, and together
// with the keys of a small party.
#pragma once

#include "heliograph/files.h"
#include "shapes.h"

namespace heliograph::fuzz {

/// Runs the slow operation with this number, if it exists.
inline void use_one(const std::vector<std::function<void()>>& uses, std::size_t choice) {
  if (choice < uses.size()) attempt(uses[choice]);
}

template <class T>
T read_again(std::span<const std::byte> input, const char* otherwise) {
  const T read = T::from_bytes(Bytes(input.begin(), input.end()));
  expect(T::from_bytes(read.to_bytes()).to_bytes() == read.to_bytes(), otherwise);
  return read;
}

/// Returns the fuzz targets of a scheme. `Party` is a small secret key with its public objects, which is made once. `Party`
/// must have a type Scheme; valid inputs: ciphertexts(), evaluation_keys(); and functions that use loaded objects:
/// use_alone(x), use_together(x, choice below kChoices), and use(key) for each kind of key.
template <class Party>
class SchemeTargets {
 public:
  static std::vector<Target> all(const std::string& scheme) {
    std::vector<Target> targets = {{scheme + "-ciphertext", run_ciphertext, ciphertexts, true}};
    if constexpr (requires { typename Scheme::PublicKey; })
      targets.push_back({scheme + "-public-key", run_public_key, public_keys, true});
    targets.push_back({scheme + "-evaluation-keys", run_evaluation_keys, evaluation_keys, true});
    targets.push_back({scheme + "-secret-key", run_secret_key, secret_keys, true});
    return targets;
  }

 private:
  using Scheme = typename Party::Scheme;
  static constexpr std::size_t kKeyChoices = 16;  // number of ways in which a loaded ciphertext is combined with loaded keys

  static const Party& party() {
    static const Party made;
    return made;
  }

  static void run_ciphertext(std::span<const std::byte> input) {
    const Party& p = party();
    typename Scheme::Ciphertext x;
    if (!attempt([&] { x = Scheme::Ciphertext::from_bytes(Bytes(input.begin(), input.end())); })) return;
    p.use_alone(x);
    if (is_small(x.shape())) p.use_together(x, choice(input, Party::kChoices));
  }
  static void run_public_key(std::span<const std::byte> input) {
    attempt([&] {
      const auto key = read_again<typename Scheme::PublicKey>(input, "a public key that was read is written differently");
      if (choice(input, kKeyChoices) == 0) party().use(key);
    });
  }
  static void run_evaluation_keys(std::span<const std::byte> input) {
    attempt([&] {
      const auto keys =
          read_again<typename Scheme::EvaluationKeys>(input, "evaluation keys that were read are written differently");
      party().look_at(keys);
      if (choice(input, kKeyChoices) == 0) party().use(keys);
    });
  }
  static void run_secret_key(std::span<const std::byte> input) {
    const MemoryFile file(input);
    attempt([&] { inspect(file.path()); });
    attempt([&] { kind_of(file.path()); });
    attempt([&] {
      const auto key = Scheme::SecretKey::load(file.path());
      if (choice(input, kKeyChoices) == 0) party().use(key);
    });
  }

  static const std::vector<Bytes>& ciphertexts() {
    static const std::vector<Bytes> made = party().ciphertexts();
    return made;
  }
  static const std::vector<Bytes>& public_keys() {
    static const std::vector<Bytes> made = {party().secret.public_key().to_bytes()};
    return made;
  }
  static const std::vector<Bytes>& evaluation_keys() {
    static const std::vector<Bytes> made = party().evaluation_keys();
    return made;
  }
  static const std::vector<Bytes>& secret_keys() {
    static const std::vector<Bytes> made = {saved([](const std::string& path) { party().secret.save(path); })};
    return made;
  }
};

}  // namespace heliograph::fuzz
