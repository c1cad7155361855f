// Files of any type (docs/format.md): a type, a header in JSON, named arrays, a digest.
#pragma once

#include <memory>
#include <optional>

#include "heliograph/types.h"

namespace heliograph::container {

/// A named array. `offset` and `bytes` are its position and size in a file that was read; a writer ignores them.
struct Array {
  std::string name;   // 1 to 256 bytes, unique in its file
  std::string dtype;  // "u8", "i8", "u32", "u64", "i64"
  Shape shape;        // at most 16 axes
  std::size_t offset = 0, bytes = 0;
};

/// Description of a file whose bytes were read and checked.
struct Contents {
  std::string type;
  std::string header;  // a JSON object
  std::vector<Array> arrays;
  std::string digest;  // SHA-256 of all bytes of the file, its own digest included, in hex
};

/// Reads and checks the bytes of a file. Throws FormatError for other bytes, VersionError, DamagedFileError.
Contents read(std::span<const std::byte> bytes);
/// Same as the function for bytes, but reads a file in small pieces. May also throw FileError.
Contents read(const std::string& path);

inline constexpr std::size_t kPrefixBytes = 32;           // bytes before the header
inline constexpr std::size_t kMaxHeaderBytes = 1U << 20;  // limit on the header's size
/// Returns the number of bytes before the header's end in a file of `size` bytes. `first`: the first kPrefixBytes bytes of
/// the file, or all bytes of a shorter file. Throws as `read`.
std::size_t header_end(std::span<const std::byte> first, std::size_t size);
/// Returns the type of a file from its first bytes; nullopt if these bytes do not contain a complete valid header.
std::optional<std::string> type_of(std::span<const std::byte> first);

/// Writes a file whose arrays are not all in memory: `head`, then each array followed by its `padding`, then `digest`.
class Writer {
 public:
  /// `header`: a JSON object. Throws FormatError for too large a header or too many arrays; DamagedFileError for invalid
  /// JSON.
  Writer(const std::string& type, const std::string& header, const std::vector<Array>& arrays);
  ~Writer();
  /// Returns the bytes before the first array.
  const Bytes& head() const;
  /// Adds the next array's bytes to the digest. Returns the zeros that follow the array in the file.
  Bytes padding(std::span<const std::byte> array);
  /// Returns the file's last bytes, after all arrays.
  Bytes digest();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heliograph::container
