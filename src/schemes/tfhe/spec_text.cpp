#include "schemes/tfhe/spec_text.h"

#include <cmath>

namespace heliograph::tfhe {

namespace {

io::Json to_json(const Noise& n) { return io::Json::object({{"tuniform", n.tuniform}, {"value", n.value}}); }

Noise noise_from_json(const io::Json& j) {
  j.require_only({"tuniform", "value"}, "noise");
  const Noise n{.tuniform = j.bool_at("tuniform"), .value = j.double_at("value")};
  if (!(std::abs(n.value) <= 64)) throw DamagedFileError("the magnitude of a noise value must be at most 64");
  return n;
}

}  // namespace

io::Json to_json(const Spec& s) {
  return io::Json::object({{"scheme", "tfhe"},
                           {"name", s.name},
                           {"n", s.n},
                           {"k", s.k},
                           {"degree", s.degree},
                           {"lwe_noise", to_json(s.lwe_noise)},
                           {"glwe_noise", to_json(s.glwe_noise)},
                           {"bootstrap_log_base", s.bootstrap_log_base},
                           {"bootstrap_levels", s.bootstrap_levels},
                           {"switch_log_base", s.switch_log_base},
                           {"switch_levels", s.switch_levels},
                           {"group", s.group},
                           {"message_bits", s.message_bits},
                           {"carry_bits", s.carry_bits},
                           {"norm", s.norm},
                           {"insecure", s.insecure}});
}

Spec spec_from_json(const io::Json& j) {
  j.require_only({"scheme", "name", "n", "k", "degree", "lwe_noise", "glwe_noise", "bootstrap_log_base", "bootstrap_levels",
                  "switch_log_base", "switch_levels", "group", "message_bits", "carry_bits", "norm", "insecure"},
                 "parameters");
  if (j.string_at("scheme", 16) != "tfhe") throw DamagedFileError("the scheme of the parameters must be tfhe");
  const auto small = [&](const char* key) { return static_cast<unsigned>(j.unsigned_at(key, 1 << 20)); };
  Spec s;
  s.name = j.string_at("name", 64);
  s.n = small("n"), s.k = small("k"), s.degree = small("degree");
  s.lwe_noise = noise_from_json(j.object_at("lwe_noise"));
  s.glwe_noise = noise_from_json(j.object_at("glwe_noise"));
  s.bootstrap_log_base = small("bootstrap_log_base"), s.bootstrap_levels = small("bootstrap_levels");
  s.switch_log_base = small("switch_log_base"), s.switch_levels = small("switch_levels");
  s.group = small("group"), s.message_bits = small("message_bits"), s.carry_bits = small("carry_bits");
  s.norm = small("norm"), s.insecure = j.bool_at("insecure");
  return s;
}

std::string short_text(const Spec& s) {
  return (s.name.empty() ? "" : s.name + " ") + "(n=" + std::to_string(s.n) + ", k=" + std::to_string(s.k) +
         ", N=" + std::to_string(s.degree) + ")";
}

}  // namespace heliograph::tfhe
