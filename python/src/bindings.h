// The extension's parts.
#pragma once

#include <nanobind/nanobind.h>

void bind_errors(nanobind::module_& m);
void bind_exact(nanobind::module_& m);
void bind_operations(nanobind::module_& m);
void bind_tfhe(nanobind::module_& m);
void bind_ckks(nanobind::module_& m);
void bind_program(nanobind::module_& m);
void bind_cinnamon(nanobind::module_& m);
void bind_clear_rows(nanobind::module_& m);
void bind_lookup(nanobind::module_& m);
/// After all of these: calls with arguments that none of them takes raise DtypeError.
void refuse_other_arguments(nanobind::module_& m);
