#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "program/limbs/instructions.h"

namespace heliograph::program::limbs {

namespace {

constexpr std::size_t kMostLines = std::size_t{1} << 26, kMostOfGroup = kPrimes, kMostOfName = 256;

bool blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/// Returns a word for an error message: at most 40 characters, all of them printable.
std::string shown(std::string_view word) {
  std::string out;
  for (const char c : word.substr(0, 40)) out += c >= ' ' && c <= '~' ? c : '?';
  return out + (word.size() > 40 ? "..." : "");
}

/// One line, parsed from left to right. Errors refer to the word at which parsing stopped.
class Line {
 public:
  Line(const std::string& file, std::size_t number, std::string_view text) : file_(file), number_(number), text_(text) {}

  std::size_t number() const { return number_; }

  [[noreturn]] void fail(const std::string& why) {
    skip();
    std::size_t end = at_;
    while (end < text_.size() && !blank(text_[end])) ++end;
    std::string_view word = text_.substr(at_, end - at_);
    refuse(file_, number_, word.empty() ? "the line's end" : word, why);
  }

  bool ended() {
    skip();
    return at_ == text_.size();
  }
  void end() {
    if (!ended()) fail("the end of the instruction is expected");
  }
  /// Reads the next character if it is `c`. Returns whether the character was `c`.
  bool next_is(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void take(char c) {
    if (!next_is(c)) fail(std::string("\"") + c + "\" is expected");
  }
  std::string_view name() {
    skip();
    const std::size_t first = at_;
    while (at_ < text_.size() && ((text_[at_] >= 'a' && text_[at_] <= 'z') || (text_[at_] >= '0' && text_[at_] <= '9')))
      ++at_;
    return text_.substr(first, at_ - first);
  }
  template <class T>
  T number(u64 most, const char* what) {
    skip();
    const std::size_t first = at_;
    u64 value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error == std::errc::invalid_argument) fail(std::string(what) + " is expected");
    // Each number has only one spelling, so that printing reproduces the text.
    if (text_[first] == '0' && end != text_.data() + first + 1) fail("a number must not have leading zeros");
    if (error != std::errc() || value > most) fail(std::string(what) + " must be at most " + std::to_string(most));
    at_ = static_cast<std::size_t>(end - text_.data());
    return static_cast<T>(value);
  }
  std::int32_t signed_number(const char* what) {
    skip();
    std::int32_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error == std::errc::invalid_argument) fail(std::string(what) + " is expected");
    if (error != std::errc() || value < -(1 << 20) || value > (1 << 20)) fail(std::string(what) + " is out of range");
    const std::string_view word = text_.substr(at_, static_cast<std::size_t>(end - text_.data()) - at_);
    if (word != std::to_string(value)) fail("a number must not have leading zeros");
    at_ += word.size();
    return value;
  }
  std::uint16_t prime() { return number<std::uint16_t>(kPrimes - 1, "the index of a prime"); }
  std::uint16_t after_bar() {
    take('|');
    return prime();
  }

  Register plain(char letter, Register::Kind kind, const char* what) {
    if (!next_is(letter)) fail(std::string(what) + " is expected");
    return {.kind = kind, .number = number<u32>(kMostRegisters - 1, "the number of a register")};
  }
  Register vector() { return plain('r', Register::Kind::vector, "a register"); }
  Register scalar() { return plain('s', Register::Kind::scalar, "a register of scalars"); }
  Register marked(Register r) {
    if (next_is('[')) {
      take('X'), take(']');
      r.last = true;
    }
    return r;
  }
  /// Reads a register such as r1, or a result of a conversion such as b0{1}.
  Register source() {
    if (!next_is('b')) return marked(vector());
    Register r{.kind = Register::Kind::converted};
    r.unit = number<std::uint16_t>(kMostUnits - 1, "the number of a unit");
    take('{');
    r.number = number<u32>(kPrimes - 1, "the number of a result");
    take('}');
    return marked(r);
  }
  std::uint16_t unit() {
    if (!next_is('B')) fail("a unit of base conversion is expected");
    return number<std::uint16_t>(kMostUnits - 1, "the number of a unit");
  }
  Term term(std::string_view kinds, const char* what) {
    skip();
    if (at_ >= text_.size() || kinds.find(text_[at_]) == std::string_view::npos) fail(std::string(what) + " is expected");
    Term t{.kind = text_[at_++]};
    t.number = number<u32>(~u32{0}, "the number of a term");
    return t;
  }
  Term limb(std::string_view kinds, const char* what) {
    Term t = term(kinds, what);
    take('(');
    t.limb = prime();
    take(')');
    return t;
  }
  Term freed(Term t) {
    if (next_is('{')) {
      take('F'), take('}');
      t.freed = true;
    }
    return t;
  }
  template <class List>
  void primes(List& into, bool ascending = true) {
    take('[');
    const std::size_t first = into.size();
    if (next_is(']')) return;
    do {
      const std::uint16_t p = prime();
      if (ascending && into.size() > first && into.back() >= p) {
        refuse(file_, number_, std::to_string(p), "a list of primes must ascend");
      }
      into.push_back(p);
    } while (next_is(','));
    take(']');
  }
  std::string_view up_to_bar() {
    skip();
    const std::size_t bar = std::min(text_.find('|', at_), text_.size());
    std::string_view word = text_.substr(at_, bar - at_);
    while (!word.empty() && blank(word.back())) word.remove_suffix(1);
    at_ = bar;
    return word;
  }

 private:
  void skip() {
    while (at_ < text_.size() && blank(text_[at_])) ++at_;
  }

  const std::string& file_;
  std::size_t number_;
  std::string_view text_;
  std::size_t at_ = 0;
};

/// The lines of a file, except blank ones.
class Lines {
 public:
  explicit Lines(const File& file) : file_(file) {}

  std::optional<Line> next() {
    while (at_ < file_.text.size()) {
      const std::size_t end = std::min(file_.text.find('\n', at_), file_.text.size());
      const std::string_view text(file_.text.data() + at_, end - at_);
      at_ = end + 1;
      if (++number_ > kMostLines) refuse(file_.name, number_, "", "the file has too many lines");
      if (!std::all_of(text.begin(), text.end(), blank)) return Line(file_.name, number_, text);
    }
    return std::nullopt;
  }
  Line need(const char* what) {
    if (std::optional<Line> line = next()) return *line;
    refuse(file_.name, number_ + 1, "the file's end", std::string(what) + " is missing");
  }

 private:
  const File& file_;
  std::size_t at_ = 0, number_ = 0;
};

const std::map<std::string_view, Op>& ops() {
  static const std::map<std::string_view, Op> all = [] {
    std::map<std::string_view, Op> made;
#define HELIOGRAPH_OP(name, form) made.emplace(#name, Op::name##_);
    HELIOGRAPH_INSTRUCTIONS(HELIOGRAPH_OP)
#undef HELIOGRAPH_OP
    return made;
  }();
  return all;
}

Slice group_of(Line& line, Stream& s, bool marked) {
  Slice slice{.first = static_cast<u32>(s.registers.size())};
  line.take('{');
  do {
    if (++slice.count > kMostOfGroup) line.fail("a group must have at most 64 registers");
    s.registers.push_back(marked ? line.marked(line.vector()) : line.vector());
  } while (line.next_is(','));
  line.take('}');
  return slice;
}

Slice primes_of(Line& line, Stream& s) {
  Slice slice{.first = static_cast<u32>(s.primes.size())};
  line.primes(s.primes);
  slice.count = static_cast<u32>(s.primes.size()) - slice.first;
  if (slice.count == 0) line.fail("a list of primes must not be empty");
  return slice;
}

void meeting_of(Line& line, Instruction& i) {
  line.take('@');
  i.meeting = line.number<u64>(~u64{0}, "the number of an exchange");
  line.take(':');
  i.size = line.number<u32>(kMostChips, "the number of chips of an exchange");
}

void target_of(Line& line, Instruction& i, const Register& r) {
  i.to = r;
  line.take(':');
}

/// Reads the operands of forms that move a limb or a scalar between memory and a register.
void memory_access_of(Line& line, Instruction& i, Form form) {
  constexpr const char* kMemory = "a limb in memory";
  switch (form) {
    case Form::memory_to_scalar:
      target_of(line, i, line.scalar());
      i.term = line.freed(line.limb("s", "a scalar in memory"));
      break;
    case Form::memory_to_register:
    case Form::memory_with_prime:
      target_of(line, i, line.vector());
      i.term = i.op == Op::evg_ ? line.freed(line.limb("k", "a limb of a key")) : line.freed(line.limb("ipkvt", kMemory));
      break;
    default:
      i.a = line.marked(line.vector());
      line.take(':');
      i.term = line.limb("vt", "a limb in memory that a program makes");
  }
  if (form == Form::memory_with_prime || form == Form::register_with_prime) i.prime = line.after_bar();
}

/// Reads the operands of forms that compute a register from one or two registers modulo a prime.
void arithmetic_of(Line& line, Instruction& i, Form form) {
  if (form == Form::rotation) i.steps = line.signed_number("a number of steps");
  target_of(line, i, line.vector());
  i.a = line.source();
  if (form == Form::two_operands || form == Form::register_and_scalar) {
    line.take(',');
    i.b = form == Form::two_operands ? line.source() : line.marked(line.scalar());
  }
  i.prime = line.after_bar();
}

/// Reads the operands of forms that start or fill a unit of base conversion.
void conversion_of(Line& line, Instruction& i, Form form, Stream& s) {
  i.unit = line.unit();
  line.take(':');
  if (form == Form::unit_begins) {
    i.primes = primes_of(line, s);
    line.take(',');
    i.more = primes_of(line, s);
  } else {
    i.a = line.source();
    i.prime = line.after_bar();
  }
}

/// Reads the operands of forms that fill or read a group of registers.
void grouped_of(Line& line, Instruction& i, Form form, Stream& s) {
  if (form == Form::out_of_group) target_of(line, i, line.vector());
  i.group = group_of(line, s, form == Form::out_of_group);
  if (form == Form::into_group) {
    line.take(':');
    i.a = line.source();
    line.take(':');
    i.primes = primes_of(line, s);
  }
  if (form != Form::group) i.prime = line.after_bar();
}

/// Reads the operands of forms by which chips exchange or add registers.
void exchange_of(Line& line, Instruction& i, Form form) {
  meeting_of(line, i);
  if (form == Form::sends) {
    line.take(':');
    i.a = line.source();
    return;
  }
  if (form == Form::receives || !line.next_is(':')) target_of(line, i, line.vector());
  if (form == Form::receives) return;
  if (!line.next_is('|')) {
    i.a = line.source();
    line.take('|');
  }
  i.prime = line.prime();
}

Instruction instruction_of(Line& line, Stream& s) {
  Instruction i{.line = static_cast<u32>(line.number())};
  Line begin = line;
  const auto found = ops().find(line.name());
  if (found == ops().end()) begin.fail("there is no such instruction");
  i.op = found->second;
  switch (const Form form = form_of(i.op); operand_kind(form)) {
    case OperandKind::memory:
      memory_access_of(line, i, form);
      break;
    case OperandKind::arithmetic:
      arithmetic_of(line, i, form);
      break;
    case OperandKind::conversion:
      conversion_of(line, i, form, s);
      break;
    case OperandKind::grouped:
      grouped_of(line, i, form, s);
      break;
    case OperandKind::exchange:
      exchange_of(line, i, form);
      break;
    case OperandKind::none:
      break;
  }
  line.end();
  return i;
}

Stream parse_stream(const File& file, std::size_t number) {
  Stream s{.file = file.name};
  Lines lines(file);
  Line first = lines.need("\"Instruction Stream\"");
  const std::string_view title = "Instruction Stream ";
  // A title consists of words only.
  std::string_view text = first.up_to_bar();
  if (text.substr(0, title.size()) != title || text.empty() || text.back() != ':')
    refuse(file.name, first.number(), shown(text), "a stream must begin with \"Instruction Stream 0:\" and its own number");
  text = text.substr(title.size(), text.size() - title.size() - 1);
  if (text != std::to_string(number))
    refuse(file.name, first.number(), shown(text), "the stream must have the number of its file");
  s.number = static_cast<u32>(number);
  while (std::optional<Line> line = lines.next()) s.instructions.push_back(instruction_of(*line, s));
  return s;
}

Listing parse_listing(const File& file, const std::vector<std::string>& titles) {
  Listing listing{.file = file.name};
  Lines lines(file);
  for (const std::string& title : titles) {
    Line head = lines.need(("\"" + title + " Stream:\"").c_str());
    const std::string_view text = head.up_to_bar();
    if (text != title + " Stream:") refuse(file.name, head.number(), shown(text), "\"" + title + " Stream:\" is expected");
    Section& section = listing.sections.emplace_back(Section{.title = title, .entries = {}});
    for (;;) {
      Line line = lines.need("the \";\" that ends a list");
      if (line.next_is(';')) {
        line.end();
        break;
      }
      Entry e{.term = line.term(title == "Output" ? "vt" : "ipsk", "a term"), .symbol = {}, .limbs = {}, .line = {}};
      e.line = static_cast<u32>(line.number());
      line.take('|');
      e.symbol = line.up_to_bar();
      const bool plain = std::all_of(e.symbol.begin(), e.symbol.end(), [](char c) { return c >= ' ' && c <= '~'; });
      if (e.symbol.empty() || e.symbol.size() > kMostOfName || !plain)
        line.fail("a term must have a name of 1 to 256 printable characters before this");
      line.take('|');
      line.primes(e.limbs);
      line.end();
      section.entries.push_back(std::move(e));
    }
  }
  if (std::optional<Line> line = lines.next()) line->fail("the end of the lists is expected");
  return listing;
}

}  // namespace

void refuse(const std::string& file, std::size_t line, std::string_view word, const std::string& why) {
  throw InstructionError(shown(file) + ":" + std::to_string(line) + ": " + shown(word) + ": " + why);
}

Text parse(const std::vector<File>& files) {
  std::map<std::string_view, const File*> by_name;
  for (const File& f : files) by_name.emplace(f.name, &f);
  const auto find = [&](const std::string& name) {
    const auto found = by_name.find(name);
    return found == by_name.end() ? nullptr : found->second;
  };
  const auto need = [&](const std::string& name) -> const File& {
    if (const File* file = find(name)) return *file;
    throw InstructionError(name + ":0: the file is missing");
  };
  Text text;
  std::size_t chips = 0;
  while (chips < kMostChips && find("instructions" + std::to_string(chips))) ++chips;
  need("instructions0");
  // A gap in the numbers means that a file is missing, not that there are fewer chips.
  std::size_t named = 0;
  for (const auto& [name, file] : by_name) {
    for (const std::string_view kind : {"instructions", "inputs"}) {
      const bool numbered = name.substr(0, kind.size()) == kind && name.size() > kind.size() &&
                            name.find_first_not_of("0123456789", kind.size()) == std::string_view::npos;
      if (!numbered) continue;
      std::size_t number = kMostChips;
      std::from_chars(name.data() + kind.size(), name.data() + name.size(), number);
      if (number >= kMostChips || name.substr(kind.size()) != std::to_string(number))
        refuse(std::string(name), 0, name.substr(kind.size()),
               "the number of a file must be that of its chip, 0 to " + std::to_string(kMostChips - 1) +
                   ", without leading zeros");
      named = std::max(named, number + 1);
    }
  }
  for (std::size_t chip = 0; chip < std::max(chips, named); ++chip) {
    const std::string number = std::to_string(chip);
    text.streams.push_back(parse_stream(need("instructions" + number), chip));
    text.inputs.push_back(parse_listing(need("inputs" + number), {"Input", "Output"}));
  }
  text.program = parse_listing(need("program_inputs"), {"Ciphertext", "Plaintext", "Scalar", "Output", "Evalkey"});
  return text;
}

}  // namespace heliograph::program::limbs
