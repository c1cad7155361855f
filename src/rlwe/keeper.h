// Tensors and keys between the keeper (ring/keeper.h), which works with secrets on a device of its own, and the device of all
// processes. `own`: the keeper's context of the same parameters; null in the other processes. In one process the two are the
// same, and nothing is copied.
#pragma once

#include "ring/keeper.h"
#include "rlwe/keys.h"

namespace heliograph::rlwe {

/// A scheme's context of the same set on the keeper's device.
template <class C>
class Sibling {
 public:
  /// Made at first use; `whole` itself where its device is the keeper's, null in other processes.
  C* of(C& whole) {
    device::Device& device = whole.engine().device();
    device::Device* const keeper = device.keeper();
    if (keeper == nullptr || keeper == &device) return keeper ? &whole : nullptr;
    const std::lock_guard lock(mutex_);
    // The device is the whole one's, and outlives what it keeps.
    if (!made_) made_ = std::make_unique<C>(whole.spec(), std::shared_ptr<device::Device>(std::shared_ptr<void>(), keeper));
    return made_.get();
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<C> made_;
};

/// The keeper calls `write` with a tensor of its own like `to` (one batch axis, nobody has seen it); each process gets its
/// part of the first `components` components. Throws in all processes what `write` throws.
void keeper_writes(const RnsTensor& to, std::size_t components, const std::shared_ptr<Context>& own,
                   const std::function<void(const RnsTensor&)>& write);
/// The keeper calls `read` with its own copy of `from`; all get what it writes into `out`, or what it throws.
template <class T>
void keeper_reads(const RnsTensor& from, const std::shared_ptr<Context>& own, std::span<T> out,
                  const std::function<void(const RnsTensor&)>& read);

/// The masks of a seeded encryption of which the keeper wrote the bodies: one batch axis, two components.
void keeper_left_masks(const RnsTensor& to, const Key256& seed);

/// The words of a tensor in the keeper, as ring::download; empty elsewhere.
std::vector<std::byte> collect(const RnsTensor& a);

/// What `make` makes in the keeper, in whose context it is; elsewhere the key's id.
SecretKey told_secret_key(device::Device& device, const std::function<SecretKey()>& make);
PublicKey told_public_key(device::Device& device, const KeyId& id, const std::function<PublicKey()>& make);
/// The key that `make` makes in the keeper, for `context`.
SwitchKey told_key(const std::shared_ptr<Context>& context, const std::function<SwitchKey()>& make);

/// What keeper_reads takes to the keeper.
class Collected {
 public:
  explicit Collected(const RnsTensor& from);
  /// In the keeper.
  RnsTensor on(const std::shared_ptr<Context>& own) const;

 private:
  RnsTensor from_;
  std::vector<std::byte> words_;
};

template <class T>
void keeper_reads(const RnsTensor& from, const std::shared_ptr<Context>& own, std::span<T> out,
                  const std::function<void(const RnsTensor&)>& read) {
  const Collected collected(from);
  ring::tell(from.engine()->device(), out, [&] { read(collected.on(own)); });
}

}  // namespace heliograph::rlwe
