// The parts of the extension: one for each submodule of _core.
#pragma once

#include <nanobind/nanobind.h>

void bind_errors(nanobind::module_& m);
void bind_device(nanobind::module_& m);
void bind_container(nanobind::module_& m);
void bind_exact(nanobind::module_& m);
void bind_operations(nanobind::module_& m);
void bind_clear_rows(nanobind::module_& m);
void bind_ckks(nanobind::module_& m);
void bind_functions(nanobind::module_& ckks_module);
void bind_tfhe(nanobind::module_& m);
void bind_program(nanobind::module_& m);
void bind_cinnamon(nanobind::module_& m);
void bind_pir(nanobind::module_& m);
void bind_switching(nanobind::module_& m);
/// Adds a last overload to every function, for calls whose arguments no function takes: they raise DtypeError.
void refuse_other_arguments(nanobind::module_& m);
