// Parameters, keys and tensors of BFV and BGV.
#include "bindings.h"
#include "heliograph/bfv.h"
#include "heliograph/bgv.h"
#include "objects.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace heliograph;
using namespace heliograph::binding;
using exact::Ciphertext;

namespace {

/// The functions that make parameter sets of a scheme.
struct Sets {
  decltype(&bfv::make_spec) make;
  decltype(&bfv::named_spec) named;
  decltype(&bfv::named_specs) names;
  decltype(&bfv::choose) choose;
};

Sets sets_of(const std::string& scheme) {
  if (scheme == "bfv") return {&bfv::make_spec, &bfv::named_spec, &bfv::named_specs, &bfv::choose};
  if (scheme == "bgv") return {&bgv::make_spec, &bgv::named_spec, &bgv::named_specs, &bgv::choose};
  throw ParameterError("the scheme must be \"bfv\" or \"bgv\", got \"" + scheme + "\"");
}

void bind_spec(nb::module_& m) {
  using exact::Spec;
  bind_spec_of<Spec>(m, "BFV or BGV")
      .def_rw("scheme", &Spec::scheme)
      .def_rw("auxiliary", &Spec::auxiliary)
      .def_rw("plain_moduli", &Spec::plain_moduli)
      .def_rw("exact", &Spec::exact);
  m.def(
      "make_spec",
      [](std::size_t n, int log_q, std::size_t special_count, std::vector<std::uint64_t> plain_moduli, int word_size,
         std::size_t slots, bool insecure, const std::string& scheme) {
        return sets_of(scheme).make(n, log_q, special_count, std::move(plain_moduli), word_size, slots, insecure);
      },
      "n"_a, "log_q"_a, "special_count"_a, "plain_moduli"_a, "word_size"_a = 64, "slots"_a = 0, "insecure"_a = false,
      "scheme"_a = "bfv", Unlocked());
  m.def(
      "named_spec",
      [](const std::string& name, bool insecure, const std::string& scheme) {
        return sets_of(scheme).named(name, insecure);
      },
      "name"_a, "insecure"_a = false, "scheme"_a = "bfv", Unlocked());
  m.def(
      "named_specs", [](const std::string& scheme) { return sets_of(scheme).names(); }, "scheme"_a = "bfv");
  m.def(
      "choose",
      [](int depth, int plain_bits, std::vector<std::uint64_t> plain_moduli, std::size_t slots, std::size_t terms,
         int word_size, const std::string& scheme, std::string version, std::optional<bool> exact) {
        return sets_of(scheme).choose(
            {depth, plain_bits, std::move(plain_moduli), slots, terms, word_size, std::move(version), exact});
      },
      "depth"_a, "plain_bits"_a, "plain_moduli"_a, "slots"_a, "terms"_a, "word_size"_a, "scheme"_a = "bfv",
      "version"_a = exact::kPresentRules, "exact"_a = nb::none(), Unlocked());
  m.def("batching_primes", &exact::batching_primes, "n"_a, "bits"_a, "count"_a = 0, Unlocked());
}

void bind_parameters(nb::module_& m) {
  using exact::Parameters;
  bind_parameters_of<Parameters>(m)
      .def_prop_ro("has_slots", &Parameters::has_slots)
      .def("ciphertext_bytes", &Parameters::ciphertext_bytes, "degree"_a = 1);
}

void bind_ciphertext(nb::module_& m) {
  bind_ciphertext_of<Ciphertext>(m)
      .def_prop_ro("packing",
                   [](const Ciphertext& c) { return c.packing() == exact::Packing::slots ? "slots" : "coefficients"; })
      .def_prop_ro("plain_moduli", &Ciphertext::plain_moduli)
      .def_prop_ro("first_modulus", &Ciphertext::first_modulus)
      .def_prop_ro("noise_budget", &Ciphertext::noise_budget)
      .def_prop_ro("vouched", &Ciphertext::vouched)
      .def_prop_ro("bound", &Ciphertext::bound)
      .def_prop_ro("vouched_bound", &Ciphertext::vouched_bound);
  nb::class_<exact::Plaintext>(m, "Plaintext")
      .def_prop_ro("shape", &exact::Plaintext::shape)
      .def_prop_ro("parameters", &exact::Plaintext::parameters);
  m.def(
      "encode",
      [](const exact::Parameters& p, const Integers& values, const std::string& packing, std::size_t words) {
        const exact::Values v = values_of(values, words);
        const Released released;
        return exact::encode(p, v, packing_of(packing));
      },
      "parameters"_a, "values"_a, "packing"_a, "words"_a = 1);
}

/// Binds the common members of both encryption keys.
template <class Key>
void bind_encryption(nb::class_<Key>& k) {
  k.def(
      "encrypt",
      [](const Key& key, const Integers& values, const std::string& packing, const nb::object& progress,
         std::size_t first_modulus, std::size_t moduli, const std::optional<std::string>& bound, std::size_t words) {
        const exact::Values v = values_of(values, words);
        const std::optional<exact::Bound> most = bound ? std::optional(exact::Bound(*bound)) : std::nullopt;
        const Released released(progress);
        return key.encrypt(v, packing_of(packing), {first_modulus, moduli}, most);
      },
      "values"_a, "packing"_a, "progress"_a = nb::none(), "first_modulus"_a = 0, "moduli"_a = 0, "bound"_a = nb::none(),
      "words"_a = 1);
}

void bind_keys(nb::module_& m) {
  using namespace exact;
  nb::enum_<Proof>(m, "Proof").value("none", Proof::none).value("any", Proof::any).value("trusted", Proof::trusted);
  nb::class_<PublicKey> public_key = bind_open_key<PublicKey>(m, "PublicKey");
  bind_encryption(public_key);
  bind_evaluation_keys_of<EvaluationKeys>(m).def_prop_ro("columns", &EvaluationKeys::has_columns);
  nb::class_<SecretKey> secret = bind_secret_key_of<SecretKey>(m);
  bind_encryption(secret);
  secret.def("public_key", &SecretKey::public_key, Unlocked())
      .def(
          "evaluation_keys",
          [](const SecretKey& k, bool relinearize, std::vector<std::int64_t> rotations, bool columns,
             const nb::object& progress) {
            const Released released(progress);
            return k.evaluation_keys(relinearize, rotations, columns);
          },
          "relinearize"_a, "rotations"_a, "columns"_a, "progress"_a = nb::none())
      .def(
          "decrypt",
          [](const SecretKey& k, const Ciphertext& c, const nb::object& progress, bool beyond_estimate, Proof proof) {
            std::vector<std::uint64_t> residues;
            {
              const Released released(progress);
              residues = k.decrypt(c, beyond_estimate, proof);
            }
            Shape shape = c.shape();
            shape.insert(shape.begin(), c.parameters().spec().plain_moduli.size());
            shape.push_back(c.slots());
            return array_of(std::move(residues), shape);
          },
          "ciphertext"_a, "progress"_a = nb::none(), "beyond_estimate"_a = false, "proof"_a = Proof::any)
      .def("noise_budget", &SecretKey::noise_budget, "ciphertext"_a, "beyond_estimate"_a = false, Unlocked());
}

}  // namespace

void bind_exact(nb::module_& m) {
  bind_spec(m);
  bind_parameters(m);
  bind_ciphertext(m);
  bind_keys(m);
}
