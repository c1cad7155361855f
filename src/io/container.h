// The one file and wire format: a bounded JSON header, aligned little-endian arrays, a digest (docs/format.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/errors.h"
#include "io/json.h"

namespace heliograph::io {

/// Bytes of one element of a dtype "u8", "i8", "u32", "u64" or "i64"; 0 for any other name.
std::size_t dtype_size(std::string_view dtype);

template <class T>
constexpr const char* dtype_of = nullptr;
template <>
inline constexpr const char* dtype_of<std::uint8_t> = "u8";
template <>
inline constexpr const char* dtype_of<std::int8_t> = "i8";
template <>
inline constexpr const char* dtype_of<std::uint32_t> = "u32";
template <>
inline constexpr const char* dtype_of<std::uint64_t> = "u64";
template <>
inline constexpr const char* dtype_of<std::int64_t> = "i64";

/// A named array in row-major order. It does not own its bytes.
struct Array {
  std::string name;                 // 1 to 256 bytes of UTF-8, unique in its container
  std::string dtype;                // "u8", "i8", "u32", "u64", "i64"
  std::vector<std::size_t> shape;   // at most 16 axes; none at all is one value
  std::span<const std::byte> data;  // empty after peek()

  std::size_t count() const;  // product of the shape; OutOfMemoryError where it overflows
  std::size_t bytes() const;  // count() elements of the dtype
  /// The elements; InternalError where T is not the dtype or the data was not loaded.
  template <class T>
  std::span<const T> values() const {
    static_assert(dtype_of<T> != nullptr, "an element type no file holds");
    check_values(dtype_of<T>);
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
  template <class T>
  static Array of(std::string name, std::vector<std::size_t> shape, std::span<const T> values) {
    static_assert(dtype_of<T> != nullptr, "an element type no file holds");
    return {std::move(name), dtype_of<T>, std::move(shape), std::as_bytes(values)};
  }

 private:
  void check_values(const char* expected_dtype) const;
};

inline constexpr std::uint32_t format_version = 2;  // written; versions read: 1 and 2

struct Container {
  std::string type;              // what is inside: "bfv.ciphertexts", ...; 1 to 64 bytes
  Json header = Json::object();  // an object; its meaning belongs to the type
  std::vector<Array> arrays;
  std::shared_ptr<const void> storage;     // keeps the arrays' bytes alive where they are the container's own
  bool verified = true;                    // false after peek(): neither arrays nor digest were read
  std::size_t file_bytes = 0;              // length of what was read; 0 for a container made by hand
  std::uint32_t version = format_version;  // of what was read; what is written has this Heliograph's

  /// The array of that name; DamagedFileError where it is absent or has another dtype or shape.
  const Array& array(std::string_view name, std::string_view dtype, const std::vector<std::size_t>& expected_shape) const;
  const Array* find(std::string_view name) const;  // null where absent
};

inline constexpr std::size_t kAnyBytes = ~std::size_t{0};

/// The exact length of the container's bytes, told before the work starts.
std::size_t byte_size(const Container& container);
/// Writes the container into `out`, whose length must be byte_size().
void write_bytes(const Container& container, std::span<std::byte> out);
std::vector<std::byte> to_bytes(const Container& container);

/// Reads and checks everything, digest included. With `copy` false the arrays lie in `bytes`, which must outlive them and stay
/// unchanged, unless `bytes` does not start at a multiple of 8: then, and with `copy` true, in aligned memory of their own.
/// FormatError: not a Heliograph file. VersionError: a version not read. DamagedFileError: all else. OutOfMemoryError.
/// LimitError: more than `most_bytes` between header and digest, told before memory is taken.
Container from_bytes(std::span<const std::byte> bytes, bool copy = true, std::size_t most_bytes = kAnyBytes);

/// Writes a file without a name in the folder of `path`, then gives it that name: on any error `path` is as it was, and a
/// process that is killed leaves nothing else (but on file systems without such files). `secret`: mode 0600 from its creation,
/// and on disk before it has the name. FileError.
void save(const std::string& path, const Container& container, bool secret = false);
/// Reads and checks everything, as from_bytes. `secret`: its memory is base/secret.h's. FileError besides.
Container load(const std::string& path, bool secret = false, std::size_t most_bytes = kAnyBytes);
/// Header, names and shapes of a file of any size; arrays have no data and the digest is not checked: `verified` is false.
Container peek(const std::string& path);

}  // namespace heliograph::io
