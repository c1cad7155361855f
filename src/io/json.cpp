#include "io/json.h"

#include <charconv>
#include <cmath>

#include "base/errors.h"
#include "io/utf8.h"

namespace heliograph::io {
namespace {

const char* name_of(Json::Kind kind) {
  static constexpr const char* names[] = {"null",     "a boolean", "an integer", "a number with a fraction",
                                          "a string", "an array",  "an object"};
  return names[static_cast<std::size_t>(kind)];
}

std::string quoted(std::string_view name) {
  std::string text = "'";
  for (const char c : name.substr(0, 64)) text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  if (name.size() > 64) text += "...";
  return text += '\'';
}

[[noreturn]] void wrong_kind(std::string_view what, const char* expected, Json::Kind found) {
  throw DamagedFileError("the header's field " + quoted(what) + " is " + name_of(found) + ", not " + expected);
}

[[noreturn]] void out_of_bounds(std::string_view what, const std::string& rule) {
  throw DamagedFileError("the header's field " + quoted(what) + " " + rule);
}

void dump_string(std::string& out, std::string_view text) {
  static constexpr char digits[] = "0123456789abcdef";
  require<InternalError>(is_utf8(text), "a string must be UTF-8 to be written");
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += "\\u00";
          out += digits[c >> 4];
          out += digits[c & 15];
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

template <class Number>
void dump_number(std::string& out, Number value) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  const std::string_view digits(text, static_cast<std::size_t>(end - text));
  out += digits;
  if (std::is_floating_point_v<Number> && digits.find_first_of(".e") == digits.npos)
    out += ".0";  // makes the parser read a double
}

}  // namespace

// The function is not inline: the copies and the destructor of a variant are long, and g++ 12 gives false warnings if they
// are inlined.
Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;

Json::Json(const char* value) : value_(std::string(value)) {}
Json::Json(std::string value) : value_(std::move(value)) {}
Json::Json(std::string_view value) : value_(std::string(value)) {}
Json::Json(Array items) : value_(std::move(items)) {}
Json::Json(Object members) : value_(std::move(members)) {}

Json Json::number(std::int64_t value) {
  if (value >= 0) return number(static_cast<std::uint64_t>(value));
  Json result;
  result.value_ = value;
  return result;
}

Json Json::number(std::uint64_t value) {
  Json result;
  result.value_ = value;
  return result;
}

Json Json::object(std::initializer_list<Object::value_type> members) { return Object(members); }
Json Json::array(std::initializer_list<Json> items) { return Array(items); }

Json::Kind Json::kind() const {
  static constexpr Kind kinds[] = {Kind::null, Kind::boolean, Kind::integer, Kind::integer,
                                   Kind::real, Kind::string,  Kind::array,   Kind::object};
  return kinds[value_.index()];
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) value_ = Object();
  auto* members = std::get_if<Object>(&value_);
  if (members == nullptr) throw InternalError("a field can be set in a JSON object only");
  const auto place = members->lower_bound(key);
  if (place != members->end() && place->first == key) return place->second;
  return members->emplace_hint(place, std::string(key), Json())->second;
}

Json& Json::push_back(Json item) {
  if (is_null()) value_ = Array();
  auto* items = std::get_if<Array>(&value_);
  if (items == nullptr) throw InternalError("an item can be added to a JSON array only");
  items->push_back(std::move(item));
  return items->back();
}

const Json* Json::find(std::string_view key) const {
  const auto* members = std::get_if<Object>(&value_);
  if (members == nullptr) return nullptr;
  const auto place = members->find(key);
  return place == members->end() ? nullptr : &place->second;
}

const Json& Json::at(std::string_view key) const {
  const Json* found = find(key);
  if (found == nullptr) throw DamagedFileError("the header lacks the field " + quoted(key));
  return *found;
}

bool Json::bool_at(std::string_view key) const { return at(key).as_bool(key); }
std::uint64_t Json::unsigned_at(std::string_view key, std::uint64_t max) const { return at(key).as_unsigned(key, max); }
double Json::double_at(std::string_view key) const { return at(key).as_double(key); }
const std::string& Json::string_at(std::string_view key, std::size_t max_length) const {
  return at(key).as_string(key, max_length);
}
const Json::Array& Json::array_at(std::string_view key, std::size_t max_items) const {
  return at(key).as_array(key, max_items);
}
const Json& Json::object_at(std::string_view key) const {
  const Json& found = at(key);
  found.as_object(key);
  return found;
}

std::vector<std::uint64_t> Json::unsigned_array_at(std::string_view key, std::size_t max_items, std::uint64_t max) const {
  std::vector<std::uint64_t> values;
  for (const Json& item : array_at(key, max_items)) values.push_back(item.as_unsigned(key, max));
  return values;
}

void Json::require_only(std::initializer_list<std::string_view> keys, std::string_view what) const {
  for (const auto& [key, value] : as_object(what)) {
    bool known = false;
    for (const std::string_view allowed : keys) known = known || key == allowed;
    if (!known) throw DamagedFileError("the header's field " + quoted(what) + " has the unknown field " + quoted(key));
  }
}

bool Json::as_bool(std::string_view what) const {
  if (const auto* value = std::get_if<bool>(&value_)) return *value;
  wrong_kind(what, "a boolean", kind());
}

std::uint64_t Json::as_unsigned(std::string_view what, std::uint64_t max) const {
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) {
    if (*value > max) out_of_bounds(what, "is " + std::to_string(*value) + ", above " + std::to_string(max));
    return *value;
  }
  if (kind() == Kind::integer) out_of_bounds(what, "is negative");
  wrong_kind(what, "an integer", kind());
}

std::int64_t Json::as_signed(std::string_view what, std::int64_t min, std::int64_t max) const {
  const auto check = [&](auto value) {
    if (std::cmp_less(value, min) || std::cmp_greater(value, max)) {
      out_of_bounds(what, "is " + std::to_string(value) + ", not in " + std::to_string(min) + " to " + std::to_string(max));
    }
    return static_cast<std::int64_t>(value);
  };
  if (const auto* value = std::get_if<std::int64_t>(&value_)) return check(*value);
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) return check(*value);
  wrong_kind(what, "an integer", kind());
}

double Json::as_double(std::string_view what) const {
  if (const auto* value = std::get_if<double>(&value_)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*value);
  wrong_kind(what, "a number", kind());
}

const std::string& Json::as_string(std::string_view what, std::size_t max_length) const {
  const auto* value = std::get_if<std::string>(&value_);
  if (value == nullptr) wrong_kind(what, "a string", kind());
  if (value->size() > max_length) out_of_bounds(what, "is longer than " + std::to_string(max_length) + " bytes");
  return *value;
}

const Json::Array& Json::as_array(std::string_view what, std::size_t max_items) const {
  const auto* value = std::get_if<Array>(&value_);
  if (value == nullptr) wrong_kind(what, "an array", kind());
  if (value->size() > max_items) out_of_bounds(what, "has more than " + std::to_string(max_items) + " items");
  return *value;
}

const Json::Object& Json::as_object(std::string_view what) const {
  const auto* value = std::get_if<Object>(&value_);
  if (value == nullptr) wrong_kind(what, "an object", kind());
  return *value;
}

void Json::dump_to(std::string& out, std::size_t depth) const {
  require<FormatError>(out.size() <= max_text, "cannot write this header: it must have at most 1 MiB as JSON");
  require<InternalError>(depth < max_depth || !(is_array() || is_object()), "a JSON value must have at most 32 levels");
  if (is_null()) {
    out += "null";
  } else if (const auto* boolean = std::get_if<bool>(&value_)) {
    out += *boolean ? "true" : "false";
  } else if (const auto* negative = std::get_if<std::int64_t>(&value_)) {
    dump_number(out, *negative);
  } else if (const auto* natural = std::get_if<std::uint64_t>(&value_)) {
    dump_number(out, *natural);
  } else if (const auto* real = std::get_if<double>(&value_)) {
    require<InternalError>(std::isfinite(*real), "a number in JSON must be finite");
    dump_number(out, *real);
  } else if (const auto* text = std::get_if<std::string>(&value_)) {
    dump_string(out, *text);
  } else if (const auto* items = std::get_if<Array>(&value_)) {
    char before = '[';
    for (const Json& item : *items) {
      out += std::exchange(before, ',');
      item.dump_to(out, depth + 1);
    }
    out += items->empty() ? "[]" : "]";
  } else if (const auto* members = std::get_if<Object>(&value_)) {
    char before = '{';
    for (const auto& [key, value] : *members) {
      out += std::exchange(before, ',');
      dump_string(out, key);
      out += ':';
      value.dump_to(out, depth + 1);
    }
    out += members->empty() ? "{}" : "}";
  }
}

std::string Json::dump() const {
  std::string out;
  dump_to(out, 0);
  require<FormatError>(out.size() <= max_text, "cannot write this header: it must have at most 1 MiB as JSON");
  return out;
}

}  // namespace heliograph::io
