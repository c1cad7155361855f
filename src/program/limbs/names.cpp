#include "program/limbs/names.h"

#include <algorithm>
#include <bit>
#include <charconv>

namespace heliograph::program::limbs {

namespace {

constexpr std::int64_t kMostTurn = 1 << 22;
constexpr std::size_t kMostPairs = 127;

/// Parses a number between `least` and `most`, without leading zeros, and removes it from the text.
bool read_number(std::string_view& text, std::int64_t least, std::int64_t most, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < least || value > most) return false;
  const std::string_view word = text.substr(0, static_cast<std::size_t>(end - text.data()));
  if (word != std::to_string(value)) return false;
  text.remove_prefix(word.size());
  return true;
}

/// Parses "K:1:5:3:2".
bool read_family(std::string_view& text, Key& k) {
  if (!text.starts_with("K")) return false;
  text.remove_prefix(1);
  std::int64_t type = 0, level = 0, extension = 0, turn = 0;
  const auto number = [&](std::int64_t least, std::int64_t most, std::int64_t& value) {
    if (!text.starts_with(":")) return false;
    text.remove_prefix(1);
    return read_number(text, least, most, value);
  };
  if (!number(0, Key::own, type) || !number(1, kPrimes - 1, level) || !number(0, kPrimes - 1, extension) ||
      !number(-kMostTurn, kMostTurn, turn))
    return false;
  k.type = static_cast<Key::Type>(type), k.level = static_cast<u32>(level);
  k.extension = static_cast<u32>(extension), k.turn = static_cast<std::int32_t>(turn);
  return true;
}

/// Returns whether the key's steps are valid: those of a rotation, or the number of one of Heliograph's own keys. For
/// keys that raise, the compiler writes the last prime of the raised level in this field.
bool has_valid_steps(const Key& k) {
  const bool raises = k.type == Key::raise || k.type == Key::raise_from_ephemeral;
  return k.type == Key::rotation || k.type == Key::own || k.turn == 0 ||
         (raises && k.turn == static_cast<std::int32_t>(k.level) - 1);
}

/// Parses "[0,2,4]": limbs of the key's level, or for Heliograph's own keys the number of a pair.
bool read_digit(std::string_view& text, const Key& k, std::vector<std::uint16_t>& digit) {
  do {
    if (!text.starts_with(digit.empty() ? "[" : ",")) return false;
    text.remove_prefix(1);
    std::int64_t limb = 0;
    if (!read_number(text, digit.empty() ? 0 : digit.back() + 1, k.type == Key::own ? kMostPairs - 1 : k.level - 1, limb))
      return false;
    digit.push_back(static_cast<std::uint16_t>(limb));
  } while (!text.starts_with("]"));
  text.remove_prefix(1);
  return true;
}

bool same_term(const Term& a, const Term& b) { return a.kind == b.kind && a.number == b.number; }

}  // namespace

std::string name_of(const Term& t) { return t.kind + std::to_string(t.number); }

u64 bits(const std::vector<std::uint16_t>& limbs) {
  u64 all = 0;
  for (const std::uint16_t l : limbs) all |= bit(l);
  return all;
}
Names::Names(const Text& text, Linked& made) : made_(made) {
  const Listing& all = text.program;
  for (const Section& s : all.sections) {
    for (const Entry& e : s.entries) {
      // The program needs as many special primes as the key with the most special primes.
      Key k;
      std::string_view rest = e.symbol;
      if (e.term.kind == 'k' && read_family(rest, k)) made_.special = std::max<std::size_t>(made_.special, k.extension);
    }
  }
  for (const Section& s : all.sections) {
    if (s.title != "Output") continue;
    for (const Entry& e : s.entries) note(all, s, e);
  }
  std::vector<const Entry*> renamed;
  for (const Section& s : all.sections) {
    if (s.title == "Output") continue;
    for (const Entry& e : s.entries) {
      if (s.title == "Ciphertext" && names_result(e.symbol))
        renamed.push_back(&e);
      else
        note(all, s, e);
    }
  }
  for (const Entry* e : renamed) rename(all, *e);
  require_covered(all);
  for (const auto& [name, which] : results_) finish(all, name, which);
  for (Key& k : made_.keys) std::sort(k.digits.begin(), k.digits.end());
}

Declared Names::of_chip(const Listing& listing, const Section& section, const Entry& e) {
  const Declared d = declared(listing.file, section.title, e, false);
  if (d.limbs & ~limbs_[symbol_of(d, e)])
    refuse(listing.file, e.line, e.symbol, "program_inputs does not list these limbs of the input");
  if (d.kind != 'o') return d;
  const std::vector<Part>& all = parts(d.which, d.component);
  const auto part = std::find_if(all.begin(), all.end(), [&](const Part& p) { return same_term(p.term, e.term); });
  if (part == all.end() || (d.limbs & ~part->limbs))
    refuse(listing.file, e.line, name_of(e.term), "program_inputs does not list these limbs of this term of " + e.symbol);
  return d;
}

/// Checks that each used limb of a key is in one of its digits, because a key switches only these limbs. Programs of
/// lower levels list fewer limbs and digits.
void Names::require_covered(const Listing& listing) const {
  for (std::size_t i = 0; i < made_.keys.size(); ++i) {
    const Key& k = made_.keys[i];
    if (k.type == Key::own) continue;
    u64 covered = 0;
    for (const auto& digit : k.digits) covered |= bits(digit);
    const u64 missing = key_limbs_[i] & ~covered & (bit(k.level) - 1);
    if (missing)
      refuse(listing.file, key_lines_[i], k.name(),
             "no digit of this key has limb " + std::to_string(std::countr_zero(missing)) + ", which is listed");
  }
}

void Names::note_part(const Listing& listing, const Entry& e, const Declared& d) {
  std::vector<Part>& all = parts_[d.which][d.component];
  for (const Part& p : all) {
    if (same_term(p.term, e.term)) refuse(listing.file, e.line, name_of(e.term), "this term is listed twice");
    if ((p.limbs & d.limbs) && p.limbs != d.limbs)
      refuse(listing.file, e.line, name_of(e.term),
             "cannot add up " + e.symbol + ": its terms must have the same limbs, or none in common; " + name_of(p.term) +
                 " in line " + std::to_string(p.line) + " has others");
  }
  all.push_back({e.term, d.limbs, e.line});
}

void Names::odd(const std::string& file, const Entry& e) {
  refuse(file, e.line, e.symbol, "this is not the name of a ciphertext's c0 or c1, a plaintext, a scalar or a key");
}

void Names::note(const Listing& listing, const Section& s, const Entry& e) {
  const Declared d = declared(listing.file, s.title, e, true);
  limbs_[symbol_of(d, e)] |= d.limbs;
  if (d.kind == 'o') note_part(listing, e, d);
  grow(d);
}

bool Names::names_result(const std::string& symbol) const {
  const std::size_t colon = symbol.rfind(':');
  return colon != std::string::npos && results_.contains(symbol.substr(0, colon)) && !limbs_.contains("o" + symbol);
}

void Names::rename(const Listing& all, const Entry& e) {
  const std::size_t colon = e.symbol.rfind(':');
  const u32 component = e.symbol.substr(colon + 1) == "c1" ? 1 : 0;
  const u32 beside = component == 1 ? e.term.number - 1 : e.term.number + 1;
  for (const Entry& other : all.sections[0].entries) {
    if (other.term.number != beside) continue;
    const std::size_t end = other.symbol.rfind(':');
    const auto found = end == std::string::npos ? items_.end() : items_.find(other.symbol.substr(0, end));
    if (found == items_.end()) break;
    aliases_[e.symbol] = {found->second, component};
    passed_.push_back({results_.at(e.symbol.substr(0, colon)), found->second, component});
    return note(all, all.sections[0], e);
  }
  refuse(all.file, e.line, e.symbol,
         "this is the name of a result, but no other component of an input has the adjacent number");
}

Declared Names::declared(const std::string& file, const std::string& title, const Entry& e, bool of_program) {
  Declared d{.kind = e.term.kind, .limbs = bits(e.limbs)};
  static const std::map<std::string, std::string> kKinds = {{"Input", "ipsk"}, {"Ciphertext", "i"}, {"Plaintext", "p"},
                                                            {"Scalar", "s"},   {"Evalkey", "k"},    {"Output", "vt"}};
  if (kKinds.at(title).find(d.kind) == std::string::npos)
    refuse(file, e.line, std::string(1, d.kind) + std::to_string(e.term.number),
           "terms of this kind do not belong to this list");
  if (d.kind == 'k') {
    key(file, e, d, of_program);
    return d;
  }
  const std::size_t colon = e.symbol.rfind(':');
  if (colon == std::string::npos || colon == 0) odd(file, e);
  const std::string name = e.symbol.substr(0, colon), part = e.symbol.substr(colon + 1);
  if (title == "Output") d.kind = 'o';
  if (d.kind == 'i' || d.kind == 'o') {
    if (part != "c0" && part != "c1") odd(file, e);
    d.component = part == "c1" ? 1 : 0;
  } else if (part != std::string(1, d.kind)) {
    odd(file, e);
  }
  if (const auto alias = aliases_.find(e.symbol); d.kind == 'i' && alias != aliases_.end()) {
    d.which = alias->second.first, d.component = alias->second.second;
    return d;
  }
  auto& known = d.kind == 'o' ? results_ : items_;
  const auto found = known.find(name);
  if (found != known.end()) {
    d.which = found->second;
    if (d.kind != 'o' && made_.items[d.which].kind != d.kind)
      refuse(file, e.line, e.symbol, "inputs of two kinds have this name");
    return d;
  }
  if (!of_program) refuse(file, e.line, e.symbol, "program_inputs does not list it");
  if (d.kind == 'o') {
    d.which = static_cast<u32>(made_.results.size());
    made_.results.push_back({.name = name, .level = 0, .values = {}});
    lines_.push_back(e.line), parts_.emplace_back();
  } else {
    d.which = static_cast<u32>(made_.items.size());
    made_.items.push_back({.kind = d.kind, .name = name, .level = 0});
  }
  known.emplace(name, d.which);
  return d;
}

void Names::key(const std::string& file, const Entry& e, Declared& d, bool of_program) {
  // form of a key's name: K:type:level:extension:turn:c0:[digit]
  Key k;
  std::string_view rest = e.symbol;
  const bool family_read = read_family(rest, k);
  const std::string family = e.symbol.substr(0, e.symbol.size() - rest.size());
  const bool halves = rest.starts_with(":c0:") || rest.starts_with(":c1:");
  const u32 half = halves && rest[2] == '1' ? 1 : 0;
  if (!family_read || !halves) odd(file, e);
  if (!has_valid_steps(k))
    refuse(file, e.line, e.symbol, "only a rotation has steps: a key of type " + std::to_string(k.type) + " must have 0");
  rest.remove_prefix(4);
  std::vector<std::uint16_t> digit;
  if (!read_digit(rest, k, digit) || !rest.empty()) odd(file, e);
  if (k.level + k.extension > kPrimes) refuse(file, e.line, e.symbol, "a key must have at most 64 primes");
  u64 all = 0;
  for (std::size_t p = 0; p < k.level; ++p) all |= bit(p);
  for (std::size_t p = 0; p < k.extension; ++p) all |= bit(kPrimes - 1 - p);
  if (d.limbs & ~all) refuse(file, e.line, e.symbol, "a key of this level and extension does not have these limbs");
  auto found = keys_.find(family);
  if (found == keys_.end()) {
    if (!of_program) refuse(file, e.line, e.symbol, "program_inputs does not list it");
    found = keys_.emplace(family, static_cast<u32>(made_.keys.size())).first;
    made_.keys.push_back(k);
    key_lines_.push_back(e.line), key_limbs_.push_back(0);
  }
  d.which = found->second;
  Key& mine = made_.keys[d.which];
  auto place = std::find(mine.digits.begin(), mine.digits.end(), digit);
  if (place == mine.digits.end()) {
    if (!of_program) refuse(file, e.line, e.symbol, "program_inputs does not list it");
    place = mine.digits.insert(place, digit);
  }
  d.component = 2 * static_cast<u32>(place - mine.digits.begin()) + half;
  if (of_program) {
    made_.chain = std::max<std::size_t>(made_.chain, k.level);
    key_lines_[d.which] = e.line, key_limbs_[d.which] |= d.limbs;
  }
}

void Names::grow(const Declared& d) {
  const u64 of_chain = d.limbs & ~u64{0} >> made_.special;
  if (d.kind == 'k' || of_chain == 0) return;
  const auto level = static_cast<std::size_t>(std::bit_width(of_chain));
  std::size_t& known = d.kind == 'o' ? made_.results[d.which].level : made_.items[d.which].level;
  known = std::max(known, level);
  made_.chain = std::max(made_.chain, level);
}

void Names::finish(const Listing& listing, const std::string& name, u32 which) {
  Result& r = made_.results[which];
  // In the compiler's programs, an operation at a lower level may leave higher limbs of a component unchanged.
  for (const char* const component : {":c0", ":c1"}) {
    const u64 stored = limbs_["o" + name + component];
    if (stored != 0) r.level = std::min<std::size_t>(r.level, static_cast<std::size_t>(std::bit_width(stored)));
  }
  for (const u32 component : {0U, 1U}) {
    const std::string part = name + (component == 0 ? ":c0" : ":c1");
    const u64 stored = limbs_["o" + part];
    if (stored == 0) pass(listing, part, which, component);
    if (stored & (stored + 1) || (stored != 0 && std::bit_width(stored) > kPrimes - made_.special))
      refuse(listing.file, lines_[which], part, "a result must have both components, in all limbs of its level");
  }
  r.values.assign(2 * r.level, kNone);
}

void Names::pass(const Listing& listing, const std::string& part, u32 which, u32 component) {
  const auto named = [&](const Passed& p) { return p.result == which && p.component == component; };
  if (std::any_of(passed_.begin(), passed_.end(), named)) return;
  std::vector<u32> candidates;
  const auto add = [&](u32 item) {
    if (std::find(candidates.begin(), candidates.end(), item) == candidates.end()) candidates.push_back(item);
  };
  for (const Passed& p : passed_) {
    if (p.component == component) add(p.item);
  }
  if (candidates.empty()) {
    for (const auto& [name, item] : items_) {
      const std::string own = "i" + name + (component == 0 ? ":c0" : ":c1");
      if (made_.items[item].kind == 'i' && !limbs_.contains(own)) add(item);
    }
  }
  if (candidates.size() != 1) refuse(listing.file, lines_[which], part, "no chip stores this component of a result");
  passed_.push_back({which, candidates[0], component});
  std::size_t& level = made_.items[candidates[0]].level;
  level = std::max(level, made_.results[which].level);
}
std::string Key::name() const {
  std::string text = "K";
  for (const std::int64_t number : {std::int64_t{type}, std::int64_t{level}, std::int64_t{extension}, std::int64_t{turn}})
    text.append(":").append(std::to_string(number));
  text += ':';
  for (const auto& digit : digits) {
    for (std::size_t i = 0; i < digit.size(); ++i) text.append(i == 0 ? "[" : ",").append(std::to_string(digit[i]));
    text += ']';
  }
  return text;
}

std::optional<Key> Key::named(std::string_view name) {
  Key k;
  if (!read_family(name, k) || k.level + k.extension > kPrimes || !name.starts_with(":")) return std::nullopt;
  name.remove_prefix(1);
  do {
    std::vector<std::uint16_t> digit;
    if (k.digits.size() == kMostPairs || !read_digit(name, k, digit)) return std::nullopt;
    if (!k.digits.empty() && k.digits.back() >= digit) return std::nullopt;
    k.digits.push_back(std::move(digit));
  } while (!name.empty());
  return k;
}

}  // namespace heliograph::program::limbs
