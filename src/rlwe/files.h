// Residue tensors, key ids and seeds in files: what BFV, BGV and CKKS write and read alike.
#pragma once

#include <functional>
#include <optional>

#include "io/container.h"
#include "rlwe/keys.h"

namespace heliograph::rlwe {

/// "u64" or "u32": how a container calls words.
const char* dtype_of(Word word);

/// A container and the words it shows, alive until it is written.
struct Payload {
  using Bytes = std::vector<std::byte>;
  using Read = Bytes (*)(const RnsTensor&);

  /// ring::download, or gather (rlwe/key_holder.h) where the key holder alone is to write it.
  Read read = ring::download;
  io::Container container;
  std::vector<std::shared_ptr<const Bytes>> pieces;

  /// A tensor's residues; waits.
  void add(const std::string& name, const RnsTensor& t);
  void add(const std::string& name, const char* dtype, std::vector<std::size_t> shape, std::shared_ptr<const Bytes> words);
};

/// The array of a tensor's words. DamagedFileError for another shape and for residues at or above their modulus.
std::span<const std::byte> read_words(const io::Container& from, const std::string& name, const Context& c,
                                      const Shape& shape, std::size_t components, const PrimeList& primes);
/// The same on the device.
RnsTensor read_tensor(const io::Container& from, const std::string& name, const Context& c, const Shape& shape,
                      std::size_t components, const PrimeList& primes, Domain domain);

/// A tensor of words that are elsewhere, for what a saved program makes: of that view, which is one of ciphertexts. DamagedFileError.
RnsTensor tensor_over(const device::View& view, const Context& c, const PrimeList& primes, Domain domain);

/// Figures of noise or size (rlwe/noise.h) as a file has them: one for each part, nothing where one is unknown.
std::optional<io::Json> stored_figures(const std::vector<double>& figures);
/// The header's figures of that name, `count` of them; unknown (NaN) where there are none. What a file says is assumed, never
/// vouched for. DamagedFileError.
std::vector<double> figures_from(const io::Container& from, const char* name, std::size_t count);

/// The header's hash is that of the numbers: `hash(false)` without the set's name, as format 2 takes it, or in files of format
/// 1 `hash(true)` with it. DamagedFileError.
void check_hash(const io::Container& from, const std::function<std::string(bool named)>& hash);

/// The header's key id. DamagedFileError.
KeyId key_of(const io::Container& from);
math::Key256 seed_from(const io::Json& json, std::string_view what);
/// The key of that id and of the array "secret". DamagedFileError.
SecretKey read_secret_key(const io::Container& from, std::shared_ptr<Context> context);

}  // namespace heliograph::rlwe
