// Words on their way between processes, in as few whole bytes as they need: residues modulo 47-bit primes in six bytes, not eight.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace heliograph::mesh::packing {

using Bytes = std::vector<std::byte>;

/// Words of eight bytes each, block by block in as many bytes as the largest of the block needs; none where that saves little. What is
/// sent is told by its length, so this is for words that may be seen: ciphertexts.
std::optional<Bytes> packed(std::span<const std::byte> words);
/// How many bytes were packed; 0 where it is nothing that `packed` gives.
std::size_t plain_size(std::span<const std::byte> packed);
/// Fills `words`, of that size; false where the packed bytes do not.
bool unpack(std::span<const std::byte> packed, std::span<std::byte> words);

}  // namespace heliograph::mesh::packing
