#include "backend/ref/kernels.h"

#include <mutex>
#include <vector>

#include "math/sampler.h"

namespace heliograph::backend::ref {

using device::ConversionConstant;
using device::Draw;
using device::GatheredProduct;
using device::LimbConstants;
using device::PermutationConstant;
using device::ProductConstant;
using device::RingConstant;
using math::PrimeIndex;
using math::u128;
using math::u32;
using math::u64;
using math::Word;

/// Twiddles of each prime, computed at first use.
class RefRing final : public device::FormOf<RingConstant> {
 public:
  explicit RefRing(const RingConstant& ring) : FormOf(ring), tables_(ring.ring().primes().size()) {}

  struct Tables {
    std::once_flag once;
    std::vector<u64> forward, inverse;
  };

  const Tables& tables(PrimeIndex i) const {
    Tables& t = tables_[i];
    const math::Ring& ring = of().ring();
    std::call_once(t.once, [&] {
      t.forward = math::forward_twiddles(ring.n(), ring.root(i), ring.prime(i));
      t.inverse = math::inverse_twiddles(ring.n(), ring.root(i), ring.prime(i));
    });
    return t;
  }

 private:
  mutable std::vector<Tables> tables_;
};

namespace {

class Row {
 public:
  Row(const device::View& v, std::size_t item, std::size_t component, std::size_t limb)
      : word_(v.word), data_(v.address(item, component, limb)) {}

  u64 get(std::size_t i) const {
    return word_ == Word::w32 ? reinterpret_cast<const u32*>(data_)[i] : reinterpret_cast<const u64*>(data_)[i];
  }
  void set(std::size_t i, u64 value) const {
    if (word_ == Word::w32) {
      reinterpret_cast<u32*>(data_)[i] = static_cast<u32>(value);
    } else {
      reinterpret_cast<u64*>(data_)[i] = value;
    }
  }

 private:
  Word word_;
  std::byte* data_;
};

template <class Body>
void for_each_limb(const device::View& v, Body body) {
  for (std::size_t item = 0; item < v.items(); ++item) {
    for (std::size_t c = 0; c < v.components; ++c) {
      for (std::size_t l = 0; l < v.limbs; ++l) body(item, c, l);
    }
  }
}

/// Position in a call: one limb of the result, and the limb's prime.
struct Place {
  std::size_t item, component, limb;
  u64 q;

  Row row(const device::View& v) const { return Row(v, item, v.components == 1 ? 0 : component, limb); }
};

template <class Body>
void for_each_place(const RingConstant& ring, const device::PrimeList& primes, const device::View& out, Body body) {
  for_each_limb(out, [&](std::size_t item, std::size_t c, std::size_t l) {
    body(Place{item, c, l, ring.ring().prime(primes[l])}, Row(out, item, c, l));
  });
}

template <class F>
void map(const RingConstant& ring, const device::PrimeList& primes, const device::View& a, const device::View& out, F f) {
  for_each_place(ring, primes, out, [&](const Place& p, const Row& o) {
    const Row x = p.row(a);
    for (std::size_t i = 0; i < out.n; ++i) o.set(i, f(x.get(i), p.q));
  });
}

/// Returns the number of adjacent words of `out` that use one word of an operand.
std::size_t run_of(const device::View& v, const device::View& out) { return out.n / v.n; }

/// Computes out[i] = f(a[i], b[i / run], q). An operand of one component serves all components of the result.
template <class F>
void map(const RingConstant& ring, const device::PrimeList& primes, const device::View& a, const device::View& b,
         const device::View& out, F f) {
  for_each_place(ring, primes, out, [&](const Place& p, const Row& o) {
    const Row x = p.row(a), y = p.row(b);
    const std::size_t run = run_of(b, out);
    for (std::size_t i = 0; i < out.n; ++i) o.set(i, f(x.get(i), y.get(i / run), p.q));
  });
}

/// Converts each limb of `a` to 64-bit words, applies `transform`, and writes the result to `out`.
template <class Transform>
void transform_limbs(const device::View& a, const device::View& out, Transform transform) {
  for_each_limb(out, [&](std::size_t item, std::size_t c, std::size_t l) {
    const Row from(a, item, c, l), to(out, item, c, l);
    std::vector<u64> x(out.n);
    for (std::size_t i = 0; i < out.n; ++i) x[i] = from.get(i);
    transform(x, l);
    for (std::size_t i = 0; i < out.n; ++i) to.set(i, x[i]);
  });
}

/// Cooley-Tukey. A step splits the modulus X^(2t) - z^2 into X^t - z and X^t + z, with z = w[m + i].
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

/// Gentleman-Sande. Inverts the forward steps in reverse order, each except for a factor 2; a final product with 1/n removes
/// these factors.
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

std::unique_ptr<const device::Form> RefKernels::form(const RingConstant& ring) { return std::make_unique<RefRing>(ring); }

const RefRing& RefKernels::own(const RingConstant& ring) {
  prepare(ring);
  return device::form_on<RefRing>(ring, slot());
}

void RefKernels::run(Queue&, const Add& c) { map(*c.ring, c.primes, c.a, c.b, c.out, math::add_mod); }

void RefKernels::run(Queue&, const Sub& c) { map(*c.ring, c.primes, c.a, c.b, c.out, math::sub_mod); }

void RefKernels::run(Queue&, const Neg& c) { map(*c.ring, c.primes, c.a, c.out, math::neg_mod); }

void RefKernels::run(Queue&, const Mul& c) { map(*c.ring, c.primes, c.a, c.b, c.out, math::mul_mod); }

void RefKernels::run(Queue&, const MulAccumulate& c) {
  for_each_place(*c.ring, c.primes, c.out, [&](const Place& p, const Row& o) {
    const Row x = p.row(c.a), y = p.row(c.b);
    const std::size_t run = run_of(c.b, c.out);
    for (std::size_t i = 0; i < c.out.n; ++i)
      o.set(i, math::add_mod(o.get(i), math::mul_mod(x.get(i), y.get(i / run), p.q), p.q));
  });
}

void RefKernels::run(Queue&, const MulConstants& c) {
  for_each_place(*c.ring, c.primes, c.out, [&](const Place& p, const Row& o) {
    const Row x = p.row(c.a);
    for (std::size_t i = 0; i < c.out.n; ++i) o.set(i, math::mul_mod(x.get(i), c.c[p.limb], p.q));
  });
}

void RefKernels::run(Queue&, const AddConstants& c) {
  for_each_place(*c.ring, c.primes, c.out, [&](const Place& p, const Row& o) {
    const Row x = p.row(c.a);
    for (std::size_t i = 0; i < c.out.n; ++i) {
      const bool here = c.domain == math::Domain::ntt || i == 0;
      o.set(i, here ? math::add_mod(x.get(i), c.c[p.limb], p.q) : x.get(i));
    }
  });
}

void RefKernels::run(Queue&, const WeightedSum& c) {
  for_each_place(*c.ring, c.primes, c.out, [&](const Place& p, const Row& o) {
    const u64 constant = c.constant && p.component == 0 ? (*c.constant)[p.limb] : 0;
    for (std::size_t i = 0; i < c.out.n; ++i) {
      u64 sum = constant;
      for (std::size_t k = 0; k < c.x.size(); ++k)
        sum = math::add_mod(sum, math::mul_mod(p.row(c.x[k]).get(i), (*c.weights)[k][p.limb], p.q), p.q);
      o.set(i, sum);
    }
  });
}

void RefKernels::run(Queue&, const ForwardNtt& c) {
  transform_limbs(c.a, c.out, [&](std::vector<u64>& x, std::size_t l) {
    forward(x, own(*c.ring).tables(c.primes[l]).forward, c.ring->ring().prime(c.primes[l]));
  });
}

void RefKernels::run(Queue&, const InverseNtt& c) {
  transform_limbs(c.a, c.out, [&](std::vector<u64>& x, std::size_t l) {
    inverse(x, own(*c.ring).tables(c.primes[l]).inverse, c.ring->ring().prime(c.primes[l]));
  });
}

void RefKernels::run(Queue&, const Permute& c) {
  const device::Permutation& k = c.permutation->permutation();
  for_each_place(*c.ring, c.primes, c.out, [&](const Place& p, const Row& o) {
    const Row x = p.row(c.a);
    for (std::size_t i = 0; i < c.out.n; ++i) {
      const u64 v = x.get(k.source[i]);
      o.set(i, !k.negate.empty() && k.negate[i] ? math::neg_mod(v, p.q) : v);
    }
  });
}

void RefKernels::run(Queue&, const Convert& call) {
  const math::Conversion& k = call.conversion->conversion();
  const std::size_t sources = k.sources();
  const auto limb = [&](std::size_t j) -> std::size_t { return call.place ? (*call.place)[j] : j; };
  std::vector<u64> y(sources * call.out.n), v(call.out.n);
  for (std::size_t item = 0; item < call.out.items(); ++item) {
    for (std::size_t c = 0; c < call.out.components; ++c) {
      std::vector<u128> sum(call.out.n, 0);
      for (std::size_t s = 0; s < sources; ++s) {
        const Row from(call.x, item, c, s);
        for (std::size_t i = 0; i < call.out.n; ++i) {
          y[s * call.out.n + i] = math::mul_mod(from.get(i), k.inverse[s], k.from[s]);
          sum[i] += u128{y[s * call.out.n + i]} * k.fixed.fractions[s] >> k.fixed.shift;
        }
      }
      const u128 half = u128{1} << (k.fixed.bits - 1);
      for (std::size_t i = 0; i < call.out.n; ++i) v[i] = k.rounded ? static_cast<u64>((sum[i] + half) >> k.fixed.bits) : 0;
      for (std::size_t j = 0; j < k.targets(); ++j) {
        const u64 q = k.to[j];
        const Row to(call.out, item, c, limb(j));
        for (std::size_t i = 0; i < call.out.n; ++i) {
          u64 r = math::mul_mod(v[i], k.wrap[j], q);
          if (call.own) r = math::add_mod(r, math::mul_mod(Row(*call.own, item, c, limb(j)).get(i), k.own[j], q), q);
          for (std::size_t s = 0; s < sources; ++s) {
            r = math::add_mod(r, math::mul_mod(y[s * call.out.n + i], k.matrix[j * sources + s], q), q);
          }
          to.set(i, r);
        }
      }
    }
  }
}

void RefKernels::run(Queue&, const InnerProduct& c) {
  for_each_place(*c.ring, c.primes, c.out, [&](const Place& p, const Row& o) {
    std::vector<u64> sum(c.out.n, 0);
    for (std::size_t j = 0; j < c.terms(); ++j) {
      const device::PermutationHandle turn = c.turns.empty() ? nullptr : c.turns[j];
      const Row x(c.digits, p.item, c.turns.empty() ? j : 0, p.limb);
      const Row k(c.key, 0, j * c.out.components + p.component, c.key_limbs[p.limb]);
      for (std::size_t i = 0; i < c.out.n; ++i) {
        const u64 digit = x.get(turn ? turn->permutation().source[i] : i);
        sum[i] = math::add_mod(sum[i], math::mul_mod(digit, k.get(i), p.q), p.q);
      }
    }
    for (std::size_t i = 0; i < c.out.n; ++i) o.set(i, sum[i]);
  });
}

void RefKernels::run(Queue&, const Product& c) {
  const GatheredProduct& g = c.product->product();
  for_each_place(*c.ring, c.primes, c.out, [&](const Place& p, const Row& o) {
    const std::size_t position = p.item % g.positions, row = p.item / g.positions;  // row = group * outputs + output
    const std::size_t group = row / g.outputs;
    std::vector<u64> sum(c.out.n, 0);
    for (std::size_t k = 0; k < g.terms; ++k) {
      const u32 source = g.index[(group * g.positions + position) * g.terms + k];
      if (source == GatheredProduct::kNone) continue;
      const u64 weight = math::signed_mod(g.weights[row * g.terms + k], p.q);
      const Row x(c.in, source, p.component, p.limb);
      for (std::size_t i = 0; i < c.out.n; ++i) sum[i] = math::add_mod(sum[i], math::mul_mod(weight, x.get(i), p.q), p.q);
    }
    for (std::size_t i = 0; i < c.out.n; ++i) o.set(i, sum[i]);
  });
}

void RefKernels::run(Queue&, const ByteProduct& c) {
  for (std::size_t item = 0; item < c.out.items(); ++item) {
    const u32* const words = c.words.at<u32>(item, 0, 0);
    for (std::size_t j = 0; j < c.out.n; ++j) {
      const u32* const bytes = c.bytes.at<u32>(0, j, 0);
      u32 sum = 0;
      for (std::size_t i = 0; i < c.words.n; ++i) sum += ((bytes[i / 4] >> (i % 4 * 8) & 255) - 128) * words[i];
      c.out.at<u32>(item, 0, 0)[j] = sum;
    }
  }
}

void RefKernels::run(Queue&, const Sample& c) {
  const Draw& draw = c.draw;
  const bool uniform = draw.distribution == device::Distribution::uniform;
  const std::size_t words = uniform ? 4 : 2, per_block = 16 / words;  // 32-bit words per draw; draws per ChaCha20 block
  for_each_place(*c.ring, c.primes, c.out, [&](const Place& p, const Row& o) {
    const u32 stream = uniform ? c.primes[p.limb] : math::kSmallPolynomial;
    const auto nonce =
        math::draw_nonce(draw.purpose, p.component, stream, draw.object, draw.first_item + static_cast<u32>(p.item));
    std::array<u32, 16> block{};
    for (std::size_t i = 0; i < c.out.n; ++i) {
      if (i % per_block == 0) block = math::chacha20_block(draw.key, static_cast<u32>(i / per_block), nonce);
      const u32* d = &block[i % per_block * words];
      const u64 low = u64{d[1]} << 32 | d[0];
      switch (draw.distribution) {
        case device::Distribution::uniform:
          o.set(i, math::uniform_from(low, u64{d[3]} << 32 | d[2], p.q));
          break;
        case device::Distribution::ternary:
          o.set(i, math::signed_mod(math::ternary_from(low), p.q));
          break;
        case device::Distribution::gaussian:
          o.set(i, math::signed_mod(math::gaussian_from(low), p.q));
          break;
      }
    }
  });
}

void RefKernels::run(Queue&, const Copy& call) {
  for_each_limb(call.out, [&](std::size_t item, std::size_t c, std::size_t l) {
    const Row from(call.a, item, c, l), to(call.out, item, c, l);
    for (std::size_t i = 0; i < call.out.n; ++i) to.set(i, from.get(i));
  });
}

void RefKernels::run(Queue&, const Zero& call) {
  for_each_limb(call.out, [&](std::size_t item, std::size_t c, std::size_t l) {
    const Row to(call.out, item, c, l);
    for (std::size_t i = 0; i < call.out.n; ++i) to.set(i, 0);
  });
}

}  // namespace heliograph::backend::ref
