#include "mutate.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "io/container.h"

namespace heliograph::fuzz {

using io::Json;

std::uint64_t Random::next() {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

namespace {

template <class List>
auto& pick(List& list, Random& r) {
  return list[r.below(std::size(list))];
}

// Integers that readers often handle wrongly.

Json nasty_number(Random& r) {
  static const std::vector<Json> all = {0,
                                        1,
                                        -1,
                                        2,
                                        3,
                                        63,
                                        64,
                                        1023,
                                        1024,
                                        2048,
                                        1 << 17,
                                        (1 << 17) + 1,
                                        std::uint64_t{1} << 31,
                                        std::uint64_t{1} << 32,
                                        (std::uint64_t{1} << 32) - 1,
                                        std::uint64_t{1} << 53,
                                        (std::uint64_t{1} << 60) - 1,
                                        std::uint64_t{1} << 60,
                                        std::uint64_t{1} << 61,
                                        std::uint64_t{1} << 62,
                                        std::numeric_limits<std::int64_t>::max(),
                                        std::numeric_limits<std::int64_t>::min(),
                                        std::uint64_t{1} << 63,
                                        std::numeric_limits<std::uint64_t>::max(),
                                        0.0,
                                        -0.0,
                                        0.5,
                                        -1.5,
                                        1e300,
                                        -1e300,
                                        5e-324,
                                        std::numeric_limits<double>::max()};
  return pick(all, r);
}

Json nasty_text(Random& r) {
  static const std::vector<std::string> all = {"",       "a",
                                               "slots",  "coefficients",
                                               "w32",    "w64",
                                               "bfv",    "bgv",
                                               "ckks",   "tfhe",
                                               "bool",   "int8",
                                               "uint8",  "uint64",
                                               "int0",   "uint18446744073709551617",
                                               "uint65", "NaN",
                                               "0",      "-1",
                                               "03",     "3",
                                               "1023",   "2047",
                                               "4095",   "99999999999999999999",
                                               "\n",     "\"\\",
                                               "\u00e9", "\u0000x"};
  if (r.one_in(8)) return std::string(1 + r.below(600), 'f');
  if (r.one_in(4)) return std::string(r.one_in(2) ? 32 : 64, static_cast<char>('0' + r.below(10)));
  return pick(all, r);
}

Json nasty(Random& r) {
  switch (r.below(8)) {
    case 0:
      return nullptr;
    case 1:
      return r.one_in(2);
    case 2:
      return nasty_text(r);
    case 3:
      return Json::array();
    case 4:
      return Json::object();
    case 5:
      return Json::array({nasty_number(r), nasty_number(r)});
    default:
      return nasty_number(r);
  }
}

// Changes one part of a JSON value. JSON values are immutable, so all values that contain the changed part are made again.

Json changed(const Json& value, Random& r);

Json changed_array(const Json& value, Random& r) {
  Json::Array items = value.as_array("array", std::numeric_limits<std::size_t>::max());
  const std::size_t at = r.below(items.size());
  switch (items.empty() ? 0 : r.below(7)) {
    case 0:
      items.push_back(nasty_number(r));
      break;
    case 1:
      items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 2:
      items.push_back(items[at]);
      break;
    case 3:
      std::swap(items[at], items[r.below(items.size())]);
      break;
    default:
      items[at] = changed(items[at], r);
  }
  return items;
}

Json changed_object(const Json& value, Random& r) {
  Json::Object members = value.as_object("object");
  if (members.empty()) return Json::object({{"x", nasty(r)}});
  auto at = std::next(members.begin(), static_cast<std::ptrdiff_t>(r.below(members.size())));
  switch (r.below(16)) {
    case 0:
      members.erase(at);
      break;
    case 1:
      members.insert_or_assign(nasty_text(r).as_string("text", 1024), at->second);
      break;
    case 2:
      std::swap(at->second, std::next(members.begin(), static_cast<std::ptrdiff_t>(r.below(members.size())))->second);
      break;
    default:
      at->second = changed(at->second, r);
  }
  return members;
}

Json changed(const Json& value, Random& r) {
  switch (value.kind()) {
    case Json::Kind::array:
      return r.one_in(16) ? nasty(r) : changed_array(value, r);
    case Json::Kind::object:
      return r.one_in(64) ? nasty(r) : changed_object(value, r);
    case Json::Kind::boolean:
      return r.one_in(4) ? nasty(r) : Json(!value.as_bool("boolean"));
    case Json::Kind::integer:
      if (r.one_in(3)) {
        const auto step = static_cast<std::int64_t>(r.below(5)) - 2;
        const auto max = std::numeric_limits<std::int64_t>::max() / 4;
        try {
          return value.as_signed("number", -max, max) * (r.one_in(4) ? 2 : 1) + step;
        } catch (const Error&) {
        }
      }
      return r.one_in(8) ? nasty(r) : nasty_number(r);
    case Json::Kind::string: {
      if (r.one_in(2)) return r.one_in(8) ? nasty(r) : nasty_text(r);
      std::string text = value.as_string("text", std::numeric_limits<std::size_t>::max());
      if (text.empty()) return nasty_text(r);
      const std::size_t at = r.below(text.size());
      if (static_cast<unsigned char>(text[at]) < 0x80) text[at] = "0123456789abcdef"[r.below(16)];
      return r.one_in(4) ? text.substr(0, at) : text;
    }
    default:
      return nasty(r);
  }
}

// Arrays

using Axes = std::vector<std::uint64_t>;

Axes axes_of(const Json& holder) {
  try {
    return holder.unsigned_array_at("shape", 64);
  } catch (const Error&) {
    return {};
  }
}

/// Sets the shape of an array and resizes its data, which keep their contents. Data that would become longer than `room`
/// keep their size.
void reshape(Piece& piece, const Axes& axes, std::size_t room) {
  piece.entry["shape"] = Json::array_of(axes);
  std::size_t bytes = 1;
  try {
    bytes = io::dtype_size(piece.entry.string_at("dtype", 16));
  } catch (const Error&) {
  }
  for (std::uint64_t a : axes) {
    if (__builtin_mul_overflow(bytes, a, &bytes)) bytes = std::numeric_limits<std::size_t>::max();
  }
  if (std::find(axes.begin(), axes.end(), 0u) != axes.end()) bytes = 0;
  if (bytes > room) return;
  const std::size_t have = piece.data.size();
  piece.data.resize(bytes);
  for (std::size_t i = have; have > 0 && i < bytes; ++i) piece.data[i] = piece.data[i - have];
}

std::uint64_t nasty_axis(Random& r) {
  static constexpr std::array<std::uint64_t, 14> all = {0,
                                                        0,
                                                        0,
                                                        1,
                                                        1,
                                                        2,
                                                        3,
                                                        4,
                                                        1 << 16,
                                                        std::uint64_t{1} << 31,
                                                        std::uint64_t{1} << 32,
                                                        std::uint64_t{1} << 61,
                                                        std::uint64_t{1} << 62,
                                                        std::numeric_limits<std::uint64_t>::max()};
  return pick(all, r);
}

void change_axes(Axes& axes, Random& r) {
  const std::size_t at = r.below(axes.size());
  switch (axes.empty() ? 0 : r.below(5)) {
    case 0:
      axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(r.below(axes.size() + 1)), nasty_axis(r));
      break;
    case 1:
      axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 2:
      std::swap(axes[at], axes[r.below(axes.size())]);
      break;
    default:
      axes[at] = nasty_axis(r);
  }
}

/// Changes a tensor's shape in the header and in its arrays consistently.
void change_shape(Document& d, Random& r, std::size_t room) {
  if (!d.header.is_object() || d.arrays.empty()) return;
  const Axes before = axes_of(d.header);
  Axes after = before;
  for (std::size_t i = 0; i <= r.below(3); ++i) change_axes(after, r);
  d.header["shape"] = Json::array_of(after);
  for (Piece& piece : d.arrays) {
    if (!piece.entry.is_object()) continue;
    Axes axes = axes_of(piece.entry), whole = after;
    whole.insert(whole.end(), axes.begin() + static_cast<std::ptrdiff_t>(std::min(before.size(), axes.size())), axes.end());
    reshape(piece, whole, room / d.arrays.size());
  }
}

/// Changes the header's field for degree, level, seeds or wires, and the array axis whose length follows from this field.
void change_kind(Document& d, Random& r, std::size_t room) {
  if (!d.header.is_object() || d.arrays.empty()) return;
  const std::uint64_t value = 1 + r.below(3);
  const bool level = r.one_in(2);
  d.header[level ? "level" : "degree"] = value;
  d.header["fresh"] = false;
  if (d.header.contains("seeds")) d.header["seeds"] = Json::array();
  if (r.one_in(2) && d.header.contains("ntt")) d.header["ntt"] = r.one_in(2);
  for (Piece& piece : d.arrays) {
    Axes axes = axes_of(piece.entry);
    if (axes.size() < 3) continue;
    axes[axes.size() - (level ? 2 : 3)] = level ? value : value + 1;
    if (level && d.header.contains("degree")) axes[axes.size() - 3] = 2;
    reshape(piece, axes, room / d.arrays.size());
  }
}

void change_words(Document& d, Random& r, std::size_t /*room*/) {
  if (d.arrays.empty()) return;
  Bytes& data = pick(d.arrays, r).data;
  if (data.empty()) return;
  std::vector<std::uint64_t> words = {0, 1, 2, 0x7f, 0x80, 0xff, 0xffffffff, std::numeric_limits<std::uint64_t>::max()};
  try {  // the primes of the file's parameter set
    for (std::uint64_t q : d.header.object_at("parameters").unsigned_array_at("chain", 128))
      words.insert(words.end(), {q - 1, q, q + 1});
  } catch (const Error&) {
  }
  for (std::size_t i = 0; i <= r.below(4); ++i) {
    const std::size_t size = std::size_t{1} << r.below(4);
    const std::uint64_t word = r.one_in(4) ? r.next() : pick(words, r);
    if (data.size() >= size) std::memcpy(data.data() + r.below(data.size() / size) * size, &word, size);
  }
}

/// Changes words of a recorded program: numbers, places, strides, lengths of lists and entries of lists.
void change_calls(Document& d, Random& r, std::size_t room) {
  const auto calls = std::find_if(d.arrays.begin(), d.arrays.end(), [](const Piece& p) {
    return p.entry.is_object() && p.entry.contains("name") && p.entry.at("name") == Json("calls");
  });
  if (calls == d.arrays.end() || calls->data.size() < 8) return;
  std::vector<std::uint64_t> words(calls->data.size() / 8);
  std::memcpy(words.data(), calls->data.data(), words.size() * 8);
  static constexpr std::array<std::uint64_t, 14> numbers = {0,
                                                            1,
                                                            2,
                                                            3,
                                                            8,
                                                            64,
                                                            1024,
                                                            1 << 16,
                                                            (std::uint64_t{1} << 32) - 1,
                                                            std::uint64_t{1} << 32,
                                                            (std::uint64_t{1} << 58) + 1,
                                                            std::uint64_t{1} << 63,
                                                            std::numeric_limits<std::uint64_t>::max() - 63,
                                                            std::numeric_limits<std::uint64_t>::max()};
  for (std::size_t i = 0; i <= r.below(3); ++i) {
    const std::size_t at = r.below(words.size()), count = std::min(words.size() - at, 1 + r.below(40));
    const auto first = words.begin() + static_cast<std::ptrdiff_t>(at), last = first + static_cast<std::ptrdiff_t>(count);
    switch (r.below(12)) {
      case 0:
        if (count < words.size()) words.erase(first, last);
        break;
      case 1: {
        const std::vector<std::uint64_t> run(first, last);
        if (8 * (words.size() + count) <= room) words.insert(first, run.begin(), run.end());
        break;
      }
      case 2:
      case 3:
        *first = pick(words, r);
        break;
      case 4:
      case 5:
        *first += 1;
        break;
      case 6:
      case 7:
        *first -= 1;
        break;
      case 8:
        *first = r.one_in(2) ? *first * 2 : *first / 2;
        break;
      default:
        *first = pick(numbers, r);
    }
  }
  calls->data.resize(8 * words.size());
  std::memcpy(calls->data.data(), words.data(), 8 * words.size());
  calls->entry["shape"] = Json::array({words.size()});
}

void change_arrays(Document& d, Random& r, std::size_t room) {
  auto& arrays = d.arrays;
  if (arrays.empty()) {
    arrays.push_back({Json::object({{"name", "words"}, {"dtype", "u32"}, {"shape", Json::array({0})}}), {}});
    return;
  }
  Piece& piece = pick(arrays, r);
  static constexpr std::array<const char*, 7> dtypes = {"u8", "i8", "u32", "u64", "i64", "f64", ""};
  static constexpr std::array<const char*, 5> fields = {"name", "dtype", "shape", "offset", "bytes"};
  switch (r.below(9)) {
    case 0:
      arrays.erase(arrays.begin() + (&piece - arrays.data()));
      break;
    case 1:
      if (piece.data.size() <= room / 2) arrays.push_back(Piece(piece));
      break;
    case 2:
      std::swap(piece, pick(arrays, r));
      break;
    case 3:
      piece.entry["name"] = r.one_in(2) ? Json("rotation" + std::to_string(r.below(5000))) : nasty_text(r);
      break;
    case 4:
      piece.entry["dtype"] = pick(dtypes, r);
      reshape(piece, axes_of(piece.entry), room);
      break;
    case 5:
      piece.entry[pick(fields, r)] = nasty(r);
      break;
    case 6:
      piece.data.resize(r.below(2 * std::min(piece.data.size() + 8, room / 2)));
      break;
    default: {
      Axes axes = axes_of(piece.entry);
      change_axes(axes, r);
      reshape(piece, axes, room);
    }
  }
}

/// Adds or removes an array of evaluation keys together with the header object that names it.
void change_rotations(Document& d, Random& r, std::size_t /*room*/) {
  if (!d.header.is_object() || !d.header.contains("rotations") || d.arrays.empty()) return;
  const std::string name = std::to_string(r.one_in(4) ? r.below(1 << 20) : 1 + 2 * r.below(1024));
  const Piece& piece = pick(d.arrays, r);
  if (!piece.entry.is_object() || !d.header.at("rotations").is_object()) return;
  Piece copy = piece;
  copy.entry["name"] = "rotation" + name;
  d.header["rotations"][name] = std::string(64, '7');
  if (r.one_in(2)) {
    d.arrays.push_back(std::move(copy));
  } else {
    pick(d.arrays, r) = std::move(copy);
  }
}

void change_type(Document& d, Random& r, std::size_t /*room*/) {
  static constexpr std::array<const char*, 4> schemes = {"bfv", "bgv", "ckks", "tfhe"};
  static constexpr std::array<const char*, 5> kinds = {"ciphertext", "public-key", "evaluation-keys", "secret-key", ""};
  if (r.one_in(8)) d.version = static_cast<std::uint32_t>(r.below(4));
  d.type = r.one_in(4) ? nasty(r) : Json(std::string("heliograph.") + pick(schemes, r) + "." + pick(kinds, r));
}

void rehash(Document& d, Random& r) {
  if (!d.header.is_object() || !d.header.contains("parameters") || r.one_in(32)) return;
  d.header["parameter_hash"] = hash_of_parameters(d.header.at("parameters"), r.one_in(2));
}

void change_parameters(Document& d, Random& r, std::size_t /*room*/) {
  if (d.header.is_object() && d.header.contains("parameters"))
    d.header["parameters"] = changed(d.header.at("parameters"), r);
}

void change_header(Document& d, Random& r, std::size_t /*room*/) { d.header = changed(d.header, r); }

/// A kind of change, and the number of mutations out of 32 that use it.
struct Change {
  std::size_t of_32;
  void (*make)(Document& d, Random& r, std::size_t room);
};
constexpr Change kChanges[] = {{1, change_type}, {4, change_arrays},    {4, change_words},      {4, change_shape},
                               {3, change_kind}, {2, change_rotations}, {6, change_parameters}, {8, change_header}};

void mutate_once(Document& d, Random& r, std::size_t room) {
  if (d.header.is_object() && d.header.contains("kernels") && r.one_in(2)) return change_calls(d, r, room);
  std::size_t draw = r.below(32);
  for (const Change& change : kChanges) {
    if (draw < change.of_32) return change.make(d, r, room);
    draw -= change.of_32;
  }
}

std::size_t bytes_of(const Document& d) {
  std::size_t bytes = 0;
  for (const Piece& piece : d.arrays) bytes += piece.data.size();
  return bytes;
}

}  // namespace

void mutate(Document& d, Random& r, std::size_t room) {
  for (std::size_t i = 0; i <= r.below(4); ++i) mutate_once(d, r, room);
  while (bytes_of(d) > room) d.arrays.pop_back();
  rehash(d, r);
}

void cross(Document& d, const Document& other, Random& r) {
  if (r.one_in(3) && !other.arrays.empty() && !d.arrays.empty()) {
    pick(d.arrays, r) = pick(other.arrays, r);
    return;
  }
  if (!d.header.is_object() || !other.header.is_object()) return;
  const Json::Object& fields = other.header.as_object("header");
  if (fields.empty()) return;
  const auto& [name, value] = *std::next(fields.begin(), static_cast<std::ptrdiff_t>(r.below(fields.size())));
  d.header[name] = value;
}

}  // namespace heliograph::fuzz
