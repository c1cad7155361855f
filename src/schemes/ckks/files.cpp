// Objects as files and bytes (io/container.h). All data is checked before use.
#include <cmath>

#include "schemes/ckks/operations.h"

namespace heliograph::ckks {

// Ciphertexts. Everything except arrays is in the header. Stored figures of noise and size follow from operations and public
// data only, and reveal nothing of the values. A reader assumes them without trust.

io::Container describe(const CiphertextData& given, ring::Words words) {
  // Padding slots are not published: the file contains zeros for them, and later rotations and sums rely on these zeros.
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
  if (!x.guards.empty()) h["guards"] = described(x.guards);
  for (std::size_t i = 0; i < x.guards.list().size(); ++i)
    rlwe::add(k, "guard" + std::to_string(i), x.guards.list()[i]->squares->tensor, Domain::ntt, words);
  return k;
}

namespace {

/// Joins the body of a ciphertext with the mask that a seed gives.
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
                  figures ? "tail" : "seed", ranges ? "guards" : "seed"},
                 "a ciphertext");
  const io::Json* const guards = ranges ? h.find("guards") : nullptr;
  require<DamagedFileError>(k.arrays.size() == 1 + (guards ? guards->as_array("guards", kGuardsInFile).size() : 0),
                            "a ciphertext must have one array, and one more for each guard");
  x.key = ring::key_of(k);
  const std::size_t degree = h.unsigned_at("degree", 2);
  x.level = h.unsigned_at("level", c.top_level());
  require<DamagedFileError>(degree >= 1 && x.level >= 1, "a ciphertext must have degree 1 or 2 and a level of at least 1");
  x.scale = h.double_at("scale");
  require<DamagedFileError>(x.scale >= 1 && std::log2(x.scale) + 1 <= c.log_modulus(x.level),
                            "a ciphertext's scale must be between 1 and half its modulus");
  x.width = h.unsigned_at("width", c.slots());
  x.complex = h.bool_at("complex");
  x.fresh = h.bool_at("fresh");
  require<DamagedFileError>(!x.fresh || (degree == 1 && x.scale == c.scale(x.level)),
                            "a fresh ciphertext must have degree 1 and its level's scale");
  if (const io::Json* seed = h.find("seed")) x.seed = ring::seed_from(*seed, "a seed");
  require<DamagedFileError>(x.fresh || !x.seed, "only a fresh ciphertext may have a seed");
  require<DamagedFileError>(!x.seed || !h.contains("noise"),
                            "a seeded ciphertext must not state its noise, which follows from its parameters");
  require<DamagedFileError>(
      !x.fresh || !h.contains("tail"),
      "the header of a fresh ciphertext must not have the field \"tail\": its unused slots are always zero");
  x.tail = Tail::from(h, x.fresh);
  const device::PrimeList chain = c.rlwe().chain(x.level);
  const Shape shape = ring::read_shape(k, c.rlwe().polynomial_bytes(chain.size()) * (degree + 1), allowed.bytes, c.engine());
  x.tensor = rlwe::take_tensor(k, "words", c.rlwe(), shape, x.seed ? 1 : degree + 1, chain, Domain::ntt);
  if (x.seed) x.tensor = with_mask(c, x.tensor, *x.seed);
  double noise = rlwe::figures_from(k, "noise", 1)[0];
  if (x.fresh && std::isnan(noise)) {  // fresh: encrypted with a seed, or by a public key of an older release
    const double fresh = x.seed ? c.noise().fresh_secret_key() : c.noise().fresh_public_key();
    noise = rlwe::log2_sum(fresh, c.noise().rounding());
  }
  const rlwe::Figure norm(std::nan(""), noise);
  x.noise = x.fresh ? c.random(norm) : Noise(norm);
  if (const io::Json* const stored = ranges ? h.find("ranges") : nullptr) {
    x.ranges = Ranges::from(*stored, ring::element_count(shape));
  } else if (const double bound = rlwe::figures_from(k, "bound", 1)[0]; !ranges && std::isfinite(bound)) {  // format 2
    const double most = std::exp2(bound);
    x.ranges = Ranges(RangePair{Range::unknown(), Range::of(-most, most, 1, 1)});
  }
  if (guards) {
    const device::PrimeList lowest = c.rlwe().chain(1);
    const std::size_t each = 3 * c.rlwe().polynomial_bytes(lowest.size()), count = k.arrays.size() - 1;
    if (checked_mul(each, count) > allowed.bytes)
      throw LimitError("the guards of this ciphertext take " + std::to_string(each * count) + " bytes, above the limit of " +
                       std::to_string(allowed.bytes));
    std::size_t next = 0;
    x.guards = guards_from(*guards, x.context, x.key, [&] {
      return rlwe::take_tensor(k, "guard" + std::to_string(next++), c.rlwe(), {}, 3, lowest, Domain::ntt);
    });
  }
  return finish(std::move(x));
}

}  // namespace heliograph::ckks
