#include "op_rig.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <tuple>

#include "math/primes.h"

namespace heliograph::test {

const Field kField32{"w32", Word::w32, {30}};
const Field kField32Mixed{"w32-29", Word::w32, {30, 29}};
const Field kField32Small{"w32-small", Word::w32, {24, 20}};
const Field kField50{"w64-50", Word::w64, {50, 49}};
const Field kField60{"w64-60", Word::w64, {60, 57, 55}};

const std::vector<const Field*>& main_fields() {
  static const std::vector<const Field*> fields = {&kField32, &kField50, &kField60};
  return fields;
}

namespace {

using Made = std::map<std::tuple<const Field*, std::size_t, std::size_t>, std::shared_ptr<const math::Ring>>;

/// Returns `count` primes of a field that are 1 modulo `step`.
std::vector<u64> primes_of(const Field& field, std::size_t count, std::size_t step) {
  std::vector<u64> primes;
  for (std::size_t i = 0; i < count; ++i)
    primes.push_back(math::largest_primes(field.bits[i % field.bits.size()], 1, step, primes)[0]);
  return primes;
}

}  // namespace

std::shared_ptr<const math::Ring> ring_of(const Field& field, std::size_t n, std::size_t count) {
  static Made made;
  auto& ring = made[{&field, n, count}];
  if (ring == nullptr) ring = std::make_shared<math::Ring>(n, field.word, primes_of(field, count, 2 * n));
  return ring;
}

std::shared_ptr<const math::Ring> rows_of(const Field& field, std::size_t n, std::size_t count) {
  static Made made;
  auto& ring = made[{&field, n, count}];
  if (ring == nullptr) ring = std::make_shared<math::Ring>(math::Ring::rows(n, field.word, primes_of(field, count, 2)));
  return ring;
}

std::vector<u64> moduli(const math::Ring& ring, const PrimeList& primes) {
  std::vector<u64> result;
  for (math::PrimeIndex p : primes) result.push_back(ring.prime(p));
  return result;
}

View coefficients(View v, std::size_t first, std::size_t count) {
  v.data += first * v.word_size();
  v.n = count;
  return v;
}

namespace {

constexpr std::byte kGarbage{0xa5};

std::vector<std::size_t> scaled(std::vector<std::size_t> batch, std::size_t factor) {
  for (std::size_t& extent : batch) extent *= factor;
  return batch;
}

/// Resizes `bytes`, fills them with garbage and returns a view of `shape` over them.
View lay_out(Word word, std::size_t n, std::size_t limbs, const Shape& shape, std::vector<std::byte>& bytes, View& whole) {
  const bool sliced = shape.layout == Layout::sliced;
  std::vector<std::size_t> batch = scaled(shape.batch, sliced ? 2 : 1);
  if (shape.layout == Layout::transposed) std::reverse(batch.begin(), batch.end());
  if (shape.layout == Layout::broadcast) std::fill(batch.begin(), batch.end(), 1);
  if (shape.layout == Layout::broadcast_last) batch.back() = 1;
  View v = View::dense(nullptr, word, batch, shape.components + (sliced ? 1 : 0), limbs + (sliced ? 2 : 0), n);
  bytes.assign(v.words() * v.word_size(), kGarbage);
  v.data = bytes.data();
  whole = v;
  if (sliced && !bytes.empty()) v = v.with_components(1, shape.components).with_limbs(1, limbs);
  if (shape.layout == Layout::transposed) std::reverse(v.stride.begin(), v.stride.begin() + v.axes);
  if (shape.layout == Layout::reversed) {
    v.data = v.items() > 0 ? v.address(v.items() - 1, 0, 0) : v.data;
    for (int i = 0; i < v.axes; ++i) v.stride[i] = -v.stride[i];
  }
  for (int i = 0; i < v.axes; ++i) {
    v.shape[i] = shape.batch[i];
    if (sliced) v.stride[i] *= 2;
    if (shape.layout == Layout::broadcast || (shape.layout == Layout::broadcast_last && i == v.axes - 1)) v.stride[i] = 0;
  }
  return v;
}

u64 residue(u64 random, u64 q, Fill fill) {
  if (fill == Fill::top) return q - 1;
  if (fill == Fill::edges) return random & 1 ? q - 1 : 0;
  switch (random >> 58) {  // one word in 64 for each special value
    case 0:
      return 0;
    case 1:
      return q - 1;
    case 2:
      return 1;
    case 3:
      return q - 2;
    default:
      return random % q;
  }
}

}  // namespace

u64 Rig::random() {
  u64 z = state_ += 0x9e3779b97f4a7c15ULL;  // splitmix64
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
  return z ^ z >> 31;
}

std::shared_ptr<const device::RingConstant> Rig::prepare(const std::shared_ptr<const math::Ring>& ring) {
  auto& prepared = target_.rings[ring.get()];
  if (prepared == nullptr) prepared = kernels().prepare(ring);
  return prepared;
}

View Rig::place(View host, const View& whole, std::vector<std::byte>& bytes, bool compared) {
  device::Buffer buffer = target_.device->allocate(whole, PrimeList::range(0, whole.limbs), *queue_);
  target_.device->upload(*queue_, bytes, buffer->address());
  host.data = buffer->address() + (host.data - bytes.data());
  (compared ? outputs_ : inputs_).push_back(std::move(buffer));
  return host;
}

namespace {

template <class W>
void fill_limb(Rig& rig, W* words, std::size_t n, u64 q, Fill fill) {
  for (std::size_t i = 0; i < n; ++i) words[i] = static_cast<W>(residue(rig.random(), q, fill));
}

}  // namespace

View Rig::filled(Word word, std::size_t n, const std::vector<u64>& moduli, const Shape& shape, Fill fill, bool compared) {
  std::vector<std::byte> bytes;
  View whole;
  const View v = lay_out(word, n, moduli.size(), shape, bytes, whole);
  for (std::size_t item = 0; item < v.items(); ++item) {
    for (std::size_t c = 0; c < v.components; ++c) {
      for (std::size_t l = 0; l < v.limbs; ++l) {
        if (word == Word::w32) {
          fill_limb(*this, v.at<u32>(item, c, l), n, moduli[l], fill);
        } else {
          fill_limb(*this, v.at<u64>(item, c, l), n, moduli[l], fill);
        }
      }
    }
  }
  return place(v, whole, bytes, compared);
}

View Rig::input(Word word, std::size_t n, const std::vector<u64>& moduli, const Shape& shape, Fill fill) {
  return filled(word, n, moduli, shape, fill, false);
}

View Rig::input(const math::Ring& ring, const PrimeList& primes, const Shape& shape, Fill fill) {
  return input(ring.word(), ring.n(), moduli(ring, primes), shape, fill);
}

View Rig::in_out(Word word, std::size_t n, const std::vector<u64>& moduli, const Shape& shape, Fill fill) {
  return filled(word, n, moduli, shape, fill, true);
}

View Rig::in_out(const math::Ring& ring, const PrimeList& primes, const Shape& shape, Fill fill) {
  return in_out(ring.word(), ring.n(), moduli(ring, primes), shape, fill);
}

View Rig::output(Word word, std::size_t n, std::size_t limbs, const Shape& shape) {
  std::vector<std::byte> bytes;
  View whole;
  const View v = lay_out(word, n, limbs, shape, bytes, whole);
  return place(v, whole, bytes, true);
}

View Rig::output(const math::Ring& ring, const PrimeList& primes, const Shape& shape) {
  return output(ring.word(), ring.n(), primes.size(), shape);
}

device::Workspace Rig::workspace(std::size_t bytes) {
  std::vector<std::byte> garbage(bytes, kGarbage);
  device::Buffer buffer = target_.device->allocate(bytes, *queue_);
  target_.device->upload(*queue_, garbage, buffer->address());
  inputs_.push_back(buffer);
  return device::Workspace(buffer->address(), bytes);
}

device::Call Rig::with_scratch(device::Call call) {
  std::visit(
      [&](auto& c) {
        if constexpr (requires { c.scratch; }) c.scratch = workspace(device::scratch_bytes(c, device::items_of(c)));
      },
      call);
  return call;
}

std::vector<std::vector<std::byte>> Rig::results() {
  queue_->wait();
  std::vector<std::vector<std::byte>> all;
  for (const device::Buffer& buffer : outputs_) {
    all.emplace_back(buffer->bytes());
    target_.device->download(*queue_, buffer->address(), all.back());
  }
  return all;
}

}  // namespace heliograph::test
