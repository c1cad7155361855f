// SHA-256 (FIPS 180-4): the digest of files and of parameter sets. It catches accidents, not attackers.
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
/// The processor's own instructions, or null where it has none.
Sha256Compress sha256_compress_native();

/// A digest of bytes that come in pieces. Copyable: a copy continues on its own.
class Sha256 {
 public:
  Sha256();                                  // the fastest way this processor has
  explicit Sha256(Sha256Compress compress);  // one chosen way (tests)
  Sha256(const Sha256&) = default;
  Sha256& operator=(const Sha256&) = default;
  ~Sha256() { wipe(block_.data(), block_.size()); }  // bytes of a secret key, maybe
  void update(std::span<const std::byte> bytes);
  Digest finish();  // once; the object is spent

 private:
  std::array<std::uint32_t, 8> state_;
  std::array<unsigned char, 64> block_{};
  std::size_t fill_ = 0;     // bytes waiting in block_
  std::uint64_t total_ = 0;  // bytes seen
  Sha256Compress compress_;
};

Digest sha256(std::span<const std::byte> bytes);
Digest sha256(std::string_view text);

/// Lower-case hexadecimal, and back; DamagedFileError for anything but pairs of 0-9a-f.
std::string to_hex(std::span<const unsigned char> bytes);
std::vector<unsigned char> from_hex(std::string_view text);
/// The same of exactly N bytes; DamagedFileError names `what` otherwise.
template <std::size_t N>
std::array<unsigned char, N> bytes_from_hex(std::string_view text, std::string_view what) {
  const std::vector<unsigned char> raw = from_hex(text);
  if (raw.size() != N) throw DamagedFileError(std::string(what) + " has the wrong length");
  std::array<unsigned char, N> out;
  std::copy(raw.begin(), raw.end(), out.begin());
  return out;
}

}  // namespace heliograph::io
