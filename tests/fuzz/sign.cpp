#include "sign.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "io/container.h"
#include "io/sha256.h"

namespace heliograph::fuzz {

namespace {

constexpr std::size_t kPrefix = 32, kDigest = 32, kAlignment = 64;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

template <class T>
void store(std::span<std::byte> bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

/// Returns the canonical text of type, header and arrays. `header` and `type` are already texts in JSON.
std::string header_text(const Document& d, const std::string& header, const std::string& type, std::size_t offset) {
  io::Json entries = io::Json::array();
  for (const Piece& piece : d.arrays) {
    io::Json entry = piece.entry;
    if (entry.is_object()) {
      if (!entry.contains("offset")) entry["offset"] = offset;
      if (!entry.contains("bytes")) entry["bytes"] = piece.data.size();
    }
    entries.push_back(entry);
    offset += aligned(piece.data.size());
  }
  return "{\"arrays\":" + entries.dump() + ",\"header\":" + header + ",\"type\":" + type + "}";
}

}  // namespace

std::optional<Document> open(std::span<const std::byte> bytes) {
  try {
    const io::Container c = io::from_bytes(bytes);
    Document d{.type = c.type, .header = c.header};
    std::memcpy(&d.version, bytes.data() + 8, sizeof d.version);
    for (const io::Array& a : c.arrays) {
      io::Json entry = io::Json::object({{"name", a.name}, {"dtype", a.dtype}, {"shape", io::Json::array_of(a.shape)}});
      d.arrays.push_back({std::move(entry), Bytes(a.data.begin(), a.data.end())});
    }
    return d;
  } catch (const Error&) {
    return std::nullopt;
  }
}

Bytes sign(const Document& d) {
  const std::string header = d.header.dump(), type = d.type.dump();
  std::string text;  // the length of the text depends on the offsets in it
  std::size_t guess = 0;
  do {
    guess = text.size();
    text = header_text(d, header, type, aligned(kPrefix + guess));
  } while (text.size() != guess);
  std::size_t total = aligned(kPrefix + text.size());
  for (const Piece& piece : d.arrays) total += aligned(piece.data.size());
  total += kDigest;
  Bytes out(total);
  static constexpr unsigned char kMagic[] = {0x89, 'H', 'E', 'L', 'I', 'O', '\r', '\n'};
  std::memcpy(out.data(), kMagic, sizeof kMagic);
  store<std::uint32_t>(out, 8, d.version);
  store<std::uint64_t>(out, 16, text.size());
  std::memcpy(out.data() + kPrefix, text.data(), text.size());
  std::size_t offset = aligned(kPrefix + text.size());
  for (const Piece& piece : d.arrays) {
    std::copy(piece.data.begin(), piece.data.end(), out.begin() + static_cast<std::ptrdiff_t>(offset));
    offset += aligned(piece.data.size());
  }
  sign_again(out, true);
  return out;
}

void sign_again(std::span<std::byte> bytes, bool length) {
  if (bytes.size() < kPrefix + kDigest) return;
  if (length) store<std::uint64_t>(bytes, 24, bytes.size());
  const io::Digest digest = io::sha256(bytes.first(bytes.size() - kDigest));
  std::memcpy(bytes.data() + bytes.size() - kDigest, digest.data(), kDigest);
}

std::string hash_of_parameters(const io::Json& parameters, bool named) {
  io::Json numbers = parameters;
  if (!named && numbers.is_object() && numbers.contains("name")) numbers["name"] = "";
  return io::to_hex(io::sha256(numbers.dump()));
}

}  // namespace heliograph::fuzz
