// Residue tensors, key ids and seeds in files: common code of BFV, BGV and CKKS.
#pragma once

#include <functional>
#include <optional>

#include "ring/files.h"
#include "rlwe/keys.h"

namespace heliograph::rlwe {

/// Returns "u64" or "u32", the dtype of words in containers.
const char* dtype_of(Word word);

/// Adds an array with a tensor's residues in `domain`. The residues are downloaded when the array is written.
void add(io::Container& to, const std::string& name, const RnsTensor& t, Domain domain,
         ring::Words words = ring::Words::everywhere);

/// Moves the words of a tensor out of the container. Throws DamagedFileError for another shape, and if a residue is not
/// below its modulus.
io::Held take_words(io::Container& from, const std::string& name, const Context& c, const Shape& shape,
                    std::size_t components, const PrimeList& primes);
/// Moves the words of a tensor out of the container and uploads them. Throws as take_words does.
RnsTensor take_tensor(io::Container& from, const std::string& name, const Context& c, const Shape& shape,
                      std::size_t components, const PrimeList& primes, Domain domain);

/// Makes a tensor over the words of a view, which a saved program returned. Throws DamagedFileError unless the view has the
/// shape of a ciphertext.
RnsTensor tensor_over(const device::View& view, const Context& c, const PrimeList& primes, Domain domain);

/// Returns bounds of noise or size (rlwe/noise.h) in the form of files, one for each part; nullopt if a bound is unknown.
std::optional<io::Json> stored_figures(const std::vector<double>& figures);
/// Reads the header's field `name` with `count` bounds; returns NaN for each if the field is absent. The bounds are assumed,
/// not trusted. Throws DamagedFileError.
std::vector<double> figures_from(const io::Container& from, const char* name, std::size_t count);

/// Reads a secret key: its id and the array "secret". Throws DamagedFileError.
SecretKey read_secret_key(const io::Container& from, std::shared_ptr<Context> context);

}  // namespace heliograph::rlwe
