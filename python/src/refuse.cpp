// A typed error for unsupported arguments, in place of nanobind's list of signatures.
#include <nanobind/stl/string.h>

#include <optional>
#include <vector>

#include "arrays.h"
#include "bindings.h"

namespace nb = nanobind;
using namespace heliograph;

namespace {

/// Accepts any object, but only when conversions are allowed: by then all real signatures have refused the call, without and
/// with conversions.
struct LastResort {
  nb::handle given;
};

}  // namespace

namespace nanobind::detail {

template <>
struct type_caster<LastResort> {
  NB_TYPE_CASTER(LastResort, const_name("object"))
  bool from_python(handle given, std::uint32_t flags, cleanup_list*) noexcept {
    value.given = given;
    return (flags & cast_flags::convert) != 0;
  }
  static handle from_cpp(const LastResort& v, rv_policy, cleanup_list*) noexcept { return v.given.inc_ref(); }
};

}  // namespace nanobind::detail

namespace {

/// Describes a number or a short string by its value, any other object by its type.
std::string described(nb::handle object) {
  constexpr std::size_t kLongest = 40;
  if (PyLong_CheckExact(object.ptr()) || PyFloat_CheckExact(object.ptr()) || PyUnicode_CheckExact(object.ptr())) {
    try {
      const std::string text = nb::repr(object).c_str();
      if (text.size() <= kLongest) return text;
    } catch (const nb::python_error&) {  // Python cannot convert an integer of thousands of digits, or a lone surrogate
    }
  }
  // Schemes have classes of the same names: "ckks.Ciphertext".
  const std::string module = nb::cast<std::string>(object.type().attr("__module__"));
  constexpr std::string_view kEngine = "heliograph._core.";
  return (module.starts_with(kEngine) ? module.substr(kEngine.size()) + "." : "") + binding::type_of(object);
}

[[noreturn]] void refuse(const std::string& name, const LastResort& first, const nb::args& others, const nb::kwargs& named) {
  std::string list = described(first.given);
  for (nb::handle other : others) list += ", " + described(other);
  for (const auto [key, value] : named) list += ", " + nb::cast<std::string>(key) + "=" + described(value);
  throw DtypeError(name + " does not take (" + list + "): an argument has a wrong type or scheme, or is out of range");
}

/// Adds a last overload of the function or method `name`.
void refuse_others_of(nb::handle scope, const std::string& name, bool is_method) {
  if (is_method) {
    nb::cpp_function_def([name](nb::handle, const LastResort& first, const nb::args& others,
                                const nb::kwargs& named) { refuse(name, first, others, named); },
                         nb::scope(scope), nb::name(name.c_str()), nb::is_method(), nb::arg().none(), nb::arg("others"),
                         nb::arg("named"));
  } else {
    nb::cpp_function_def([name](const LastResort& first, const nb::args& others,
                                const nb::kwargs& named) { refuse(name, first, others, named); },
                         nb::scope(scope), nb::name(name.c_str()), nb::arg().none(), nb::arg("others"), nb::arg("named"));
  }
}

void refuse_others_in(nb::handle scope) {
  std::vector<std::pair<std::string, bool>> found;  // names, and whether they are methods
  for (const auto [key, value] : nb::borrow<nb::dict>(scope.attr("__dict__").attr("copy")())) {
    const std::string name = nb::cast<std::string>(key), kind = binding::type_of(value);
    if (nb::isinstance<nb::type_object>(value) || nb::isinstance<nb::module_>(value)) refuse_others_in(value);
    if (name.starts_with("__")) continue;  // operators return NotImplemented themselves
    if (kind == "nb_func" || kind == "nb_method") found.emplace_back(name, kind == "nb_method");
  }
  for (const auto& [name, is_method] : found) refuse_others_of(scope, name, is_method);
}

}  // namespace

void refuse_other_arguments(nb::module_& m) { refuse_others_in(m); }
