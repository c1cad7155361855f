// Parses and rebuilds containers with any contents. Lengths, canonical text and digest are valid, so other faults get past
// io/ and reach the readers of objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "io/json.h"

namespace heliograph::fuzz {

using Bytes = std::vector<std::byte>;

struct Piece {
  io::Json entry;  // the array's entry in the header; "offset" and "bytes" are computed if they are missing
  Bytes data;
};

struct Document {
  io::Json type, header;
  std::vector<Piece> arrays;
  std::uint32_t version = 0;  // version of the format
};

/// Parses a container that io/ accepts; returns nullopt for other bytes.
std::optional<Document> open(std::span<const std::byte> bytes);
/// Returns the bytes of the container, including the digest. Throws InternalError for values that JSON cannot represent.
Bytes sign(const Document& document);
/// Recomputes the digest of bytes that look like a container; with `length`, recomputes the total length, too.
void sign_again(std::span<std::byte> bytes, bool length);

/// Returns the hash of the header's field "parameters". `named`: the set's name is included in the hash.
std::string hash_of_parameters(const io::Json& parameters, bool named);

}  // namespace heliograph::fuzz
