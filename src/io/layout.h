// The layout of docs/format.md, for memory and files; private to io/.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/container.h"
#include "io/sha256.h"

namespace heliograph::io::layout {

inline constexpr std::size_t prefix_bytes = 32, digest_bytes = 32, alignment = 64;
inline constexpr std::size_t chunk_bytes = std::size_t{1} << 18;  // small enough to be hashed while it is in cache

/// Layout of a container: all bytes except the arrays' contents.
struct Plan {
  std::vector<std::byte> head;       // prefix, header and padding
  std::vector<std::size_t> offsets;  // offset of each array
  std::size_t total = 0;

  /// Returns where array `n` and its padding end.
  std::size_t end_of(std::size_t n) const { return n + 1 < offsets.size() ? offsets[n + 1] : total - digest_bytes; }
};
/// Throws FormatError for too many arrays or too large a header.
Plan plan(const Container& container);

/// Passes all bytes of the container to `sink(span)` in order, with the digest at the end.
template <class Sink>
void emit(const Container& container, const Plan& plan, Sink sink) {
  static constexpr std::array<std::byte, alignment> zeros{};
  Sha256 hash;
  const auto put = [&](std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto chunk = bytes.first(std::min(bytes.size(), chunk_bytes));
      hash.update(chunk);
      sink(chunk);
      bytes = bytes.subspan(chunk.size());
    }
  };
  put(plan.head);
  for (std::size_t i = 0; i < container.arrays.size(); ++i) {
    const Array& array = container.arrays[i];
    const std::size_t bytes = array.bytes();
    std::size_t left = bytes;
    const auto put_some = [&](std::span<const std::byte> piece) {
      require<InternalError>(piece.size() <= left, "an array's bytes must have the length of its shape");
      left -= piece.size();
      put(piece);
    };
    array.pieces ? array.pieces(put_some) : put_some(array.read().bytes);
    require<InternalError>(left == 0, "an array's bytes must have the length of its shape");
    put(std::span(zeros).first(plan.end_of(i) - plan.offsets[i] - bytes));
  }
  const Digest digest = hash.finish();
  sink(std::as_bytes(std::span(digest)));
}

struct Prefix {
  std::size_t header_bytes, total_bytes;
  std::uint32_t version;
};
/// Checks the first bytes of a file of `size` bytes; `first` has min(size, prefix_bytes) of them.
Prefix read_prefix(std::span<const std::byte> first, std::size_t size);
std::size_t array_bytes(const Prefix& prefix);
/// Throws LimitError if array_bytes(prefix) exceeds `most_bytes`.
void require_within(const Prefix& prefix, std::size_t most_bytes);

/// Checks that the header is consistent with itself and with the lengths. The arrays get no data. `text` is the header's
/// bytes.
Container read_header(std::span<const std::byte> text, const Prefix& prefix);
/// Returns the type in a file's header. `first` is the file's first bytes. Throws FormatError and its subclasses.
std::string read_type(std::span<const std::byte> first);

class Stream {
 public:
  virtual ~Stream() = default;
  /// Returns the next room.size() bytes: stored in `room`, or at their address if they are in memory already.
  virtual std::span<const std::byte> next(std::span<std::byte> room) = 0;
};

enum class Place { memory, secret_memory, nowhere };

struct Pass {
  Container container;
  std::vector<Digest> digests;  // digest of each array's bytes, if requested
};
/// Reads and checks all bytes after the prefix, whose bytes are `first`. Returns only after the digest has been compared.
Pass read(Stream& from, const Prefix& prefix, std::span<const std::byte> first, Place place, bool digests = false);

/// Allocates uninitialized memory aligned to 64 bytes; in pages for secrets (base/secret.h) if `secret`. Throws
/// OutOfMemoryError.
std::shared_ptr<std::byte> allocate(std::size_t bytes, bool secret);

}  // namespace heliograph::io::layout
