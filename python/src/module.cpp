#include <cstdlib>

#include "arrays.h"
#include "bindings.h"

namespace nb = nanobind;

bool heliograph::binding::is_main_thread() {
  static const auto main = nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  return PyThread_get_thread_ident() == main;
}

NB_MODULE(_core, m) {
  heliograph::binding::is_main_thread();
  m.doc() = "Heliograph's engine.";
  m.def("version", [] { return HELIOGRAPH_VERSION; });
  bind_errors(m);
  const auto part = [&m](const char* name, const char* doc, auto... binds) {
    nb::module_ made = m.def_submodule(name, doc);
    (binds(made), ...);
  };
  part("device", "The device of this process.", &bind_device);
  part("container", "Files of any type.", &bind_container);
  part("exact", "BFV and BGV.", &bind_exact, &bind_operations, &bind_clear_rows);
  part("ckks", "CKKS.", &bind_ckks, &bind_functions);
  part("tfhe", "TFHE.", &bind_tfhe);
  part("program", "Recorded programs.", &bind_program);
  part("cinnamon", "Programs of instructions.", &bind_cinnamon);
  part("pir", "Private look-up.", &bind_pir);
  part("switching", "Switching between CKKS and TFHE.", &bind_switching);
  // The stubs list the accepted arguments, not the last overload that refuses all others.
  if (std::getenv("NB_STUBGEN") == nullptr) refuse_other_arguments(m);
}
