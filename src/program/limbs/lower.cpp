#include "program/limbs/lower.h"

#include <optional>

#include "device/expand.h"
#include "program/limbs/limb_writer.h"

namespace heliograph::program::limbs {

namespace {

using device::Call;
using Switching = Lowering::Switching;

class Lowerer : LimbWriter {
 public:
  Lowerer(const Program::Parts& parts, const Lowering& how) : LimbWriter(parts, how) {
    for (std::size_t p = 0; p < parts.places.size(); ++p) {
      const Place& place = parts.places[p];
      if (place.kind != Place::Kind::input) continue;
      require<ParameterError>(place.alone, "cannot write this program as instructions: its operands must not share memory");
      take_input(p, place.shape, how.inputs[place.number], how.coefficients[place.number]);
    }
  }

  Lowered run() {
    for (const Step& step : parts_.steps) {
      Call call = step.call;
      std::size_t k = 0;
      device::each_view(call, [&](View& v, device::Access) { v.data = at(step.places[k++], v.data); });
      require<ParameterError>(step.source == Step::kNoSource,
                              "cannot write this program as instructions: it uses keys of TFHE");
      device::give_scratch(call, device::Workspace(at(parts_.places.size(), nullptr), std::size_t{1} << (kPlaceBits - 1)));
      lower(call);
    }
    for (std::size_t r = 0; r < parts_.results.size(); ++r) give(parts_.results[r], how_.results[r]);
    made_.text = drafts_.finish();
    return std::move(made_);
  }

 private:
  template <class F>
  void fill(const View& out, const device::PrimeList& list, F f) {
    require<ParameterError>(out.n == n_, "cannot write this program as instructions: it computes on parts of polynomials");
    const Primes primes = primes_of(list);
    for (std::size_t i = 0; i < out.items(); ++i) {
      for (std::size_t c = 0; c < out.components; ++c) {
        for (std::size_t l = 0; l < out.limbs; ++l) write(out, i, c, l, f(i, c, l, primes[l]));
      }
    }
  }

  void lower(const Call& call) {
    std::visit([&](const auto& c) { take(c); }, call);
  }
  /// Lowers a call: lowers each call of its expansion. Kernels without an expansion have their own overload of this function
  /// below.
  template <class C>
  void take(const C& c) {
    const std::vector<Call> calls = device::expand(c);
    if (calls.empty()) throw ParameterError(std::string("cannot write this program as instructions: it calls ") + C::name);
    for (const Call& call : calls) lower(call);
  }
  void take(const device::Add& c) {
    fill(c.out, c.primes, [&](auto i, auto k, auto l, auto p) {
      const u32 a = fetch(c.a, i, k, l, p);
      return sum(Op::add_, a, fetch_beside(c.b, i, k, l, p, a));
    });
  }
  void take(const device::Sub& c) {
    fill(c.out, c.primes, [&](auto i, auto k, auto l, auto p) {
      const u32 a = fetch(c.a, i, k, l, p);
      return sum(Op::sub_, a, fetch_beside(c.b, i, k, l, p, a));
    });
  }
  void take(const device::Neg& c) {
    fill(c.out, c.primes, [&](auto i, auto k, auto l, auto p) { return negated(fetch(c.a, i, k, l, p)); });
  }
  void take(const device::Mul& c) {
    fill(c.out, c.primes,
         [&](auto i, auto k, auto l, auto p) { return product(fetch(c.a, i, k, l, p), fetch(c.b, i, k, l, p)); });
  }
  void take(const device::MulAccumulate& c) {
    fill(c.out, c.primes, [&](auto i, auto k, auto l, auto p) {
      return sum(Op::add_, fetch(c.out, i, k, l, p), product(fetch(c.a, i, k, l, p), fetch(c.b, i, k, l, p)));
    });
  }
  void take(const device::MulConstants& c) {
    fill(c.out, c.primes, [&](auto i, auto k, auto l, auto p) { return scaled(fetch(c.a, i, k, l, p), c.c[l]); });
  }
  void take(const device::AddConstants& c) {
    fill(c.out, c.primes, [&](auto i, auto k, auto l, auto p) { return shifted(fetch(c.a, i, k, l, p), c.c[l]); });
  }
  void take(const device::WeightedSum& c) {
    fill(c.out, c.primes, [&](auto i, auto k, auto l, auto p) {
      u32 total = kNone;
      for (std::size_t t = 0; t < c.x.size(); ++t) {
        const u32 term = scaled(fetch(c.x[t], i, k, l, p), (*c.weights)[t][l]);
        total = t == 0 ? term : sum(Op::add_, total, term);
      }
      return c.constant && k == 0 ? shifted(total, (*c.constant)[l]) : total;
    });
  }
  void take(const device::ForwardNtt& c) {
    fill(c.out, c.primes, [&](auto i, auto k, auto l, auto p) { return transform(find(c.a, i, k, l, p, true), false); });
  }
  void take(const device::InverseNtt& c) {
    fill(c.out, c.primes, [&](auto i, auto k, auto l, auto p) { return transform(fetch(c.a, i, k, l, p), true); });
  }
  std::int32_t turn_of(const device::PermutationHandle& handle, bool coefficients) {
    const auto [known, fresh] = turns_.try_emplace({handle.get(), coefficients}, 0);
    if (fresh) {
      const device::Permutation& p = handle->permutation();
      const u64 galois = coefficients ? p.galois_of_coefficients() : p.galois_of_values();
      require<ParameterError>(galois != 0,
                              "cannot write this program as instructions: it has a permutation that is not an automorphism");
      known->second = how_.turn(galois);
    }
    return known->second;
  }
  void take(const device::Permute& c) {
    fill(c.out, c.primes, [&](auto i, auto k, auto l, auto p) {
      const u32 x = fetch(c.a, i, k, l, p);
      return turned(x, turn_of(c.permutation, limb(x).coefficients));
    });
  }
  void take(const device::Copy& c) {
    for (std::size_t i = 0; i < c.out.items(); ++i) {
      for (std::size_t k = 0; k < c.out.components; ++k) {
        for (std::size_t l = 0; l < c.out.limbs; ++l) {
          const auto found = memory_.find(address(c.a, i, c.a.components == 1 ? 0 : k, l));
          require<ParameterError>(found != memory_.end(), "cannot write this program as instructions: it copies constants");
          write(c.out, i, k, l, found->second);
        }
      }
    }
  }
  void take(const device::Zero& c) {
    for (std::size_t i = 0; i < c.out.items(); ++i) {
      for (std::size_t k = 0; k < c.out.components; ++k) {
        // The added zeros have the primes of the limbs to which they are added.
        for (std::size_t l = 0; l < c.out.limbs; ++l) write(c.out, i, k, l, zero(0, false));
      }
    }
  }
  void take(const device::Product& c) {
    const device::GatheredProduct& p = c.product->product();
    fill(c.out, c.primes, [&](std::size_t i, std::size_t k, std::size_t l, std::uint16_t prime) {
      const std::size_t position = i % p.positions, m = i / p.positions % p.outputs, g = i / p.positions / p.outputs;
      const u64 q = moduli_[prime];
      u32 total = zero(prime, false);
      for (std::size_t t = 0; t < p.terms; ++t) {
        const u32 from = p.index[(g * p.positions + position) * p.terms + t];
        const math::i64 weight = p.weights[(g * p.outputs + m) * p.terms + t];
        if (from == device::GatheredProduct::kNone || weight == 0) continue;
        const u64 size = (weight < 0 ? u64{0} - static_cast<u64>(weight) : static_cast<u64>(weight)) % q;
        total = sum(weight < 0 ? Op::sub_ : Op::add_, total, scaled(fetch(c.in, from, k, l, prime), size));
      }
      return total;
    });
  }
  void take(const device::Convert& c) {
    const Conversion& conversion = c.conversion->conversion();
    const Primes from = primes_of(conversion.from), to = primes_of(conversion.to);
    const auto place = [&](std::size_t j) { return c.place ? std::size_t{(*c.place)[j]} : j; };
    for (std::size_t i = 0; i < c.out.items(); ++i) {
      for (std::size_t k = 0; k < c.out.components; ++k) {
        std::vector<u32> x, own;
        for (std::size_t s = 0; s < from.size(); ++s) x.push_back(fetch(c.x, i, k, s, from[s]));
        for (std::size_t j = 0; j < to.size() && c.own; ++j) own.push_back(fetch(*c.own, i, k, place(j), to[j]));
        const std::vector<u32> made = convert(conversion, x, own, conversion.own, false);
        for (std::size_t j = 0; j < to.size(); ++j) write(c.out, i, k, place(j), made[j]);
      }
    }
  }
  void take(const device::Divide& c) {
    const device::DividePlan& plan = *c.plan;
    const Primes primes = primes_of(plan.primes), to = primes_of(plan.out);
    const std::vector<u64> by(plan.own.begin(), plan.own.begin() + static_cast<std::ptrdiff_t>(to.size()));
    for (std::size_t i = 0; i < c.out.items(); ++i) {
      for (std::size_t k = 0; k < c.out.components; ++k) {
        std::vector<u32> x(plan.divisors()), own(to.size(), kNone);
        for (const auto& [from, at, count] : plan.divided) {
          for (std::size_t s = 0; s < count; ++s) x[at + s] = transform(fetch(c.x, i, k, from + s, primes[from + s]), true);
        }
        for (const auto& [from, at, count] : plan.kept) {
          for (std::size_t s = 0; s < count; ++s) own[at + s] = fetch(c.x, i, k, from + s, primes[from + s]);
        }
        std::vector<u32> made;
        if (plan.rest) {
          made = convert(plan.rest->conversion(), x, own, by, true);
        } else {
          for (std::size_t j = 0; j < to.size(); ++j) made.push_back(scaled(own[j], by[j]));
        }
        for (std::size_t j = 0; j < to.size(); ++j) write(c.out, i, k, j, made[j]);
      }
    }
  }
  void take(const device::Decompose& c) {
    const device::KeySwitchPlan& plan = *c.plan;
    const Primes extended = primes_of(plan.extended);
    for (std::size_t i = 0; i < c.x.items(); ++i) {
      // Sends the limbs of all digits before the first digit is raised.
      std::vector<u32> x;
      for (std::size_t l = 0; l < plan.chain.size(); ++l) x.push_back(fetch(c.x, i, 0, l, extended[l]));
      for (std::size_t j = 0; j < plan.digits.size(); ++j) {
        const device::KeySwitchPlan::Digit& digit = plan.digits[j];
        std::optional<std::size_t> chip;
        if (how_.switching != Switching::broadcast) chip = j % drafts_.chips();
        std::vector<u32> sources;
        for (std::size_t l = digit.first; l < digit.first + digit.count; ++l) {
          sources.push_back(x[l]);
          u32 own = kNone;
          if (chip && *chip != home(extended[l]) && !is_zero(x[l]))
            own = made(extended[l], false, *chip, drafts_.unary(*chip, Op::ntt_, extended[l], on(x[l], *chip)));
          else
            own = transform(x[l], false);
          write(c.digits, i, j, l, own);
        }
        if (digit.others.size() == 0) continue;
        const std::vector<u32> raised = convert(digit.raise->conversion(), sources, {}, {}, false, chip);
        for (std::size_t t = 0; t < raised.size(); ++t) write(c.digits, i, j, digit.others[t], transform(raised[t], false));
      }
    }
  }
  void take(const device::InnerProduct& c) {
    const Primes primes = primes_of(c.primes);
    const std::size_t parts = c.out.components;
    for (std::size_t i = 0; i < c.out.items(); ++i) {
      for (std::size_t l = 0; l < c.out.limbs; ++l) {
        std::vector<u32> totals(parts, kNone);
        for (std::size_t j = 0; j < c.terms(); ++j) {
          u32 digit = fetch(c.digits, i, c.turns.empty() ? j : 0, l, primes[l]);
          if (!c.turns.empty() && c.turns[j]) digit = turned(digit, turn_of(c.turns[j], limb(digit).coefficients));
          for (std::size_t k = 0; k < parts; ++k) {
            const u32 term = product(digit, fetch(c.key, i, j * parts + k, (*c.key_limbs)[l], primes[l]));
            totals[k] = j == 0 ? term : sum(Op::add_, totals[k], term);
          }
        }
        for (std::size_t k = 0; k < parts; ++k) write(c.out, i, k, l, totals[k]);
      }
    }
  }

  void give(const Shown& shown, const std::string& name) {
    View v = shown.view;
    require<ParameterError>(
        v.components == 2,
        "cannot write this program as instructions: its results must be ciphertexts of degree 1; relinearize them");
    v.data = at(shown.place, v.data);
    for (std::size_t i = 0; i < v.items(); ++i) {
      for (std::size_t c = 0; c < 2; ++c) {
        for (std::size_t l = 0; l < v.limbs; ++l) {
          const auto prime = static_cast<std::uint16_t>(l);
          const u32 x = transform(find(v, i, c, l, prime, false), false);
          require<ParameterError>(!is_zero(x), "cannot write this program as instructions: a result is not a ciphertext");
          drafts_.store(home(prime), on(x, home(prime)), numbered(name, v, i) + (c == 0 ? ":c0" : ":c1"), prime);
        }
      }
    }
  }

  std::map<std::pair<const device::PermutationConstant*, bool>, std::int32_t> turns_;
};

}  // namespace

Lowered lower(const Program::Parts& parts, const Lowering& how) { return Lowerer(parts, how).run(); }

}  // namespace heliograph::program::limbs
