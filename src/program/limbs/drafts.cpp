#include "program/limbs/drafts.h"

#include <algorithm>

namespace heliograph::program::limbs {

namespace {

/// Numbers that are free; take() returns the lowest.
class Numbers {
 public:
  u32 take() {
    if (free_.empty()) return count_++;
    const u32 number = *free_.begin();
    free_.erase(free_.begin());
    return number;
  }
  void give(u32 number) { free_.insert(number); }
  u32 count() const { return count_; }

 private:
  std::set<u32> free_;
  u32 count_ = 0;
};

constexpr u32 kNever = ~u32{0};

}  // namespace

Term Drafts::term(char kind, const std::string& symbol, std::uint16_t limb) {
  // The maps are separate, because an input and an output may have the same name.
  auto& known = kind == 'v' ? outputs_ : terms_;
  const auto [found, fresh] = known.try_emplace(symbol, kind, static_cast<u32>(terms_.size() + outputs_.size() + 1));
  return {.kind = kind, .limb = limb, .number = found->second.second};
}

Operand Drafts::unary(std::size_t chip, Op op, std::uint16_t prime, const Operand& a, std::int32_t steps) {
  const Operand to = fresh(chip);
  chips_[chip].drafts.push_back({.op = op, .prime = prime, .to = to, .a = a, .steps = steps});
  return to;
}

Operand Drafts::binary(std::size_t chip, Op op, std::uint16_t prime, const Operand& a, const Operand& b) {
  const Operand to = fresh(chip);
  chips_[chip].drafts.push_back({.op = op, .prime = prime, .to = to, .a = a, .b = b});
  return to;
}

Operand Drafts::load(std::size_t chip, char kind, const std::string& symbol, std::uint16_t limb) {
  Chip& c = chips_[chip];
  c.takes[symbol].insert(limb);
  Operand to;
  if (kind == 's')
    to = {.kind = Register::Kind::scalar, .number = c.scalars++};
  else
    to = fresh(chip);
  const bool from_seed = kind == 'k' && symbol.find(":c1:") != std::string::npos;
  c.drafts.push_back({.op = kind == 's' ? Op::loas_
                            : from_seed ? Op::evg_
                                        : Op::load_,
                      .to = to,
                      .term = term(kind, symbol, limb)});
  return to;
}

void Drafts::store(std::size_t chip, const Operand& a, const std::string& symbol, std::uint16_t limb) {
  chips_[chip].gives[symbol].insert(limb);
  chips_[chip].drafts.push_back({.op = Op::store_, .a = a, .term = term('v', symbol, limb)});
}

std::vector<Operand> Drafts::convert(std::size_t chip, const std::vector<std::uint16_t>& from, const std::vector<Operand>& x,
                                     const std::vector<std::uint16_t>& to) {
  Chip& c = chips_[chip];
  const u32 unit = c.units++;
  std::vector<std::uint16_t> sources = from, targets = to;  // lists of primes in a text must ascend
  std::sort(sources.begin(), sources.end()), std::sort(targets.begin(), targets.end());
  const auto place = [](const std::vector<std::uint16_t>& list, std::uint16_t p) {
    return static_cast<std::size_t>(std::find(list.begin(), list.end(), p) - list.begin());
  };
  c.drafts.push_back({.op = Op::bci_, .unit = unit, .primes = targets, .more = sources});
  for (const std::uint16_t p : sources)
    c.drafts.push_back({.op = Op::bcw_, .prime = p, .a = x[place(from, p)], .unit = unit});
  std::vector<Operand> results;
  for (const std::uint16_t p : to)
    results.push_back({.kind = Register::Kind::converted, .number = static_cast<u32>(place(targets, p)), .unit = unit});
  return results;
}

std::vector<Operand> Drafts::send(std::size_t chip, const Operand& a, const std::vector<std::size_t>& receivers) {
  const u64 meeting = ++meetings_;
  const auto size = static_cast<u32>(receivers.size() + 1);
  chips_[chip].drafts.push_back({.op = Op::dis_, .a = a, .size = size, .meeting = meeting});
  std::vector<Operand> copies;
  for (const std::size_t r : receivers) {
    copies.push_back(fresh(r));
    chips_[r].drafts.push_back({.op = Op::rcv_, .to = copies.back(), .size = size, .meeting = meeting});
  }
  return copies;
}

Operand Drafts::join(std::size_t chip, std::uint16_t prime, const std::vector<std::pair<std::size_t, Operand>>& parts) {
  const u64 meeting = ++meetings_;
  const bool brings = std::any_of(parts.begin(), parts.end(), [&](const auto& p) { return p.first == chip; });
  const auto size = static_cast<u32>(parts.size() + (brings ? 0 : 1));
  const Operand to = fresh(chip);
  const auto meet = [&](std::size_t c, const Operand& result, const Operand& brought) {
    chips_[c].drafts.push_back(
        {.op = Op::joi_, .prime = prime, .to = result, .a = brought, .size = size, .meeting = meeting});
  };
  for (const auto& [c, part] : parts) meet(c, c == chip ? to : Operand{}, part);
  if (!brings) meet(chip, to, {});
  return to;
}

Stream Drafts::allocated(const Chip& chip) const {
  // The last instruction that uses each register and each unit.
  std::vector<u32> vectors(chip.vectors, kNever), scalars(chip.scalars, kNever), units(chip.units, kNever);
  std::map<std::tuple<char, u32, std::uint16_t>, u32> terms;
  for (u32 i = 0; i < chip.drafts.size(); ++i) {
    const Draft& d = chip.drafts[i];
    for (const Operand& o : {d.to, d.a, d.b}) {
      if (o.kind == Register::Kind::vector) vectors[o.number] = i;
      if (o.kind == Register::Kind::scalar) scalars[o.number] = i;
      if (o.kind == Register::Kind::converted) units[o.unit] = i;
    }
    if (d.op == Op::bci_ || d.op == Op::bcw_) units[d.unit] = i;
    if (d.op == Op::load_ || d.op == Op::evg_) terms[{d.term.kind, d.term.number, d.term.limb}] = i;
  }
  Stream s;
  Numbers free_vectors, free_scalars, free_units;
  std::vector<u32> at_vector(chip.vectors), at_scalar(chip.scalars), at_unit(chip.units);
  const auto slice = [&](const std::vector<std::uint16_t>& list) {
    const Slice where{static_cast<u32>(s.primes.size()), static_cast<u32>(list.size())};
    s.primes.insert(s.primes.end(), list.begin(), list.end());
    return where;
  };
  for (u32 i = 0; i < chip.drafts.size(); ++i) {
    const Draft& d = chip.drafts[i];
    Instruction made{.op = d.op, .prime = d.prime, .line = i + 2, .term = d.term};
    made.steps = d.steps, made.size = d.size, made.meeting = d.meeting;
    if (d.op == Op::bci_) {
      at_unit[d.unit] = free_units.take();
      made.primes = slice(d.primes), made.more = slice(d.more);
    }
    made.unit = d.op == Op::bci_ || d.op == Op::bcw_ ? static_cast<std::uint16_t>(at_unit[d.unit]) : 0;
    const auto read = [&](const Operand& o, bool again) {
      Register r{.kind = o.kind};
      if (o.kind == Register::Kind::vector) {
        r.number = at_vector[o.number], r.last = !again && vectors[o.number] == i;
      } else if (o.kind == Register::Kind::scalar) {
        r.number = at_scalar[o.number], r.last = !again && scalars[o.number] == i;
      } else if (o.kind == Register::Kind::converted) {
        r.unit = static_cast<std::uint16_t>(at_unit[o.unit]), r.number = o.number;
      }
      return r;
    };
    const bool same = d.a.kind == d.b.kind && d.a.number == d.b.number;
    made.a = read(d.a, same), made.b = read(d.b, false);
    if (made.a.last) (d.a.kind == Register::Kind::vector ? free_vectors : free_scalars).give(made.a.number);
    if (made.b.last) (d.b.kind == Register::Kind::vector ? free_vectors : free_scalars).give(made.b.number);
    if (d.to.kind == Register::Kind::vector) {
      const u32 at = at_vector[d.to.number] = free_vectors.take();
      made.to = {.kind = d.to.kind, .number = at};
      if (vectors[d.to.number] == i) free_vectors.give(at);  // no instruction reads the register
    } else if (d.to.kind == Register::Kind::scalar) {
      const u32 at = at_scalar[d.to.number] = free_scalars.take();
      made.to = {.kind = d.to.kind, .number = at};
    }
    for (const Operand& o : {d.a, d.b}) {
      const bool once = o.kind == Register::Kind::converted && units[o.unit] == i;
      if (once) free_units.give(at_unit[o.unit]);
      if (once && same) break;
    }
    if (d.op == Op::load_ || d.op == Op::evg_) made.term.freed = terms.at({d.term.kind, d.term.number, d.term.limb}) == i;
    s.instructions.push_back(made);
  }
  require<ParameterError>(free_vectors.count() <= kMostRegisters && free_scalars.count() <= kMostRegisters,
                          "a chip of this program needs more than 65,536 registers; use more chips");
  require<ParameterError>(free_units.count() <= kMostUnits,
                          "a chip of this program needs more than 1,024 units of base conversion; use more chips");
  return s;
}

std::vector<Entry> Drafts::entries(const std::map<std::string, std::set<std::uint16_t>>& symbols,
                                   const std::string& kinds) const {
  std::vector<Entry> list;
  const auto& known = kinds == "v" ? outputs_ : terms_;
  for (const auto& [symbol, limbs] : symbols) {
    const auto& [kind, number] = known.at(symbol);
    if (kinds.find(kind) == std::string::npos) continue;
    list.push_back({.term = {.kind = kind, .number = number}, .symbol = symbol, .limbs = {limbs.begin(), limbs.end()}});
  }
  std::sort(list.begin(), list.end(), [](const Entry& x, const Entry& y) { return x.term.number < y.term.number; });
  return list;
}

Text Drafts::finish() {
  Text text;
  std::map<std::string, std::set<std::uint16_t>> takes, gives;
  for (u32 c = 0; c < chips_.size(); ++c) {
    const Chip& chip = chips_[c];
    Stream s = allocated(chip);
    s.file = "instructions" + std::to_string(c), s.number = c;
    text.streams.push_back(std::move(s));
    text.inputs.push_back({.file = "inputs" + std::to_string(c),
                           .sections = {{"Input", entries(chip.takes, "ipsk")}, {"Output", entries(chip.gives, "v")}}});
    for (const auto& [symbol, limbs] : chip.takes) takes[symbol].insert(limbs.begin(), limbs.end());
    for (const auto& [symbol, limbs] : chip.gives) gives[symbol].insert(limbs.begin(), limbs.end());
  }
  text.program = {.file = "program_inputs",
                  .sections = {{"Ciphertext", entries(takes, "i")},
                               {"Plaintext", entries(takes, "p")},
                               {"Scalar", entries(takes, "s")},
                               {"Output", entries(gives, "v")},
                               {"Evalkey", entries(takes, "k")}}};
  return text;
}

}  // namespace heliograph::program::limbs
