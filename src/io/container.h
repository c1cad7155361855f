// The one file and wire format: a bounded JSON header, aligned little-endian arrays, a digest (docs/format.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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

/// Bytes in memory that nobody changes.
struct Held {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner = {};  // keeps them there; null: they are somebody else's, who outlives them

  template <class T>
  static Held of(std::vector<T> values) {
    const auto kept = std::make_shared<const std::vector<T>>(std::move(values));
    return {std::as_bytes(std::span(*kept)), kept};
  }
  /// The same bytes with an owner: a copy where there is none. OutOfMemoryError.
  Held owned() const;
  /// As elements; InternalError where they are not aligned.
  template <class T>
  std::span<const T> values() const {
    require_elements(sizeof(T));
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

 private:
  void require_elements(std::size_t bytes_each) const;
};

/// Takes bytes, piece by piece, of memory that is there during the call alone.
using Sink = std::function<void(std::span<const std::byte>)>;

/// A named array in row-major order. Its bytes are in memory, or elsewhere (on a device, in a file that stays open) until they
/// are asked for.
struct Array {
  std::string name;                              // 1 to 256 bytes of UTF-8, unique in its container
  std::string dtype;                             // "u8", "i8", "u32", "u64", "i64"
  std::vector<std::size_t> shape;                // at most 16 axes; none at all is one value
  std::span<const std::byte> data;               // empty after peek(), and where they are elsewhere
  std::shared_ptr<const void> owner = {};        // of `data`, as Held's
  std::function<Held()> elsewhere = {};          // reads them, anew at each call
  std::function<void(const Sink&)> pieces = {};  // hands them out in their order, besides: memory holds one piece at a time

  std::size_t count() const;  // product of the shape; OutOfMemoryError where it overflows
  std::size_t bytes() const;  // count() elements of the dtype
  Held read() const { return elsewhere ? elsewhere() : Held{data, owner}; }
  /// The same array; bytes in memory have an owner then, as Held::owned.
  Array owned() const;
  /// The elements in memory; InternalError where T is not the dtype or the data was not loaded.
  template <class T>
  std::span<const T> values() const {
    check_values(dtype_name<T>());
    return Held{data}.values<T>();
  }
  template <class T>
  static Array of(std::string name, std::vector<std::size_t> shape, std::span<const T> values) {
    return {std::move(name), dtype_name<T>(), std::move(shape), std::as_bytes(values)};
  }
  /// An array whose bytes are made as they are written.
  static Array made(std::string name, std::string dtype, std::vector<std::size_t> shape, std::function<Held()> read,
                    std::function<void(const Sink&)> pieces = {}) {
    return {std::move(name), std::move(dtype), std::move(shape), {}, {}, std::move(read), std::move(pieces)};
  }
  template <class T>
  static Array holding(std::string name, std::vector<std::size_t> shape, const Held& held) {
    return {std::move(name), dtype_name<T>(), std::move(shape), held.bytes, held.owner};
  }

 private:
  template <class T>
  static const char* dtype_name() {
    static_assert(dtype_of<T> != nullptr, "an element type no file holds");
    return dtype_of<T>;
  }
  void check_values(const char* expected_dtype) const;
};

inline constexpr std::uint32_t format_version = 3;  // written; versions 1 to 3 are read

struct Container {
  std::string type;              // what is inside: "bfv.ciphertexts", ...; 1 to 64 bytes
  Json header = Json::object();  // an object; its meaning belongs to the type
  std::vector<Array> arrays;
  bool verified = true;                    // false after peek(): neither arrays nor digest were read
  std::size_t file_bytes = 0;              // length of what was read; 0 for a container made by hand
  std::uint32_t version = format_version;  // of what was read; what is written has this Heliograph's

  /// The array of that name; DamagedFileError where it is absent or has another dtype or shape.
  const Array& array(std::string_view name, std::string_view dtype, const std::vector<std::size_t>& expected_shape) const;
  const Array* find(std::string_view name) const;  // null where absent
  /// The bytes of array(), once: the container forgets them.
  Held take(std::string_view name, std::string_view dtype, const std::vector<std::size_t>& expected_shape);
};

inline constexpr std::size_t kAnyBytes = ~std::size_t{0};

/// The exact length of the container's bytes, told before the work starts.
std::size_t byte_size(const Container& container);
/// Writes the container into `out`, whose length must be byte_size(). Arrays that are elsewhere are read one after another.
void write_bytes(const Container& container, std::span<std::byte> out);
std::vector<std::byte> to_bytes(const Container& container);
/// The same bytes, in pieces, one after another: with an array that is elsewhere, memory holds that one alone, or a piece of it.
void write(const Container& container, const Sink& sink);

/// Reads and checks everything, digest included. With `copy` false the arrays lie in `bytes`, which must outlive them and stay
/// unchanged, unless `bytes` does not start at a multiple of 8: then, and with `copy` true, each in aligned memory of its own.
/// FormatError: not a Heliograph file. VersionError: a version not read. DamagedFileError: all else. OutOfMemoryError.
/// LimitError: more than `most_bytes` between header and digest, told before memory is taken. Of bytes that are still to come
/// `arrived(n)` returns, where it is given, once the first n are there: none is read before.
Container from_bytes(std::span<const std::byte> bytes, bool copy = true, std::size_t most_bytes = kAnyBytes,
                     const std::function<void(std::size_t)>& arrived = {});

/// Writes a file without a name in the folder of `path`, then gives it that name: on any error `path` is as it was, and a
/// process that is killed leaves nothing else (but on file systems without such files). `secret`: mode 0600 from its creation,
/// and on disk before it has the name. Arrays that are elsewhere are read one after another. FileError.
void save(const std::string& path, const Container& container, bool secret = false);

/// How a file is read.
struct Reading {
  bool secret = false;                 // its arrays' memory is base/secret.h's
  std::size_t most_bytes = kAnyBytes;  // as from_bytes
  std::size_t most_held = kAnyBytes;   // where there is more between header and digest, the arrays stay in the file
};

/// Reads and checks everything in one pass, each array into memory of its own. FileError besides what from_bytes throws. Arrays
/// that stay in the file are read from it whenever they are asked for, and compared with what the pass has seen: it stays
/// open, so it may lose its name meanwhile; DamagedFileError where its bytes have changed.
Container load(const std::string& path, const Reading& how = {});
/// Header, names and shapes of a file of any size; arrays have no data and the digest is not checked: `verified` is false.
Container peek(const std::string& path);

}  // namespace heliograph::io
