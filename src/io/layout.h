// The layout of docs/format.md, shared by memory and files; private to io/.
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
inline constexpr std::size_t chunk_bytes = std::size_t{1} << 18;  // hashed while still in cache

/// What a container's bytes will be: everything but the arrays' contents.
struct Plan {
  std::vector<std::byte> head;       // prefix, header, padding
  std::vector<std::size_t> offsets;  // of the arrays
  std::size_t total = 0;
};
Plan plan(const Container& container);

/// Hands all bytes of the container to `sink(span)` in order, the digest last.
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
      require<InternalError>(piece.size() <= left, "an array's bytes do not fit its shape");
      left -= piece.size();
      put(piece);
    };
    array.pieces ? array.pieces(put_some) : put_some(array.read().bytes);
    require<InternalError>(left == 0, "an array's bytes do not fit its shape");
    const std::size_t end = i + 1 < plan.offsets.size() ? plan.offsets[i + 1] : plan.total - digest_bytes;
    put(std::span(zeros).first(end - plan.offsets[i] - bytes));
  }
  const Digest digest = hash.finish();
  sink(std::as_bytes(std::span(digest)));
}

struct Prefix {
  std::size_t header_bytes, total_bytes;
  std::uint32_t version;
};
/// Checks the first bytes of a file of `size` bytes: `first` holds min(size, prefix_bytes) of them.
Prefix read_prefix(std::span<const std::byte> first, std::size_t size);
/// Bytes between header and digest.
std::size_t array_bytes(const Prefix& prefix);
/// Throws LimitError where they are more than `most_bytes`.
void require_within(const Prefix& prefix, std::size_t most_bytes);

/// Checks the header against itself and the lengths; the arrays get no data. `text`: the header's bytes.
Container read_header(std::span<const std::byte> text, const Prefix& prefix, std::vector<std::size_t>& offsets);

/// The bytes after the prefix, in their order.
class Stream {
 public:
  virtual ~Stream() = default;
  /// The next ones, as many as `room` has: in it, or where they lie already.
  virtual std::span<const std::byte> next(std::span<std::byte> room) = 0;
};

/// Where arrays' bytes go.
enum class Place { memory, secret_memory, nowhere };

struct Pass {
  Container container;
  std::vector<std::size_t> offsets;  // of the arrays
  std::vector<Digest> digests;       // of the arrays' own bytes, where they were wanted
};
/// Reads and checks all that follows the prefix, whose bytes are `first`. Nothing comes back before the digest was compared.
Pass read(Stream& from, const Prefix& prefix, std::span<const std::byte> first, Place place, bool digests = false);

/// Memory aligned to 64 bytes, not initialised; base/secret.h's where it is for a secret. OutOfMemoryError.
std::shared_ptr<std::byte> allocate(std::size_t bytes, bool secret);

}  // namespace heliograph::io::layout
