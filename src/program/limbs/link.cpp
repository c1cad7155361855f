#include "program/limbs/link.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>

#include "program/limbs/meetings.h"
#include "program/limbs/names.h"
#include "program/limbs/tasks.h"

namespace heliograph::program::limbs {

namespace {

using Kind = Action::Kind;

u64 key_of(const Term& t) { return (u64{static_cast<unsigned char>(t.kind)} << 40) | t.number; }
u64 limb_of(const Term& t) { return (key_of(t) << 6) | t.limb; }

template <class T>
u32 number_of(std::vector<T>& all, std::map<T, u32>& known, const T& one) {
  const auto [found, fresh] = known.try_emplace(one, static_cast<u32>(all.size()));
  if (fresh) all.push_back(one);
  return found->second;
}

class Linker {
 public:
  Linker(const Text& text, std::size_t devices, bool fused) : text_(text), fused_(fused), names_(text, made_) {
    made_.chips = text.streams.size();
    made_.devices = std::min(devices, made_.chips);
    chips_.resize(made_.chips);
    for (u32 c = 0; c < made_.chips; ++c) {
      Chip& chip = chips_[c];
      chip.number = c, chip.device = static_cast<u32>(c % made_.devices), chip.stream = &text.streams[c];
      made_.instructions += chip.stream->instructions.size();
      for (const Section& s : text.inputs[c].sections) {
        for (const Entry& e : s.entries) {
          const Declared d = names_.of_chip(text.inputs[c], s, e);
          auto& terms = d.kind == 'o' ? chip.outputs : chip.terms;
          if (!terms.emplace(key_of(e.term), d).second)
            refuse(text.inputs[c].file, e.line, e.symbol, "this list has its term twice");
        }
      }
    }
    made_.actions.reserve(made_.instructions + made_.instructions / 2);
    made_.values.reserve(2 * made_.instructions);
  }

  Linked run() {
    meetings_ = meetings_of(text_);
    bool moves = true;
    while (moves) {
      moves = false;
      for (Chip& chip : chips_) {
        while (chip.at < chip.stream->instructions.size() && perform(chip)) moves = true, ++chip.at;
      }
    }
    for (Chip& chip : chips_) {
      if (chip.at == chip.stream->instructions.size()) continue;
      now_ = &chip, instruction_ = &chip.stream->instructions[chip.at];
      fail(std::to_string(instruction_->meeting), "deadlock: this chip and other chips wait for each other");
    }
    now_ = &chips_[0];
    for (const Names::Passed& p : names_.passed()) {
      Result& result = made_.results[p.result];
      for (std::size_t l = 0; l < result.level; ++l) {
        result.values[p.component * result.level + l] =
            source({.kind = 'i', .which = p.item, .component = p.component, .prime = static_cast<std::uint16_t>(l)});
      }
    }
    for (u32 r = 0; r < made_.results.size(); ++r) {
      for (const u32 component : {0U, 1U}) add_up(r, component);
    }
    for (std::size_t p = 0; p < kPrimes - made_.special; ++p) {
      if (primes_ & bit(p)) made_.chain = std::max(made_.chain, p + 1);
    }
    fuse(made_, fused_);
    return std::move(made_);
  }

 private:
  /// A limb of a result's term, stored by a chip.
  struct Stored {
    u32 value = kNone, chip = 0;
    const Instruction* by = nullptr;
  };
  struct Cell {
    u32 value = kNone;
    u32 group = kNone;  // group to which the register belongs
    u32 dead_line = 0;
  };
  struct Unit {
    std::vector<std::uint16_t> from, to;  // source and target primes, in memory order
    std::vector<u32> results;             // for each result of the unit, its index in `to`
    u64 pushed = 0;
    std::vector<u32> in;  // pushed values
    u32 out = kNone;      // group of the conversion's results
  };
  struct Registers {
    std::vector<u32> registers;
    std::vector<std::uint16_t> from;
    u64 pushed = 0;
    std::vector<u32> in;
    u32 group = kNone;  // group of the reduced limbs
  };
  struct Chip {
    u32 number = 0, device = 0;
    const Stream* stream = nullptr;
    std::size_t at = 0;
    bool met = false;  // the chip has reached the exchange of its current instruction
    std::vector<Cell> vectors, scalars;
    std::map<u32, Unit> units;
    std::deque<Registers> groups;
    std::unordered_map<u64, Declared> terms, outputs;
    struct Kept {
      u32 value = kNone;
      u32 freed_line = 0;
    };
    std::unordered_map<u64, Kept> memory;
  };

  [[noreturn]] void fail(const std::string& word, const std::string& why) const {
    refuse(now_->stream->file, instruction_->line, word, why);
  }
  [[noreturn]] void fail(const Register& r, const std::string& why) const { fail(to_string(r), why); }

  u32 add_value(const Value& v) {
    made_.values.push_back(v);
    return static_cast<u32>(made_.values.size() - 1);
  }
  u32 make(std::uint16_t prime, bool coefficients) {
    note_prime(prime);
    return add_value({.coefficients = coefficients, .prime = prime, .device = now_->device});
  }
  /// Adds values that have adjacent slots.
  u32 make_group(const std::vector<std::uint16_t>& primes) {
    const auto group = static_cast<u32>(made_.groups.size());
    made_.groups.push_back({.device = now_->device, .members = {}});
    for (const std::uint16_t p : primes) {
      const u32 v = make(p, true);
      made_.values[v].group = group;
      made_.groups[group].members.push_back(v);
    }
    return group;
  }
  /// Returns a group of these values: their own group if they are exactly one group, a new group if they have none, else a
  /// group of copies.
  u32 gathered(const std::vector<u32>& members) {
    const u32 of = value(members[0]).group;
    if (of != kNone && made_.groups[of].members == members) return of;
    const auto group = static_cast<u32>(made_.groups.size());
    made_.groups.push_back({.device = now_->device, .members = {}});
    for (u32 v : members) {
      if (value(v).kind != Value::Kind::made || value(v).group != kNone || value(v).device != now_->device) {
        const u32 mine = make(value(v).prime, true);
        act(Kind::copy, mine, v);
        v = mine;
      }
      made_.values[v].group = group;
      made_.groups[group].members.push_back(v);
    }
    return group;
  }
  void note_prime(std::uint16_t prime) { primes_ |= bit(prime); }
  const Value& value(u32 v) const { return made_.values[v]; }

  void act(Kind kind, u32 to, u32 a, u32 b = kNone, u32 table = 0) {
    made_.actions.push_back(
        {.kind = kind, .to = to, .a = a, .b = b, .table = table, .line = instruction_->line, .chip = now_->number});
  }

  /// Returns a value on this chip's device; copies it if necessary.
  u32 here(u32 v) {
    if (value(v).device == now_->device) return v;
    const u32 mine = make(value(v).prime, value(v).coefficients);
    act(Kind::move, mine, v);
    return mine;
  }

  Cell& cell(const Register& r) {
    std::vector<Cell>& all = r.kind == Register::Kind::scalar ? now_->scalars : now_->vectors;
    if (r.number >= all.size()) all.resize(r.number + 1);
    return all[r.number];
  }

  u32 read(const Register& r) {
    if (r.kind == Register::Kind::converted) {
      const auto found = now_->units.find(r.unit);
      if (found == now_->units.end()) fail(r, "no conversion of this unit has begun");
      const Unit& u = found->second;
      if (r.number >= u.to.size()) fail(r, "this unit's conversion has " + std::to_string(u.to.size()) + " results");
      if (u.out == kNone) fail(r, "this conversion lacks some of its source limbs");
      return made_.groups[u.out].members[u.results[r.number]];
    }
    const Cell& c = cell(r);
    if (c.dead_line != 0) fail(r, "its value was read for the last time in line " + std::to_string(c.dead_line));
    if (c.group != kNone) fail(r, "it is a register of a group, not a single limb");
    if (c.value == kNone) fail(r, "this register was never written");
    return c.value;
  }
  u32 read(const Register& r, std::uint16_t prime) {
    const u32 v = read(r);
    if (value(v).prime != prime)
      fail(r, "its value is modulo prime " + std::to_string(value(v).prime) + ", not " + std::to_string(prime));
    return v;
  }
  u32 read(const Register& r, std::uint16_t prime, bool coefficients) {
    const u32 v = read(r, prime);
    if (value(v).coefficients != coefficients)
      fail(r, coefficients ? "a value in coefficients is expected, this one is transformed"
                           : "a transformed value is expected, this one is in coefficients");
    return v;
  }
  void mark(const Register& r) {
    if (!r.last || r.kind == Register::Kind::converted) return;
    cell(r).dead_line = instruction_->line;
  }
  void write(const Register& r, u32 v) { cell(r) = {.value = v}; }

  /// Executes an instruction. Returns false if the instruction must wait for other chips.
  bool perform(Chip& chip) {
    now_ = &chip;
    const Instruction& i = *(instruction_ = &chip.stream->instructions[chip.at]);
    switch (i.op) {
      case Op::load_:
      case Op::loas_:
      case Op::evg_:
      case Op::rec_:
        load(i);
        break;
      case Op::store_:
      case Op::spill_:
      case Op::snd_:
        store(i);
        break;
      case Op::add_:
        binary(Kind::add, i);
        break;
      case Op::sub_:
        binary(Kind::subtract, i);
        break;
      case Op::mul_:
      case Op::mup_:
        binary(Kind::multiply, i);
        break;
      case Op::ads_:
        binary(Kind::add_scalar, i);
        break;
      case Op::sus_:
        binary(Kind::take_scalar, i);
        break;
      case Op::mus_:
        binary(Kind::scale, i);
        break;
      case Op::neg_:
      case Op::rot_:
      case Op::con_:
      case Op::ntt_:
      case Op::int_:
      case Op::mov_:
        unary(i);
        break;
      case Op::bci_:
        begin(i);
        break;
      case Op::pl1_:
      case Op::pll_:
      case Op::bcw_:
        push(i);
        break;
      case Op::sud_:
        divide(i);
        break;
      case Op::rsi_:
        begin_group(i);
        break;
      case Op::rsv_:
        push_group(i);
        break;
      case Op::mod_:
        reduce_group(i);
        break;
      case Op::dis_:
        meetings_[i.meeting].brought.push_back(read(i.a));
        mark(i.a);
        break;
      case Op::rcv_:
        if (meetings_[i.meeting].brought.empty()) return false;
        write(i.to, here(meetings_[i.meeting].brought.front()));
        break;
      case Op::joi_:
        return join(i);
      case Op::nop_:
        break;
    }
    return true;
  }

  void load(const Instruction& i) {
    const Term& t = i.term;
    const std::string word = to_string(t);
    if (i.op == Op::rec_ && i.prime != t.limb) fail(std::to_string(i.prime), "this is not the prime of the limb");
    if (i.op != Op::loas_ && t.kind == 's') fail(word, "a scalar must be loaded by loas");
    if (t.kind == 'v' || t.kind == 't') {
      const auto found = now_->memory.find(limb_of(t));
      if (found == now_->memory.end()) fail(word, "it was never stored");
      if (found->second.freed_line != 0) fail(word, "it was freed in line " + std::to_string(found->second.freed_line));
      if (t.freed) found->second.freed_line = i.line;
      write(i.to, found->second.value);
      return;
    }
    const auto found = now_->terms.find(key_of(t));
    if (found == now_->terms.end()) fail(word, "this chip's inputs do not list it");
    Declared& d = found->second;
    if (!(d.limbs & bit(t.limb))) fail(word, "this chip's inputs do not list this limb of the input");
    if (d.freed & bit(t.limb)) fail(word, "it was freed by an earlier load");
    if (t.freed) d.freed |= bit(t.limb);
    if (i.op == Op::evg_ && d.component % 2 == 0) fail(word, "only the second half of a key can be generated from a seed");
    write(i.to, source({.kind = d.kind, .which = d.which, .component = d.component, .prime = t.limb}));
  }

  u32 source(const Source& s) {
    const u64 name =
        (((((u64{s.which} << 8 | static_cast<unsigned char>(s.kind)) << 8 | s.component) << 8) | s.prime) << 10) |
        now_->device;
    const auto [found, fresh] = sources_.try_emplace(name, kNone);
    if (fresh) {
      note_prime(s.prime);
      made_.sources.push_back(s);
      found->second = add_value({.kind = Value::Kind::source,
                                 .prime = s.prime,
                                 .device = now_->device,
                                 .at = static_cast<u32>(made_.sources.size() - 1)});
    }
    return found->second;
  }

  void store(const Instruction& i) {
    const Term& t = i.term;
    const std::string word = to_string(t);
    const u32 v = i.op == Op::snd_ ? read(i.a, i.prime) : read(i.a);
    const auto found = now_->outputs.find(key_of(t));
    if (value(v).prime != t.limb)
      fail(word, "the value is modulo prime " + std::to_string(value(v).prime) + ", this is another limb");
    now_->memory[limb_of(t)] = {.value = v};
    if (found != now_->outputs.end() && i.op != Op::spill_) {
      const Declared& d = found->second;
      if (!(d.limbs & bit(t.limb))) fail(word, "this chip's outputs do not list this limb of the result");
      if (value(v).coefficients) fail(i.a, "a result must be transformed; this value is in coefficients");
      Stored& s = stored_[{d.which, d.component, t.limb, key_of(t)}];
      if (s.by && s.chip != now_->number)
        fail(word, "another chip stores this limb too: " + chips_[s.chip].stream->file + ":" + std::to_string(s.by->line));
      s = {.value = v, .chip = now_->number, .by = &i};
    }
    mark(i.a);
  }

  /// Sums a result's component. With aggregated outputs, the terms of the same name are the summands.
  void add_up(u32 which, u32 component) {
    Result& result = made_.results[which];
    for (std::size_t l = 0; l < result.level; ++l) {
      u32& sum = result.values[component * result.level + l];
      for (const Names::Part& part : names_.parts(which, component)) {
        if (!(part.limbs & bit(l))) continue;
        const auto found = stored_.find({which, component, l, key_of(part.term)});
        if (found == stored_.end())
          refuse(text_.program.file, part.line, name_of(part.term),
                 "no chip stores limb " + std::to_string(l) + " of this term of " + result.name +
                     (component == 0 ? ":c0" : ":c1"));
        const Stored& s = found->second;
        now_ = &chips_[s.chip], instruction_ = s.by;
        if (sum == kNone) {
          sum = s.value;
          continue;
        }
        const u32 term = here(s.value), before = here(sum), to = make(static_cast<std::uint16_t>(l), false);
        act(Kind::add, to, before, term);
        sum = to;
      }
    }
  }

  void binary(Kind kind, const Instruction& i) {
    const bool scalar = i.b.kind == Register::Kind::scalar, product = kind == Kind::multiply;
    const u32 a = product ? read(i.a, i.prime, false) : read(i.a, i.prime);
    const u32 b = scalar ? read(i.b, i.prime) : read(i.b, i.prime, value(a).coefficients);
    mark(i.a), mark(i.b);
    const u32 to = make(i.prime, value(a).coefficients);
    act(kind, to, a, b);
    write(i.to, to);
  }

  void unary(const Instruction& i) {
    const bool to_values = i.op == Op::ntt_, to_coefficients = i.op == Op::int_;
    const u32 a = to_values || to_coefficients ? read(i.a, i.prime, to_values) : read(i.a, i.prime);
    mark(i.a);
    if (i.op == Op::mov_) return write(i.to, a);
    const bool coefficients = to_coefficients || (!to_values && value(a).coefficients);
    const u32 to = make(i.prime, coefficients);
    u32 table = 0;
    if (i.op == Op::rot_ || i.op == Op::con_)
      table = number_of(made_.turns, turns_, i.op == Op::con_ ? Linked::kConjugation : i.steps);
    act(i.op == Op::neg_  ? Kind::negate
        : to_values       ? Kind::ntt
        : to_coefficients ? Kind::inverse
                          : Kind::turn,
        to, a, kNone, table);
    write(i.to, to);
  }

  std::vector<std::uint16_t> list(Slice s) const {
    const auto primes = now_->stream->list(s);
    return {primes.begin(), primes.end()};
  }

  /// Sorts primes as in keys, special primes last and descending, so that the operands of a product have the same order.
  static std::vector<std::uint16_t> as_keys_lie(std::vector<std::uint16_t> primes) {
    std::sort(primes.begin(), primes.end());
    std::reverse(std::lower_bound(primes.begin(), primes.end(), kPrimes / 2), primes.end());
    return primes;
  }

  void begin(const Instruction& i) {
    Unit& u = now_->units[i.unit];
    const std::vector<std::uint16_t> to = list(i.primes);
    u.to = as_keys_lie(to), u.from = as_keys_lie(list(i.more));
    u.results.clear();
    for (const std::uint16_t p : to)
      u.results.push_back(static_cast<u32>(std::find(u.to.begin(), u.to.end(), p) - u.to.begin()));
    const u64 both = bits(u.to) & bits(u.from);
    if (both) fail(std::to_string(std::countr_zero(both)), "the source and target primes of a conversion must differ");
    u.pushed = 0, u.out = kNone;
    u.in.assign(u.from.size(), kNone);
  }

  /// Returns the index of a prime among a conversion's sources. A program pushes each source once.
  u32 pushed(const std::vector<std::uint16_t>& from, u64& done, std::uint16_t prime) const {
    const auto place = std::find(from.begin(), from.end(), prime);
    if (place == from.end()) fail(std::to_string(prime), "it is not a source prime of this conversion");
    if (done & bit(prime)) fail(std::to_string(prime), "this limb was pushed already");
    done |= bit(prime);
    return static_cast<u32>(place - from.begin());
  }

  void push(const Instruction& i) {
    const auto found = now_->units.find(i.unit);
    const std::string word = "B" + std::to_string(i.unit);
    if (found == now_->units.end()) fail(word, "no conversion of this unit has begun");
    Unit& u = found->second;
    const bool transformed = i.op != Op::bcw_;
    const u32 a = read(i.a, i.prime, !transformed);
    mark(i.a);
    u32& to = u.in[pushed(u.from, u.pushed, i.prime)];
    to = a;
    if (transformed) act(Kind::inverse, to = make(i.prime, true), a);
    if (u.pushed == bits(u.from)) u.out = converted(gathered(u.in), u.from, u.to);
  }

  u32 converted(u32 group, const std::vector<std::uint16_t>& from, const std::vector<std::uint16_t>& to) {
    const u32 made = make_group(to);
    act(Kind::convert, made, group, kNone, number_of(made_.conversions, conversions_, Bases{from, to}));
    return made;
  }

  void divide(const Instruction& i) {
    const u32 a = read(i.a, i.prime, false), b = read(i.b);
    const Value& by = value(b);
    if (!by.coefficients) fail(i.b, "a value in coefficients is expected, this one is transformed");
    std::vector<std::uint16_t> divisors;
    u32 rest = b;
    if (i.b.kind == Register::Kind::converted) {
      divisors = now_->units[i.b.unit].from;
      if (by.prime != i.prime) fail(i.b, "this result is modulo prime " + std::to_string(by.prime));
    } else {
      // Reduces a register of another prime to this prime, centred.
      divisors = {by.prime};
      if (by.prime == i.prime) fail(i.b, "a limb must be divided by primes other than its own");
      rest = made_.groups[converted(gathered({b}), divisors, {i.prime})].members[0];
    }
    mark(i.a), mark(i.b);
    const u32 transformed = make(i.prime, false), to = make(i.prime, false);
    act(Kind::ntt, transformed, rest);
    act(Kind::divide, to, a, transformed, number_of(made_.divisors, divisors_, Bases{divisors, {i.prime}}));
    write(i.to, to);
  }

  void begin_group(const Instruction& i) {
    Registers& g = now_->groups.emplace_back();
    const auto number = static_cast<u32>(now_->groups.size() - 1);
    for (const Register& r : now_->stream->group(i.group)) {
      if (cell(r).group == number) fail(r, "this group has it twice");
      cell(r) = {.group = number};
      g.registers.push_back(r.number);
    }
  }

  Registers& group_of(const Instruction& i) {
    const auto registers = now_->stream->group(i.group);
    const auto number = [&](const Register& r) {
      const Cell& c = cell(r);
      if (c.dead_line != 0) fail(r, "its value was read for the last time in line " + std::to_string(c.dead_line));
      if (c.group == kNone) fail(r, "this register is in no group");
      return c.group;
    };
    Registers& g = now_->groups[number(registers[0])];
    const bool same = g.registers.size() == registers.size() &&
                      std::equal(registers.begin(), registers.end(), g.registers.begin(), [&](const Register& r, u32 mine) {
                        return r.number == mine && number(r) == number(registers[0]);
                      });
    if (!same) fail(registers[0], "a group must be listed with all of its registers, in order");
    return g;
  }

  void push_group(const Instruction& i) {
    Registers& g = group_of(i);
    const std::vector<std::uint16_t> from = list(i.primes);
    if (g.from.empty()) {
      if (from.size() != g.registers.size())
        fail(to_string(now_->stream->group(i.group)[0]), "a group must have one register for each prime");
      g.from = from;
      g.in.assign(from.size(), kNone);
    }
    if (g.from != from) fail(std::to_string(from[0]), "these are not the primes of this group");
    const u32 a = read(i.a, i.prime, true);
    mark(i.a);
    g.in[pushed(g.from, g.pushed, i.prime)] = a;
  }

  void reduce_group(const Instruction& i) {
    Registers& g = group_of(i);
    if (g.from.empty() || g.pushed != bits(g.from))
      fail(to_string(now_->stream->group(i.group)[0]), "some limbs of this group are missing");
    for (const Register& r : now_->stream->group(i.group)) mark(r);
    const auto own = std::find(g.from.begin(), g.from.end(), i.prime);
    if (own != g.from.end()) return write(i.to, g.in[static_cast<std::size_t>(own - g.from.begin())]);
    if (g.group == kNone) g.group = gathered(g.in);
    write(i.to, made_.groups[converted(g.group, g.from, {i.prime})].members[0]);
  }

  bool join(const Instruction& i) {
    Meeting& m = meetings_[i.meeting];
    if (!now_->met) {
      ++m.arrived, now_->met = true;
      if (i.a.kind != Register::Kind::none) {
        m.brought.push_back(read(i.a, i.prime));
        if (value(m.brought.back()).coefficients != value(m.brought.front()).coefficients)
          fail(i.a, "other chips add a value in the other domain");
        mark(i.a);
      }
    }
    if (i.to.kind != Register::Kind::none) {
      if (m.arrived < m.size) return false;
      u32 sum = here(m.brought[0]);
      for (std::size_t k = 1; k < m.brought.size(); ++k) {
        const u32 next = here(m.brought[k]), to = make(i.prime, value(sum).coefficients);
        act(Kind::add, to, sum, next);
        sum = to;
      }
      write(i.to, sum);
    }
    now_->met = false;
    return true;
  }

  const Text& text_;
  const bool fused_;
  Linked made_;
  Names names_;
  std::vector<Chip> chips_;
  std::unordered_map<u64, Meeting> meetings_;
  std::unordered_map<u64, u32> sources_;
  std::map<std::tuple<u32, u32, std::size_t, u64>, Stored> stored_;  // indexed by result, component, limb and term
  std::map<std::int32_t, u32> turns_;
  std::map<Bases, u32> conversions_, divisors_;
  u64 primes_ = 0;
  Chip* now_ = nullptr;
  const Instruction* instruction_ = nullptr;
};

}  // namespace

Linked link(const Text& text, std::size_t devices, bool fused, const std::vector<u32>& most) {
  Linked linked = Linker(text, devices, fused).run();
  if (most.empty()) {
    place(linked);
    return linked;
  }
  for (std::size_t window = Memory().window; window > 0; window /= 4) {
    Linked placed = linked;
    if (place(placed, {most, window})) return placed;
  }
  throw OutOfMemoryError("the program needs more limbs at once than the " +
                         std::to_string(*std::min_element(most.begin(), most.end())) +
                         " for which a device has memory; use more devices or fewer items");
}

}  // namespace heliograph::program::limbs
