#include "backend/cpu/limb_ops.h"

namespace heliograph::backend::cpu {

const Level& avx2_level() { return scalar_level(); }

}  // namespace heliograph::backend::cpu
