// Transfer of tensors and keys between the key holder (ring/key_holder.h), which handles secrets on its own device, and the
// device of all processes. `own` is the key holder's context of the same parameters; null in other processes. In a single
// process the two devices are the same and nothing is copied.
#pragma once

#include "ring/key_holder.h"
#include "rlwe/keys.h"

namespace heliograph::rlwe {

/// A scheme's context for the key holder's device, with the same parameter set as a context for the device of all processes.
template <class C>
class Sibling {
 public:
  /// Returns that context, made at first use. Returns `whole` itself if its device is the key holder's, and null in other
  /// processes.
  C* of(C& whole) {
    device::Device& device = whole.engine().device();
    device::Device* const key_holder = device.key_holder();
    if (key_holder == nullptr || key_holder == &device) return key_holder ? &whole : nullptr;
    const std::lock_guard lock(mutex_);
    // The device of all processes owns the key holder's device and outlives this context.
    if (!made_)
      made_ = std::make_unique<C>(whole.spec(), std::shared_ptr<device::Device>(std::shared_ptr<void>(), key_holder));
    return made_.get();
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<C> made_;
};

/// The key holder calls `write` with a tensor on its own device, of the shape of `to` (one batch axis, no other owner). Each
/// process then gets its part of the first `components` components. Exceptions of `write` are thrown in all processes.
void key_holder_writes(const RnsTensor& to, std::size_t components, const std::shared_ptr<Context>& own,
                       const std::function<void(const RnsTensor&)>& write);
/// The key holder calls `read` with a copy of `from` on its own device. All processes get `out`, or the exception of `read`.
template <class T>
void key_holder_reads(const RnsTensor& from, const std::shared_ptr<Context>& own, std::span<T> out,
                      const std::function<void(const RnsTensor&)>& read);

/// Fills the masks of a seeded encryption whose bodies the key holder wrote; `to` has one batch axis and two components.
void key_holder_left_masks(const RnsTensor& to, const Key256& seed);

/// Returns the words of a tensor in the key holder, as ring::download does, and an empty vector in other processes.
std::vector<std::byte> gather(const RnsTensor& a);

/// Return the key of `make`, in the key holder's context. Other processes get only the key's id.
SecretKey broadcast_secret_key(device::Device& device, const std::function<SecretKey()>& make);
PublicKey broadcast_public_key(device::Device& device, const KeyId& id, const std::function<PublicKey()>& make);
/// Returns the key that `make` makes in the key holder, for `context` in all processes.
SwitchKey broadcast_key(const std::shared_ptr<Context>& context, const KeyLayout& layout,
                        const std::function<SwitchKey()>& make);

/// The transfer that key_holder_reads uses.
class Gathered {
 public:
  explicit Gathered(const RnsTensor& from);
  /// Returns the tensor in the key holder, in the context `own`.
  RnsTensor on(const std::shared_ptr<Context>& own) const;

 private:
  RnsTensor from_;
  std::vector<std::byte> words_;
};

template <class T>
void key_holder_reads(const RnsTensor& from, const std::shared_ptr<Context>& own, std::span<T> out,
                      const std::function<void(const RnsTensor&)>& read) {
  const Gathered gathered(from);
  ring::broadcast(from.engine()->device(), out, [&] { read(gathered.on(own)); });
}

}  // namespace heliograph::rlwe
