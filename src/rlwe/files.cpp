#include "rlwe/files.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "rlwe/key_holder.h"
#include "rlwe/noise.h"

namespace heliograph::rlwe {

namespace {

template <class T>
void check_words(const std::string& name, const io::Held& held, const std::vector<u64>& moduli, std::size_t n) {
  const std::span<const T> words = held.values<T>();
  for (std::size_t i = 0; i < words.size(); i += n) {
    const u64 q = moduli[i / n % moduli.size()];
    T largest = 0;
    for (std::size_t k = 0; k < n; ++k) largest = std::max(largest, words[i + k]);
    if (largest >= q) throw DamagedFileError("array " + name + " has a residue that is not below its modulus");
  }
}

io::Held downloaded(const RnsTensor& t) {
  const RnsTensor dense = t.contiguous();
  const std::size_t bytes = dense.bytes();
  dense.engine()->require_host_memory(bytes, "reading a tensor");
  try {
    const auto memory = std::make_shared_for_overwrite<u64[]>((bytes + sizeof(u64) - 1) / sizeof(u64));
    const std::span<std::byte> room(reinterpret_cast<std::byte*>(memory.get()), bytes);
    dense.engine()->download(dense.view(), room);
    return {room, memory};
  } catch (const std::bad_alloc&) {
    throw OutOfMemoryError("cannot allocate " + readable_bytes(bytes) + " on the host for a tensor");
  }
}

/// Downloads a tensor in pieces of several items; a piece stays in cache until it is hashed and written.
void download_pieces(const RnsTensor& t, const io::Sink& sink) {
  static constexpr std::size_t kPiece = std::size_t{1} << 19, kMostPieces = 64;
  const std::size_t items = t.items();
  const RnsTensor row = t.reshape({items});
  const std::size_t most = std::max(kPiece, t.bytes() / kMostPieces);
  const std::size_t together = items == 0 ? 1 : std::max<std::size_t>(1, most / (t.bytes() / items));
  for (std::size_t first = 0; first < items; first += together)
    sink(downloaded(row.slice(0, first, 1, std::min(together, items - first))).bytes);
}

}  // namespace

const char* dtype_of(Word word) { return word == Word::w64 ? "u64" : "u32"; }

void add(io::Container& to, const std::string& name, const RnsTensor& t, Domain domain, ring::Words words) {
  std::vector<std::size_t> shape = t.shape();
  shape.insert(shape.end(), {t.components(), t.primes().size(), t.view().n});
  const auto read = [t, domain, words] {
    const RnsTensor written = ring::to_domain(t, domain);
    return words == ring::Words::everywhere ? downloaded(written) : io::Held::of(gather(written));
  };
  std::function<void(const io::Sink&)> pieces;
  if (words == ring::Words::everywhere)
    pieces = [t, domain](const io::Sink& sink) { download_pieces(ring::to_domain(t, domain), sink); };
  to.arrays.push_back(io::Array::made(name, dtype_of(t.view().word), std::move(shape), read, pieces));
}

io::Held take_words(io::Container& from, const std::string& name, const Context& c, const Shape& shape,
                    std::size_t components, const PrimeList& primes) {
  const Word word = c.parameters().word;
  const std::size_t n = c.parameters().n;
  std::vector<std::size_t> expected = shape;
  expected.insert(expected.end(), {components, primes.size(), n});
  io::Held held = from.take(name, dtype_of(word), expected);
  const std::vector<u64> moduli = c.moduli(primes);
  word == Word::w64 ? check_words<u64>(name, held, moduli, n) : check_words<math::u32>(name, held, moduli, n);
  return held;
}

RnsTensor take_tensor(io::Container& from, const std::string& name, const Context& c, const Shape& shape,
                      std::size_t components, const PrimeList& primes, Domain domain) {
  const io::Held words = take_words(from, name, c, shape, components, primes);
  RnsTensor t(c.engine(), shape, components, primes, domain);
  ring::upload(t, words.bytes);
  return t;
}

RnsTensor tensor_over(const device::View& view, const Context& c, const PrimeList& primes, Domain domain) {
  const math::Ring& ring = c.engine()->ring();
  for (const math::PrimeIndex p : primes)
    require<DamagedFileError>(p < ring.primes().size(), "a tensor has a prime that its parameter set lacks");
  require<DamagedFileError>(view.limbs == primes.size() && view.n == ring.n() && view.word == ring.word() &&
                                view.components >= 2 && view.components <= 3,
                            "the words of a ciphertext must have the shape that its parameter set gives");
  return RnsTensor(c.engine(), {0}, view.components, primes, domain).over(view);
}

std::optional<io::Json> stored_figures(const std::vector<double>& figures) {
  io::Json stored = io::Json::array();
  for (const double figure : figures) {
    if (std::isnan(figure)) return std::nullopt;
    stored.push_back(stored_figure(figure));
  }
  return stored;
}

std::vector<double> figures_from(const io::Container& from, const char* name, std::size_t count) {
  if (from.version < 2 || !from.header.find(name)) return std::vector<double>(count, std::nan(""));
  std::vector<double> figures;
  for (const u64 stored : from.header.unsigned_array_at(name, count, kMostStored)) figures.push_back(figure_from(stored));
  if (figures.size() != count)
    throw DamagedFileError(std::string("the file has a wrong number of bounds in its field ") + name);
  return figures;
}

SecretKey read_secret_key(const io::Container& from, std::shared_ptr<Context> context) {
  const std::span<const std::byte> raw = from.array("secret", "i8", {context->parameters().n}).data;
  SecretVector<signed char> coefficients(raw.size());
  std::memcpy(coefficients.data(), raw.data(), raw.size());
  mark_secret(coefficients.data(), coefficients.size());
  return SecretKey(std::move(context), std::move(coefficients), ring::key_of(from));
}

}  // namespace heliograph::rlwe
