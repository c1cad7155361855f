// SHA-256 (FIPS 180-4), the digest of files and parameter sets. The digest detects accidental changes, not attacks.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/secret.h"
#include "heliograph/errors.h"

namespace heliograph::io {

using Digest = std::array<unsigned char, 32>;

/// Compresses `blocks` blocks of 64 bytes into the state.
using Sha256Compress = void (*)(std::uint32_t state[8], const unsigned char* data, std::size_t blocks);

void sha256_compress_scalar(std::uint32_t state[8], const unsigned char* data, std::size_t blocks);
/// Returns the implementation with the processor's SHA instructions; null if it has none.
Sha256Compress sha256_compress_native();

/// Computes the digest of data that is given in pieces. A copy of the object continues its digest independently.
class Sha256 {
 public:
  Sha256();                                  // uses the fastest implementation for this processor
  explicit Sha256(Sha256Compress compress);  // uses a given implementation (tests)
  Sha256(const Sha256&) = default;
  Sha256& operator=(const Sha256&) = default;
  ~Sha256() { wipe(block_.data(), block_.size()); }  // the block may have bytes of a secret key
  void update(std::span<const std::byte> bytes);
  Digest finish();  // finish() may be called once

 private:
  std::array<std::uint32_t, 8> state_;
  std::array<unsigned char, 64> block_{};
  std::size_t fill_ = 0;     // number of buffered bytes in block_
  std::uint64_t total_ = 0;  // number of bytes hashed so far
  Sha256Compress compress_;
};

Digest sha256(std::span<const std::byte> bytes);
Digest sha256(std::string_view text);

/// Converts to lower-case hexadecimal; from_hex inverts it and throws DamagedFileError for other digits.
std::string to_hex(std::span<const unsigned char> bytes);
std::vector<unsigned char> from_hex(std::string_view text);
/// Converts exactly N bytes; throws DamagedFileError, which names `what`, for other lengths.
template <std::size_t N>
std::array<unsigned char, N> bytes_from_hex(std::string_view text, std::string_view what) {
  const std::vector<unsigned char> raw = from_hex(text);
  if (raw.size() != N) throw DamagedFileError(std::string(what) + " has the wrong length");
  std::array<unsigned char, N> out;
  std::copy(raw.begin(), raw.end(), out.begin());
  return out;
}

}  // namespace heliograph::io
