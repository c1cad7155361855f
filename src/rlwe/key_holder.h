// Tensors and keys between the key holder (ring/key_holder.h), which works with secrets on a device of its own, and the device
// of all processes. `own`: the key holder's context of the same parameters; null in the other processes. In one process the
// two are the same, and nothing is copied.
#pragma once

#include "ring/key_holder.h"
#include "rlwe/keys.h"

namespace heliograph::rlwe {

/// A scheme's context of the same set on the key holder's device.
template <class C>
class Sibling {
 public:
  /// Made at first use; `whole` itself where its device is the key holder's, null in other processes.
  C* of(C& whole) {
    device::Device& device = whole.engine().device();
    device::Device* const key_holder = device.key_holder();
    if (key_holder == nullptr || key_holder == &device) return key_holder ? &whole : nullptr;
    const std::lock_guard lock(mutex_);
    // The device is the whole one's, and outlives what it keeps.
    if (!made_)
      made_ = std::make_unique<C>(whole.spec(), std::shared_ptr<device::Device>(std::shared_ptr<void>(), key_holder));
    return made_.get();
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<C> made_;
};

/// The key holder calls `write` with a tensor of its own like `to` (one batch axis, nobody has seen it); each process gets its
/// part of the first `components` components. Throws in all processes what `write` throws.
void key_holder_writes(const RnsTensor& to, std::size_t components, const std::shared_ptr<Context>& own,
                       const std::function<void(const RnsTensor&)>& write);
/// The key holder calls `read` with its own copy of `from`; all get what it writes into `out`, or what it throws.
template <class T>
void key_holder_reads(const RnsTensor& from, const std::shared_ptr<Context>& own, std::span<T> out,
                      const std::function<void(const RnsTensor&)>& read);

/// The masks of a seeded encryption of which the key holder wrote the bodies: one batch axis, two components.
void key_holder_left_masks(const RnsTensor& to, const Key256& seed);

/// The words of a tensor in the key holder, as ring::download; empty elsewhere.
std::vector<std::byte> gather(const RnsTensor& a);

/// What `make` makes in the key holder, in whose context it is; elsewhere the key's id.
SecretKey broadcast_secret_key(device::Device& device, const std::function<SecretKey()>& make);
PublicKey broadcast_public_key(device::Device& device, const KeyId& id, const std::function<PublicKey()>& make);
/// The key that `make` makes in the key holder, for `context`.
SwitchKey broadcast_key(const std::shared_ptr<Context>& context, const KeyLayout& layout,
                        const std::function<SwitchKey()>& make);

/// What key_holder_reads takes to the key holder.
class Gathered {
 public:
  explicit Gathered(const RnsTensor& from);
  /// In the key holder.
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
