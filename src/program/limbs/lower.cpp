#include "program/limbs/lower.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "device/expand.h"
#include "program/limbs/drafts.h"

namespace heliograph::program::limbs {

namespace {

using device::Call;
using math::Conversion;
using Primes = std::vector<std::uint16_t>;
using Switching = Lowering::Switching;

/// Each place has addresses of its own, which no memory has.
constexpr int kPlaceBits = 40;
u64 base_of(std::size_t place) { return (u64{place} + 1) << kPlaceBits; }

/// One limb of one polynomial. Where several chips have a part of it, it is their sum.
struct Limb {
  enum class Kind : unsigned char { zero, source, made };
  Kind kind = Kind::made;
  bool coefficients = false;
  std::uint16_t prime = 0;
  char from = 0;       // source: as in Term
  std::string symbol;  // source
  std::map<std::size_t, Operand> parts, copies;
  u32 other = kNone;  // the same in the other domain, where it is there
};

/// A conversion by what the set converts: out = own x' + times [multiplier x], centred.
struct Factors {
  std::vector<u64> multiplier, times;  // of each source, each target
  std::vector<u64> product;            // of the sources, modulo each target
};

Factors factors_of(const Conversion& c) {
  const Conversion plain = math::extend_base(c.from, c.to);
  Factors f;
  const auto ratio = [](u64 a, u64 b, u64 q) { return math::mul_mod(a, math::inverse_mod(b, q), q); };
  for (std::size_t i = 0; i < c.sources(); ++i) f.multiplier.push_back(ratio(c.inverse[i], plain.inverse[i], c.from[i]));
  bool same = c.rounded;
  for (std::size_t j = 0; j < c.targets(); ++j) {
    const u64 q = c.to[j];
    const std::size_t row = j * c.sources();
    std::size_t some = 0;  // a target that is a source besides has one entry that is not 0
    while (some + 1 < c.sources() && plain.matrix[row + some] == 0) ++some;
    f.times.push_back(ratio(c.matrix[row + some], plain.matrix[row + some], q));
    for (std::size_t i = 0; i < c.sources(); ++i)
      same = same && c.matrix[row + i] == math::mul_mod(f.times[j], plain.matrix[row + i], q);
    same = same && c.wrap[j] == math::mul_mod(f.times[j], plain.wrap[j], q);
    f.product.push_back(math::neg_mod(plain.wrap[j], q));
  }
  require<ParameterError>(same, "the instruction set has no conversion of bases as one of this program's");
  return f;
}

class Lowerer {
 public:
  Lowerer(const Program::Parts& parts, const Lowering& how) : parts_(parts), how_(how), drafts_(how.chips) {
    const std::size_t primes = how.chain.size() + how.special.size();
    if (primes > kPrimes) throw ParameterError("instructions name 64 primes; this set has " + std::to_string(primes));
    for (std::size_t p = 0; p < how.chain.size(); ++p) know(how.chain[p], p);
    for (std::size_t p = 0; p < how.special.size(); ++p) know(how.special[p], kPrimes - 1 - p);
    for (std::size_t p = 0; p < parts.places.size(); ++p) {
      const Place& place = parts.places[p];
      if (place.kind != Place::Kind::input) continue;
      require<ParameterError>(place.alone, "a program whose operands share memory is not written as instructions");
      take(p, place.shape, how.inputs[place.number], how.coefficients[place.number]);
    }
  }

  Lowered run() {
    for (const Step& step : parts_.steps) {
      Call call = step.call;
      std::size_t k = 0;
      device::each_view(call, [&](View& v, device::Access) { v.data = at(step.places[k++], v.data); });
      require<ParameterError>(step.source == Step::kNoSource, "a program that draws is not written as instructions");
      device::give_scratch(call, device::Workspace(at(parts_.places.size(), nullptr), std::size_t{1} << (kPlaceBits - 1)));
      lower(call);
    }
    for (std::size_t r = 0; r < parts_.results.size(); ++r) give(parts_.results[r], how_.results[r]);
    made_.text = drafts_.finish();
    return std::move(made_);
  }

 private:
  static std::byte* at(std::size_t place, const std::byte* offset) {
    return reinterpret_cast<std::byte*>(base_of(place) + reinterpret_cast<std::uintptr_t>(offset));
  }
  static u64 address(const View& v, std::size_t item, std::size_t component, std::size_t limb) {
    const std::ptrdiff_t words = v.offset(item, component, limb);
    return reinterpret_cast<std::uintptr_t>(v.data) + static_cast<u64>(words * static_cast<std::ptrdiff_t>(v.word_size()));
  }
  static std::string numbered(const std::string& name, const View& v, std::size_t item) {
    return v.axes == 0 ? name : name + "." + std::to_string(item);
  }
  std::size_t home(std::uint16_t prime) const { return prime % drafts_.chips(); }

  void know(u64 modulus, std::size_t index) {
    primes_[modulus] = static_cast<std::uint16_t>(index);
    moduli_[index] = modulus;
  }
  /// A ring's prime as instructions name it.
  std::uint16_t prime_of(device::PrimeIndex p) const {
    if (p < how_.chain.size()) return static_cast<std::uint16_t>(p);
    const std::size_t s = p - how_.chain.size();
    require<ParameterError>(s < how_.special.size(), "a program that computes with auxiliary primes is not written");
    return static_cast<std::uint16_t>(kPrimes - 1 - s);
  }
  Primes primes_of(const device::PrimeList& list) const {
    Primes primes;
    for (const device::PrimeIndex p : list) primes.push_back(prime_of(p));
    return primes;
  }
  Primes primes_of(const std::vector<u64>& moduli) const {
    Primes primes;
    for (const u64 m : moduli) {
      const auto found = primes_.find(m);
      require<ParameterError>(found != primes_.end(), "a program that computes with auxiliary primes is not written");
      primes.push_back(found->second);
    }
    return primes;
  }

  // Limbs.

  Limb& limb(u32 x) { return limbs_[x]; }
  u32 add_limb(Limb l) {
    limbs_.push_back(std::move(l));
    return static_cast<u32>(limbs_.size() - 1);
  }
  u32 made(std::uint16_t prime, bool coefficients, std::size_t chip, const Operand& o) {
    return add_limb({.coefficients = coefficients, .prime = prime, .parts = {{chip, o}}});
  }
  u32 zero(std::uint16_t prime, bool coefficients) {
    return add_limb({.kind = Limb::Kind::zero, .coefficients = coefficients, .prime = prime});
  }
  /// The coefficients of what is given by values, transformed once somebody asks for them.
  u32 coefficients_of(u32 values) {
    const u32 to = add_limb({.coefficients = true, .prime = limb(values).prime, .other = values});
    limb(values).other = to;
    return to;
  }
  u32 asked(u32 x) {
    if (limb(x).kind == Limb::Kind::made && limb(x).parts.empty() && limb(x).other != kNone) {
      const u32 made = each(Op::int_, limb(x).other, true);
      limb(x).parts = limb(made).parts;
    }
    return x;
  }
  bool is_zero(u32 x) { return limb(x).kind == Limb::Kind::zero; }
  bool is_source(u32 x) { return limb(x).kind == Limb::Kind::source; }

  void take(std::size_t place, const View& shape, const std::string& name, bool coefficients) {
    require<ParameterError>(shape.components == 2, "a program of instructions takes ciphertexts of degree 1");
    View v = shape;
    v.data = at(place, nullptr);
    n_ = shape.n;
    for (std::size_t i = 0; i < v.items(); ++i) {
      for (std::size_t c = 0; c < 2; ++c) {
        for (std::size_t l = 0; l < v.limbs; ++l) {
          const u32 x = add_limb({.kind = Limb::Kind::source,
                                  .prime = static_cast<std::uint16_t>(l),
                                  .from = 'i',
                                  .symbol = numbered(name, v, i) + (c == 0 ? ":c0" : ":c1")});
          memory_[address(v, i, c, l)] = coefficients ? coefficients_of(x) : x;
        }
      }
    }
  }

  u32 fetch(const View& v, std::size_t item, std::size_t component, std::size_t l, std::uint16_t prime) {
    return asked(find(v, item, component, l, prime, false));
  }
  /// `beside`: what it is added to, in whose domain it is then.
  u32 fetch_beside(const View& v, std::size_t item, std::size_t component, std::size_t l, std::uint16_t prime, u32 beside) {
    return asked(find(v, item, component, l, prime, limb(beside).coefficients));
  }
  /// `coefficients`: of a constant that nobody has met.
  u32 find(const View& v, std::size_t item, std::size_t component, std::size_t l, std::uint16_t prime, bool coefficients) {
    const u64 where = address(v, item, v.components == 1 ? 0 : component, l);
    const auto found = memory_.find(where);
    if (found != memory_.end()) return found->second;
    const std::size_t p = (where >> kPlaceBits) - 1;
    const u64 offset = where - base_of(p);
    require<InternalError>(p < parts_.places.size(), "a recorded call reads what none wrote");
    const Place& place = parts_.places[p];
    const View& shape = place.shape;
    const u64 limb_bytes = shape.n * shape.word_size(), item_bytes = limb_bytes * shape.limbs;
    Limb source{.kind = Limb::Kind::source, .prime = prime};
    if (place.kind == Place::Kind::key) {
      require<InternalError>(limb_bytes > 0, "a key of a shape that nobody knows");
      const Key key = how_.key(place);
      const u64 component_of = offset / item_bytes, pair = component_of / 2;
      source.from = 'k';
      source.symbol = key.name();
      source.symbol.resize(source.symbol.find('['));
      source.symbol += component_of % 2 == 0 ? "c0:" : "c1:";
      const auto& digit = key.digits[pair];
      for (std::size_t i = 0; i < digit.size(); ++i) source.symbol += (i == 0 ? "[" : ",") + std::to_string(digit[i]);
      source.symbol += "]";
    } else {
      require<InternalError>(place.kind == Place::Kind::constant, "a recorded call reads what none wrote");
      // A plaintext is what lies side by side there, limb by limb.
      const u64 first = limb_bytes > 0 ? where - offset % item_bytes : address(v, item, component, 0);
      const auto [known, fresh] = constants_.try_emplace(first, made_.plaintexts.size());
      if (fresh) made_.plaintexts.push_back({.name = "plaintext" + std::to_string(known->second), .limbs = {}});
      Constant& c = made_.plaintexts[known->second];
      View one = v.with_components(0, 1).with_limbs(0, 1);
      one.axes = 0, one.data = reinterpret_cast<std::byte*>(offset);
      c.limbs.push_back({.prime = prime, .place = static_cast<u32>(p), .view = one, .coefficients = coefficients});
      source.from = 'p', source.symbol = c.name + ":p";
    }
    const u32 x = add_limb(std::move(source));
    return memory_[where] = coefficients ? coefficients_of(x) : x;
  }
  void write(const View& v, std::size_t item, std::size_t component, std::size_t l, u32 x) {
    memory_[address(v, item, component, l)] = x;
  }

  /// The limb's operand where it lies; of a source, loaded there.
  Operand load(u32 x, std::size_t chip) {
    const Limb& l = limb(x);
    return drafts_.load(chip, l.from, l.symbol, l.prime);
  }
  std::map<std::size_t, Operand> parts(u32 x) {
    if (is_source(x)) return {{home(limb(x).prime), load(x, home(limb(x).prime))}};
    return limb(x).parts;
  }
  /// One chip has all of it from now on.
  void gather(u32 x) {
    Limb& l = limb(x);
    if (l.parts.size() < 2) return;
    const std::vector<std::pair<std::size_t, Operand>> brought(l.parts.begin(), l.parts.end());
    l.parts = {{home(l.prime), drafts_.join(home(l.prime), l.prime, brought)}};
  }
  /// The limb on each of these chips: sent where it is not.
  void bring(u32 x, const std::set<std::size_t>& chips) {
    gather(x);
    Limb& l = limb(x);
    if (l.kind != Limb::Kind::made) return;
    const auto& [owner, part] = *l.parts.begin();
    std::vector<std::size_t> missing;
    for (const std::size_t c : chips) {
      if (c != owner && !l.copies.contains(c)) missing.push_back(c);
    }
    if (missing.empty()) return;
    const std::vector<Operand> copies = drafts_.send(owner, part, missing);
    for (std::size_t i = 0; i < missing.size(); ++i) l.copies[missing[i]] = copies[i];
  }
  Operand on(u32 x, std::size_t chip) {
    if (is_source(x)) return load(x, chip);
    bring(x, {chip});
    const Limb& l = limb(x);
    return l.parts.contains(chip) ? l.parts.at(chip) : l.copies.at(chip);
  }

  // Arithmetic of limbs.

  u32 each(Op op, u32 x, bool coefficients, std::int32_t steps = 0) {
    const std::uint16_t prime = limb(x).prime;
    if (is_zero(x)) return zero(prime, coefficients);
    Limb to{.coefficients = coefficients, .prime = prime};
    for (const auto& [chip, part] : parts(x)) to.parts[chip] = drafts_.unary(chip, op, prime, part, steps);
    return add_limb(std::move(to));
  }
  u32 transform(u32 x, bool coefficients) {
    if (limb(x).coefficients == coefficients) return x;
    if (limb(x).other != kNone) return limb(x).other;
    const u32 to = each(coefficients ? Op::int_ : Op::ntt_, x, coefficients);
    limb(to).other = x, limb(x).other = to;
    return to;
  }
  u32 negated(u32 x) { return each(Op::neg_, x, limb(x).coefficients); }
  u32 sum(Op op, u32 a, u32 b) {
    if (is_zero(b)) return a;
    if (is_zero(a)) return op == Op::add_ ? b : negated(b);
    const std::uint16_t prime = limb(a).prime;
    Limb to{.coefficients = limb(a).coefficients, .prime = prime};
    if (is_source(a) && !is_source(b)) {
      const std::size_t chip = limb(b).parts.begin()->first;
      to.parts[chip] = load(a, chip);
    } else {
      to.parts = parts(a);
    }
    std::map<std::size_t, Operand> more;
    if (is_source(b))
      more[to.parts.begin()->first] = load(b, to.parts.begin()->first);
    else
      more = limb(b).parts;
    for (const auto& [chip, part] : more) {
      const auto mine = to.parts.find(chip);
      if (mine != to.parts.end())
        mine->second = drafts_.binary(chip, op, prime, mine->second, part);
      else
        to.parts[chip] = op == Op::add_ ? part : drafts_.unary(chip, Op::neg_, prime, part);
    }
    return add_limb(std::move(to));
  }
  u32 product(u32 a, u32 b) {
    const std::uint16_t prime = limb(a).prime;
    const bool coefficients = limb(a).coefficients;
    if (is_zero(a) || is_zero(b)) return zero(prime, coefficients);
    if (is_source(a) && !is_source(b)) std::swap(a, b);
    Limb to{.coefficients = coefficients, .prime = prime};
    if (!is_source(b)) gather(a), bring(b, {limb(a).parts.begin()->first});
    for (const auto& [chip, part] : parts(a)) {
      const bool plain = is_source(b) && limb(b).from == 'p';
      to.parts[chip] = drafts_.binary(chip, plain ? Op::mup_ : Op::mul_, prime, part, on(b, chip));
    }
    return add_limb(std::move(to));
  }
  /// Scalars have a name for each value that they have modulo a prime.
  Operand scalar(std::size_t chip, std::uint16_t prime, u64 value) {
    const auto [known, fresh] = scalars_.try_emplace({prime, value}, 0);
    if (fresh) known->second = of_prime_[prime]++;
    const std::string name = "scalar" + std::to_string(known->second);
    made_.scalars[name][prime] = value;
    return drafts_.load(chip, 's', name + ":s", prime);
  }
  Operand scaled(std::size_t chip, std::uint16_t prime, const Operand& x, u64 value) {
    if (value == 1) return x;
    return drafts_.binary(chip, Op::mus_, prime, x, scalar(chip, prime, value));
  }
  u32 scaled(u32 x, u64 value) {
    const std::uint16_t prime = limb(x).prime;
    if (value == 0) return zero(prime, limb(x).coefficients);
    if (is_zero(x) || value == 1) return x;
    Limb to{.coefficients = limb(x).coefficients, .prime = prime};
    for (const auto& [chip, part] : parts(x)) to.parts[chip] = scaled(chip, prime, part, value);
    return add_limb(std::move(to));
  }
  /// x, a constant polynomial more.
  u32 shifted(u32 x, u64 value) {
    if (value == 0) return x;
    const std::uint16_t prime = limb(x).prime;
    require<ParameterError>(!is_zero(x), "a constant is added to nothing");
    Limb to{.coefficients = limb(x).coefficients, .prime = prime, .parts = parts(x)};
    auto& [chip, part] = *to.parts.begin();
    part = drafts_.binary(chip, Op::ads_, prime, part, scalar(chip, prime, value));
    return add_limb(std::move(to));
  }
  u32 turned(u32 x, std::int32_t turn) {
    return each(turn == Linked::kConjugation ? Op::con_ : Op::rot_, x, limb(x).coefficients,
                turn == Linked::kConjugation ? 0 : turn);
  }

  // Conversions.

  const Factors& factors(const Conversion& c) {
    auto& known = factors_[&c];
    if (!known) known = factors_of(c);
    return *known;
  }

  /// What a conversion makes of coefficients x, at each target of it: own x' + times [multiplier x], with x' from `own`, whose
  /// limbs may be missing. `transformed`: own and the result are of the NTT domain. `chip`: where it is done, if not where its
  /// targets lie.
  std::vector<u32> convert(const Conversion& c, std::vector<u32> x, const std::vector<u32>& own, const std::vector<u64>& by,
                           bool transformed, std::optional<std::size_t> chip = std::nullopt) {
    const Factors& f = factors(c);
    const Primes from = primes_of(c.from), to = primes_of(c.to);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = scaled(x[i], f.multiplier[i]);
    const bool nothing = std::all_of(x.begin(), x.end(), [&](u32 l) { return is_zero(l); });
    bool split = false;
    const std::vector<u32>&sources = x, &added = own;
    for (const auto* list : {&sources, &added}) {
      for (const u32 l : *list) split = split || (l != kNone && limb(l).parts.size() > 1);
    }
    if (split && how_.switching != Switching::aggregate) {
      for (const auto* list : {&sources, &added}) {
        for (const u32 l : *list) {
          if (l != kNone) gather(l);
        }
      }
      split = false;
    }
    // Each chip's targets. What is a source besides stays what it is.
    std::map<std::size_t, std::vector<std::size_t>> targets;
    std::vector<std::size_t> all;
    std::vector<u32> kept(to.size(), kNone);
    for (std::size_t j = 0; j < to.size(); ++j) {
      const auto source = std::find(from.begin(), from.end(), to[j]);
      if (source == from.end()) {
        all.push_back(j);
        continue;
      }
      require<ParameterError>(own.empty(), "the instruction set has no conversion of bases as one of this program's");
      kept[j] = transform(scaled(x[static_cast<std::size_t>(source - from.begin())], f.times[j]), !transformed);
    }
    if (split) {
      for (const u32 l : x) {
        for (const auto& [at, part] : limb(l).parts) targets[at] = all;
      }
    } else if (chip) {
      targets[*chip] = all;
    } else {
      for (const std::size_t j : all) targets[home(to[j])].push_back(j);
    }
    if (!split && !nothing) {
      std::set<std::size_t> chips;
      for (const auto& [at, list] : targets) chips.insert(at);
      for (const u32 l : x) bring(l, chips);
    }
    std::vector<Limb> results(to.size());
    for (std::size_t j = 0; j < to.size(); ++j) results[j] = {.coefficients = !transformed, .prime = to[j]};
    for (const auto& [at, list] : targets) {
      std::vector<Operand> rests(list.size());
      if (!nothing) {
        std::vector<Operand> taken;
        for (const u32 l : x) taken.push_back(split || is_zero(l) ? part(l, at) : on(l, at));
        Primes mine;
        for (const std::size_t j : list) mine.push_back(to[j]);
        rests = drafts_.convert(at, from, taken, mine);
      }
      for (std::size_t i = 0; i < list.size(); ++i) {
        const std::size_t j = list[i];
        std::optional<Operand> mine;
        if (j < own.size() && own[j] != kNone && !is_zero(own[j])) {
          if (!split || (is_source(own[j]) && at == targets.begin()->first))
            mine = on(own[j], at);
          else if (limb(own[j]).parts.contains(at))
            mine = limb(own[j]).parts.at(at);
        }
        if (nothing && !mine) continue;
        results[j].parts[at] = combined(at, to[j], f, j, nothing ? std::nullopt : std::optional(rests[i]), mine,
                                        j < by.size() ? by[j] : 0, transformed);
      }
    }
    std::vector<u32> limbs;
    for (std::size_t j = 0; j < to.size(); ++j) {
      if (kept[j] != kNone) {
        limbs.push_back(kept[j]);
        continue;
      }
      // What of its own is on chips that convert nothing.
      if (split && j < own.size() && own[j] != kNone) {
        for (const auto& [at, part] : limb(own[j]).parts) {
          if (!targets.contains(at)) results[j].parts[at] = scaled(at, to[j], part, by[j]);
        }
      }
      if (results[j].parts.empty()) results[j].kind = Limb::Kind::zero;
      limbs.push_back(add_limb(std::move(results[j])));
      if (split) gather(limbs.back());
    }
    return limbs;
  }
  Operand combined(std::size_t chip, std::uint16_t prime, const Factors& f, std::size_t j,
                   const std::optional<Operand>& rest, const std::optional<Operand>& own, u64 by, bool transformed) {
    const u64 q = moduli_[prime];
    if (!rest) return scaled(chip, prime, *own, by);
    if (own && f.times[j] == math::neg_mod(by, q)) {
      if (!transformed) return scaled(chip, prime, drafts_.binary(chip, Op::sub_, prime, *own, *rest), by);
      // A division, and what it is multiplied by besides.
      const Operand divided = drafts_.binary(chip, Op::sud_, prime, *own, *rest);
      return scaled(chip, prime, divided, math::mul_mod(by, f.product[j], q));
    }
    Operand made = transformed ? drafts_.unary(chip, Op::ntt_, prime, *rest) : *rest;
    made = scaled(chip, prime, made, f.times[j]);
    return own ? drafts_.binary(chip, Op::add_, prime, scaled(chip, prime, *own, by), made) : made;
  }
  /// A chip's part of what some chips have parts of. Zero is what something is less itself: the set has no other word for it.
  Operand part(u32 x, std::size_t chip) {
    const Limb& l = limb(x);
    require<ParameterError>(!l.parts.empty(), "a program that converts zeros is not written as instructions");
    if (l.parts.contains(chip)) return l.parts.at(chip);
    const auto& [owner, some] = *l.parts.begin();
    const Operand copy = drafts_.send(owner, some, {chip})[0];
    return drafts_.binary(chip, Op::sub_, l.prime, copy, copy);
  }

  // Calls.

  template <class F>
  void fill(const View& out, const device::PrimeList& list, F f) {
    require<ParameterError>(out.n == n_, "a program that computes on parts of polynomials is not written as instructions");
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
  /// What a call stands for; those that stand for themselves are below.
  template <class C>
  void take(const C& c) {
    const std::vector<Call> calls = device::expand(c);
    if (calls.empty())
      throw ParameterError(std::string("a program that calls ") + C::name + " is not written as instructions");
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
                              "a program that orders coefficients in its own way is not written as instructions");
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
          require<ParameterError>(found != memory_.end(), "a program that copies constants is not written as instructions");
          write(c.out, i, k, l, found->second);
        }
      }
    }
  }
  void take(const device::Zero& c) {
    for (std::size_t i = 0; i < c.out.items(); ++i) {
      for (std::size_t k = 0; k < c.out.components; ++k) {
        // Which primes these are, whoever reads them says; zero is zero.
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
      // Those of all digits are sent before the first is raised.
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
    require<ParameterError>(v.components == 2, "a program of instructions gives ciphertexts of degree 1; relinearize");
    v.data = at(shown.place, v.data);
    for (std::size_t i = 0; i < v.items(); ++i) {
      for (std::size_t c = 0; c < 2; ++c) {
        for (std::size_t l = 0; l < v.limbs; ++l) {
          const auto prime = static_cast<std::uint16_t>(l);
          const u32 x = transform(find(v, i, c, l, prime, false), false);
          require<ParameterError>(!is_zero(x), "a result of this program is not a ciphertext");
          drafts_.store(home(prime), on(x, home(prime)), numbered(name, v, i) + (c == 0 ? ":c0" : ":c1"), prime);
        }
      }
    }
  }

  const Program::Parts& parts_;
  const Lowering& how_;
  Drafts drafts_;
  Lowered made_;
  std::size_t n_ = 0;
  std::map<u64, std::uint16_t> primes_;  // by modulus
  std::array<u64, kPrimes> moduli_{};
  std::vector<Limb> limbs_;
  std::unordered_map<u64, u32> memory_;
  std::map<u64, std::size_t> constants_;
  std::map<std::pair<std::uint16_t, u64>, u32> scalars_;
  std::array<u32, kPrimes> of_prime_{};
  std::map<const Conversion*, std::optional<Factors>> factors_;
  std::map<std::pair<const device::PermutationConstant*, bool>, std::int32_t> turns_;
};

}  // namespace

Lowered lower(const Program::Parts& parts, const Lowering& how) { return Lowerer(parts, how).run(); }

}  // namespace heliograph::program::limbs
