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
    const auto data = container.arrays[i].data;
    const std::size_t end = i + 1 < plan.offsets.size() ? plan.offsets[i + 1] : plan.total - digest_bytes;
    put(data);
    put(std::span(zeros).first(end - plan.offsets[i] - data.size()));
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
/// Throws LimitError where the arrays take more than `most_bytes`.
void require_within(const Prefix& prefix, std::size_t most_bytes);

/// Checks the header against itself and the lengths; the arrays get no data. `text`: the header's bytes.
Container read_header(std::span<const std::byte> text, const Prefix& prefix, std::vector<std::size_t>& offsets);

/// Checks a whole container but for its prefix and gives the arrays their data, which lies in `whole`.
/// `digest`: what SHA-256 of all before the last 32 bytes has given.
Container read_whole(std::span<const std::byte> whole, const Prefix& prefix, const Digest& digest);

/// Memory aligned to 64 bytes, not initialised; base/secret.h's where it is for a secret. OutOfMemoryError.
std::shared_ptr<std::byte> allocate(std::size_t bytes, bool secret);

}  // namespace heliograph::io::layout
