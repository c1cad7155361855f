// Containers taken apart and put together again with no regard to what a reader accepts: lengths, canonical text and digest
// fit, so that whatever else is wrong gets past io/ to the readers of objects.
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
  io::Json entry;  // what the header says of the array: "offset" and "bytes", where they are missing, are made to fit
  Bytes data;
};

struct Document {
  io::Json type, header;
  std::vector<Piece> arrays;
  std::uint32_t version = 0;  // of the format
};

/// A container that io/ reads; nothing for other bytes.
std::optional<Document> open(std::span<const std::byte> bytes);
/// Its bytes with their digest. Throws InternalError for what no JSON text can hold.
Bytes sign(const Document& document);
/// The digest (and, with `length`, the total length) of bytes that look like a container made to fit.
void sign_again(std::span<std::byte> bytes, bool length);

/// What the header's field "parameters" hashes to. `named`: with the set's name.
std::string hash_of_parameters(const io::Json& parameters, bool named);

}  // namespace heliograph::fuzz
