#include "program/limbs/instructions.h"

namespace heliograph::program::limbs {

namespace {

constexpr std::array kNames = {
#define HELIOGRAPH_NAME(name, form) #name,
    HELIOGRAPH_INSTRUCTIONS(HELIOGRAPH_NAME)
#undef HELIOGRAPH_NAME
};
constexpr std::array kForms = {
#define HELIOGRAPH_FORM(name, form) Form::form,
    HELIOGRAPH_INSTRUCTIONS(HELIOGRAPH_FORM)
#undef HELIOGRAPH_FORM
};

void add(std::string& out, u64 number) { out += std::to_string(number); }

void add(std::string& out, const Register& r) {
  switch (r.kind) {
    case Register::Kind::none:
      return;
    case Register::Kind::vector:
      out += 'r';
      break;
    case Register::Kind::scalar:
      out += 's';
      break;
    case Register::Kind::converted:
      out += 'b';
      add(out, r.unit);
      out += '{';
  }
  add(out, r.number);
  if (r.kind == Register::Kind::converted) out += '}';
}

void add_marked(std::string& out, const Register& r) {
  add(out, r);
  if (r.last) out += "[X]";
}

void add(std::string& out, const Term& t) {
  out += t.kind;
  add(out, t.number);
  out += '(';
  add(out, t.limb);
  out += t.freed ? "){F}" : ")";
}

template <class List>
void add_list(std::string& out, const List& list) {
  out += '[';
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i > 0) out += ',';
    add(out, u64{list[i]});
  }
  out += ']';
}

void add_group(std::string& out, std::span<const Register> group) {
  out += '{';
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (i > 0) out += ", ";
    add_marked(out, group[i]);
  }
  out += '}';
}

void add_prime(std::string& out, const Instruction& i) {
  out += " | ";
  add(out, u64{i.prime});
}

void add_target(std::string& out, const Instruction& i) {
  add(out, i.to);
  out += ": ";
}

/// Each add_NAME appends the operands that NAME_of (parse.cpp) reads.
void add_memory_access(std::string& out, const Instruction& i, Form form) {
  out += ' ';
  if (form == Form::register_to_memory || form == Form::register_with_prime) {
    add_marked(out, i.a);
    out += ": ";
  } else {
    add_target(out, i);
  }
  add(out, i.term);
  if (form == Form::memory_with_prime || form == Form::register_with_prime) add_prime(out, i);
}

void add_arithmetic(std::string& out, const Instruction& i, Form form) {
  if (form == Form::rotation) out += ' ' + std::to_string(i.steps);
  out += ' ';
  add_target(out, i);
  add_marked(out, i.a);
  if (form == Form::two_operands || form == Form::register_and_scalar) {
    out += ", ";
    add_marked(out, i.b);
  }
  add_prime(out, i);
}

void add_conversion(std::string& out, const Stream& s, const Instruction& i, Form form) {
  out += " B";
  add(out, u64{i.unit});
  out += ": ";
  if (form == Form::unit_begins) {
    add_list(out, s.list(i.primes));
    out += ", ";
    add_list(out, s.list(i.more));
  } else {
    add_marked(out, i.a);
    add_prime(out, i);
  }
}

void add_grouped(std::string& out, const Stream& s, const Instruction& i, Form form) {
  out += ' ';
  if (form == Form::out_of_group) add_target(out, i);
  add_group(out, s.group(i.group));
  if (form == Form::into_group) {
    out += ": ";
    add_marked(out, i.a);
    out += ": ";
    add_list(out, s.list(i.primes));
  }
  if (form != Form::group) add_prime(out, i);
}

void add_exchange(std::string& out, const Instruction& i, Form form) {
  out += " @ ";
  add(out, i.meeting);
  out += ':';
  add(out, u64{i.size});
  out += ' ';
  if (form == Form::sends)
    out += ": ";
  else
    add_target(out, i);
  if (form != Form::receives) add_marked(out, i.a);
  if (form == Form::joins) add_prime(out, i);
}

void add(std::string& out, const Stream& s, const Instruction& i) {
  out += name_of(i.op);
  switch (const Form form = form_of(i.op); operand_kind(form)) {
    case OperandKind::memory:
      return add_memory_access(out, i, form);
    case OperandKind::arithmetic:
      return add_arithmetic(out, i, form);
    case OperandKind::conversion:
      return add_conversion(out, s, i, form);
    case OperandKind::grouped:
      return add_grouped(out, s, i, form);
    case OperandKind::exchange:
      return add_exchange(out, i, form);
    case OperandKind::none:
      return;
  }
}

}  // namespace

Form form_of(Op op) { return kForms[static_cast<std::size_t>(op)]; }

OperandKind operand_kind(Form form) {
  switch (form) {
    case Form::memory_to_register:
    case Form::memory_to_scalar:
    case Form::memory_with_prime:
    case Form::register_to_memory:
    case Form::register_with_prime:
      return OperandKind::memory;
    case Form::rotation:
    case Form::one_operand:
    case Form::two_operands:
    case Form::register_and_scalar:
      return OperandKind::arithmetic;
    case Form::unit_begins:
    case Form::into_unit:
      return OperandKind::conversion;
    case Form::group:
    case Form::into_group:
    case Form::out_of_group:
      return OperandKind::grouped;
    case Form::sends:
    case Form::receives:
    case Form::joins:
      return OperandKind::exchange;
    case Form::nothing:
      return OperandKind::none;
  }
  return OperandKind::none;
}

const char* name_of(Op op) { return kNames[static_cast<std::size_t>(op)]; }

std::string to_string(const Register& r) {
  std::string out;
  add(out, r);
  return out;
}

std::string to_string(const Term& t) {
  std::string out;
  Term plain = t;
  plain.freed = false;
  add(out, plain);
  return out;
}

std::string print(const Stream& stream, const Instruction& instruction) {
  std::string out;
  add(out, stream, instruction);
  return out;
}

std::string print(const Stream& stream) {
  std::string out = "Instruction Stream " + std::to_string(stream.number) + ":\n";
  for (const Instruction& i : stream.instructions) {
    add(out, stream, i);
    out += '\n';
  }
  return out;
}

std::string print(const Listing& listing) {
  std::string out;
  for (const Section& section : listing.sections) {
    out += section.title + " Stream:\n";
    for (const Entry& e : section.entries) {
      out += e.term.kind;
      add(out, e.term.number);
      out += " | " + e.symbol + " | ";
      add_list(out, e.limbs);
      out += '\n';
    }
    out += ";\n";
  }
  return out;
}

std::vector<File> print(const Text& text) {
  std::vector<File> files;
  for (const Stream& s : text.streams) files.push_back({s.file, print(s)});
  for (const Listing& l : text.inputs) files.push_back({l.file, print(l)});
  files.push_back({text.program.file, print(text.program)});
  return files;
}

}  // namespace heliograph::program::limbs
