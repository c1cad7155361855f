#include "program/limbs/link.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <unordered_map>

#include "program/limbs/names.h"

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

/// Chips that meet: one sends and the others receive, or all bring or take of a sum.
struct Meeting {
  Op op = Op::nop_;
  u32 size = 0, came = 0, senders = 0;
  std::uint16_t prime = Instruction::kNoPrime;
  std::vector<u32> chips;
  const Stream* stream = nullptr;
  u32 line = 0;
  // While linking.
  u32 arrived = 0;
  std::vector<u32> brought;
};

class Linker {
 public:
  Linker(const Text& text, std::size_t devices) : text_(text), names_(text, made_) {
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
            refuse(text.inputs[c].file, e.line, e.symbol, "its term is listed twice");
        }
      }
    }
    made_.actions.reserve(made_.instructions + made_.instructions / 2);
    made_.values.reserve(2 * made_.instructions);
  }

  Linked run() {
    find_meetings();
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
      fail(std::to_string(instruction_->meeting), "a chip that it waits for waits for this one");
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
      const Result& result = made_.results[r];
      for (std::size_t i = 0; i < result.values.size(); ++i) {
        if (result.values[i] != kNone) continue;
        const std::string part = result.name + (i < result.level ? ":c0" : ":c1");
        refuse(text_.program.file, names_.result_line(r), part,
               "no chip stores limb " + std::to_string(i % result.level) + " of this result");
      }
    }
    place();
    return std::move(made_);
  }

 private:
  struct Cell {
    u32 value = kNone;
    u32 group = kNone;  // it is a register of that group
    u32 dead_line = 0;
  };
  struct Unit {
    std::vector<std::uint16_t> from, to;  // as they lie in memory
    std::vector<u32> results;             // of each result's number, which of `to` it is
    u64 pushed = 0;
    u32 in = kNone, out = kNone;                // the first value of each
    u32 in_buffer = kNone, out_buffer = kNone;  // kept from one use to the next
  };
  struct Group {
    std::vector<u32> registers;
    std::vector<std::uint16_t> from;
    u64 pushed = 0;
    u32 in = kNone;
  };
  struct Chip {
    u32 number = 0, device = 0;
    const Stream* stream = nullptr;
    std::size_t at = 0;
    bool met = false;  // this instruction's part in a meeting is noted
    std::vector<Cell> vectors, scalars;
    std::map<u32, Unit> units;
    std::deque<Group> groups;
    std::map<u32, u32> group_buffers;  // by its first register
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

  void find_meetings() {
    for (Chip& chip : chips_) {
      now_ = &chip;
      for (const Instruction& i : chip.stream->instructions) {
        if (i.op != Op::dis_ && i.op != Op::rcv_ && i.op != Op::joi_) continue;
        instruction_ = &i;
        const std::string word = std::to_string(i.meeting) + ":" + std::to_string(i.size);
        Meeting& m = meetings_[i.meeting];
        const Op family = i.op == Op::joi_ ? Op::joi_ : Op::dis_;
        if (m.came == 0) m = {.op = family, .size = i.size, .prime = i.prime, .stream = chip.stream, .line = i.line};
        if (m.op != family) fail(word, "others meet here for another purpose");
        if (m.size != i.size) fail(word, "others expect " + std::to_string(m.size) + " chips at this meeting");
        if (m.prime != i.prime) fail(std::to_string(i.prime), "others meet for another prime");
        if (std::find(m.chips.begin(), m.chips.end(), chip.number) != m.chips.end())
          fail(word, "a chip comes twice to this meeting");
        m.chips.push_back(chip.number);
        ++m.came;
        if (i.op == Op::dis_) ++m.senders;
        if (i.op == Op::dis_ && m.senders > 1) fail(word, "another chip sends at this meeting");
        if (i.op == Op::joi_ && i.a.kind != Register::Kind::none) ++m.senders;
        if (m.came > m.size) fail(word, "more chips come to this meeting");
      }
    }
    for (const auto& [number, m] : meetings_) {
      const std::string word = std::to_string(number) + ":" + std::to_string(m.size);
      if (m.came != m.size)
        refuse(m.stream->file, m.line, word, "only " + std::to_string(m.came) + " chips come to this meeting");
      if (m.senders == 0) refuse(m.stream->file, m.line, word, "no chip brings anything to this meeting");
    }
  }

  // Values.

  u32 add_value(const Value& v) {
    made_.values.push_back(v);
    return static_cast<u32>(made_.values.size() - 1);
  }
  u32 make(std::uint16_t prime, bool coefficients) {
    note_prime(prime);
    return add_value({.coefficients = coefficients, .prime = prime, .device = now_->device});
  }
  /// A buffer's limbs as values, one after another.
  u32 parts(u32 buffer, const std::vector<std::uint16_t>& primes) {
    const auto first = static_cast<u32>(made_.values.size());
    for (u32 l = 0; l < primes.size(); ++l) {
      note_prime(primes[l]);
      add_value({.kind = Value::Kind::part,
                 .coefficients = true,
                 .prime = primes[l],
                 .device = now_->device,
                 .at = buffer,
                 .limb = l});
    }
    return first;
  }
  u32 buffer_of(u32& kept, std::size_t limbs) {
    if (kept == kNone) {
      kept = static_cast<u32>(made_.buffers.size());
      made_.buffers.push_back({now_->device, 0});
    }
    made_.buffers[kept].limbs = std::max(made_.buffers[kept].limbs, static_cast<u32>(limbs));
    return kept;
  }
  void note_prime(std::uint16_t prime) { primes_ |= bit(prime); }
  const Value& value(u32 v) const { return made_.values[v]; }

  void act(Kind kind, u32 to, u32 a, u32 b = kNone, u32 table = 0) {
    made_.actions.push_back(
        {.kind = kind, .to = to, .a = a, .b = b, .table = table, .line = instruction_->line, .chip = now_->number});
  }

  /// A value that stays: a unit's results are gone when it begins again.
  u32 held(u32 v) {
    if (value(v).kind != Value::Kind::part) return v;
    const u32 mine = make(value(v).prime, value(v).coefficients);
    act(Kind::copy, mine, v);
    return mine;
  }

  /// A value where this chip's device has it.
  u32 here(u32 v) {
    if (value(v).device == now_->device) return v;
    const u32 mine = make(value(v).prime, value(v).coefficients);
    act(Kind::move, mine, v);
    return mine;
  }

  // Registers.

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
      if (u.out == kNone) fail(r, "not all limbs that this conversion is of are there");
      return u.out + u.results[r.number];
    }
    const Cell& c = cell(r);
    if (c.dead_line != 0) fail(r, "its value was read for the last time in line " + std::to_string(c.dead_line));
    if (c.group != kNone) fail(r, "it is of a group, not a limb of its own");
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
      fail(r,
           coefficients ? "coefficients are expected, this is transformed" : "its value is coefficients, not transformed");
    return v;
  }
  void mark(const Register& r) {
    if (!r.last || r.kind == Register::Kind::converted) return;
    cell(r).dead_line = instruction_->line;
  }
  void write(const Register& r, u32 v) { cell(r) = {.value = v}; }

  // Instructions.

  /// False where it has to wait.
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
        meetings_[i.meeting].brought.push_back(held(read(i.a)));
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
    if (i.op == Op::rec_ && i.prime != t.limb) fail(std::to_string(i.prime), "this is not the limb's prime");
    if (i.op != Op::loas_ && t.kind == 's') fail(word, "a scalar is loaded by loas");
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
    if (!(d.limbs & bit(t.limb))) fail(word, "this chip's inputs do not list this limb of it");
    if (d.freed & bit(t.limb)) fail(word, "it was freed by an earlier load");
    if (t.freed) d.freed |= bit(t.limb);
    if (i.op == Op::evg_ && d.component % 2 == 0) fail(word, "only the second half of a key is drawn from a seed");
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
      if (!(d.limbs & bit(t.limb))) fail(word, "this chip's outputs do not list this limb of it");
      if (value(v).coefficients) fail(i.a, "a result is transformed; this value is coefficients");
      Result& r = made_.results[d.which];
      r.values[d.component * r.level + t.limb] = v;
    }
    mark(i.a);
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
    if (i.op == Op::mov_) return write(i.to, held(a));
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

  /// Primes in the order of a key's limbs, the special ones from the last down: what meets in a product lies alike.
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
    if (both) fail(std::to_string(std::countr_zero(both)), "a conversion is from some primes to others");
    u.pushed = 0, u.out = kNone;
    u.in = parts(buffer_of(u.in_buffer, u.from.size()), u.from);
    buffer_of(u.out_buffer, u.to.size());
  }

  /// Which of the primes that a conversion is from this one is; it is pushed once.
  u32 pushed(const std::vector<std::uint16_t>& from, u64& done, std::uint16_t prime) const {
    const auto place = std::find(from.begin(), from.end(), prime);
    if (place == from.end()) fail(std::to_string(prime), "this conversion is from other primes");
    if (done & bit(prime)) fail(std::to_string(prime), "this limb is there already");
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
    const u32 to = u.in + pushed(u.from, u.pushed, i.prime);
    act(transformed ? Kind::inverse : Kind::copy, to, a);
    if (u.pushed != bits(u.from)) return;
    u.out = parts(u.out_buffer, u.to);
    act(Kind::convert, u.out, u.in, kNone, number_of(made_.conversions, conversions_, Bases{u.from, u.to}));
  }

  void divide(const Instruction& i) {
    const u32 a = read(i.a, i.prime, false), b = read(i.b);
    const Value& by = value(b);
    if (!by.coefficients) fail(i.b, "coefficients are expected, this is transformed");
    std::vector<std::uint16_t> divisors;
    u32 rest = b;
    if (i.b.kind == Register::Kind::converted) {
      divisors = now_->units[i.b.unit].from;
      if (by.prime != i.prime) fail(i.b, "this result is modulo prime " + std::to_string(by.prime));
    } else {
      // A register of another prime is reduced here, centred.
      divisors = {by.prime};
      if (by.prime == i.prime) fail(i.b, "a limb is divided by other primes than its own");
      rest = make(i.prime, true);
      act(Kind::convert, rest, b, kNone, number_of(made_.conversions, conversions_, Bases{divisors, {i.prime}}));
    }
    mark(i.a), mark(i.b);
    const u32 transformed = make(i.prime, false), to = make(i.prime, false);
    act(Kind::ntt, transformed, rest);
    act(Kind::divide, to, a, transformed, number_of(made_.divisors, divisors_, Bases{divisors, {i.prime}}));
    write(i.to, to);
  }

  void begin_group(const Instruction& i) {
    Group& g = now_->groups.emplace_back();
    const auto number = static_cast<u32>(now_->groups.size() - 1);
    for (const Register& r : now_->stream->group(i.group)) {
      if (cell(r).group == number) fail(r, "it is in this group twice");
      cell(r) = {.group = number};
      g.registers.push_back(r.number);
    }
  }

  Group& group_of(const Instruction& i) {
    const auto registers = now_->stream->group(i.group);
    const auto number = [&](const Register& r) {
      const Cell& c = cell(r);
      if (c.dead_line != 0) fail(r, "its value was read for the last time in line " + std::to_string(c.dead_line));
      if (c.group == kNone) fail(r, "this register is of no group");
      return c.group;
    };
    Group& g = now_->groups[number(registers[0])];
    const bool same = g.registers.size() == registers.size() &&
                      std::equal(registers.begin(), registers.end(), g.registers.begin(), [&](const Register& r, u32 mine) {
                        return r.number == mine && number(r) == number(registers[0]);
                      });
    if (!same) fail(registers[0], "these registers are not those of its group");
    return g;
  }

  void push_group(const Instruction& i) {
    Group& g = group_of(i);
    const std::vector<std::uint16_t> from = list(i.primes);
    if (g.from.empty()) {
      if (from.size() != g.registers.size())
        fail(to_string(now_->stream->group(i.group)[0]), "a group has a register for each prime");
      g.from = from;
      const auto [buffer, fresh] = now_->group_buffers.try_emplace(g.registers[0], kNone);
      g.in = parts(buffer_of(buffer->second, from.size()), from);
    }
    if (g.from != from) fail(std::to_string(from[0]), "these are not the primes of this group");
    const u32 a = read(i.a, i.prime, true);
    mark(i.a);
    act(Kind::copy, g.in + pushed(g.from, g.pushed, i.prime), a);
  }

  void reduce_group(const Instruction& i) {
    const Group& g = group_of(i);
    if (g.from.empty() || g.pushed != bits(g.from))
      fail(to_string(now_->stream->group(i.group)[0]), "not all limbs of this group are there");
    for (const Register& r : now_->stream->group(i.group)) mark(r);
    const u32 to = make(i.prime, true);
    const auto own = std::find(g.from.begin(), g.from.end(), i.prime);
    if (own != g.from.end())
      act(Kind::copy, to, g.in + static_cast<u32>(own - g.from.begin()));
    else
      act(Kind::convert, to, g.in, kNone, number_of(made_.conversions, conversions_, Bases{g.from, {i.prime}}));
    write(i.to, to);
  }

  bool join(const Instruction& i) {
    Meeting& m = meetings_[i.meeting];
    if (!now_->met) {
      ++m.arrived, now_->met = true;
      if (i.a.kind != Register::Kind::none) {
        m.brought.push_back(held(read(i.a, i.prime)));
        if (value(m.brought.back()).coefficients != value(m.brought.front()).coefficients)
          fail(i.a, "others bring a value of the other domain");
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

  // Memory.

  /// Steps of actions that need nothing of each other, in whose order alike ones follow one another as their operands lie in memory, and
  /// slots for what is made, as it comes: so a device may take a row of limbs at once. A slot whose value is read no more serves again
  /// in the next step. Actions move forward within a window alone, which bounds how many values wait for others.
  void place() {
    for (std::size_t p = 0; p < kPrimes; ++p) {
      if ((primes_ & bit(p)) && p < kPrimes - made_.special) made_.chain = std::max(made_.chain, p + 1);
    }
    const std::vector<u32> ends = into_steps();
    std::vector<u32> last(made_.values.size(), kNone);
    for (const Action& action : made_.actions) {
      for (const u32 v : {action.to, action.a, action.b}) {
        if (v != kNone) last[v] = action.step;
      }
    }
    for (const Result& r : made_.results) {
      for (const u32 v : r.values) last[v] = kNone;
    }
    std::vector<Slots> slots(made_.devices);
    u32 first = 0;
    for (const u32 end : ends) {
      const std::span<Action> step = std::span(made_.actions).subspan(first, end - first);
      std::vector<std::pair<Row, Action>> rows;
      for (const Action& action : step) rows.emplace_back(row_of(action), action);
      std::stable_sort(rows.begin(), rows.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
      for (std::size_t i = 0; i < rows.size();) {
        std::size_t count = 1;
        while (i + count < rows.size() && rows[i + count].first.follows(rows[i + count - 1].first)) ++count;
        const Value& to = value(rows[i].second.to);
        if (to.kind == Value::Kind::made) {
          u32 at = slots[to.device].take(static_cast<u32>(count));
          for (std::size_t k = 0; k < count; ++k) made_.values[rows[i + k].second.to].at = at++;
        }
        for (std::size_t k = 0; k < count; ++k) step[i + k] = rows[i + k].second;
        i += count;
      }
      std::set<u32> read;
      for (const Action& action : step) {
        for (const u32 v : {action.to, action.a, action.b}) {
          if (v != kNone && value(v).kind == Value::Kind::made && last[v] == action.step) read.insert(v);
        }
      }
      for (const u32 v : read) slots[value(v).device].give(value(v).at);
      first = end;
    }
    for (const Slots& s : slots) made_.slots.push_back(s.count());
  }

  /// Orders the actions by steps and returns where each step ends.
  std::vector<u32> into_steps() {
    constexpr std::size_t kWindow = 2048;
    // The first step that may read a value or a buffer, and the first that may write a buffer again.
    std::vector<u32> known(made_.values.size(), 0), filled(made_.buffers.size(), 0), left(made_.buffers.size(), 0);
    const auto is_part = [&](u32 v) { return value(v).kind == Value::Kind::part; };
    const auto ready = [&](u32 v) -> u32& { return is_part(v) ? filled[value(v).at] : known[v]; };
    u32 base = 0, most = 0;
    for (std::size_t k = 0; k < made_.actions.size(); ++k) {
      if (k % kWindow == 0) base = most;
      Action& action = made_.actions[k];
      action.step = base;
      for (const u32 v : {action.a, action.b}) {
        if (v != kNone) action.step = std::max(action.step, ready(v));
      }
      if (is_part(action.to)) action.step = std::max(action.step, left[value(action.to).at]);
      if (action.kind == Kind::convert) action.step = std::max(action.step, ready(action.to));
      for (const u32 v : {action.a, action.b}) {
        if (v != kNone && is_part(v)) left[value(v).at] = std::max(left[value(v).at], action.step + 1);
      }
      ready(action.to) = std::max(ready(action.to), action.step + 1);
      most = std::max(most, action.step + 1);
    }
    std::stable_sort(made_.actions.begin(), made_.actions.end(),
                     [](const Action& x, const Action& y) { return x.step < y.step; });
    std::vector<u32> ends;
    for (u32 k = 1; k <= made_.actions.size(); ++k) {
      if (k == made_.actions.size() || made_.actions[k].step != made_.actions[k - 1].step) ends.push_back(k);
    }
    return ends;
  }

  /// What actions have in common that one call can make, and where each stands among them.
  struct Row {
    std::array<long, 12> alike{};
    long at = 0;
    auto operator<=>(const Row&) const = default;
    bool follows(const Row& o) const { return alike == o.alike && at == o.at + 1; }
  };
  Row row_of(const Action& action) const {
    Row row;
    row.at = place_of(action.a)[2];
    const auto offset = [&](u32 v) { return place_of(v)[2] - row.at; };
    const std::array<long, 3> a = place_of(action.a);
    row.alike = {static_cast<long>(action.kind), value(action.to).device,
                 action.kind == Action::Kind::divide ? 0 : action.table, a[0], a[1]};
    if (action.b != kNone) {
      const std::array<long, 3> b = place_of(action.b);
      row.alike[5] = b[0], row.alike[6] = b[1], row.alike[7] = offset(action.b);
    }
    if (value(action.to).kind == Value::Kind::part) {
      const std::array<long, 3> to = place_of(action.to);
      row.alike[8] = to[1] + 1, row.alike[9] = offset(action.to);
    }
    return row;
  }
  /// A value's kind of memory, which one of that kind, and the limb there.
  std::array<long, 3> place_of(u32 v) const {
    const Value& at = value(v);
    if (at.kind == Value::Kind::made) return {1, 0, at.at};
    if (at.kind == Value::Kind::part) return {2, at.at, at.limb};
    const Source& s = made_.sources[at.at];
    const long level = s.kind == 'k' ? static_cast<long>(made_.keys[s.which].level) : kPrimes;
    const long limb = s.prime < level ? s.prime : level + static_cast<long>(kPrimes - 1 - s.prime);
    return {3 + s.kind, static_cast<long>(s.which) << 32 | s.component, limb};
  }

  /// Limbs of memory, of which rows are taken.
  class Slots {
   public:
    u32 take(u32 count) {
      for (auto run = free_.begin(); run != free_.end(); ++run) {
        if (run->second < count) continue;
        const auto [at, length] = *run;
        free_.erase(run);
        if (length > count) free_.emplace(at + count, length - count);
        return at;
      }
      count_ += count;
      return count_ - count;
    }
    void give(u32 at) {
      u32 length = 1;
      auto next = free_.lower_bound(at);
      if (next != free_.end() && next->first == at + 1) length += next->second, next = free_.erase(next);
      if (next != free_.begin() && std::prev(next)->first + std::prev(next)->second == at)
        std::prev(next)->second += length;
      else
        free_.emplace(at, length);
    }
    u32 count() const { return count_; }

   private:
    std::map<u32, u32> free_;  // where each run begins, and its length
    u32 count_ = 0;
  };

  const Text& text_;
  Linked made_;
  Names names_;
  std::vector<Chip> chips_;
  std::unordered_map<u64, Meeting> meetings_;
  std::unordered_map<u64, u32> sources_;
  std::map<std::int32_t, u32> turns_;
  std::map<Bases, u32> conversions_, divisors_;
  u64 primes_ = 0;
  Chip* now_ = nullptr;
  const Instruction* instruction_ = nullptr;
};

}  // namespace

Linked link(const Text& text, std::size_t devices) { return Linker(text, devices).run(); }

}  // namespace heliograph::program::limbs
