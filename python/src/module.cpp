#include "bindings.h"

NB_MODULE(_core, m) {
  m.doc() = "Heliograph's engine.";
  bind_errors(m);
  bind_bfv(m);
  bind_operations(m);
  bind_tfhe(m);
  bind_ckks(m);
}
