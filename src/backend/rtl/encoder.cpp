#include "backend/rtl/encoder.h"

#include <algorithm>
#include <bit>
#include <string>

namespace heliograph::backend::rtl {

using device::ConversionConstant;
using device::GatheredProduct;
using device::RingConstant;
namespace card = heliograph::rtl;

namespace {

constexpr int kLeastTransform = 9;                 // log2 of the least degree of an NTT
constexpr u64 kLeastSource = u64{1} << 10;         // smaller sources need fractions of more than the card's 48 bits
constexpr u64 kMoveModulus = (u64{1} << 30) - 35;  // modulus for moving words that have none; larger than all such words

std::string count_of(std::size_t n) { return std::to_string(n); }

u64 prime_of(const device::RingHandle& ring, const device::PrimeList& primes, std::size_t limb) {
  return ring->ring().prime(primes[limb]);
}

}  // namespace

void check_ring(const math::Ring& ring, const Shape& shape) {
  for (const u64 q : ring.primes()) {
    if (q < card::kWordEnd) continue;
    throw ParameterError("the device rtl computes with words of 30 bits, but these parameters have a prime of " +
                         std::to_string(math::bit_length(q)) +
                         " bits; use a set of 32-bit words (word_size=32, or a name that ends in /w32) and plaintext moduli "
                         "below 2^30, or the device cpu");
  }
  if (ring.transforms() && ring.n() > std::size_t{1} << shape.log_n) {
    throw ParameterError("the device rtl supports polynomials of degree " + count_of(std::size_t{1} << shape.log_n) +
                         " at most, but these have " + count_of(ring.n()) +
                         "; use a parameter set with a smaller degree and 32-bit words (word_size=32), or the device cpu");
  }
}

void check_conversion(const math::Conversion& c, const Shape& shape) {
  const auto refuse = [](const std::string& what) {
    throw ParameterError("the device rtl cannot do this conversion between moduli: it must " + what +
                         "; use a parameter set with 32-bit words (word_size=32) and such moduli, or the device cpu");
  };
  if (c.sources() > static_cast<std::size_t>(shape.sources))
    refuse("have at most " + std::to_string(shape.sources) + " source limbs, but has " + count_of(c.sources()));
  for (const u64 q : c.from) {
    if (q < kLeastSource || q > card::kWordEnd) refuse("have source moduli of 11 to 30 bits, but has " + std::to_string(q));
  }
  for (const u64 q : c.to) {
    if (q < 2 || q > card::kWordEnd) refuse("have target moduli of at most 30 bits, but has " + std::to_string(q));
  }
}

template <class F>
void Encoder::limb_pieces(std::size_t n, F f) {
  const auto least = static_cast<std::size_t>(shape_.beat_words());
  if (n < least || n % least != 0) {
    throw ParameterError("the device rtl needs limbs of a multiple of " + count_of(least) + " words, but these have " +
                         count_of(n) + "; use a parameter set with a larger degree, or the device cpu");
  }
  for (std::size_t first = 0; first < n;) {
    const int log_n = std::min(shape_.log_n, static_cast<int>(std::bit_width(n - first)) - 1);
    f(first, log_n);
    first += std::size_t{1} << log_n;
  }
}

template <class F>
void Encoder::pieces(const View& out, F f) {
  const std::size_t items = out.items();
  limb_pieces(out.n, [&](std::size_t first, int log_n) {
    for (std::size_t l = 0; l < out.limbs; ++l) {
      for (std::size_t item = 0; item < items; ++item) {
        for (std::size_t c = 0; c < out.components; ++c) f(Piece{item, c, l, first, log_n});
      }
    }
  });
}

std::byte* Encoder::words(const View& v, const Piece& p) {
  return v.address(p.item, v.components == 1 ? 0 : p.component, p.limb) + p.first * v.word_size();
}

u64 Encoder::address(const View& v, const Piece& p) const {
  const u64 at = memory_.address(words(v, p));
  if (at % static_cast<u64>(shape_.beat_bytes()) != 0) {
    throw ParameterError("the device rtl needs limbs that begin at a multiple of " + std::to_string(shape_.beat_bytes()) +
                         " bytes; use the device cpu");
  }
  return at;
}

Value Encoder::read(const View& v, const Piece& p) {
  if (v.word == math::Word::w32) return list_.read(address(v, p), p.log_n);
  return list_.read(memory_.narrowed(words(v, p), std::size_t{1} << p.log_n), p.log_n);
}

Value Encoder::read_run(const View& v, std::size_t n, const Piece& p) {
  if (v.n == n) return read(v, p);
  if (v.word != math::Word::w32)
    throw ParameterError(
        "the device rtl needs plaintexts that repeat along the slots in words of 32 bits; use the device cpu");
  const int log_run = std::countr_zero(n / v.n);
  const std::byte* const first = v.address(p.item, v.components == 1 ? 0 : p.component, p.limb);
  return list_.read(memory_.repeated(first + 4 * (p.first >> log_run), std::size_t{1} << p.log_n, log_run), p.log_n);
}

void Encoder::write(const View& v, const Piece& p, Value value) {
  if (v.word == math::Word::w32) return list_.write(address(v, p), p.log_n, value);
  list_.write(memory_.widened(words(v, p), std::size_t{1} << p.log_n), p.log_n, value);
}

Value Encoder::pointwise(u64 q, int log_n, const Terms& t) {
  const auto present = [](Value v) { return v == kNoValue ? card::kNone : 0; };
  Step step{.op = Op::pointwise,
            .words = card::pointwise(log_n, card::Modulus(q),
                                     {.a = present(t.a),
                                      .b = present(t.b),
                                      .c = present(t.c),
                                      .subtract = t.subtract,
                                      .first_only = t.first_only,
                                      .constant = t.constant},
                                     0),
            .in = {t.a, t.b, t.c},
            .out = {list_.fresh(log_n)}};
  const Value out = step.out[0];
  list_.add(std::move(step));
  return out;
}

void Encoder::run(Queue&, const device::Add& c) {
  pieces(c.out, [&](const Piece& p) {
    write(c.out, p, pointwise(prime_of(c.ring, c.primes, p.limb), p.log_n, {.a = read(c.a, p), .c = read(c.b, p)}));
  });
}

void Encoder::run(Queue&, const device::Sub& c) {
  pieces(c.out, [&](const Piece& p) {
    const Value a = read(c.a, p), b = read(c.b, p);
    write(c.out, p, pointwise(prime_of(c.ring, c.primes, p.limb), p.log_n, {.a = b, .c = a, .subtract = true}));
  });
}

void Encoder::run(Queue&, const device::Neg& c) {
  pieces(c.out, [&](const Piece& p) {
    write(c.out, p, pointwise(prime_of(c.ring, c.primes, p.limb), p.log_n, {.a = read(c.a, p), .subtract = true}));
  });
}

void Encoder::run(Queue&, const device::Mul& c) {
  pieces(c.out, [&](const Piece& p) {
    const Value a = read(c.a, p), b = read_run(c.b, c.out.n, p);
    write(c.out, p, pointwise(prime_of(c.ring, c.primes, p.limb), p.log_n, {.a = a, .b = b}));
  });
}

void Encoder::run(Queue&, const device::MulAccumulate& c) {
  pieces(c.out, [&](const Piece& p) {
    const Value a = read(c.a, p), b = read_run(c.b, c.out.n, p), sum = read(c.out, p);
    write(c.out, p, pointwise(prime_of(c.ring, c.primes, p.limb), p.log_n, {.a = a, .b = b, .c = sum}));
  });
}

void Encoder::run(Queue&, const device::MulConstants& c) {
  pieces(c.out, [&](const Piece& p) {
    write(c.out, p, pointwise(prime_of(c.ring, c.primes, p.limb), p.log_n, {.a = read(c.a, p), .constant = c.c[p.limb]}));
  });
}

void Encoder::run(Queue&, const device::AddConstants& c) {
  pieces(c.out, [&](const Piece& p) {
    const bool first_only = c.domain == math::Domain::coefficient;
    const Value a = read(c.a, p);
    if (first_only && p.first > 0) return write(c.out, p, a);
    write(
        c.out, p,
        pointwise(prime_of(c.ring, c.primes, p.limb), p.log_n, {.c = a, .first_only = first_only, .constant = c.c[p.limb]}));
  });
}

void Encoder::run(Queue&, const device::WeightedSum& c) {
  pieces(c.out, [&](const Piece& p) {
    const u64 q = prime_of(c.ring, c.primes, p.limb);
    Value sum = kNoValue;
    for (std::size_t k = 0; k < c.x.size(); ++k)
      sum = pointwise(q, p.log_n, {.a = read(c.x[k], p), .c = sum, .constant = (*c.weights)[k][p.limb]});
    if (c.constant && p.component == 0) sum = pointwise(q, p.log_n, {.c = sum, .constant = (*c.constant)[p.limb]});
    write(c.out, p, sum);
  });
}

template <class C>
void Encoder::transform(const C& c, bool inverse) {
  const int log_n = c.ring->ring().log_n();
  if (log_n < kLeastTransform || log_n > shape_.log_n) {
    throw ParameterError("the device rtl transforms polynomials of degree 512 to " +
                         count_of(std::size_t{1} << shape_.log_n) + ", but these have " + count_of(c.ring->ring().n()) +
                         "; use a parameter set of such a degree, or the device cpu");
  }
  pieces(c.out, [&](const Piece& p) {
    const Value a = read(c.a, p), out = list_.fresh(log_n);
    list_.add({.op = Op::ntt,
               .words = card::ntt(log_n, inverse, prime_of(c.ring, c.primes, p.limb), 0, 0),
               .in = {a},
               .out = {out},
               .resource = memory_.twiddles(*c.ring, c.primes[p.limb])});
    write(c.out, p, out);
  });
}

void Encoder::run(Queue&, const device::ForwardNtt& c) { transform(c, false); }
void Encoder::run(Queue&, const device::InverseNtt& c) { transform(c, true); }

void Encoder::run(Queue&, const device::Permute& c) {
  bool ntt_order = false;
  const u64 galois = memory_.galois(*c.permutation, ntt_order);
  if (galois == 0)
    throw ParameterError(
        "the device rtl permutes by automorphisms only, but this is another permutation; use the device cpu");
  if (c.out.n > std::size_t{1} << shape_.log_n || c.out.n < std::size_t{1} << kLeastTransform) {
    throw ParameterError("the device rtl permutes polynomials of degree 512 to " + count_of(std::size_t{1} << shape_.log_n) +
                         ", but these have " + count_of(c.out.n) +
                         "; use a parameter set of such a degree, or the device cpu");
  }
  pieces(c.out, [&](const Piece& p) {
    const Value a = read(c.a, p), out = list_.fresh(p.log_n);
    list_.add({.op = Op::permute,
               .words = card::permute(p.log_n, ntt_order, galois, prime_of(c.ring, c.primes, p.limb), 0, 0),
               .in = {a},
               .out = {out}});
    write(c.out, p, out);
  });
}

void Encoder::run(Queue&, const device::Convert& c) {
  const math::Conversion& k = c.conversion->conversion();
  check_conversion(k, shape_);
  const std::size_t most = static_cast<std::size_t>(shape_.targets);
  const auto limb = [&](std::size_t j) -> std::size_t { return c.place ? (*c.place)[j] : j; };
  for (std::size_t item = 0; item < c.out.items(); ++item) {
    for (std::size_t component = 0; component < c.out.components; ++component) {
      limb_pieces(c.out.n, [&](std::size_t first, int log_n) {
        std::vector<Value> y;
        for (std::size_t s = 0; s < k.sources(); ++s) {
          const Value x = read(c.x, {item, component, s, first, log_n});
          y.push_back(k.inverse[s] == 1 ? x : pointwise(k.from[s], log_n, {.a = x, .constant = k.inverse[s]}));
        }
        std::vector<Value> out;
        for (std::size_t from = 0; from < k.targets(); from += most) {
          const std::size_t count = std::min(most, k.targets() - from);
          Step step{.op = Op::convert,
                    .words = card::convert(log_n, std::vector<unsigned>(k.sources()), std::vector<unsigned>(count), 0),
                    .in = y,
                    .out = {},
                    .resource = memory_.constants(*c.conversion, from)};
          for (std::size_t j = 0; j < count; ++j) step.out.push_back(list_.fresh(log_n));
          out.insert(out.end(), step.out.begin(), step.out.end());
          list_.add(std::move(step));
        }
        for (std::size_t j = 0; j < k.targets(); ++j) {
          const Piece p{item, component, limb(j), first, log_n};
          if (c.own) out[j] = pointwise(k.to[j], log_n, {.a = read(*c.own, p), .c = out[j], .constant = k.own[j]});
        }
        for (std::size_t j = 0; j < k.targets(); ++j) write(c.out, {item, component, limb(j), first, log_n}, out[j]);
      });
    }
  }
}

void Encoder::run(Queue&, const device::InnerProduct& c) {
  const std::size_t components = c.out.components;
  std::vector<std::pair<u64, bool>> turns;
  for (const auto& turn : c.turns) {
    bool ntt_order = true;
    const u64 galois = turn ? memory_.galois(*turn, ntt_order) : 1;
    if (galois == 0 || !ntt_order) throw ParameterError("the device rtl permutes by automorphisms only; use the device cpu");
    turns.emplace_back(galois, turn != nullptr);
  }
  for (std::size_t l = 0; l < c.out.limbs; ++l) {
    const u64 q = prime_of(c.ring, c.primes, l);
    for (std::size_t item = 0; item < c.out.items(); ++item) {
      limb_pieces(c.out.n, [&](std::size_t first, int log_n) {
        std::vector<Value> sums(components, kNoValue);
        for (std::size_t j = 0; j < c.terms(); ++j) {
          Value digit = read(c.digits, {item, c.turns.empty() ? j : 0, l, first, log_n});
          if (!turns.empty() && turns[j].second) {
            const Value turned = list_.fresh(log_n);
            list_.add({.op = Op::permute,
                       .words = card::permute(log_n, true, turns[j].first, q, 0, 0),
                       .in = {digit},
                       .out = {turned}});
            digit = turned;
          }
          for (std::size_t k = 0; k < components; ++k) {
            const Value key = read(c.key, {0, j * components + k, c.key_limbs[l], first, log_n});
            sums[k] = pointwise(q, log_n, {.a = digit, .b = key, .c = sums[k]});
          }
        }
        for (std::size_t k = 0; k < components; ++k) write(c.out, {item, k, l, first, log_n}, sums[k]);
      });
    }
  }
}

void Encoder::run(Queue&, const device::Tensor& c) {
  for (std::size_t l = 0; l < c.out.limbs; ++l) {
    const u64 q = prime_of(c.ring, c.primes, l);
    for (std::size_t item = 0; item < c.out.items(); ++item) {
      limb_pieces(c.out.n, [&](std::size_t first, int log_n) {
        std::vector<Value> sums(c.out.components, kNoValue);
        for (std::size_t i = 0; i < c.a.components; ++i) {
          for (std::size_t j = 0; j < c.b.components; ++j) {
            const Value a = read(c.a, {item, i, l, first, log_n});
            const Value b = read(c.b, {item, j, l, first, log_n});
            sums[i + j] = pointwise(q, log_n, {.a = a, .b = b, .c = sums[i + j]});
          }
        }
        for (std::size_t k = 0; k < sums.size(); ++k) write(c.out, {item, k, l, first, log_n}, sums[k]);
      });
    }
  }
}

void Encoder::run(Queue&, const device::Product& c) {
  const GatheredProduct& g = c.product->product();
  for (std::size_t l = 0; l < c.out.limbs; ++l) {
    const u64 q = prime_of(c.ring, c.primes, l);
    for (std::size_t k = 0; k < c.out.components; ++k) {
      limb_pieces(c.out.n, [&](std::size_t first, int log_n) {
        for (std::size_t group = 0; group < g.groups; ++group) {
          for (std::size_t position = 0; position < g.positions; ++position) {
            for (std::size_t output = 0; output < g.outputs; ++output) {
              const std::size_t row = group * g.outputs + output;
              Value sum = kNoValue;
              for (std::size_t t = 0; t < g.terms; ++t) {
                const u32 source = g.index[(group * g.positions + position) * g.terms + t];
                const u64 weight = math::signed_mod(g.weights[row * g.terms + t], q);
                if (source == GatheredProduct::kNone || weight == 0) continue;
                sum = pointwise(q, log_n, {.a = read(c.in, {source, k, l, first, log_n}), .c = sum, .constant = weight});
              }
              if (sum == kNoValue) sum = zero(q, log_n);
              write(c.out, {row * g.positions + position, k, l, first, log_n}, sum);
            }
          }
        }
      });
    }
  }
}

bool Encoder::moves(const device::Copy& c) const {
  const auto beat = static_cast<u64>(shape_.beat_bytes());
  const auto fits = [&](const View& v) {
    for (std::size_t item = 0; item < v.items(); ++item) {
      for (std::size_t k = 0; k < v.components; ++k) {
        for (std::size_t l = 0; l < v.limbs; ++l) {
          if (memory_.address(v.address(item, k, l)) % beat != 0) return false;
        }
      }
    }
    return true;
  };
  return c.out.word == math::Word::w32 && c.out.n % static_cast<std::size_t>(shape_.beat_words()) == 0 && fits(c.a) &&
         fits(c.out);
}

void Encoder::run(Queue&, const device::Copy& c) {
  pieces(c.out, [&](const Piece& p) { write(c.out, p, read(c.a, p)); });
}

void Encoder::run(Queue&, const device::Zero& c) {
  std::map<int, Value> zeros;
  pieces(c.out, [&](const Piece& p) {
    auto [at, made] = zeros.try_emplace(p.log_n, kNoValue);
    if (made) at->second = zero(kMoveModulus, p.log_n);
    list_.wipe(address(c.out, p), p.log_n, at->second);
  });
}

}  // namespace heliograph::backend::rtl
