// Objects as files and bytes (io/container.h). Everything read is checked before it is used.
#include <cmath>

#include "schemes/ckks/operations.h"

namespace heliograph::ckks {

// Ciphertexts: what is not an array is in the header. Of noise and size the figures travel that follow from operations and
// from what is public, nothing that tells of values. They are assumed where they were read, never vouched for.

io::Container describe(const CiphertextData& given, ring::Words words) {
  // Public numbers behind the values stay here: the file has zeros there, which later rotations and sums rely on.
  std::optional<Ciphertext> shown;
  if (given.tail.is_number()) shown = cleared(Ciphertext(std::make_shared<CiphertextData>(given)));
  const CiphertextData& x = shown ? shown->data() : given;
  io::Container k = schemes::start("ciphertext", *x.context, rlwe::to_string(x.key));
  io::Json& h = k.header;
  h["shape"] = io::Json::array_of(x.shape());
  h["degree"] = x.degree();
  h["level"] = x.level;
  h["scale"] = x.scale;
  h["width"] = x.width;
  h["complex"] = x.complex;
  h["fresh"] = x.fresh;
  if (const auto noise = rlwe::stored_figures({x.noise.assumed}); noise && !(x.fresh && x.seed)) h["noise"] = *noise;
  if (const auto ranges = x.ranges.stored()) h["ranges"] = *ranges;
  if (x.width < x.context->period() && !x.fresh) x.tail.describe(h);
  if (x.seed) h["seed"] = io::to_hex(*x.seed);
  rlwe::add(k, "words", x.seed ? x.tensor.with_components(0, 1) : x.tensor, Domain::ntt, words);
  return k;
}

namespace {

/// A body and the mask its seed gives.
RnsTensor with_mask(Context& c, const RnsTensor& body, const Key256& seed) {
  const std::size_t items = body.items();
  ring::Engine& e = c.engine();
  const RnsTensor whole(c.rlwe().engine(), {items}, 2, body.primes(), Domain::ntt);
  if (items) {
    const RnsTensor mask(c.rlwe().engine(), {items}, 1, body.primes(), Domain::coefficient);
    rlwe::fill_masks(mask, seed, 0);
    e.enqueue(device::ForwardNtt{e.prepared(), body.primes(), mask.view(), whole.with_components(1, 1).view()});
    e.enqueue(device::Copy{body.reshape({items}).view(), whole.with_components(0, 1).view()});
  }
  return whole.reshape(body.shape());
}

}  // namespace

Ciphertext read(io::Container&& k, const Allowed& allowed, schemes::As<Ciphertext>) {
  CiphertextData x;
  x.context = schemes::context_of<Context>(k, "ciphertext", allowed.parameters);
  Context& c = *x.context;
  const io::Json& h = k.header;
  const bool figures = k.version > 1, ranges = k.version > 2;
  h.require_only({"parameters", "parameter_hash", "key", "shape", "degree", "level", "scale", "width", "complex", "fresh",
                  "seed", figures ? "noise" : "seed",
                  ranges    ? "ranges"
                  : figures ? "bound"
                            : "seed",
                  figures ? "tail" : "seed"},
                 "a ciphertext");
  require<DamagedFileError>(k.arrays.size() == 1, "a ciphertext has one array");
  x.key = ring::key_of(k);
  const std::size_t degree = h.unsigned_at("degree", 2);
  x.level = h.unsigned_at("level", c.top_level());
  require<DamagedFileError>(degree >= 1 && x.level >= 1, "a ciphertext has degree 1 or 2 and a level of 1 at least");
  x.scale = h.double_at("scale");
  require<DamagedFileError>(x.scale >= 1 && std::log2(x.scale) + 1 <= c.log_modulus(x.level),
                            "a ciphertext's scale lies between 1 and its modulus");
  x.width = h.unsigned_at("width", c.slots());
  x.complex = h.bool_at("complex");
  x.fresh = h.bool_at("fresh");
  require<DamagedFileError>(!x.fresh || (degree == 1 && x.scale == c.scale(x.level)),
                            "a fresh ciphertext has degree 1 and its level's scale");
  if (const io::Json* seed = h.find("seed")) x.seed = ring::seed_from(*seed, "a seed");
  require<DamagedFileError>(x.fresh || !x.seed, "only fresh ciphertexts are seeded");
  require<DamagedFileError>(!x.seed || !h.contains("noise"), "a seeded ciphertext's noise follows from its parameters");
  require<DamagedFileError>(!x.fresh || !h.contains("tail"), "a fresh ciphertext has zeros behind its values");
  x.tail = Tail::from(h, x.fresh);
  const device::PrimeList chain = c.rlwe().chain(x.level);
  const Shape shape = ring::read_shape(k, c.rlwe().polynomial_bytes(chain.size()) * (degree + 1), allowed.bytes, c.engine());
  x.tensor = rlwe::take_tensor(k, "words", c.rlwe(), shape, x.seed ? 1 : degree + 1, chain, Domain::ntt);
  if (x.seed) x.tensor = with_mask(c, x.tensor, *x.seed);
  double noise = rlwe::figures_from(k, "noise", 1)[0];
  if (x.fresh && std::isnan(noise)) {  // seeded, or of an older Heliograph's public key
    const double fresh = x.seed ? c.noise().fresh_secret_key() : c.noise().fresh_public_key();
    noise = rlwe::log2_sum(fresh, c.noise().rounding());
  }
  x.noise = {std::nan(""), noise};
  if (const io::Json* const stored = ranges ? h.find("ranges") : nullptr) {
    x.ranges = Ranges::from(*stored, ring::element_count(shape));
  } else if (const double bound = rlwe::figures_from(k, "bound", 1)[0]; !ranges && std::isfinite(bound)) {  // of format 2
    const double most = std::exp2(bound);
    x.ranges = Ranges(RangePair{Range::unknown(), Range::of(-most, most, 1, 1)});
  }
  return finish(std::move(x));
}

}  // namespace heliograph::ckks
