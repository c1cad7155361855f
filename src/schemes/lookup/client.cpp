#include <cstring>

#include "ring/entropy.h"
#include "rlwe/keys.h"
#include "schemes/lookup/parameters.h"

namespace heliograph::lookup {

namespace {

using device::Distribution;
using device::Secrecy;

/// Samples a small secret polynomial per item. The same key and purpose give the same polynomials in both rings.
RnsTensor sampled(const std::shared_ptr<Engine>& e, const device::Shape& shape, const PrimeList& primes, const Key256& key,
                  Distribution distribution, rlwe::Purpose purpose, u32 object = 0) {
  RnsTensor out(e, shape, 1, primes, Domain::coefficient, Secrecy::passing);
  device::Draw draw{
      .key = key, .distribution = distribution, .purpose = static_cast<unsigned char>(purpose), .object = object};
  const WipeAtEnd end(draw.key);
  e->enqueue(device::Sample{e->prepared(), primes, Secret(draw), out.view()});
  return out;
}

}  // namespace

struct ClientData {
  ClientData(const Size& given, const Key256& seed, const std::string& name)
      : size(given),
        device(device_of(name)),
        exact(std::make_shared<Engine>(*device, exact_ring())),
        packing(std::make_shared<Engine>(*device, packing_ring())),
        masks(question_masks(exact, size, seed)),
        keys(key_masks(packing, seed)) {}

  const Size size;
  const std::shared_ptr<device::Device> device;
  const std::shared_ptr<Engine> exact, packing;
  const RnsTensor masks, keys;
};

struct QuestionData {
  std::shared_ptr<const ClientData> client;
  RnsTensor secret;  // the secret S, in the NTT domain of the exact ring
  std::vector<u32> words;
  std::vector<u64> keys;
};

Client::Client(const Size& size, const std::string& seed, const std::string& device) {
  check(size);
  data_ = std::make_shared<const ClientData>(size, seed_of(seed), device);
}

namespace {

/// Returns e - a S modulo 2^32; the requested row's word has the unit of a message added.
std::vector<u32> encrypted_unit(const ClientData& c, const RnsTensor& secret, const Key256& errors, std::size_t row) {
  const std::size_t parts = c.size.rows / kDegree;
  Engine& e = *c.exact;
  const RnsTensor body(c.exact, {}, parts, kExact, Domain::ntt, Secrecy::passing);
  e.enqueue(device::Mul{e.prepared(), kExact, c.masks.view(), secret.view(), body.view()});
  e.enqueue(device::InverseNtt{e.prepared(), kExact, body.view(), body.view()});
  const SecretVector<std::byte> products = ring::download_secret(body);
  const SecretVector<std::byte> noise =
      ring::download_secret(sampled(c.exact, {parts}, kExact, errors, Distribution::gaussian, rlwe::kError));
  const auto* const product = reinterpret_cast<const u32*>(products.data());
  const auto* const error = reinterpret_cast<const u32*>(noise.data());
  const Joined joined;
  std::vector<u32> words(c.size.rows);
  for (std::size_t part = 0; part < parts; ++part) {
    const u32* const first = product + 2 * part * kDegree;
    const u32* const drawn = error + 2 * part * kDegree;
    for (std::size_t i = 0; i < kDegree; ++i) {
      const u32 asked = static_cast<u32>(math::mask_of(part * kDegree + i == row)) & (u32{1} << kMessageShift);
      words[part * kDegree + i] = joined(drawn[i], drawn[kDegree + i]) - joined(first[i], first[kDegree + i]) + asked;
    }
  }
  return words;
}

/// Returns the bodies of the two keys in the NTT domain: e - a S + 2^kDigitShift turn(S).
std::vector<u64> key_bodies(const ClientData& c, const Key256& seed, const Key256& errors) {
  Engine& e = *c.packing;
  const RnsTensor s = ring::to_domain(sampled(c.packing, {}, kQ, seed, Distribution::ternary, rlwe::kSecret), Domain::ntt);
  const RnsTensor bodies(c.packing, {}, 2, kQ, Domain::ntt);
  device::LimbConstants weight{};
  weight[0] = u64{1} << kDigitShift;
  for (std::size_t k = 0; k < 2; ++k) {
    const RnsTensor error = ring::to_domain(
        sampled(c.packing, {}, kQ, errors, Distribution::gaussian, rlwe::kKeyError, static_cast<u32>(k)), Domain::ntt);
    const RnsTensor turned = ring::automorphism(s, k == 0 ? kGenerator : kMinus);
    const RnsTensor message = ring::weighted_sum({{turned, weight}}, {});
    const RnsTensor masked = ring::multiply_polynomial(s, c.keys.with_components(k, 1));
    const RnsTensor sum = ring::add(ring::subtract(error, masked), message);
    e.enqueue(device::Copy{sum.view(), bodies.with_components(k, 1).view()});
  }
  std::vector<u64> words(kKeyWords);
  e.download(bodies.view(), std::as_writable_bytes(std::span(words)));
  return words;
}

}  // namespace

Question Client::ask(std::size_t row) const {
  const ClientData& c = *data_;
  require<ShapeError>(declassified(row < c.size.rows), "the row is outside the table");
  ring::Entropy entropy;
  const Secret<Key256> secret = entropy.next_secret(), errors = entropy.next_secret();
  auto data = std::make_shared<QuestionData>();
  data->client = data_;
  const RnsTensor s = sampled(c.exact, {}, kExact, secret, Distribution::ternary, rlwe::kSecret);
  data->secret = RnsTensor(c.exact, {}, 1, kExact, Domain::ntt, Secrecy::lasting);
  c.exact->enqueue(device::ForwardNtt{c.exact->prepared(), kExact, s.view(), data->secret.view()});
  data->words = encrypted_unit(c, data->secret, errors, row);
  data->keys = key_bodies(c, secret, errors);
  return Question(std::move(data));
}

const std::vector<std::uint32_t>& Question::words() const { return data_->words; }
const std::vector<std::uint64_t>& Question::keys() const { return data_->keys; }

std::vector<std::uint8_t> Question::read(std::span<const std::uint16_t> bodies, std::span<const std::uint8_t> masks) const {
  const ClientData& c = *data_->client;
  const std::size_t columns = c.size.columns, packs = columns / kDegree;
  require<ShapeError>(bodies.size() == columns && masks.size() == columns * kMaskBytes,
                      "an answer must have a body and a mask for each of the table's columns");
  std::vector<u32> residues(2 * columns);
  for (std::size_t p = 0; p < packs; ++p) {
    for (std::size_t i = 0; i < kDegree; ++i) {
      const std::uint8_t* const m = masks.data() + (p * kDegree + i) * kMaskBytes;
      const auto mask = static_cast<std::int32_t>(u32{m[0]} << 8 | u32{m[1]} << 16 | u32{m[2]} << 24) >> 8;
      for (std::size_t l = 0; l < 2; ++l)
        residues[(2 * p + l) * kDegree + i] =
            static_cast<u32>(math::signed_mod(mask, exact_ring()->prime(static_cast<math::PrimeIndex>(l))));
    }
  }
  Engine& e = *c.exact;
  const RnsTensor all(c.exact, {}, packs, kExact, Domain::coefficient);
  ring::upload(all, std::as_bytes(std::span(residues)));
  e.enqueue(device::ForwardNtt{e.prepared(), kExact, all.view(), all.view()});
  const RnsTensor product(c.exact, {}, packs, kExact, Domain::ntt, Secrecy::passing);
  e.enqueue(device::Mul{e.prepared(), kExact, all.view(), data_->secret.view(), product.view()});
  e.enqueue(device::InverseNtt{e.prepared(), kExact, product.view(), product.view()});
  const SecretVector<std::byte> bytes = ring::download_secret(product);
  const auto* const words = reinterpret_cast<const u32*>(bytes.data());
  const Joined joined;
  constexpr u32 kModulus = u32{1} << kMaskBits, kPlace = kModulus >> 8, kNoise = kPlace / 8 * 3;
  std::vector<std::uint8_t> row(columns);
  u32 far = 0;
  for (std::size_t j = 0; j < columns; ++j) {
    const std::size_t at = j / kDegree * 2 * kDegree + j % kDegree;
    const u32 phase = (u32{bodies[j]} << (kMaskBits - kBodyBits)) + joined(words[at], words[at + kDegree]);
    const u32 raised = phase + kPlace / 2, noise = (raised & (kPlace - 1)) + kNoise - kPlace / 2;  // valid: 0 to 2 kNoise
    far |= static_cast<u32>(math::mask_of(noise > 2 * kNoise));
    row[j] = static_cast<std::uint8_t>((raised >> (kMaskBits - 8)) + 128);
  }
  require<WrongKeyError>(declassified(far) == 0, "the answer belongs to another question, or was damaged");
  return row;
}

}  // namespace heliograph::lookup
