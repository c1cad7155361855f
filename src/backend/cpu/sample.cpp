// Random polynomials by the draws of math/sampler.h, one chunk of the ChaCha20 stream at a time.
#include <algorithm>
#include <cstring>

#include "backend/cpu/parallel.h"
#include "base/secret.h"
#include "math/sampler.h"

namespace heliograph::backend::cpu {

namespace {

constexpr std::size_t kStretch = 4096;  // coefficients per unit of work
constexpr std::size_t kBlocks = 64;     // ChaCha20 blocks per chunk of stream

struct Stream {
  u32 key[8], nonce[3];
  Stream(const device::Draw& draw, std::size_t component, u32 prime, std::size_t item) {
    std::memcpy(key, draw.key.data(), sizeof key);
    const auto n = math::draw_nonce(draw.purpose, component, prime, draw.object, draw.first_item + static_cast<u32>(item));
    std::copy(n.begin(), n.end(), nonce);
  }
};

}  // namespace

void CpuKernels::run(Queue&, const Sample& c) {
  const Draw& draw = c.draw;
  draw.distribution == device::Distribution::uniform ? uniform(own(*c.ring), c.primes, draw, c.out)
                                                     : small(own(*c.ring), c.primes, draw, c.out);
}

void CpuKernels::uniform(const CpuRing& ring, const Primes& primes, const device::Draw& draw, const View& out) {
  constexpr std::size_t kEach = 4;  // coefficients per ChaCha20 block
  const std::size_t length = std::min(out.n, kStretch), parts = out.n / length;
  const std::size_t units = out.items() * out.components * out.limbs * parts;
  threads_.parallel_for(
      units, units * length < kWorthSharing / 4 ? std::max<std::size_t>(units, 1) : 1, [&](std::size_t i, std::size_t) {
        const std::size_t part = i % parts, limb = i / parts % out.limbs, component = i / parts / out.limbs % out.components;
        const std::size_t item = i / parts / out.limbs / out.components;
        const Limb& prime = ring.limb(primes[limb]);
        const Stream stream(draw, component, primes[limb], item);
        alignas(64) u32 words[16 * kBlocks];
        for (std::size_t done = 0; done < length; done += kEach * kBlocks) {
          const std::size_t start = part * length + done, count = std::min(length - done, kEach * kBlocks);
          instructions_.chacha(stream.key, static_cast<u32>(start / kEach), stream.nonce, (count + kEach - 1) / kEach,
                               words);
          prime.ops->uniform(prime.modulus, words, address(out, item, component, limb) + start * out.word_size(), count);
        }
      });
}

void CpuKernels::small(const CpuRing& ring, const Primes& primes, const device::Draw& draw, const View& out) {
  constexpr std::size_t kEach = 8;
  const std::size_t length = std::min(out.n, kStretch), parts = out.n / length;
  const std::size_t units = out.items() * out.components * parts;
  threads_.parallel_for(
      units, units * length < kWorthSharing / 4 ? std::max<std::size_t>(units, 1) : 1, [&](std::size_t i, std::size_t) {
        const std::size_t part = i % parts, component = i / parts % out.components, item = i / parts / out.components;
        Stream stream(draw, component, math::kSmallPolynomial, item);
        alignas(64) u32 words[16 * kBlocks];
        alignas(64) i32 values[kEach * kBlocks];
        alignas(64) u64 draws[kEach * kBlocks];
        const WipeAtEnd end[] = {WipeAtEnd(stream), WipeAtEnd(words), WipeAtEnd(values), WipeAtEnd(draws)};  // wipe the
                                                                                                             // secrets at
                                                                                                             // the end
        for (std::size_t done = 0; done < length; done += kEach * kBlocks) {
          const std::size_t start = part * length + done, count = std::min(length - done, kEach * kBlocks);
          const std::size_t blocks = (count + kEach - 1) / kEach, padded = (blocks * kEach + 15) / 16 * 16;
          instructions_.chacha(stream.key, static_cast<u32>(start / kEach), stream.nonce, blocks, words);
          std::memcpy(draws, words, sizeof draws);
          if (draw.distribution == device::Distribution::ternary) {
            instructions_.ternary(draws, values, padded);
          } else {
            instructions_.gaussian(draws, math::kGaussianTable.data(), math::kGaussianTable.size(), values, padded);
          }
          for (std::size_t l = 0; l < out.limbs; ++l) {
            const Limb& prime = ring.limb(primes[l]);
            prime.ops->spread(prime.modulus, values, address(out, item, component, l) + start * out.word_size(), count);
          }
        }
      });
}

}  // namespace heliograph::backend::cpu
