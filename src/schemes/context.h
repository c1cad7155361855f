// Contexts of parameter sets, for any scheme: their numbers, device, sharing and comparison.
#pragma once

#include "base/shared.h"
#include "device/session.h"
#include "heliograph/objects.h"
#include "mesh/mesh.h"
#include "ring/key_holder.h"

namespace heliograph::schemes {

/// Base of a scheme's Context. The derived class also has `session()`, `secure()`, `security_bits()`, `scheme()` (the
/// prefix of its file types), and static `canonical(spec)`, `reads(scheme)` and `spec_from(json)`. `canonical` returns
/// the set with its known name, and `insecure` true only if the set has less than 128 bits.
template <class Spec>
class Context {
 public:
  const Spec& spec() const { return spec_; }
  const std::string& hash() const { return hash_; }

 protected:
  /// `own_device`: null for the process's device.
  Context(Spec spec, std::shared_ptr<device::Device> own_device)
      : spec_(std::move(spec)), hash_(hash_of(spec_)), own_device_(std::move(own_device)) {}
  device::Device& device() const { return own_device_ ? *own_device_ : mesh::default_device(); }

 private:
  Spec spec_;
  std::string hash_;
  std::shared_ptr<device::Device> own_device_;
};

/// The open contexts of a scheme, by parameter hash.
template <class C>
Shared<C>& open_contexts() {
  static Shared<C> open;
  return open;
}

/// Returns the process-wide context of the set's numbers; the set's name has no effect. The context lives while an object
/// uses it. Objects of equal sets thus share plans and tables, and are compatible (docs/adr/0019).
template <class C, class Spec>
std::shared_ptr<C> open_context(const Spec& given) {
  Shared<C>& open = open_contexts<C>();
  const Spec spec = C::canonical(given);
  const std::string hash = hash_of(spec);
  ring::confirm_parameters(C::title(spec), hash);
  return open.open(hash, [&] { return std::make_shared<C>(spec, nullptr); });
}

/// Opens the context of a set from a file. Throws DamagedFileError, prefixed by `what`, for invalid numbers. Errors of
/// the device (such as an invalid HELIOGRAPH_DEVICE) pass unchanged, because the file did not cause them.
template <class C, class Spec>
std::shared_ptr<C> open_saved_context(const Spec& spec, const char* what) {
  mesh::default_device();
  try {
    return open_context<C>(spec);
  } catch (const ParameterError& e) {
    throw DamagedFileError(std::string(what) + " are invalid: " + e.what());
  }
}

template <class Spec>
std::string difference(const Spec& a, const Spec& b) {
  const auto between = [](const char* what, const std::string& one, const std::string& other) {
    return std::string(what) + ": " + one + " and " + other;
  };
  if constexpr (requires { a.scheme; }) {
    if (a.scheme != b.scheme) return between("schemes", a.scheme, b.scheme);
  }
  if constexpr (requires { a.word_size; }) {
    if (a.word_size != b.word_size) return between("word sizes", std::to_string(a.word_size), std::to_string(b.word_size));
  }
  if constexpr (requires { difference_text(a, b); })
    return difference_text(a, b);
  else
    return between("parameters", short_text(a), short_text(b));
}

/// Throws WrongKeyError or MismatchError unless a ciphertext has this context and key. Trivial ciphertexts have no key.
template <class Data, class C>
void require_same(const Data& a, const std::shared_ptr<C>& context, const ring::KeyId& key, const char* what) {
  if (a.context != context) {
    throw MismatchError(std::string("the ciphertext and ") + what + " have different " +
                        difference(a.context->spec(), context->spec()));
  }
  const std::optional<ring::KeyId> own = a.key;
  if (own && *own != key) {
    throw WrongKeyError("the ciphertext belongs to key " + ring::key_text(*own).substr(0, 8) + ", " + what + " of key " +
                        ring::key_text(key).substr(0, 8));
  }
}

}  // namespace heliograph::schemes
