#include "backend/null/tfhe.h"

namespace heliograph::backend::null {

using device::BootstrapShape;
using device::GateLayer;
using device::KeySwitchShape;
using device::PreparedBootstrap;
using device::PreparedKeySwitch;
using device::PreparedLayer;
using device::u32;
using device::u64;

std::shared_ptr<const PreparedBootstrap> NullTfheKernels::prepare(const BootstrapShape& shape, std::span<const u64> key) {
  shape.check();
  require<ShapeError>(key.size() == shape.words(), "a bootstrapping key of another size than its shape says");
  return std::make_shared<PreparedBootstrap>(shape);
}

std::shared_ptr<const PreparedKeySwitch> NullTfheKernels::prepare(const KeySwitchShape& shape, std::span<const u32> key) {
  shape.check();
  require<ShapeError>(key.size() == shape.words(), "a key-switching key of another size than its shape says");
  return std::make_shared<PreparedKeySwitch>(shape);
}

std::shared_ptr<const PreparedLayer> NullTfheKernels::prepare(GateLayer layer) {
  return std::make_shared<PreparedLayer>(std::move(layer));
}

}  // namespace heliograph::backend::null
