// The file and wire format: a bounded JSON header, aligned little-endian arrays, a digest (docs/format.md).
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
#include "io/sha256.h"

namespace heliograph::io {

/// Returns the bytes per element of the dtypes "u8", "i8", "u32", "u64" and "i64"; 0 for other names.
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

struct Held {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner = {};  // keeps the bytes alive; null if the caller keeps them alive

  template <class T>
  static Held of(std::vector<T> values) {
    const auto kept = std::make_shared<const std::vector<T>>(std::move(values));
    return {std::as_bytes(std::span(*kept)), kept};
  }
  /// Returns the bytes with an owner; copies the bytes if they have no owner. Throws OutOfMemoryError.
  Held owned() const;
  /// Returns the bytes as elements of type T. Throws InternalError if the bytes are misaligned.
  template <class T>
  std::span<const T> values() const {
    require_elements(sizeof(T));
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

 private:
  void require_elements(std::size_t bytes_each) const;
};

/// Consumer of pieces of bytes; a piece is valid only during the call.
using Sink = std::function<void(std::span<const std::byte>)>;

/// A named array in row-major order. The array's bytes are in memory, or elsewhere (on a device, or in an open file) and are
/// then read at each use.
struct Array {
  std::string name;                              // name of 1 to 256 bytes of UTF-8, unique in its container
  std::string dtype;                             // type of the elements: "u8", "i8", "u32", "u64" or "i64"
  std::vector<std::size_t> shape;                // lengths of at most 16 axes; an array without axes has one value
  std::span<const std::byte> data;               // bytes in memory; empty if they are elsewhere, and after peek()
  std::shared_ptr<const void> owner = {};        // keeps `data` alive, as in Held
  std::function<Held()> elsewhere = {};          // reads the bytes that are elsewhere, again at each call
  std::function<void(const Sink&)> pieces = {};  // optional: reads the bytes in pieces, one in memory at a time
  std::size_t offset = 0;                        // position of the bytes in the file that was read

  std::size_t count() const;  // product of the shape; OutOfMemoryError if it overflows
  std::size_t bytes() const;  // length of count() elements in bytes
  Held read() const { return elsewhere ? elsewhere() : Held{data, owner}; }
  /// Returns a copy of this array that owns its bytes (Held::owned).
  Array owned() const;
  /// Returns the elements in memory. Throws InternalError if T is not the dtype or the data was not loaded.
  template <class T>
  std::span<const T> values() const {
    check_values(dtype_name<T>());
    return Held{data}.values<T>();
  }
  template <class T>
  static Array of(std::string name, std::vector<std::size_t> shape, std::span<const T> values) {
    return {std::move(name), dtype_name<T>(), std::move(shape), std::as_bytes(values)};
  }
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
    static_assert(dtype_of<T> != nullptr, "T must be the element type of a dtype");
    return dtype_of<T>;
  }
  void check_values(const char* expected_dtype) const;
};

inline constexpr std::uint32_t format_version = 3;  // version of new files; versions 1 to 3 can be read

struct Container {
  std::string type;              // kind of contents, such as "bfv.ciphertexts"; 1 to 64 bytes
  Json header = Json::object();  // object whose meaning depends on the type
  std::vector<Array> arrays;
  bool verified = true;                    // false after peek(), which reads neither arrays nor the digest
  std::size_t file_bytes = 0;              // length of the file read; 0 for a new container
  std::uint32_t version = format_version;  // version of the file read; new files have the current version
  Digest digest{};                         // SHA-256 of all bytes of the file read, including the digest at its end

  /// Returns the array `name`. Throws DamagedFileError if the array is absent or has another dtype or shape.
  const Array& array(std::string_view name, std::string_view dtype, const std::vector<std::size_t>& expected_shape) const;
  const Array* find(std::string_view name) const;  // returns null if there is no such array
  /// Moves the bytes of array() out of the container.
  Held take(std::string_view name, std::string_view dtype, const std::vector<std::size_t>& expected_shape);
};

inline constexpr std::size_t kAnyBytes = ~std::size_t{0};

std::size_t byte_size(const Container& container);
/// Writes the container to `out`, which must have byte_size() bytes. Arrays whose bytes are elsewhere are read one after
/// another.
void write_bytes(const Container& container, std::span<std::byte> out);
std::vector<std::byte> to_bytes(const Container& container);
/// Writes the container to `sink` in pieces. If arrays are elsewhere, at most one of them, or a piece of one, is in memory
/// at a time.
void write(const Container& container, const Sink& sink);

/// Reads and checks the whole container, including its digest. If `copy` is false, the arrays refer to `bytes`, which must
/// outlive them unchanged. If `copy` is true, or `bytes` is not aligned to 8, each array gets aligned memory of its own.
/// Throws FormatError for other files, VersionError for unsupported versions, and DamagedFileError for damage. Throws
/// LimitError, before memory is allocated, if header and digest are more than `most_bytes` apart. If `arrived` is given,
/// arrived(n) must return once the first n bytes are in memory; no byte is read before that.
Container from_bytes(std::span<const std::byte> bytes, bool copy = true, std::size_t most_bytes = kAnyBytes,
                     const std::function<void(std::size_t)>& arrived = {});

/// Reads and checks the whole container, including its digest. The arrays have no data. Throws as from_bytes does.
Container verify(std::span<const std::byte> bytes);

/// Writes an unnamed file in the folder of `path`, then links it to that name. On any error `path` is unchanged. If the
/// process is killed, no other file remains, except on file systems without unnamed files. `secret`: the file has mode 0600
/// from its creation, and is flushed to disk before it gets its name. Arrays whose bytes are elsewhere are read one after
/// another. Throws FileError.
void save(const std::string& path, const Container& container, bool secret = false);

struct Reading {
  bool secret = false;                 // allocates the arrays in pages for secrets (base/secret.h)
  std::size_t most_bytes = kAnyBytes;  // limit, as in from_bytes
  std::size_t most_held = kAnyBytes;   // limit in bytes; a larger file keeps its arrays in the file
};

/// Reads and checks a file in one pass, each array into its own memory. Throws FileError, and the errors of from_bytes.
/// Arrays that stay in the file are read at each use and compared with the digests from the first read; changed bytes throw
/// DamagedFileError. The file stays open, so it may be renamed or deleted.
Container load(const std::string& path, const Reading& how = {});
/// Reads and checks a file of any size in small pieces. The arrays have no data. Throws as load does.
Container verify(const std::string& path);
/// Reads the header, and the names and shapes of arrays, of a file of any size. The arrays have no data. The digest is not
/// checked, so `verified` is false.
Container peek(const std::string& path);

}  // namespace heliograph::io
