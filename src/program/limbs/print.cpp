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

void add(std::string& out, const Stream& s, const Instruction& i) {
  const auto prime = [&] {
    out += " | ";
    add(out, u64{i.prime});
  };
  const auto meeting = [&] {
    out += " @ ";
    add(out, i.meeting);
    out += ':';
    add(out, u64{i.size});
    out += ' ';
  };
  const auto unit = [&] {
    out += " B";
    add(out, u64{i.unit});
    out += ": ";
  };
  const auto assigned = [&] {
    out += ' ';
    add(out, i.to);
    out += ": ";
  };
  out += name_of(i.op);
  switch (form_of(i.op)) {
    case Form::memory_to_register:
    case Form::memory_to_scalar:
    case Form::memory_with_prime:
      assigned();
      add(out, i.term);
      if (form_of(i.op) == Form::memory_with_prime) prime();
      break;
    case Form::register_to_memory:
    case Form::register_with_prime:
      out += ' ';
      add_marked(out, i.a);
      out += ": ";
      add(out, i.term);
      if (form_of(i.op) == Form::register_with_prime) prime();
      break;
    case Form::rotation:
      out += ' ' + std::to_string(i.steps);
      [[fallthrough]];
    case Form::one_operand:
      assigned();
      add_marked(out, i.a);
      prime();
      break;
    case Form::two_operands:
    case Form::register_and_scalar:
      assigned();
      add_marked(out, i.a);
      out += ", ";
      add_marked(out, i.b);
      prime();
      break;
    case Form::unit_begins:
      unit();
      add_list(out, s.list(i.primes));
      out += ", ";
      add_list(out, s.list(i.more));
      break;
    case Form::into_unit:
      unit();
      add_marked(out, i.a);
      prime();
      break;
    case Form::group:
      out += ' ';
      add_group(out, s.group(i.group));
      break;
    case Form::into_group:
      out += ' ';
      add_group(out, s.group(i.group));
      out += ": ";
      add_marked(out, i.a);
      out += ": ";
      add_list(out, s.list(i.primes));
      prime();
      break;
    case Form::out_of_group:
      assigned();
      add_group(out, s.group(i.group));
      prime();
      break;
    case Form::sends:
      meeting();
      out += ": ";
      add_marked(out, i.a);
      break;
    case Form::receives:
      meeting();
      add(out, i.to);
      out += ": ";
      break;
    case Form::joins:
      meeting();
      add(out, i.to);
      out += ": ";
      add_marked(out, i.a);
      prime();
      break;
    case Form::nothing:
      break;
  }
}

}  // namespace

Form form_of(Op op) { return kForms[static_cast<std::size_t>(op)]; }
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
