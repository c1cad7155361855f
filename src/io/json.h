// JSON for file headers: a small value type, one canonical text for every value, and a strict bounded parser.
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

/// Any JSON value. Integers are exact from -2^63 to 2^64-1 and never turn into doubles, nor doubles into integers.
/// The accessors check what they find: a missing field, another kind or a value out of bounds is a DamagedFileError
/// that names the field, so a reader states its expectations once, where it reads.
class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::map<std::string, Json, std::less<>>;
  enum class Kind { null, boolean, integer, real, string, array, object };

  static constexpr std::size_t max_depth = 32;                   // arrays and objects around a value, itself included
  static constexpr std::size_t max_text = std::size_t{1} << 20;  // bytes

  Json() = default;  // null
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();
  Json(std::nullptr_t) {}
  template <std::same_as<bool> B>  // a template, so that no pointer turns into a bool
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

  /// Json::object({{"degree", 8192}, {"word", "w64"}}); the empty call makes {}.
  static Json object(std::initializer_list<Object::value_type> members = {});
  /// Json::array({1, "two", 3.0}); the empty call makes [].
  static Json array(std::initializer_list<Json> items = {});
  /// An array of the values of any range: Json::array_of(primes).
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

  // --- writing; a null becomes an object or an array at its first use; InternalError on any other kind ---
  Json& operator[](std::string_view key);
  Json& push_back(Json item);

  // --- reading an object's fields; DamagedFileError names the field ---
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  const Json* find(std::string_view key) const;  // null where absent or where this is no object
  const Json& at(std::string_view key) const;
  bool bool_at(std::string_view key) const;
  std::uint64_t unsigned_at(std::string_view key, std::uint64_t max = std::numeric_limits<std::uint64_t>::max()) const;
  std::int64_t signed_at(std::string_view key, std::int64_t min, std::int64_t max) const;
  double double_at(std::string_view key) const;  // an integer is accepted and converted
  const std::string& string_at(std::string_view key, std::size_t max_length) const;
  const Array& array_at(std::string_view key, std::size_t max_items) const;
  const Json& object_at(std::string_view key) const;
  /// An array of unsigned integers, each at most `max`.
  std::vector<std::uint64_t> unsigned_array_at(std::string_view key, std::size_t max_items,
                                               std::uint64_t max = std::numeric_limits<std::uint64_t>::max()) const;
  /// DamagedFileError unless every field is one of `keys` (naming the first stranger).
  void require_only(std::initializer_list<std::string_view> keys, std::string_view what) const;

  // --- reading this value itself (an array's item); `what` names it in the error ---
  bool as_bool(std::string_view what) const;
  std::uint64_t as_unsigned(std::string_view what, std::uint64_t max = std::numeric_limits<std::uint64_t>::max()) const;
  std::int64_t as_signed(std::string_view what, std::int64_t min, std::int64_t max) const;
  double as_double(std::string_view what) const;
  const std::string& as_string(std::string_view what, std::size_t max_length) const;
  const Array& as_array(std::string_view what, std::size_t max_items) const;
  const Object& as_object(std::string_view what) const;

  /// The canonical text: keys sorted by their bytes, no spaces, shortest doubles, only the escapes JSON demands.
  /// InternalError for what no JSON text can hold: NaN, infinities, strings that are not UTF-8, too deep, too long.
  std::string dump() const;
  /// The value of a whole text. DamagedFileError, with the position, for anything but one valid JSON value within bounds:
  /// depth, size, duplicate keys, bad escapes or UTF-8, lone surrogates, numbers out of range, trailing bytes.
  static Json parse(std::string_view text);

  friend bool operator==(const Json&, const Json&) = default;

 private:
  static Json number(std::int64_t value);
  static Json number(std::uint64_t value);
  void dump_to(std::string& out, std::size_t depth) const;

  // Not negative: uint64. Negative: int64. So equal integers are equal values.
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object> value_;
};

}  // namespace heliograph::io
