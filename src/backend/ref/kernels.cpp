#include "backend/ref/kernels.h"

#include <mutex>
#include <vector>

#include "math/sampler.h"

namespace heliograph::backend::ref {

using device::Draw;
using device::GatheredProduct;
using device::LimbConstants;
using device::PreparedConversion;
using device::PreparedPermutation;
using device::PreparedProduct;
using device::PreparedRing;
using math::PrimeIndex;
using math::u128;
using math::u32;
using math::u64;
using math::Word;

namespace {

/// Twiddles of each prime, made when first asked for.
class RefRing final : public PreparedRing {
 public:
  explicit RefRing(std::shared_ptr<const math::Ring> ring)
      : PreparedRing(std::move(ring)), tables_(this->ring().primes().size()) {}

  struct Tables {
    std::once_flag once;
    std::vector<u64> forward, inverse;
  };

  const Tables& tables(PrimeIndex i) const {
    Tables& t = tables_[i];
    std::call_once(t.once, [&] {
      t.forward = math::forward_twiddles(ring().n(), ring().root(i), ring().prime(i));
      t.inverse = math::inverse_twiddles(ring().n(), ring().root(i), ring().prime(i));
    });
    return t;
  }

 private:
  mutable std::vector<Tables> tables_;
};

const RefRing::Tables& tables(const PreparedRing& ring, PrimeIndex i) {
  const auto* own = dynamic_cast<const RefRing*>(&ring);
  require<MismatchError>(own != nullptr, "a ring prepared for another device");
  return own->tables(i);
}

u64 load(const device::View& v, std::size_t item, std::size_t component, std::size_t limb, std::size_t i) {
  return v.word == Word::w32 ? v.at<u32>(item, component, limb)[i] : v.at<u64>(item, component, limb)[i];
}

void store(const device::View& v, std::size_t item, std::size_t component, std::size_t limb, std::size_t i, u64 value) {
  if (v.word == Word::w32) {
    v.at<u32>(item, component, limb)[i] = static_cast<u32>(value);
  } else {
    v.at<u64>(item, component, limb)[i] = value;
  }
}

/// The component an operand with one component for all, or with one for each, has for `component`.
std::size_t shared(const device::View& v, std::size_t component) { return v.components == 1 ? 0 : component; }

/// body(item, component, limb) for all of `v`.
template <class Body>
void for_each_limb(const device::View& v, Body body) {
  for (std::size_t item = 0; item < v.items(); ++item) {
    for (std::size_t c = 0; c < v.components; ++c) {
      for (std::size_t l = 0; l < v.limbs; ++l) body(item, c, l);
    }
  }
}

/// out[i] = value(item, component, limb, prime, i) for all of `out`.
template <class Value>
void for_each_word(const PreparedRing& ring, const device::PrimeList& primes, const device::View& out, Value value) {
  for_each_limb(out, [&](std::size_t item, std::size_t c, std::size_t l) {
    const u64 q = ring.ring().prime(primes[l]);
    for (std::size_t i = 0; i < out.n; ++i) store(out, item, c, l, i, value(item, c, l, q, i));
  });
}

/// One limb as 64-bit words through `transform`, from `a` to `out`.
template <class Transform>
void transform_limbs(const device::View& a, const device::View& out, Transform transform) {
  for_each_limb(out, [&](std::size_t item, std::size_t c, std::size_t l) {
    std::vector<u64> x(out.n);
    for (std::size_t i = 0; i < out.n; ++i) x[i] = load(a, item, c, l, i);
    transform(x, l);
    for (std::size_t i = 0; i < out.n; ++i) store(out, item, c, l, i, x[i]);
  });
}

/// Cooley-Tukey: X^(2t) - z^2 splits into X^t - z and X^t + z, z = w[m + i].
void forward(std::vector<u64>& x, const std::vector<u64>& w, u64 q) {
  const std::size_t n = x.size();
  for (std::size_t m = 1, t = n / 2; m < n; m *= 2, t /= 2) {
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 2 * i * t; j < 2 * i * t + t; ++j) {
        const u64 u = x[j], v = math::mul_mod(x[j + t], w[m + i], q);
        x[j] = math::add_mod(u, v, q);
        x[j + t] = math::sub_mod(u, v, q);
      }
    }
  }
}

/// Gentleman-Sande: the same steps undone in reverse, each up to a factor 2; then times 1/n.
void inverse(std::vector<u64>& x, const std::vector<u64>& w, u64 q) {
  const std::size_t n = x.size();
  for (std::size_t m = n / 2, t = 1; m >= 1; m /= 2, t *= 2) {
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 2 * i * t; j < 2 * i * t + t; ++j) {
        const u64 u = x[j], v = x[j + t];
        x[j] = math::add_mod(u, v, q);
        x[j + t] = math::mul_mod(math::sub_mod(u, v, q), w[m + i], q);
      }
    }
  }
  const u64 scale = math::inverse_mod(n, q);
  for (u64& v : x) v = math::mul_mod(v, scale, q);
}

}  // namespace

std::shared_ptr<const PreparedRing> RefKernels::prepare(std::shared_ptr<const math::Ring> ring) {
  return std::make_shared<RefRing>(std::move(ring));
}

std::shared_ptr<const PreparedConversion> RefKernels::prepare(math::Conversion conversion) {
  return std::make_shared<PreparedConversion>(std::move(conversion));
}

std::shared_ptr<const PreparedPermutation> RefKernels::prepare(device::Permutation permutation) {
  return std::make_shared<PreparedPermutation>(std::move(permutation));
}

std::shared_ptr<const PreparedProduct> RefKernels::prepare(GatheredProduct product) {
  return std::make_shared<PreparedProduct>(std::move(product));
}

void RefKernels::do_add(Queue&, const Ring& ring, const Primes& primes, const View& a, const View& b, const View& out) {
  for_each_word(ring, primes, out, [&](std::size_t item, std::size_t c, std::size_t l, u64 q, std::size_t i) {
    return math::add_mod(load(a, item, c, l, i), load(b, item, c, l, i), q);
  });
}

void RefKernels::do_sub(Queue&, const Ring& ring, const Primes& primes, const View& a, const View& b, const View& out) {
  for_each_word(ring, primes, out, [&](std::size_t item, std::size_t c, std::size_t l, u64 q, std::size_t i) {
    return math::sub_mod(load(a, item, c, l, i), load(b, item, c, l, i), q);
  });
}

void RefKernels::do_neg(Queue&, const Ring& ring, const Primes& primes, const View& a, const View& out) {
  for_each_word(ring, primes, out, [&](std::size_t item, std::size_t c, std::size_t l, u64 q, std::size_t i) {
    return math::neg_mod(load(a, item, c, l, i), q);
  });
}

void RefKernels::do_mul(Queue&, const Ring& ring, const Primes& primes, const View& a, const View& b, const View& out) {
  for_each_word(ring, primes, out, [&](std::size_t item, std::size_t c, std::size_t l, u64 q, std::size_t i) {
    return math::mul_mod(load(a, item, shared(a, c), l, i), load(b, item, shared(b, c), l, i), q);
  });
}

void RefKernels::do_mul_accumulate(Queue&, const Ring& ring, const Primes& primes, const View& a, const View& b,
                                   const View& out) {
  for_each_word(ring, primes, out, [&](std::size_t item, std::size_t c, std::size_t l, u64 q, std::size_t i) {
    const u64 product = math::mul_mod(load(a, item, shared(a, c), l, i), load(b, item, shared(b, c), l, i), q);
    return math::add_mod(load(out, item, c, l, i), product, q);
  });
}

void RefKernels::do_mul_constants(Queue&, const Ring& ring, const Primes& primes, const View& a, const LimbConstants& k,
                                  const View& out) {
  for_each_word(ring, primes, out, [&](std::size_t item, std::size_t c, std::size_t l, u64 q, std::size_t i) {
    return math::mul_mod(load(a, item, c, l, i), k[l], q);
  });
}

void RefKernels::do_add_constants(Queue&, const Ring& ring, const Primes& primes, const View& a, const LimbConstants& k,
                                  math::Domain domain, const View& out) {
  for_each_word(ring, primes, out, [&](std::size_t item, std::size_t c, std::size_t l, u64 q, std::size_t i) {
    const bool here = domain == math::Domain::ntt || i == 0;
    return here ? math::add_mod(load(a, item, c, l, i), k[l], q) : load(a, item, c, l, i);
  });
}

void RefKernels::do_forward_ntt(Queue&, const Ring& ring, const Primes& primes, const View& a, const View& out) {
  transform_limbs(a, out, [&](std::vector<u64>& x, std::size_t l) {
    forward(x, tables(ring, primes[l]).forward, ring.ring().prime(primes[l]));
  });
}

void RefKernels::do_inverse_ntt(Queue&, const Ring& ring, const Primes& primes, const View& a, const View& out) {
  transform_limbs(a, out, [&](std::vector<u64>& x, std::size_t l) {
    inverse(x, tables(ring, primes[l]).inverse, ring.ring().prime(primes[l]));
  });
}

void RefKernels::do_permute(Queue&, const Ring& ring, const Primes& primes, const PreparedPermutation& p, const View& a,
                            const View& out) {
  const device::Permutation& k = p.permutation();
  for_each_word(ring, primes, out, [&](std::size_t item, std::size_t c, std::size_t l, u64 q, std::size_t i) {
    const u64 v = load(a, item, c, l, k.source[i]);
    return !k.negate.empty() && k.negate[i] ? math::neg_mod(v, q) : v;
  });
}

void RefKernels::do_convert(Queue&, const PreparedConversion& prepared, const View& x, const View* own, const View& out,
                            const Primes* place) {
  const math::Conversion& k = prepared.conversion();
  const std::size_t sources = k.sources();
  std::vector<u64> y(sources);
  for (std::size_t item = 0; item < out.items(); ++item) {
    for (std::size_t c = 0; c < out.components; ++c) {
      for (std::size_t i = 0; i < out.n; ++i) {
        u128 sum = 0;
        for (std::size_t s = 0; s < sources; ++s) {
          y[s] = math::mul_mod(load(x, item, c, s, i), k.inverse[s], k.from[s]);
          sum += u128{y[s]} * k.fixed.fractions[s] >> k.fixed.shift;
        }
        const u64 v = k.rounded ? static_cast<u64>((sum + (u128{1} << (k.fixed.bits - 1))) >> k.fixed.bits) : 0;
        for (std::size_t j = 0; j < k.targets(); ++j) {
          const std::size_t limb = place ? (*place)[j] : j;
          const u64 q = k.to[j];
          u64 r = math::mul_mod(v, k.wrap[j], q);
          if (own) r = math::add_mod(r, math::mul_mod(load(*own, item, c, limb, i), k.own[j], q), q);
          for (std::size_t s = 0; s < sources; ++s) {
            r = math::add_mod(r, math::mul_mod(y[s], k.matrix[j * sources + s], q), q);
          }
          store(out, item, c, limb, i, r);
        }
      }
    }
  }
}

void RefKernels::do_inner_product(Queue&, const Ring& ring, const Primes& primes, const View& digits, const View& key,
                                  const Primes& key_limbs, const View& out) {
  for_each_word(ring, primes, out, [&](std::size_t item, std::size_t c, std::size_t l, u64 q, std::size_t i) {
    u64 sum = 0;
    for (std::size_t j = 0; j < digits.components; ++j) {
      const u64 k = load(key, 0, j * out.components + c, key_limbs[l], i);
      sum = math::add_mod(sum, math::mul_mod(load(digits, item, j, l, i), k, q), q);
    }
    return sum;
  });
}

void RefKernels::do_product(Queue&, const Ring& ring, const Primes& primes, const PreparedProduct& p, const View& in,
                            const View& out) {
  const GatheredProduct& g = p.product();
  for_each_word(ring, primes, out, [&](std::size_t item, std::size_t c, std::size_t l, u64 q, std::size_t i) {
    const std::size_t position = item % g.positions, row = item / g.positions;  // row = group * outputs + output
    const std::size_t group = row / g.outputs;
    u64 sum = 0;
    for (std::size_t k = 0; k < g.terms; ++k) {
      const u32 source = g.index[(group * g.positions + position) * g.terms + k];
      if (source == GatheredProduct::kNone) continue;
      const u64 weight = math::signed_mod(g.weights[row * g.terms + k], q);
      sum = math::add_mod(sum, math::mul_mod(weight, load(in, source, c, l, i), q), q);
    }
    return sum;
  });
}

void RefKernels::do_sample(Queue&, const Ring& ring, const Primes& primes, const Draw& draw, const View& out) {
  const bool uniform = draw.distribution == device::Distribution::uniform;
  const std::size_t words = uniform ? 4 : 2, per_block = 16 / words;  // 32-bit words a draw, draws a block
  for_each_limb(out, [&](std::size_t item, std::size_t c, std::size_t l) {
    const u64 q = ring.ring().prime(primes[l]);
    const auto nonce = math::draw_nonce(draw.purpose, c, uniform ? primes[l] : math::kSmallPolynomial, draw.object,
                                        draw.first_item + static_cast<u32>(item));
    std::array<u32, 16> block{};
    for (std::size_t i = 0; i < out.n; ++i) {
      if (i % per_block == 0) block = math::chacha20_block(draw.key, static_cast<u32>(i / per_block), nonce);
      const u32* d = &block[i % per_block * words];
      const u64 low = u64{d[1]} << 32 | d[0];
      u64 value = 0;
      switch (draw.distribution) {
        case device::Distribution::uniform:
          value = math::uniform_from(low, u64{d[3]} << 32 | d[2], q);
          break;
        case device::Distribution::ternary:
          value = math::signed_mod(math::ternary_from(low), q);
          break;
        case device::Distribution::gaussian:
          value = math::signed_mod(math::gaussian_from(low), q);
          break;
      }
      store(out, item, c, l, i, value);
    }
  });
}

void RefKernels::do_copy(Queue&, const View& a, const View& out) {
  for_each_limb(out, [&](std::size_t item, std::size_t c, std::size_t l) {
    for (std::size_t i = 0; i < out.n; ++i) store(out, item, c, l, i, load(a, item, c, l, i));
  });
}

void RefKernels::do_zero(Queue&, const View& out) {
  for_each_limb(out, [&](std::size_t item, std::size_t c, std::size_t l) {
    for (std::size_t i = 0; i < out.n; ++i) store(out, item, c, l, i, 0);
  });
}

}  // namespace heliograph::backend::ref
