// Objects as files and bytes (io/container.h). All data is checked before use.
#include <numeric>

#include "schemes/exact/tails.h"

namespace heliograph::exact {

namespace {

// Ciphertexts. Everything except arrays is in the header. The noise of a fresh encryption follows from the model; any other
// noise estimate is stored. A reader of the file uses this estimate, but does not trust it.

std::vector<u64> factors_of(const io::Container& k, const Context& c, bool fresh) {
  if (!c.family().has_factors) return std::vector<u64>(c.parts(), 1);
  std::vector<u64> factors = k.header.unsigned_array_at("factors", 64, u64{1} << 60);
  if (factors.size() != c.parts()) throw DamagedFileError("the number of factors must equal the number of plaintext moduli");
  for (std::size_t part = 0; part < factors.size(); ++part) {
    const u64 t = c.plain(part).t, f = factors[part];
    if (f >= t || std::gcd(f, t) != 1 || (fresh && f != 1))
      throw DamagedFileError("a factor must be invertible modulo t, and 1 in a fresh ciphertext");
  }
  return factors;
}

}  // namespace

io::Json to_json(const Growth& bound) {
  io::Json degrees = io::Json::array(), coefficients = io::Json::array();
  for (const Growth::Term& t : bound.terms()) degrees.push_back(t.degree), coefficients.push_back(t.coefficient.hex());
  io::Json json = io::Json::object({{"degrees", std::move(degrees)}, {"coefficients", std::move(coefficients)}});
  if (bound.session() != 0) json["session"] = bound.session();
  return json;
}

Growth growth_from(const io::Json& json) {
  json.require_only({"degrees", "coefficients", "session"}, "a bound on values");
  const std::vector<u64> degrees = json.unsigned_array_at("degrees", 64, 1 << 20);
  const io::Json::Array& coefficients = json.array_at("coefficients", 64);
  if (degrees.size() != coefficients.size())
    throw DamagedFileError("a bound on values must have one coefficient for each degree");
  std::vector<Growth::Term> terms;
  for (std::size_t i = 0; i < degrees.size(); ++i) {
    const std::optional<Magnitude> m = Magnitude::from(coefficients[i].as_string("a coefficient", 1 << 12));
    if (!m) throw DamagedFileError("a coefficient of a bound on values is not a hexadecimal number");
    terms.push_back({static_cast<std::uint32_t>(degrees[i]), *m});
  }
  const std::optional<Growth> bound =
      Growth::from(std::move(terms), json.contains("session") ? json.unsigned_at("session") : 0);
  if (!bound) throw DamagedFileError("the degrees of a bound on values must ascend");
  return *bound;
}

io::Container describe(const CiphertextData& given, ring::Words words) {
  require_whole(given, "saving");
  // Padding slots are not published: the file contains zeros for them, and later rotations and sums rely on these zeros.
  const bool numbers = std::any_of(given.tails.begin(), given.tails.end(), [](const Tail& t) { return t.is_number(); });
  std::optional<Ciphertext> shown;
  if (numbers) shown = cleared(Ciphertext(std::make_shared<CiphertextData>(given)));
  const CiphertextData& x = shown ? shown->data() : given;
  io::Container k = schemes::start("ciphertext", *x.context, rlwe::to_string(x.key));
  k.header["shape"] = io::Json::array_of(x.shape());
  k.header["degree"] = x.degree();
  k.header["level"] = x.level();
  k.header["ntt"] = x.seeds.empty() && x.front().domain() == Domain::ntt;  // masks from seeds are in the coefficient domain
  k.header["packing"] = x.packing == Packing::slots ? "slots" : "coefficients";
  k.header["width"] = x.width;
  k.header["fresh"] = x.fresh;
  if (x.context->family().has_factors) k.header["factors"] = io::Json::array_of(x.factors);
  if (const auto noise = rlwe::stored_figures(x.noise); noise && !x.fresh) k.header["noise"] = *noise;
  if (x.bounds.assumed.known()) k.header["bound"] = to_json(x.bounds.assumed);
  if (x.packing == Packing::slots && x.width < x.context->spec().n && !x.fresh) common_tail(x).describe(k.header);
  io::Json seeds = io::Json::array();
  for (const Key256& s : x.seeds) seeds.push_back(io::to_hex(s));
  k.header["seeds"] = seeds;
  for (std::size_t part = 0; part < x.parts.size(); ++part) {
    const std::string name = "part" + std::to_string(part);
    if (x.seeds.empty())
      rlwe::add(k, name, x.parts[part], x.parts[part].domain(), words);
    else
      rlwe::add(k, name, x.parts[part].with_components(0, 1), Domain::coefficient, words);
  }
  return k;
}

namespace {

RnsTensor read_part(io::Container& k, Context& c, const Shape& shape, std::size_t part, std::size_t components,
                    std::size_t level, Domain domain, const std::vector<Key256>& seeds) {
  const std::string name = "part" + std::to_string(part);
  const auto chain = c.rlwe().chain(level);
  if (seeds.empty()) return rlwe::take_tensor(k, name, c.rlwe(), shape, components, chain, domain);
  const RnsTensor body = rlwe::take_tensor(k, name, c.rlwe(), shape, 1, chain, domain);
  const std::size_t items = ring::element_count(shape);
  const RnsTensor whole(c.rlwe().engine(), {items}, 2, chain, domain);
  ring::Engine& e = c.engine();
  if (items) {
    e.enqueue(device::Copy{body.reshape({items}).view(), whole.with_components(0, 1).view()});
    rlwe::fill_masks(whole.with_components(1, 1), seeds[part], 0);
  }
  return ring::to_domain(whole, c.rules().home()).reshape(shape);
}

}  // namespace

Ciphertext read(io::Container&& k, const Allowed& allowed, schemes::As<Ciphertext>) {
  CiphertextData x;
  x.context = schemes::context_of<Context>(k, "ciphertext", allowed.parameters);
  Context& c = *x.context;
  k.header.require_only({"parameters", "parameter_hash", "key", "shape", "degree", "level", "ntt", "packing", "width",
                         "fresh", "seeds", c.family().has_factors ? "factors" : "seeds", k.version > 1 ? "noise" : "seeds",
                         k.version > 1 ? "tail" : "seeds", k.version > 2 ? "bound" : "seeds"},
                        "a ciphertext");
  x.key = ring::key_of(k);
  const std::size_t degree = k.header.unsigned_at("degree", 2), level = k.header.unsigned_at("level", c.rlwe().top_level());
  if (degree < 1 || level < 1) throw DamagedFileError("a ciphertext must have degree 1 or 2 and at least one prime");
  const Shape shape =
      ring::read_shape(k, c.parts() * c.rlwe().polynomial_bytes(level) * (degree + 1), allowed.bytes, c.engine());
  const std::string& packing = k.header.string_at("packing", 16);
  if (packing != "slots" && packing != "coefficients") throw DamagedFileError("the packing must be slots or coefficients");
  x.packing = packing == "slots" ? Packing::slots : Packing::coefficients;
  if (x.packing == Packing::slots && !c.has_slots())
    throw DamagedFileError("the packing is slots, but the file's parameters have none");
  x.width = k.header.unsigned_at("width", c.spec().n);
  const Domain domain = k.header.bool_at("ntt") ? Domain::ntt : Domain::coefficient;
  for (const io::Json& s : k.header.array_at("seeds", c.parts())) x.seeds.push_back(ring::seed_from(s, "a seed"));
  x.fresh = k.header.bool_at("fresh");
  if (x.fresh && (degree != 1 || level != c.rlwe().top_level()))
    throw DamagedFileError("a fresh ciphertext must have degree 1 and all primes");
  if (!x.seeds.empty() && (x.seeds.size() != c.parts() || !x.fresh || domain != Domain::coefficient)) {
    throw DamagedFileError("seeds must be one for each plaintext modulus of a fresh ciphertext");
  }
  if (x.fresh && k.header.find("noise"))
    throw DamagedFileError("a fresh ciphertext must not state its noise, which follows from its parameters");
  require<DamagedFileError>(
      !x.fresh || !k.header.contains("tail"),
      "the header of a fresh ciphertext must not have the field \"tail\": its unused slots are always zero");
  x.tails.assign(c.parts(), Tail::from(k.header, x.fresh));
  x.noise = rlwe::figures_from(k, "noise", c.parts());
  x.vouched = false;
  if (k.version > 2 && k.header.contains("bound")) x.bounds.assumed = growth_from(k.header.at("bound"));
  if (k.arrays.size() != c.parts()) throw DamagedFileError("the number of arrays must equal the number of plaintext moduli");
  for (std::size_t part = 0; part < c.parts(); ++part) {
    x.parts.push_back(read_part(k, c, shape, part, degree + 1, level, domain, x.seeds));
    if (x.fresh) x.noise[part] = c.rules().fresh_noise(part, x.seeds.empty());
  }
  x.factors = factors_of(k, c, x.fresh);
  x.independent = x.distinct = x.fresh && c.rules().independent();
  return finish(std::move(x));
}

}  // namespace heliograph::exact
