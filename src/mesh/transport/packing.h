// Compression of words between processes to the bytes that they need: residues modulo 47-bit primes take six bytes instead
// of eight.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace heliograph::mesh::packing {

using Bytes = std::vector<std::byte>;

/// Packs words of eight bytes, block by block, in as many bytes as the largest word of the block needs. Returns nullopt
/// if packing saves little. The packed size reveals the size of the words, so the words must be public, like words of
/// ciphertexts.
std::optional<Bytes> packed(std::span<const std::byte> words);
/// Returns the unpacked size; 0 if `packed` did not write the data.
std::size_t plain_size(std::span<const std::byte> packed);
/// Unpacks to `words`, which has the unpacked size. Returns false if the packed bytes do not match.
bool unpack(std::span<const std::byte> packed, std::span<std::byte> words);

}  // namespace heliograph::mesh::packing
