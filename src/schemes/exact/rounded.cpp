// Compressed products. A word of a ciphertext modulo Q is a fraction of Q, and decryption needs only its leading bits.
#include <cstring>
#include <memory>

#include "base/parallel.h"
#include "schemes/exact/clear_rows.h"
#include "schemes/exact/derive.h"

namespace heliograph::exact {

namespace {

using math::u128;

/// Writes numbers of a fixed bit width, lowest bits first, in words of eight bytes.
class BitWriter {
 public:
  explicit BitWriter(std::byte* to) : to_(to) {}
  void put(u64 value, int bits) {
    held_ |= value << count_;
    if ((count_ += bits) < 64) return;
    std::memcpy(to_, &held_, 8);
    to_ += 8, count_ -= 64;
    held_ = count_ ? value >> (bits - count_) : 0;
  }

 private:
  std::byte* to_;
  u64 held_ = 0;
  int count_ = 0;
};

class BitReader {
 public:
  explicit BitReader(const std::byte* from) : from_(from) {}
  u64 get(int bits) {
    u64 value = held_;
    if (count_ < bits) {
      std::memcpy(&held_, from_, 8);
      from_ += 8;
      value |= held_ << count_;
      held_ = bits - count_ < 64 ? held_ >> (bits - count_) : 0, count_ += 64;
    } else {
      held_ >>= bits;
    }
    count_ -= bits;
    return value & ((u64{1} << bits) - 1);
  }

 private:
  const std::byte* from_;
  u64 held_ = 0;
  int count_ = 0;
};

/// The factor [(Q / q_i)^-1]_(q_i) / q_i of a prime, as a 128-bit fraction of a turn.
struct Turn {
  u64 upper, lower;
};
std::vector<Turn> turns_of(const std::vector<u64>& moduli) {
  std::vector<Turn> turns;
  for (std::size_t i = 0; i < moduli.size(); ++i) {
    u64 cofactor = 1 % moduli[i];
    for (std::size_t k = 0; k < moduli.size(); ++k) {
      if (k != i) cofactor = math::mul_mod(cofactor, moduli[k] % moduli[i], moduli[i]);
    }
    const u128 scaled = u128{math::inverse_mod(cofactor, moduli[i])} << 64;
    turns.push_back({static_cast<u64>(scaled / moduli[i]), static_cast<u64>((scaled % moduli[i] << 64) / moduli[i])});
  }
  return turns;
}

template <class Word>
void write(BitWriter& out, const std::byte* bytes, std::size_t n, const std::vector<Turn>& turns, int bits) {
  for (std::size_t k = 0; k < n; ++k) {
    u64 turn = 0;  // integer turns vanish in overflows
    for (std::size_t i = 0; i < turns.size(); ++i) {
      Word x;
      std::memcpy(&x, bytes + (i * n + k) * sizeof(Word), sizeof(Word));
      turn += x * turns[i].upper + static_cast<u64>(u128{x} * turns[i].lower >> 64);
    }
    out.put((turn + (u64{1} << (63 - bits))) >> (64 - bits), bits);
  }
}

/// Computes round(fraction Q / 2^bits) modulo each prime, for a rounded fraction.
class Residues {
 public:
  explicit Residues(const std::vector<u64>& moduli) : moduli_(moduli) {
    for (const u64 q : moduli) whole_ *= q;
  }
  template <class Word>
  void read(BitReader& from, std::byte* bytes, std::size_t n, int bits) const {
    for (std::size_t k = 0; k < n; ++k) {
      const u128 value = (whole_ * from.get(bits) + (u128{1} << (bits - 1))) >> bits;
      for (std::size_t i = 0; i < moduli_.size(); ++i) {
        const Word x = static_cast<Word>(value % moduli_[i]);
        std::memcpy(bytes + (i * n + k) * sizeof(Word), &x, sizeof(Word));
      }
    }
  }

 private:
  const std::vector<u64>& moduli_;
  u128 whole_ = 1;
};

/// Calls f(item, component, first byte, bits) for each polynomial, on the host's threads. All bodies precede all masks. N
/// is a multiple of 64, so each polynomial fills complete words of eight bytes.
template <class F>
void each_polynomial(std::size_t items, std::size_t n, const RowsPlan& plan, F f) {
  const std::size_t body = n / 8 * static_cast<std::size_t>(plan.body_bits),
                    mask = n / 8 * static_cast<std::size_t>(plan.mask_bits);
  parallel_for(2 * items, 2 * items * n, [&](std::size_t unit) {
    const std::size_t item = unit % items, component = unit / items;
    f(item, component, component ? items * body + item * mask : item * body, component ? plan.mask_bits : plan.body_bits);
  });
}

}  // namespace

Bytes rounded(const Ciphertext& products, const RowsPlan& plan) {
  const CiphertextData& x = products.data();
  Context& c = *x.context;
  require<ShapeError>(x.degree() == 1 && x.level() == plan.level && x.shape().size() == 1,
                      "the tensor must be a result of ClearRows::times for this plan");
  const RnsTensor words = ring::to_domain(x.front(), Domain::coefficient).contiguous();
  c.engine().require_host_memory(words.bytes(), "the products");
  // The memory is left uninitialised, so that the copying threads are the first to write its pages.
  const auto bytes = std::make_unique_for_overwrite<std::byte[]>(words.bytes());
  c.engine().download(words.view(), {bytes.get(), words.bytes()});
  const std::vector<Turn> turns = turns_of(c.rlwe().moduli(words.primes()));
  const std::size_t n = c.spec().n, limbs = turns.size(), each = limbs * n * words.view().word_size();
  Bytes out(plan.rounded_bytes(products.parameters(), words.items() * n));
  each_polynomial(words.items(), n, plan, [&](std::size_t item, std::size_t component, std::size_t at, int bits) {
    BitWriter writer(out.data() + at);
    const std::byte* const from = bytes.get() + (2 * item + component) * each;
    words.view().word == math::Word::w64 ? write<u64>(writer, from, n, turns, bits)
                                         : write<math::u32>(writer, from, n, turns, bits);
  });
  return out;
}

Ciphertext from_rounded(const SecretKey& secret, std::span<const std::byte> bytes, const RowsPlan& plan, std::size_t rows) {
  const std::shared_ptr<Context>& c = secret.data().context;
  const std::size_t n = c->spec().n, blocks = (rows + n - 1) / n;
  require<DamagedFileError>(bytes.size() == plan.rounded_bytes(secret.parameters(), rows),
                            "the number of bytes is not that of products with so many rows");
  const RnsTensor words(c->rlwe().engine(), {blocks}, 2, c->rlwe().chain(plan.level), Domain::coefficient);
  const std::vector<u64> moduli = c->rlwe().moduli(words.primes());
  require<ParameterError>(c->rules().log_modulus(plan.level) + plan.mask_bits < kMostProductBits,
                          "cannot round the products: the modulus is too large");
  const Residues residues(moduli);
  std::vector<std::byte> host = c->engine().host_array<std::byte>(words.bytes(), "the products");
  const std::size_t each = moduli.size() * n * words.view().word_size();
  each_polynomial(blocks, n, plan, [&](std::size_t item, std::size_t component, std::size_t at, int bits) {
    BitReader reader(bytes.data() + at);
    std::byte* const to = host.data() + (2 * item + component) * each;
    words.view().word == math::Word::w64 ? residues.read<u64>(reader, to, n, bits)
                                         : residues.read<math::u32>(reader, to, n, bits);
  });
  if (blocks) ring::upload(words, host);
  CiphertextData r;
  r.context = c, r.key = secret.data().key.id(), r.parts = {words}, r.packing = Packing::coefficients, r.width = n;
  r.factors = {1}, r.vouched = false, r.tails = {Tail()};
  const double products = product_noise(*c, plan, c->rules().fresh_noise(0, false));
  r.noise = {rlwe::log2_sum(products, rounding_noise(*c, plan))};
  return finish(std::move(r));
}

}  // namespace heliograph::exact
