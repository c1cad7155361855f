#include "rlwe/keys.h"

#include <atomic>
#include <cstring>
#include <mutex>

#include "math/reducer.h"

namespace heliograph::rlwe {

namespace {

using device::Distribution;
using ring::Secrecy;

void sample(ring::Engine& e, const RnsTensor& out, const Key256& key, Distribution distribution, Purpose purpose,
            math::u32 object, math::u32 first_item) {
  device::Draw draw{
      .key = key, .distribution = distribution, .purpose = purpose, .object = object, .first_item = first_item};
  const WipeAtEnd end(draw.key);
  e.enqueue(device::Sample{e.prepared(), out.primes(), Secret(draw), out.view()});
}

/// Samples a secret tensor: an error, or a secret key.
RnsTensor sampled(Context& c, const Shape& shape, const PrimeList& primes, const Key256& key, Distribution distribution,
                  Purpose purpose, math::u32 object, math::u32 first_item = 0) {
  RnsTensor out(c.engine(), shape, 1, primes, Domain::coefficient, Secrecy::passing);
  sample(*c.engine(), out, key, distribution, purpose, object, first_item);
  return out;
}

template <class T>
void upload_residues(const SecretVector<signed char>& ternary, const std::vector<u64>& moduli, const RnsTensor& to) {
  SecretVector<T> words(ternary.size() * moduli.size());
  auto out = words.begin();
  for (u64 q : moduli) {
    for (signed char v : ternary) *out++ = static_cast<T>(math::ternary_mod(v, q));
  }
  ring::upload(to, std::as_bytes(std::span(words)));
}

/// Uploads a polynomial of coefficients -1, 0 and 1 to the NTT domain, as a lasting secret.
RnsTensor kept_polynomial(Context& c, const SecretVector<signed char>& ternary, const PrimeList& primes) {
  RnsTensor out(c.engine(), {}, 1, primes, Domain::ntt, Secrecy::lasting);
  const RnsTensor residues(c.engine(), {}, 1, primes, Domain::coefficient, Secrecy::passing);
  const std::vector<u64> moduli = c.moduli(primes);
  c.parameters().word == Word::w32 ? upload_residues<math::u32>(ternary, moduli, residues)
                                   : upload_residues<u64>(ternary, moduli, residues);
  ring::Engine& e = *c.engine();
  e.enqueue(device::ForwardNtt{e.prepared(), primes, residues.view(), out.view()});
  return out;
}

/// Computes body = error - mask * s (+ addend), all in the NTT domain.
void finish_body(ring::Engine& e, const RnsTensor& mask, const RnsTensor& s, const RnsTensor& error, const RnsTensor& body) {
  e.enqueue(device::Mul{e.prepared(), body.primes(), mask.view(), s.view(), body.view()});
  e.enqueue(device::Sub{e.prepared(), body.primes(), error.view(), body.view(), body.view()});
}

void fill_key_masks(const RnsTensor& pairs, const Key256& seed) {
  for (std::size_t j = 0; 2 * j < pairs.components(); ++j) {
    sample(*pairs.engine(), pairs.with_components(2 * j + 1, 1), seed, Distribution::uniform, kKeyMask,
           static_cast<math::u32>(j), 0);
  }
}

/// Returns P modulo the limbs of digit j, 0 elsewhere: the gadget's constant for that digit in RNS.
device::LimbConstants gadget_constants(const Context& c, std::size_t digit) {
  const RingParameters& p = c.parameters();
  std::size_t first = 0;
  for (std::size_t j = 0; j < digit; ++j) first += p.digits[j];
  device::LimbConstants constants{};
  for (std::size_t l = first; l < first + p.digits[digit]; ++l) {
    constants[l] = 1 % p.chain[l];
    for (u64 q : p.special) constants[l] = math::mul_mod(constants[l], q % p.chain[l], p.chain[l]);
  }
  return constants;
}

SwitchKey make_switch_key(const SecretKey& secret, const RnsTensor& target, Entropy& entropy) {
  Context& c = *secret.context();
  ring::Engine& e = *c.engine();
  const KeyLayout layout = KeyLayout::of(c);
  const RnsTensor scaled(c.engine(), {}, 1, layout.primes, Domain::ntt, Secrecy::passing);
  const auto message = [&](std::size_t j) {
    e.enqueue(device::MulConstants{e.prepared(), layout.primes, target.view(), gadget_constants(c, j), scaled.view()});
    return scaled;
  };
  return make_key(secret, layout, message, entropy);
}

}  // namespace

SwitchKey make_key(const SecretKey& secret, const KeyLayout& layout, const std::function<RnsTensor(std::size_t)>& messages,
                   Entropy& entropy, std::size_t errors) {
  Context& c = *secret.context();
  ring::Engine& e = *c.engine();
  const Key256 seed = entropy.next();
  RnsTensor pairs(c.engine(), {}, 2 * layout.digits, layout.primes, Domain::ntt);
  fill_key_masks(pairs, seed);
  const Secret<Key256> error_seed = entropy.next_secret();
  const RnsTensor s = ring::limbs_of(secret.transformed(), layout.primes);
  const auto drawn = [&](std::size_t object) {
    return sampled(c, {}, layout.primes, error_seed, Distribution::gaussian, kKeyError, static_cast<math::u32>(object));
  };
  for (std::size_t j = 0; j < layout.digits; ++j) {
    RnsTensor sum = drawn(j);
    for (std::size_t i = 1; i < errors; ++i) sum = ring::add(sum, drawn(i * layout.digits + j));
    const RnsTensor error = ring::to_domain(sum, Domain::ntt);
    const RnsTensor body = pairs.with_components(2 * j, 1);
    finish_body(e, pairs.with_components(2 * j + 1, 1), s, error, body);
    e.enqueue(device::Add{e.prepared(), layout.primes, body.view(), messages(j).view(), body.view()});
  }
  return SwitchKey(seed, std::move(pairs));
}

SecretKey SecretKey::generate(std::shared_ptr<Context> context, Entropy& entropy) {
  const PrimeList one = PrimeList::range(0, 1);
  const RnsTensor s = sampled(*context, {}, one, entropy.next_secret(), Distribution::ternary, kSecret, 0);
  const SecretVector<std::byte> bytes = ring::download_secret(s);
  const u64 q = context->parameters().chain[0];
  SecretVector<signed char> coefficients(context->parameters().n);
  for (std::size_t i = 0; i < coefficients.size(); ++i) {
    u64 word = 0;
    std::memcpy(&word, bytes.data() + i * s.view().word_size(), s.view().word_size());
    coefficients[i] = static_cast<signed char>(math::centered(word, q));
  }
  return SecretKey(std::move(context), std::move(coefficients), ring::new_id(entropy));
}

SecretKey SecretKey::generate_sparse(std::shared_ptr<Context> context, std::size_t weight, Entropy& entropy) {
  const std::size_t n = context->parameters().n;
  require<ParameterError>(weight <= n, "the weight of a sparse key must be at most N");
  SecretVector<signed char> coefficients(n);
  // Draws positions until `weight` different ones are taken. Each draw examines all coefficients, so that no address reveals
  // a position. The number of repeated draws reveals no position either.
  for (std::size_t taken = 0; taken < weight;) {
    const Secret<Key256> draw = entropy.next_secret();
    u64 number = 0;
    std::memcpy(&number, static_cast<const Key256&>(draw).data(), sizeof number);
    const WipeAtEnd end(number);
    const u64 place = number & (n - 1), sign = number >> 63;
    u64 fresh = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const u64 here = math::mask_of(i == place) & math::mask_of(coefficients[i] == 0);
      fresh |= here;
      coefficients[i] = static_cast<signed char>(coefficients[i] | static_cast<signed char>(here & (1 - 2 * sign)));
    }
    taken += declassified(fresh) & 1;
  }
  return SecretKey(std::move(context), std::move(coefficients), KeyId{});
}

SecretKey::SecretKey(std::shared_ptr<Context> context, SecretVector<signed char> coefficients, KeyId id)
    : context_(std::move(context)), id_(id), coefficients_(std::move(coefficients)) {
  require<DamagedFileError>(coefficients_.size() == context_->parameters().n, "a secret key must have N coefficients");
  unsigned others = 0;  // collected from all coefficients without branches, tested once
  for (signed char v : coefficients_) others |= static_cast<unsigned>(v + 1) & ~3U, others |= static_cast<unsigned>(v == 2);
  require<DamagedFileError>(declassified(others) == 0, "a secret key's coefficients must be -1, 0 or 1");
  transformed_ = kept_polynomial(*context_, coefficients_, context_->key_primes());
}

std::shared_ptr<const void> KeyRoom::take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  for (std::size_t taken = taken_; taken + bytes > bytes_; taken = taken_) {
    const std::uint64_t seen = residents_.evicted_bytes();
    if (taken_ == taken && !residents_.make_room(taken + bytes - bytes_, seen)) {
      throw LimitError("the keys that are in use at the same time need " + readable_bytes(taken + bytes) +
                       " of memory, but they were loaded with memory=" + readable_bytes(bytes_));
    }
  }
  taken_ += bytes;
  return {this, [room = shared_from_this(), bytes](const void*) { room->taken_ -= bytes; }};
}

class SwitchKey::Pairs final : public device::Resident {
 public:
  Pairs(const Key256& seed, RnsTensor pairs)
      : seed_(seed),
        engine_(pairs.engine()),
        primes_(pairs.primes()),
        digits_(pairs.components() / 2),
        pairs_(std::move(pairs)),
        resident_(true) {}
  Pairs(const Context& context, const KeyLayout& layout, const Key256& seed, std::optional<io::Held> bodies,
        std::function<io::Held()> stored, std::shared_ptr<KeyRoom> room)
      : seed_(seed),
        engine_(context.engine()),
        primes_(layout.primes),
        digits_(layout.digits),
        stored_(std::move(stored)),
        room_(std::move(room)),
        bodies_(std::move(bodies)) {
    require<InternalError>(!bodies_ || 2 * bodies_->bytes.size() == bytes(),
                           "the bodies of a switch key must be half as long as its pairs");
  }

  const Key256& seed() const { return seed_; }
  const std::shared_ptr<ring::Engine>& engine() const { return engine_; }
  KeyLayout layout() const { return {primes_, digits_}; }
  std::size_t bytes() const {
    const math::Ring& ring = engine_->ring();
    return 2 * digits_ * primes_.size() * ring.n() * math::word_bytes(ring.word());
  }

  RnsTensor get() {
    engine_->device().residents().touch(*this);
    const std::lock_guard lock(mutex_);
    if (!resident_) restore();
    return pairs_;
  }

  bool lies_in(const device::Memory& memory) {
    const std::lock_guard lock(mutex_);
    return resident_ && pairs_.view().memory.get() == &memory;
  }

  io::Held bodies() {
    if (stored_) return stored_();
    RnsTensor pairs;
    {
      const std::lock_guard lock(mutex_);
      if (bodies_) return *bodies_;
      pairs = pairs_;
    }
    return download(pairs);
  }

  std::size_t evictable_bytes() override {
    const std::unique_lock lock = try_idle();
    return lock ? bytes() : 0;
  }

  std::size_t evict() override {
    const std::unique_lock lock = try_idle();
    if (!lock) return 0;
    const device::Unobserved alone;
    try {
      if (!bodies_ && !stored_) bodies_ = download(pairs_);
    } catch (const OutOfMemoryError&) {  // without host memory the key stays on the device
      return 0;
    }
    resident_ = false, evicted_ = true;
    pairs_ = RnsTensor();
    place_ = nullptr;
    return bytes();
  }

 private:
  /// Returns the lock if the pairs are on the device and not in use. try_idle() must not block: a thread that restores the
  /// pairs holds the mutex, and the thread's own allocation may call this function.
  std::unique_lock<std::mutex> try_idle() {
    if (!resident_) return {};
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock && (!resident_ || pairs_.shared())) lock.unlock();
    return lock;
  }

  void restore() {
    const device::Unobserved alone;  // a recording must not contain the restoration of a key
    const bool counts = room_ && engine_->device().in_host_memory();
    std::shared_ptr<const void> place = counts ? room_->take(bytes()) : nullptr;
    const std::shared_ptr<const void> reading = room_ ? room_->take(bytes() / 2) : nullptr;
    RnsTensor pairs(engine_, {}, 2 * digits_, primes_, Domain::ntt);
    const io::Held bodies = bodies_ ? *bodies_ : stored_();
    const std::size_t each = bodies.bytes.size() / digits_;
    for (std::size_t j = 0; j < digits_; ++j)
      ring::upload(pairs.with_components(2 * j, 1), bodies.bytes.subspan(j * each, each));
    fill_key_masks(pairs, seed_);
    pairs_ = std::move(pairs);
    place_ = std::move(place);
    resident_ = true;
    // A key that was evicted once may be evicted again; its bodies stay on the host, so that this needs no download. The
    // bodies of other keys are released.
    if (!evicted_) bodies_.reset();
  }

  /// Downloads the bodies without allocating on the device, whose memory may be exhausted.
  io::Held download(const RnsTensor& pairs) const {
    try {
      std::vector<std::byte> bodies(bytes() / 2);
      const std::size_t each = bodies.size() / digits_;
      for (std::size_t j = 0; j < digits_; ++j) {
        engine_->download(pairs.with_components(2 * j, 1).view(), std::span(bodies).subspan(j * each, each));
      }
      return io::Held::of(std::move(bodies));
    } catch (const std::bad_alloc&) {
      throw OutOfMemoryError("cannot allocate " + readable_bytes(bytes() / 2) + " on the host for an evicted key");
    }
  }

  const Key256 seed_;
  const std::shared_ptr<ring::Engine> engine_;
  const PrimeList primes_;
  const std::size_t digits_;
  const std::function<io::Held()> stored_;  // keys in a file: reads the bodies at each use
  const std::shared_ptr<KeyRoom> room_;
  std::mutex mutex_;  // guards the members below
  std::optional<io::Held> bodies_;
  RnsTensor pairs_;
  std::shared_ptr<const void> place_;  // reservation for the pairs in room_
  std::atomic<bool> resident_{false};  // whether pairs_ is on the device; writers hold the mutex
  bool evicted_ = false;
};

SwitchKey::SwitchKey(const Key256& seed, RnsTensor pairs) : pairs_(std::make_shared<Pairs>(seed, std::move(pairs))) {
  pairs_->engine()->device().residents().add(pairs_);
}

SwitchKey::SwitchKey(const Context& context, const KeyLayout& layout, const Key256& seed, io::Held bodies)
    : pairs_(std::make_shared<Pairs>(context, layout, seed, bodies.owned(), nullptr, nullptr)) {
  pairs_->engine()->device().residents().add(pairs_);
}

SwitchKey::SwitchKey(const Context& context, const KeyLayout& layout, const Key256& seed, std::function<io::Held()> bodies,
                     std::shared_ptr<KeyRoom> room)
    : pairs_(std::make_shared<Pairs>(context, layout, seed, std::nullopt, std::move(bodies), room)) {
  room->residents().add(pairs_);
  pairs_->engine()->device().residents().add(pairs_);  // the device's clock orders keys by last use
}

const Key256& SwitchKey::seed() const { return pairs_->seed(); }
RnsTensor SwitchKey::pairs() const { return pairs_->get(); }
bool SwitchKey::lies_in(const device::Memory& memory) const { return pairs_->lies_in(memory); }
KeyLayout SwitchKey::layout() const { return pairs_->layout(); }
std::size_t SwitchKey::bytes() const { return pairs_->bytes(); }
io::Held SwitchKey::bodies() const { return pairs_->bodies(); }

SwitchKey make_relinearization_key(const SecretKey& secret, Entropy& entropy) {
  ring::Engine& e = *secret.context()->engine();
  const RnsTensor& s = secret.transformed();
  const RnsTensor square(secret.context()->engine(), {}, 1, s.primes(), Domain::ntt, Secrecy::passing);
  e.enqueue(device::Mul{e.prepared(), s.primes(), s.view(), s.view(), square.view()});
  return make_switch_key(secret, square, entropy);
}

SwitchKey make_rotation_key(const SecretKey& secret, u64 galois, Entropy& entropy) {
  return make_switch_key(secret, ring::automorphism(secret.transformed(), galois), entropy);
}

SwitchKey make_rotation_key(const SecretKey& secret, u64 galois, const Gadget& gadget, Entropy& entropy) {
  Context& c = *secret.context();
  ring::Engine& e = *c.engine();
  const KeyLayout layout = KeyLayout::of(gadget);
  const RnsTensor target = ring::automorphism(ring::limbs_of(secret.transformed(), layout.primes), galois);
  const RnsTensor message(c.engine(), {}, 1, layout.primes, Domain::ntt, Secrecy::passing);
  const auto scaled = [&](std::size_t digit) {  // the special primes' product modulo the primes of the digit, else 0
    const std::size_t begin = digit > 0 ? gadget.ends[digit - 1] : 0;
    device::LimbConstants constants{};
    for (std::size_t l = 0; l < gadget.chain.size(); ++l) {
      if (gadget.chain[l] < begin || gadget.chain[l] >= gadget.ends[digit]) continue;
      const u64 q = e.ring().prime(gadget.chain[l]);
      constants[l] = 1 % q;
      for (const u64 p : c.moduli(gadget.special)) constants[l] = math::mul_mod(constants[l], p % q, q);
    }
    e.enqueue(device::MulConstants{e.prepared(), layout.primes, target.view(), constants, message.view()});
    return message;
  };
  return make_key(secret, layout, scaled, entropy);
}

bool PublicKey::divides() const { return pair.primes().size() > context->parameters().chain.size(); }

PublicKey make_public_key(const SecretKey& secret, const PrimeList& primes, Entropy& entropy) {
  Context& c = *secret.context();
  PublicKey key{.context = secret.context(),
                .id = secret.id(),
                .seed = entropy.next(),
                .pair = RnsTensor(c.engine(), {}, 2, primes, Domain::ntt)};
  sample(*c.engine(), key.pair.with_components(1, 1), key.seed, Distribution::uniform, kKeyMask, 0xffffffffU, 0);
  const RnsTensor error = sampled(c, {}, primes, entropy.next_secret(), Distribution::gaussian, kKeyError, 0xffffffffU);
  finish_body(*c.engine(), key.pair.with_components(1, 1), ring::limbs_of(secret.transformed(), primes),
              ring::to_domain(error, Domain::ntt), key.pair.with_components(0, 1));
  return key;
}

PublicKey expand_public_key(std::shared_ptr<Context> context, KeyId id, const Key256& seed, const RnsTensor& body) {
  PublicKey key{
      .context = context, .id = id, .seed = seed, .pair = RnsTensor(context->engine(), {}, 2, body.primes(), Domain::ntt)};
  sample(*context->engine(), key.pair.with_components(1, 1), seed, Distribution::uniform, kKeyMask, 0xffffffffU, 0);
  ring::Engine& e = *context->engine();
  e.enqueue(device::Copy{body.view(), key.pair.with_components(0, 1).view()});
  return key;
}

namespace {

void multiply_in_place(const RnsTensor& x, u64 times) {
  if (times == 1) return;
  ring::Engine& e = *x.engine();
  device::LimbConstants constants{};
  for (std::size_t l = 0; l < x.primes().size(); ++l) constants[l] = times % e.ring().prime(x.primes()[l]);
  e.enqueue(device::MulConstants{e.prepared(), x.primes(), x.view(), constants, x.view()});
}

}  // namespace

void fill_masks(const RnsTensor& target, const Key256& seed, math::u32 first_item) {
  sample(*target.engine(), target, seed, Distribution::uniform, kMask, 0, first_item);
}

void encrypt_zero(const SecretKey& secret, const Key256& seed, const Key256& error_seed, math::u32 first_item,
                  const RnsTensor& out, u64 times) {
  Context& c = *secret.context();
  ring::Engine& e = *c.engine();
  const PrimeList& chain = out.primes();
  const RnsTensor body = out.with_components(0, 1), mask = out.with_components(1, 1);
  const RnsTensor s = ring::limbs_of(secret.transformed(), chain).broadcast_to(out.shape());
  fill_masks(mask, seed, first_item);
  e.enqueue(device::ForwardNtt{e.prepared(), chain, mask.view(), body.view()});
  e.enqueue(device::Mul{e.prepared(), chain, body.view(), s.view(), body.view()});
  e.enqueue(device::InverseNtt{e.prepared(), chain, body.view(), body.view()});
  const RnsTensor error = sampled(c, out.shape(), chain, error_seed, Distribution::gaussian, kError, 0, first_item);
  multiply_in_place(error, times);
  e.enqueue(device::Sub{e.prepared(), chain, error.view(), body.view(), body.view()});
}

namespace {

/// Encrypts modulo Q P, then divides by P with rounding.
void encrypt_zero_divided(const PublicKey& key, const Key256& secret_seed, math::u32 first_item, const RnsTensor& out) {
  Context& c = *key.context;
  ring::Engine& e = *c.engine();
  std::size_t level = c.top_level();
  while (level > 0 && !(c.chain(level) == out.primes())) --level;
  require<InternalError>(level > 0, "an encryption must have the primes of a level");
  const auto plan = device::division_of(c.ntt_switch_plan(level, level));
  const PrimeList& extended = plan->primes;
  const RnsTensor u = ring::to_domain(
      sampled(c, out.shape(), extended, secret_seed, Distribution::ternary, kEphemeral, 0, first_item), Domain::ntt);
  const RnsTensor pair = ring::limbs_of(key.pair, extended).broadcast_to(out.shape());
  const RnsTensor whole(c.engine(), out.shape(), 2, extended, Domain::ntt, Secrecy::passing);
  e.enqueue(device::Mul{e.prepared(), extended, pair.view(), u.view(), whole.view()});
  const RnsTensor errors(c.engine(), out.shape(), 2, extended, Domain::coefficient, Secrecy::passing);
  sample(e, errors, secret_seed, Distribution::gaussian, kError, 0, first_item);  // the components have separate streams
  const RnsTensor transformed(c.engine(), out.shape(), 2, extended, Domain::ntt, Secrecy::passing);
  e.enqueue(device::ForwardNtt{e.prepared(), extended, errors.view(), transformed.view()});
  e.enqueue(device::Add{e.prepared(), extended, whole.view(), transformed.view(), whole.view()});
  const RnsTensor quotient(c.engine(), out.shape(), 2, out.primes(), Domain::ntt, Secrecy::passing);
  e.enqueue(device::Divide{plan, whole.view(), quotient.view(), {}});
  e.enqueue(device::InverseNtt{e.prepared(), out.primes(), quotient.view(), out.view()});
}

}  // namespace

void encrypt_zero(const PublicKey& key, const Key256& secret_seed, math::u32 first_item, const RnsTensor& out, u64 times) {
  if (key.divides()) {
    require<InternalError>(times == 1, "a public key that divides must have times = 1");
    return encrypt_zero_divided(key, secret_seed, first_item, out);
  }
  Context& c = *key.context;
  ring::Engine& e = *c.engine();
  const PrimeList& chain = out.primes();
  const RnsTensor u = ring::to_domain(
      sampled(c, out.shape(), chain, secret_seed, Distribution::ternary, kEphemeral, 0, first_item), Domain::ntt);
  const RnsTensor pair = ring::limbs_of(key.pair, chain).broadcast_to(out.shape());
  e.enqueue(device::Mul{e.prepared(), chain, pair.view(), u.view(), out.view()});
  e.enqueue(device::InverseNtt{e.prepared(), chain, out.view(), out.view()});
  const RnsTensor errors(c.engine(), out.shape(), 2, chain, Domain::coefficient, Secrecy::passing);
  sample(e, errors, secret_seed, Distribution::gaussian, kError, 0, first_item);  // the components have separate streams
  e.enqueue(device::Add{e.prepared(), chain, out.view(), errors.view(), out.view()});
  multiply_in_place(out, times);
}

RnsTensor phase(const SecretKey& secret, const RnsTensor& ciphertext) {
  const RnsTensor s = ring::limbs_of(secret.transformed(), ciphertext.primes());
  const std::size_t degree = ciphertext.components() - 1;
  // Horner's rule in the secret: (c_d s + c_(d-1)) s + ...
  RnsTensor sum = ring::to_domain(ciphertext.with_components(degree, 1), Domain::ntt);
  for (std::size_t i = degree; i-- > 0;) {
    sum = ring::multiply_polynomial(sum, s);
    const bool last = i == 0 && ciphertext.domain() == Domain::coefficient;
    if (last) sum = ring::to_domain(sum, Domain::coefficient);
    const RnsTensor next =
        last ? ciphertext.with_components(i, 1) : ring::to_domain(ciphertext.with_components(i, 1), Domain::ntt);
    sum = ring::add(sum, next);
  }
  return ring::to_domain(sum, Domain::coefficient);
}

}  // namespace heliograph::rlwe
