// Parameter sets at work, of any scheme: their numbers, their device, and how they are shared and compared.
#pragma once

#include "base/shared.h"
#include "device/session.h"
#include "heliograph/objects.h"
#include "mesh/mesh.h"
#include "ring/key_holder.h"

namespace heliograph::schemes {

/// A scheme's Context is this and what the scheme adds. It also has `session()`, `secure()`, `security_bits()`, `scheme()` (as
/// file types have it), and static `canonical(spec)` (the set under the name we know it by, marked insecure only where it is),
/// `reads(scheme)` and `spec_from(json)`.
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

/// The open contexts of a scheme, by the hashes of their numbers.
template <class C>
Shared<C>& open_contexts() {
  static Shared<C> open;
  return open;
}

/// The one context of these numbers on the process's device, whatever they are called, for as long as somebody holds it: so
/// that objects that were made or read apart share plans and tables, and fit together (docs/adr/0019).
template <class C, class Spec>
std::shared_ptr<C> open_context(const Spec& given) {
  Shared<C>& open = open_contexts<C>();
  const Spec spec = C::canonical(given);
  const std::string hash = hash_of(spec);
  ring::confirm_parameters(C::title(spec), hash);
  return open.open(hash, [&] { return std::make_shared<C>(spec, nullptr); });
}

/// The one that a file says. Throws DamagedFileError, `what` first, for numbers that no set has; for what the process's device
/// is wrong about, as a HELIOGRAPH_DEVICE that names none, what opening it throws: the file has no part in that.
template <class C, class Spec>
std::shared_ptr<C> open_saved_context(const Spec& spec, const char* what) {
  mesh::default_device();
  try {
    return open_context<C>(spec);
  } catch (const ParameterError& e) {
    throw DamagedFileError(std::string(what) + " are impossible: " + e.what());
  }
}

/// What tells two sets apart, in words.
template <class Spec>
std::string difference(const Spec& a, const Spec& b) {
  const auto between = [](const char* what, const std::string& one, const std::string& other) {
    return std::string(what) + ": " + one + " and " + other;
  };
  if constexpr (requires { a.scheme; }) {
    if (a.scheme != b.scheme) return between("schemes", a.scheme, b.scheme);
  }
  if constexpr (requires { a.edition; }) {
    if (a.edition != b.edition) return between("editions", a.edition, b.edition);
  }
  if constexpr (requires { difference_text(a, b); })
    return difference_text(a, b);
  else
    return between("parameters", short_text(a), short_text(b));
}

/// Throws WrongKeyError or MismatchError unless a ciphertext is of this context and key (or of no key, as trivial ones are).
template <class Data, class C>
void require_same(const Data& a, const std::shared_ptr<C>& context, const ring::KeyId& key, const char* what) {
  if (a.context != context) {
    throw MismatchError(std::string("the ciphertext and ") + what + " are of different " +
                        difference(a.context->spec(), context->spec()));
  }
  const std::optional<ring::KeyId> own = a.key;
  if (own && *own != key) {
    throw WrongKeyError("the ciphertext is of key " + ring::key_text(*own).substr(0, 8) + ", " + what + " of key " +
                        ring::key_text(key).substr(0, 8));
  }
}

}  // namespace heliograph::schemes
