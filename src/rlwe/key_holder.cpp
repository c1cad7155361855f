#include "rlwe/key_holder.h"

namespace heliograph::rlwe {

void key_holder_writes(const RnsTensor& to, std::size_t components, const std::shared_ptr<Context>& own,
                       const std::function<void(const RnsTensor&)>& write) {
  ring::Engine& e = *to.engine();
  if (ring::is_whole(e.device())) return write(to);
  std::vector<std::byte> words;
  ring::broadcast(e.device(), std::span<std::byte>(), [&] {
    const RnsTensor mine(own->engine(), to.shape(), to.components(), to.primes(), to.domain());
    write(mine);
    words = ring::download(mine.with_components(0, components));
  });
  // Sends one item after another, or all at once if the items are contiguous.
  const RnsTensor target = to.with_components(0, components);
  const std::size_t pieces = target.dense() ? 1 : target.items(), each = target.bytes() / std::max<std::size_t>(1, pieces);
  for (std::size_t i = 0; i < pieces && each > 0; ++i) {
    const std::span<const std::byte> piece =
        words.empty() ? std::span<const std::byte>() : std::span(words).subspan(i * each, each);
    e.scatter(piece, pieces == 1 ? target.view() : target.view().item(i));
  }
}

void key_holder_left_masks(const RnsTensor& to, const Key256& seed) {
  ring::Engine& e = *to.engine();
  if (ring::is_whole(e.device()) || to.items() == 0) return;
  const RnsTensor masks = to.with_components(1, 1);
  fill_masks(masks, seed, 0);
  if (to.domain() == Domain::ntt) e.enqueue(device::ForwardNtt{e.prepared(), masks.primes(), masks.view(), masks.view()});
}

std::vector<std::byte> gather(const RnsTensor& a) {
  const RnsTensor d = a.contiguous();
  ring::Engine& e = *d.engine();
  std::vector<std::byte> words =
      e.host_array<std::byte>(e.device().key_holder() != nullptr ? d.bytes() : 0, "reading a tensor");
  e.gather(d.view(), words);
  return words;
}

Gathered::Gathered(const RnsTensor& from) : from_(from) {
  if (!ring::is_whole(from.engine()->device())) words_ = gather(from);
}

RnsTensor Gathered::on(const std::shared_ptr<Context>& own) const {
  if (ring::is_whole(from_.engine()->device())) return from_;
  const RnsTensor mine(own->engine(), from_.shape(), from_.components(), from_.primes(), from_.domain());
  ring::upload(mine, words_);
  return mine;
}

SecretKey broadcast_secret_key(device::Device& device, const std::function<SecretKey()>& make) {
  std::optional<SecretKey> key;
  const auto id = ring::broadcast<KeyId>(device, [&] {
    key = make();
    return key->id();
  });
  return key ? *key : SecretKey(id);
}

PublicKey broadcast_public_key(device::Device& device, const KeyId& id, const std::function<PublicKey()>& make) {
  PublicKey key{.id = id};
  ring::broadcast(device, std::span<std::byte>(), [&] { key = make(); });
  return key;
}

SwitchKey broadcast_key(const std::shared_ptr<Context>& context, const KeyLayout& layout,
                        const std::function<SwitchKey()>& make) {
  device::Device& device = context->engine()->device();
  if (ring::is_whole(device)) return make();
  Key256 seed{};
  std::vector<std::byte> bodies;
  ring::broadcast(device, bodies, [&] {
    const SwitchKey key = make();
    const io::Held held = key.bodies();
    seed = key.seed(), bodies.assign(held.bytes.begin(), held.bytes.end());
  });
  ring::broadcast(device, std::span(&seed, 1), [] {});
  return SwitchKey(*context, layout, seed, io::Held::of(std::move(bodies)));
}

}  // namespace heliograph::rlwe
