#include "arrays.h"
#include "bindings.h"

bool heliograph::binding::is_main_thread() {
  static const auto main = nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  return PyThread_get_thread_ident() == main;
}

NB_MODULE(_core, m) {
  heliograph::binding::is_main_thread();
  m.doc() = "Heliograph's engine.";
  m.def("version", [] { return HELIOGRAPH_VERSION; });
  bind_errors(m);
  bind_exact(m);
  bind_operations(m);
  bind_tfhe(m);
  bind_ckks(m);
  bind_program(m);
  bind_cinnamon(m);
  bind_clear_rows(m);
  bind_lookup(m);
  // The stub is made of the module alone: it tells what calls take, not that others are refused.
  if (nanobind::cast<std::string>(m.attr("__name__")).find('.') != std::string::npos) refuse_other_arguments(m);
}
