// Parameters, keys and tensors of BFV and BGV.
#include <nanobind/stl/tuple.h>

#include "bindings.h"
#include "heliograph/bfv.h"
#include "heliograph/bgv.h"
#include "heliograph/device.h"
#include "heliograph/files.h"
#include "objects.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace heliograph;
using namespace heliograph::binding;
using exact::Ciphertext;

namespace {

/// What makes sets of a scheme.
struct Sets {
  decltype(&bfv::make_spec) make;
  decltype(&bfv::named_spec) named;
  decltype(&bfv::named_specs) names;
  decltype(&bfv::choose) choose;
};

Sets sets_of(const std::string& scheme) {
  if (scheme == "bfv") return {&bfv::make_spec, &bfv::named_spec, &bfv::named_specs, &bfv::choose};
  if (scheme == "bgv") return {&bgv::make_spec, &bgv::named_spec, &bgv::named_specs, &bgv::choose};
  throw ParameterError("the scheme is \"bfv\" or \"bgv\"");
}

const Names kNames{"", ""};

void bind_spec(nb::module_& m) {
  using exact::Spec;
  bind_spec_of<Spec>(m, kNames, "BFV or BGV")
      .def_rw("scheme", &Spec::scheme)
      .def_rw("auxiliary", &Spec::auxiliary)
      .def_rw("plain_moduli", &Spec::plain_moduli)
      .def_rw("exact", &Spec::exact);
  m.def(
      "make_spec",
      [](std::size_t n, int log_q, std::size_t special_count, std::vector<std::uint64_t> plain_moduli,
         const std::string& edition, std::size_t slots, bool insecure, const std::string& scheme) {
        return sets_of(scheme).make(n, log_q, special_count, std::move(plain_moduli), edition, slots, insecure);
      },
      "n"_a, "log_q"_a, "special_count"_a, "plain_moduli"_a, "edition"_a = "w64", "slots"_a = 0, "insecure"_a = false,
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
         std::string edition, const std::string& scheme, std::string version, std::optional<bool> exact) {
        return sets_of(scheme).choose(
            {depth, plain_bits, std::move(plain_moduli), slots, terms, std::move(edition), std::move(version), exact});
      },
      "depth"_a, "plain_bits"_a, "plain_moduli"_a, "slots"_a, "terms"_a, "edition"_a, "scheme"_a = "bfv",
      "version"_a = exact::kPresentRules, "exact"_a = nb::none(), Unlocked());
  m.def("batching_primes", &exact::batching_primes, "n"_a, "bits"_a, "count"_a = 0, Unlocked());
  m.def("largest_secure_log_qp", &exact::largest_secure_log_qp, "n"_a);
  m.def("describe_devices", &describe_devices);
  m.def("device_name", &device_name);
  m.def("host_memory", &host_memory);
  m.def("has_mpi", &has_mpi);
  m.def("device_moved", [] {
    const Moved moved = device_moved();
    nb::dict all;
    all["exchanges"] = moved.exchanges, all["bytes"] = moved.bytes, all["staged_bytes"] = moved.staged_bytes;
    all["sent_bytes"] = moved.sent_bytes;
    return all;
  });
  m.def("device_traffic", [] {
    const Traffic t = device_traffic();
    nb::dict all;
    all["uploads"] = t.uploads, all["upload_bytes"] = t.upload_bytes;
    all["downloads"] = t.downloads, all["download_bytes"] = t.download_bytes;
    all["launches"] = t.launches, all["allocations"] = t.allocations, all["waits"] = t.waits;
    return all;
  });
  m.def("device_cycles", []() -> nb::object {
    std::optional<Cycles> c;
    {
      const Released released;
      c = device_cycles();
    }
    if (!c) return nb::none();
    nb::dict all, busy;
    all["cycles"] = c->cycles, all["predicted"] = c->predicted, all["waited"] = c->waited;
    all["lists"] = c->lists, all["instructions"] = c->instructions;
    all["bytes_read"] = c->bytes_read, all["bytes_written"] = c->bytes_written;
    all["stalled"] = c->stalled, all["sampled"] = c->sampled, all["moved"] = c->moved;
    for (const auto& [unit, count] : c->busy) busy[unit.c_str()] = count;
    all["busy"] = busy, all["clock"] = c->clock;
    return all;
  });
  m.def("device_timeline", []() -> std::vector<std::tuple<std::string, std::uint64_t, std::uint64_t>> {
    std::vector<std::tuple<std::string, std::uint64_t, std::uint64_t>> all;
    const Released released;
    for (Span& i : device_timeline()) all.emplace_back(std::move(i.unit), i.begin, i.end);
    return all;
  });
  m.def("device_ranks", [] {
    const Ranks r = device_ranks();
    return std::pair(r.rank, r.count);
  });
  m.def("meet_ranks", &meet_ranks, Unlocked());
  m.def("product_ceiling", &product_ceiling, Unlocked());
  m.def("sum_ceiling", &sum_ceiling, Unlocked());
}

void bind_parameters(nb::module_& m) {
  using exact::Parameters;
  bind_parameters_of<Parameters>(m, kNames)
      .def_prop_ro("has_slots", &Parameters::has_slots)
      .def("ciphertext_bytes", &Parameters::ciphertext_bytes, "degree"_a = 1);
}

void bind_ciphertext(nb::module_& m) {
  bind_ciphertext_of<Ciphertext>(m, kNames)
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

/// What both keys that encrypt have.
template <class Key>
void bind_encryption(nb::class_<Key>& k) {
  k.def(
      "encrypt",
      [](const Key& key, const Integers& values, const std::string& packing, const nb::object& progress,
         std::size_t first_modulus, std::size_t moduli, const std::optional<std::string>& bound, std::size_t words) {
        const exact::Values v = values_of(values, words);
        const std::optional<exact::Bound> most = bound ? std::optional(exact::Bound(*bound)) : std::nullopt;
        const Progress p = progress_of(progress);
        const Released released;
        return key.encrypt(v, packing_of(packing), p, {first_modulus, moduli}, most);
      },
      "values"_a, "packing"_a, "progress"_a = nb::none(), "first_modulus"_a = 0, "moduli"_a = 0, "bound"_a = nb::none(),
      "words"_a = 1);
}

void bind_keys(nb::module_& m) {
  using namespace exact;
  nb::enum_<Proof>(m, "Proof").value("none", Proof::none).value("any", Proof::any).value("vouched", Proof::vouched);
  nb::class_<PublicKey> public_key = bind_open_key<PublicKey>(m, kNames, "PublicKey", "public_key");
  bind_encryption(public_key);
  bind_open_key<EvaluationKeys>(m, kNames, "EvaluationKeys", "evaluation_keys")
      .def_prop_ro("relinearize", &EvaluationKeys::has_relinearization)
      .def_prop_ro("rotations", &EvaluationKeys::rotations)
      .def_prop_ro("most_switches", &EvaluationKeys::most_switches)
      .def("reach", &EvaluationKeys::reach, Unlocked())
      .def("composing", &EvaluationKeys::composing, "most"_a)
      .def("composition", &EvaluationKeys::composition, "steps"_a, Unlocked())
      .def("switches", &EvaluationKeys::switches, "steps"_a, Unlocked())
      .def("cheapest", &EvaluationKeys::cheapest, "steps"_a, Unlocked())
      .def_prop_ro("columns", &EvaluationKeys::has_columns)
      .def_prop_ro("of_programs", &EvaluationKeys::of_programs);
  nb::class_<SecretKey> secret = bind_secret_key_of<SecretKey>(m, kNames);
  bind_encryption(secret);
  secret.def("public_key", &SecretKey::public_key, Unlocked())
      .def(
          "evaluation_keys",
          [](const SecretKey& k, bool relinearize, std::vector<std::int64_t> rotations, bool columns,
             const nb::object& progress) {
            const Progress p = progress_of(progress);
            const Released released;
            return k.evaluation_keys(relinearize, rotations, columns, p);
          },
          "relinearize"_a, "rotations"_a, "columns"_a, "progress"_a = nb::none())
      .def(
          "decrypt",
          [](const SecretKey& k, const Ciphertext& c, const nb::object& progress, bool beyond_estimate, Proof proof) {
            const Progress p = progress_of(progress);
            std::vector<std::uint64_t> residues;
            {
              const Released released;
              residues = k.decrypt(c, p, beyond_estimate, proof);
            }
            Shape shape = c.shape();
            shape.insert(shape.begin(), c.parameters().spec().plain_moduli.size());
            shape.push_back(c.slots());
            return array_of(std::move(residues), shape);
          },
          "ciphertext"_a, "progress"_a = nb::none(), "beyond_estimate"_a = false, "proof"_a = Proof::any)
      .def("noise_budget", &SecretKey::noise_budget, "ciphertext"_a, "beyond_estimate"_a = false, Unlocked());
  m.def("inspect", &inspect, "path"_a, Unlocked());
  m.def("kind_of", &kind_of, "path"_a, Unlocked());
}

}  // namespace

void bind_exact(nb::module_& m) {
  bind_spec(m);
  bind_parameters(m);
  bind_ciphertext(m);
  bind_keys(m);
}
