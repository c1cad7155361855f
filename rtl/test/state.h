// Access to registers of a model by name. The file state.vlt makes these registers public.
#pragma once

#include <verilated_sym_props.h>
#include <verilated_syms.h>
#include <cstddef>
#include <stdexcept>
#include <string>

#include "backend/rtl/clocked.h"

namespace heliograph::rtl {

/// Returns element `index` of register `name` of the top module `module`. T is the type by which Verilator represents the
/// register.
template <class T, class Model>
T& state(Clocked<Model>& model, const char* module, const char* name, std::size_t index = 0) {
  const VerilatedScope* scope = model->contextp()->scopeFind((std::string("TOP.") + module).c_str());
  const VerilatedVar* variable = scope ? scope->varFind(name) : nullptr;
  if (!variable) throw std::invalid_argument(std::string("no public register ") + module + "." + name);
  return static_cast<T*>(variable->datap())[index];
}

}  // namespace heliograph::rtl
