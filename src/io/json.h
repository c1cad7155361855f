// JSON for file headers: a small value type, a canonical text for every value, and a strict bounded parser.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace heliograph::io {

/// A JSON value. Integers are exact from -2^63 to 2^64-1; integers and doubles are never converted into each other. The
/// accessors check: a missing field, another kind, or a value out of bounds is a DamagedFileError that names the field.
class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::map<std::string, Json, std::less<>>;
  enum class Kind { null, boolean, integer, real, string, array, object };

  static constexpr std::size_t max_depth = 32;                   // nested arrays and objects, including the value itself
  static constexpr std::size_t max_text = std::size_t{1} << 20;  // maximum length of a text in bytes

  Json() = default;  // makes the value null
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();
  Json(std::nullptr_t) {}
  template <std::same_as<bool> B>  // a template, so that pointers do not convert to bool
  Json(B value) : value_(value) {}
  template <std::integral I>
  requires(!std::same_as<I, bool> && sizeof(I) <= 8) Json(I value)
      : Json(number(static_cast<std::conditional_t<std::signed_integral<I>, std::int64_t, std::uint64_t>>(value))) {}
  Json(double value) : value_(value) {}
  Json(const char* value);
  Json(std::string value);
  Json(std::string_view value);
  Json(Array items);
  Json(Object members);

  /// Makes an object: Json::object({{"degree", 8192}, {"word", "w64"}}); without arguments {}.
  static Json object(std::initializer_list<Object::value_type> members = {});
  /// Makes an array: Json::array({1, "two", 3.0}); without arguments [].
  static Json array(std::initializer_list<Json> items = {});
  template <class Range>
  static Json array_of(const Range& values) {
    Array items;
    for (const auto& value : values) items.emplace_back(value);
    return Json(std::move(items));
  }

  Kind kind() const;
  bool is_null() const { return kind() == Kind::null; }
  bool is_array() const { return kind() == Kind::array; }
  bool is_object() const { return kind() == Kind::object; }

  // --- writing; operator[] makes null an object, push_back makes it an array; other kinds throw InternalError ---
  Json& operator[](std::string_view key);
  Json& push_back(Json item);

  // --- reading an object's fields; errors are DamagedFileError and name the field ---
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  const Json* find(std::string_view key) const;  // returns null if absent, or if this is not an object
  const Json& at(std::string_view key) const;
  bool bool_at(std::string_view key) const;
  std::uint64_t unsigned_at(std::string_view key, std::uint64_t max = std::numeric_limits<std::uint64_t>::max()) const;
  double double_at(std::string_view key) const;  // accepts and converts an integer
  const std::string& string_at(std::string_view key, std::size_t max_length) const;
  const Array& array_at(std::string_view key, std::size_t max_items) const;
  const Json& object_at(std::string_view key) const;
  /// Returns an array of unsigned integers of at most `max`.
  std::vector<std::uint64_t> unsigned_array_at(std::string_view key, std::size_t max_items,
                                               std::uint64_t max = std::numeric_limits<std::uint64_t>::max()) const;
  /// Throws DamagedFileError if a field is not one of `keys`; the message names the first such field.
  void require_only(std::initializer_list<std::string_view> keys, std::string_view what) const;

  // --- reading this value itself, such as an array's item; `what` names the value in errors ---
  bool as_bool(std::string_view what) const;
  std::uint64_t as_unsigned(std::string_view what, std::uint64_t max = std::numeric_limits<std::uint64_t>::max()) const;
  std::int64_t as_signed(std::string_view what, std::int64_t min, std::int64_t max) const;
  double as_double(std::string_view what) const;
  const std::string& as_string(std::string_view what, std::size_t max_length) const;
  const Array& as_array(std::string_view what, std::size_t max_items) const;
  const Object& as_object(std::string_view what) const;

  /// Returns the canonical text: keys sorted by bytes, no spaces, doubles in the shortest form, only the escapes that JSON
  /// requires. Throws FormatError if the text exceeds `max_text`. Throws InternalError for NaN, infinities, strings that are
  /// not UTF-8, and values that are nested too deep.
  std::string dump() const;
  /// Parses one JSON value. Throws DamagedFileError, with the position, for any other text. Invalid texts include excessive
  /// depth or size, duplicate keys, invalid escapes or UTF-8, lone surrogates, numbers out of range, and bytes after the
  /// value.
  static Json parse(std::string_view text);

  friend bool operator==(const Json&, const Json&) = default;

 private:
  static Json number(std::int64_t value);
  static Json number(std::uint64_t value);
  void dump_to(std::string& out, std::size_t depth) const;

  // A non-negative integer is a uint64, a negative one an int64. So equal integers are equal values of this type.
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object> value_;
};

}  // namespace heliograph::io
