#include "program/limbs/limb_writer.h"

#include <algorithm>

namespace heliograph::program::limbs {

namespace {

using Switching = Lowering::Switching;

u64 base_of(std::size_t place) { return (u64{place} + 1) << kPlaceBits; }

Factors factors_of(const Conversion& c) {
  const Conversion plain = math::extend_base(c.from, c.to);
  Factors f;
  const auto ratio = [](u64 a, u64 b, u64 q) { return math::mul_mod(a, math::inverse_mod(b, q), q); };
  for (std::size_t i = 0; i < c.sources(); ++i) f.multiplier.push_back(ratio(c.inverse[i], plain.inverse[i], c.from[i]));
  bool same = c.rounded;
  for (std::size_t j = 0; j < c.targets(); ++j) {
    const u64 q = c.to[j];
    const std::size_t row = j * c.sources();
    std::size_t some = 0;  // the row of a target that is also a source has one nonzero entry
    while (some + 1 < c.sources() && plain.matrix[row + some] == 0) ++some;
    f.times.push_back(ratio(c.matrix[row + some], plain.matrix[row + some], q));
    for (std::size_t i = 0; i < c.sources(); ++i)
      same = same && c.matrix[row + i] == math::mul_mod(f.times[j], plain.matrix[row + i], q);
    same = same && c.wrap[j] == math::mul_mod(f.times[j], plain.wrap[j], q);
    f.product.push_back(math::neg_mod(plain.wrap[j], q));
  }
  require<ParameterError>(
      same, "cannot write this program as instructions: the instruction set lacks one of its base conversions");
  return f;
}

}  // namespace

LimbWriter::LimbWriter(const Program::Parts& parts, const Lowering& how) : parts_(parts), how_(how), drafts_(how.chips) {
  const std::size_t primes = how.chain.size() + how.special.size();
  if (primes > kPrimes)
    throw ParameterError("cannot write this program as instructions: they have at most 64 primes, this set has " +
                         std::to_string(primes));
  for (std::size_t p = 0; p < how.chain.size(); ++p) know(how.chain[p], p);
  for (std::size_t p = 0; p < how.special.size(); ++p) know(how.special[p], kPrimes - 1 - p);
}

std::byte* LimbWriter::at(std::size_t place, const std::byte* offset) {
  return reinterpret_cast<std::byte*>(base_of(place) + reinterpret_cast<std::uintptr_t>(offset));
}

u64 LimbWriter::address(const View& v, std::size_t item, std::size_t component, std::size_t limb) {
  const std::ptrdiff_t words = v.offset(item, component, limb);
  return reinterpret_cast<std::uintptr_t>(v.data) + static_cast<u64>(words * static_cast<std::ptrdiff_t>(v.word_size()));
}

std::string LimbWriter::numbered(const std::string& name, const View& v, std::size_t item) {
  return v.axes == 0 ? name : name + "." + std::to_string(item);
}

void LimbWriter::know(u64 modulus, std::size_t index) {
  primes_[modulus] = static_cast<std::uint16_t>(index);
  moduli_[index] = modulus;
}

std::uint16_t LimbWriter::prime_of(device::PrimeIndex p) const {
  if (p < how_.chain.size()) return static_cast<std::uint16_t>(p);
  const std::size_t s = p - how_.chain.size();
  require<ParameterError>(s < how_.special.size(), "cannot write this program as instructions: it uses auxiliary primes");
  return static_cast<std::uint16_t>(kPrimes - 1 - s);
}

Primes LimbWriter::primes_of(const device::PrimeList& list) const {
  Primes primes;
  for (const device::PrimeIndex p : list) primes.push_back(prime_of(p));
  return primes;
}

Primes LimbWriter::primes_of(const std::vector<u64>& moduli) const {
  Primes primes;
  for (const u64 m : moduli) {
    const auto found = primes_.find(m);
    require<ParameterError>(found != primes_.end(), "cannot write this program as instructions: it uses auxiliary primes");
    primes.push_back(found->second);
  }
  return primes;
}

u32 LimbWriter::add_limb(Limb l) {
  limbs_.push_back(std::move(l));
  return static_cast<u32>(limbs_.size() - 1);
}

u32 LimbWriter::made(std::uint16_t prime, bool coefficients, std::size_t chip, const Operand& o) {
  return add_limb({.coefficients = coefficients, .prime = prime, .parts = {{chip, o}}});
}

u32 LimbWriter::zero(std::uint16_t prime, bool coefficients) {
  return add_limb({.kind = Limb::Kind::zero, .coefficients = coefficients, .prime = prime});
}

u32 LimbWriter::coefficients_of(u32 values) {
  const u32 to = add_limb({.coefficients = true, .prime = limb(values).prime, .other = values});
  limb(values).other = to;
  return to;
}

u32 LimbWriter::materialize(u32 x) {
  if (limb(x).kind == Limb::Kind::made && limb(x).parts.empty() && limb(x).other != kNone) {
    const u32 made = each(Op::int_, limb(x).other, true);
    limb(x).parts = limb(made).parts;
  }
  return x;
}

void LimbWriter::take_input(std::size_t place, const View& shape, const std::string& name, bool coefficients) {
  require<ParameterError>(
      shape.components == 2,
      "cannot write this program as instructions: its inputs must be ciphertexts of degree 1; relinearize them");
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

u32 LimbWriter::fetch(const View& v, std::size_t item, std::size_t component, std::size_t l, std::uint16_t prime) {
  return materialize(find(v, item, component, l, prime, false));
}

u32 LimbWriter::fetch_beside(const View& v, std::size_t item, std::size_t component, std::size_t l, std::uint16_t prime,
                             u32 beside) {
  return materialize(find(v, item, component, l, prime, limb(beside).coefficients));
}

u32 LimbWriter::find(const View& v, std::size_t item, std::size_t component, std::size_t l, std::uint16_t prime,
                     bool coefficients) {
  const u64 where = address(v, item, v.components == 1 ? 0 : component, l);
  const auto found = memory_.find(where);
  if (found != memory_.end()) return found->second;
  const std::size_t p = (where >> kPlaceBits) - 1;
  const u64 offset = where - base_of(p);
  require<InternalError>(p < parts_.places.size(), "a recorded call reads memory that no call wrote");
  const Place& place = parts_.places[p];
  const View& shape = place.shape;
  const u64 limb_bytes = shape.n * shape.word_size(), item_bytes = limb_bytes * shape.limbs;
  Limb source{.kind = Limb::Kind::source, .prime = prime};
  if (place.kind == Place::Kind::key) {
    require<InternalError>(limb_bytes > 0, "a key has an unknown shape");
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
    require<InternalError>(place.kind == Place::Kind::constant, "a recorded call reads memory that no call wrote");
    // The limbs of a plaintext are contiguous in memory.
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

void LimbWriter::write(const View& v, std::size_t item, std::size_t component, std::size_t l, u32 x) {
  memory_[address(v, item, component, l)] = x;
}

Operand LimbWriter::load(u32 x, std::size_t chip) {
  const Limb& l = limb(x);
  return drafts_.load(chip, l.from, l.symbol, l.prime);
}

std::map<std::size_t, Operand> LimbWriter::parts(u32 x) {
  if (is_source(x)) return {{home(limb(x).prime), load(x, home(limb(x).prime))}};
  return limb(x).parts;
}

void LimbWriter::gather(u32 x) {
  Limb& l = limb(x);
  if (l.parts.size() < 2) return;
  const std::vector<std::pair<std::size_t, Operand>> brought(l.parts.begin(), l.parts.end());
  l.parts = {{home(l.prime), drafts_.join(home(l.prime), l.prime, brought)}};
}

void LimbWriter::bring(u32 x, const std::set<std::size_t>& chips) {
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

Operand LimbWriter::on(u32 x, std::size_t chip) {
  if (is_source(x)) return load(x, chip);
  bring(x, {chip});
  const Limb& l = limb(x);
  return l.parts.contains(chip) ? l.parts.at(chip) : l.copies.at(chip);
}

u32 LimbWriter::each(Op op, u32 x, bool coefficients, std::int32_t steps) {
  const std::uint16_t prime = limb(x).prime;
  if (is_zero(x)) return zero(prime, coefficients);
  Limb to{.coefficients = coefficients, .prime = prime};
  for (const auto& [chip, part] : parts(x)) to.parts[chip] = drafts_.unary(chip, op, prime, part, steps);
  return add_limb(std::move(to));
}

u32 LimbWriter::transform(u32 x, bool coefficients) {
  if (limb(x).coefficients == coefficients) return x;
  if (limb(x).other != kNone) return limb(x).other;
  const u32 to = each(coefficients ? Op::int_ : Op::ntt_, x, coefficients);
  limb(to).other = x, limb(x).other = to;
  return to;
}

u32 LimbWriter::sum(Op op, u32 a, u32 b) {
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

u32 LimbWriter::product(u32 a, u32 b) {
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

Operand LimbWriter::scalar(std::size_t chip, std::uint16_t prime, u64 value) {
  const auto [known, fresh] = scalars_.try_emplace({prime, value}, 0);
  if (fresh) known->second = of_prime_[prime]++;
  const std::string name = "scalar" + std::to_string(known->second);
  made_.scalars[name][prime] = value;
  return drafts_.load(chip, 's', name + ":s", prime);
}

Operand LimbWriter::scaled(std::size_t chip, std::uint16_t prime, const Operand& x, u64 value) {
  if (value == 1) return x;
  return drafts_.binary(chip, Op::mus_, prime, x, scalar(chip, prime, value));
}

u32 LimbWriter::scaled(u32 x, u64 value) {
  const std::uint16_t prime = limb(x).prime;
  if (value == 0) return zero(prime, limb(x).coefficients);
  if (is_zero(x) || value == 1) return x;
  Limb to{.coefficients = limb(x).coefficients, .prime = prime};
  for (const auto& [chip, part] : parts(x)) to.parts[chip] = scaled(chip, prime, part, value);
  return add_limb(std::move(to));
}

u32 LimbWriter::shifted(u32 x, u64 value) {
  if (value == 0) return x;
  const std::uint16_t prime = limb(x).prime;
  require<ParameterError>(!is_zero(x), "cannot write this program as instructions: it adds a constant to zero");
  Limb to{.coefficients = limb(x).coefficients, .prime = prime, .parts = parts(x)};
  auto& [chip, part] = *to.parts.begin();
  part = drafts_.binary(chip, Op::ads_, prime, part, scalar(chip, prime, value));
  return add_limb(std::move(to));
}

u32 LimbWriter::turned(u32 x, std::int32_t turn) {
  return each(turn == Linked::kConjugation ? Op::con_ : Op::rot_, x, limb(x).coefficients,
              turn == Linked::kConjugation ? 0 : turn);
}

const Factors& LimbWriter::factors(const Conversion& c) {
  auto& known = factors_[&c];
  if (!known) known = factors_of(c);
  return *known;
}

bool LimbWriter::keep_parts(const std::vector<u32>& sources, const std::vector<u32>& own) {
  std::vector<u32> all;
  for (const auto* list : {&sources, &own}) {
    std::copy_if(list->begin(), list->end(), std::back_inserter(all), [](u32 l) { return l != kNone; });
  }
  if (std::none_of(all.begin(), all.end(), [&](u32 l) { return limb(l).parts.size() > 1; })) return false;
  if (how_.switching == Switching::aggregate) return true;
  for (const u32 l : all) gather(l);
  return false;
}

LimbWriter::ChipTargets LimbWriter::place_targets(const std::vector<std::size_t>& converted, const Primes& to,
                                                  const std::vector<u32>& sources, bool split,
                                                  std::optional<std::size_t> chip) {
  ChipTargets targets;
  if (split) {
    for (const u32 l : sources) {
      for (const auto& [at, part] : limb(l).parts) targets[at] = converted;
    }
  } else if (chip) {
    targets[*chip] = converted;
  } else {
    for (const std::size_t j : converted) targets[home(to[j])].push_back(j);
  }
  return targets;
}

std::vector<Operand> LimbWriter::convert_on(std::size_t chip, const Primes& from, const std::vector<u32>& sources,
                                            const Primes& to, const std::vector<std::size_t>& targets, bool split) {
  std::vector<Operand> taken;
  for (const u32 l : sources) taken.push_back(split || is_zero(l) ? part(l, chip) : on(l, chip));
  Primes primes;
  for (const std::size_t j : targets) primes.push_back(to[j]);
  return drafts_.convert(chip, from, taken, primes);
}

std::optional<Operand> LimbWriter::own_part(u32 x, std::size_t chip, bool split, bool first) {
  if (x == kNone || is_zero(x)) return std::nullopt;
  if (!split || (is_source(x) && first)) return on(x, chip);
  if (limb(x).parts.contains(chip)) return limb(x).parts.at(chip);
  return std::nullopt;
}

std::vector<u32> LimbWriter::convert(const Conversion& c, std::vector<u32> x, const std::vector<u32>& own,
                                     const std::vector<u64>& by, bool transformed, std::optional<std::size_t> chip) {
  const Factors& f = factors(c);
  const Primes from = primes_of(c.from), to = primes_of(c.to);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = scaled(x[i], f.multiplier[i]);
  const bool nothing = std::all_of(x.begin(), x.end(), [&](u32 l) { return is_zero(l); });
  const bool split = keep_parts(x, own);
  // A target that is also a source needs no conversion.
  std::vector<std::size_t> converted;
  std::vector<u32> kept(to.size(), kNone);
  for (std::size_t j = 0; j < to.size(); ++j) {
    const auto source = std::find(from.begin(), from.end(), to[j]);
    if (source == from.end()) {
      converted.push_back(j);
      continue;
    }
    require<ParameterError>(
        own.empty(), "cannot write this program as instructions: the instruction set lacks one of its base conversions");
    kept[j] = transform(scaled(x[static_cast<std::size_t>(source - from.begin())], f.times[j]), !transformed);
  }
  const ChipTargets targets = place_targets(converted, to, x, split, chip);
  if (!split && !nothing) {
    std::set<std::size_t> chips;
    for (const auto& [at, list] : targets) chips.insert(at);
    for (const u32 l : x) bring(l, chips);
  }
  // Compute each chip's part of each result.
  std::vector<Limb> results(to.size());
  for (std::size_t j = 0; j < to.size(); ++j) results[j] = {.coefficients = !transformed, .prime = to[j]};
  for (const auto& [at, list] : targets) {
    std::vector<Operand> rests;
    if (!nothing) rests = convert_on(at, from, x, to, list, split);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::size_t j = list[i];
      const std::optional<Operand> mine =
          j < own.size() ? own_part(own[j], at, split, at == targets.begin()->first) : std::nullopt;
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
    if (split && j < own.size() && own[j] != kNone) {  // parts of `own` on chips that compute no targets
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

Operand LimbWriter::combined(std::size_t chip, std::uint16_t prime, const Factors& f, std::size_t j,
                             const std::optional<Operand>& rest, const std::optional<Operand>& own, u64 by,
                             bool transformed) {
  const u64 q = moduli_[prime];
  if (!rest) return scaled(chip, prime, *own, by);
  if (own && f.times[j] == math::neg_mod(by, q)) {
    if (!transformed) return scaled(chip, prime, drafts_.binary(chip, Op::sub_, prime, *own, *rest), by);
    // Divide by the product of the sources, then multiply by the remaining factor.
    const Operand divided = drafts_.binary(chip, Op::sud_, prime, *own, *rest);
    return scaled(chip, prime, divided, math::mul_mod(by, f.product[j], q));
  }
  Operand made = transformed ? drafts_.unary(chip, Op::ntt_, prime, *rest) : *rest;
  made = scaled(chip, prime, made, f.times[j]);
  return own ? drafts_.binary(chip, Op::add_, prime, scaled(chip, prime, *own, by), made) : made;
}

Operand LimbWriter::part(u32 x, std::size_t chip) {
  const Limb& l = limb(x);
  require<ParameterError>(!l.parts.empty(), "cannot write this program as instructions: it converts zeros");
  if (l.parts.contains(chip)) return l.parts.at(chip);
  const auto& [owner, some] = *l.parts.begin();
  const Operand copy = drafts_.send(owner, some, {chip})[0];
  return drafts_.binary(chip, Op::sub_, l.prime, copy, copy);
}

}  // namespace heliograph::program::limbs
