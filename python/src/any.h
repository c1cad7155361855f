// Ciphertexts and keys of any scheme.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>

#include "heliograph/program.h"

namespace heliograph::binding {

namespace nb = nanobind;

template <class Any, class... Kinds>
Any any_of(const nb::handle& object, const char* what) {
  std::optional<Any> found;
  const auto take = [&]<class Kind>(std::type_identity<Kind>) {
    if (!found && nb::isinstance<Kind>(object)) found.emplace(nb::cast<const Kind&>(object));
  };
  (take(std::type_identity<Kinds>()), ...);
  if (!found)
    throw DtypeError(std::string("the argument must be a ") + what + ", got " +
                     nb::cast<std::string>(object.type().attr("__name__")));
  return std::move(*found);
}

inline AnyCiphertext ciphertext_of(const nb::handle& object) {
  return any_of<AnyCiphertext, exact::Ciphertext, ckks::Ciphertext, tfhe::Ciphertext>(object, "ciphertext tensor");
}

inline AnyKeys keys_of(const nb::handle& object) {
  if (object.is_none()) return {};
  return any_of<AnyKeys, exact::EvaluationKeys, ckks::EvaluationKeys, tfhe::EvaluationKeys>(object,
                                                                                            "set of evaluation keys");
}

}  // namespace heliograph::binding
