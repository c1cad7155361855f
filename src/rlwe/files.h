// Residue tensors, key ids and seeds in files: what BFV, BGV and CKKS write and read alike.
#pragma once

#include <functional>
#include <optional>

#include "ring/files.h"
#include "rlwe/keys.h"

namespace heliograph::rlwe {

/// "u64" or "u32": how a container calls words.
const char* dtype_of(Word word);

/// An array of a tensor's residues in a domain, downloaded as it is written.
void add(io::Container& to, const std::string& name, const RnsTensor& t, Domain domain,
         ring::Words words = ring::Words::everywhere);

/// The words of a tensor, which the container forgets. DamagedFileError for another shape and for residues at or above their
/// modulus.
io::Held take_words(io::Container& from, const std::string& name, const Context& c, const Shape& shape,
                    std::size_t components, const PrimeList& primes);
/// The same on the device.
RnsTensor take_tensor(io::Container& from, const std::string& name, const Context& c, const Shape& shape,
                      std::size_t components, const PrimeList& primes, Domain domain);

/// A tensor of words that are elsewhere, for what a saved program makes: of that view, which is one of ciphertexts. DamagedFileError.
RnsTensor tensor_over(const device::View& view, const Context& c, const PrimeList& primes, Domain domain);

/// Figures of noise or size (rlwe/noise.h) as a file has them: one for each part, nothing where one is unknown.
std::optional<io::Json> stored_figures(const std::vector<double>& figures);
/// The header's figures of that name, `count` of them; unknown (NaN) where there are none. What a file says is assumed, never
/// vouched for. DamagedFileError.
std::vector<double> figures_from(const io::Container& from, const char* name, std::size_t count);

/// The key of that id and of the array "secret". DamagedFileError.
SecretKey read_secret_key(const io::Container& from, std::shared_ptr<Context> context);

}  // namespace heliograph::rlwe
