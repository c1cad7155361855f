#include "backend/null/tfhe.h"

#include <bit>

namespace heliograph::backend::null {

using device::BootstrapShape;
using device::GateLevel;
using device::KeySwitchShape;
using device::PreparedBootstrap;
using device::PreparedKeySwitch;
using device::PreparedLevel;
using device::Queue;
using device::u32;
using device::u64;
using device::View;

namespace {

u64 stored_items(const View& v) { return v.stride[0] == 0 && v.shape[0] > 0 ? 1 : v.items(); }

}  // namespace

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

std::shared_ptr<const PreparedLevel> NullTfheKernels::prepare(GateLevel level) {
  return std::make_shared<PreparedLevel>(std::move(level));
}

void NullTfheKernels::do_combine(Queue&, const PreparedLevel& prepared, const View& wires) {
  const GateLevel& level = prepared.level();
  const u64 words = wires.n - 63;  // the wide dimension is a multiple of 64
  std::vector<bool> read(level.wires());
  u64 sources = 0;
  for (u32 w : level.source) {
    sources += !read[w];
    read[w] = true;
  }
  counted_("combine", {.calls = 1,
                       .bytes_read = stored_items(wires) * sources * words * sizeof(u64),
                       .bytes_written = wires.items() * level.rows() * words * sizeof(u64),
                       .products = wires.items() * level.source.size() * words});
}

void NullTfheKernels::do_key_switch(Queue&, const PreparedKeySwitch& key, const PreparedLevel& level, const View& wires,
                                    const View&) {
  const KeySwitchShape& s = key.shape();
  const u64 samples = wires.items() * level.level().rows();
  counted_("key_switch",
           {.calls = 1,
            .bytes_read = stored_items(wires) * level.level().rows() * (s.from + 1) * sizeof(u64) + s.words() * sizeof(u32),
            .bytes_written = samples * (s.to + 1) * sizeof(u32),
            .products = samples * s.words()});
}

void NullTfheKernels::do_bootstrap(Queue&, const PreparedBootstrap& key, const PreparedLevel& prepared, const View& narrow,
                                   const View& wires) {
  const BootstrapShape& s = key.shape();
  const GateLevel& level = prepared.level();
  const u64 samples = wires.items() * level.rows(), m = s.degree / 2, log_m = static_cast<u64>(std::countr_zero(m));
  const u64 spectra = s.rows() * (s.k + 1) * s.values() + s.values() - 1, transforms = s.rows() + s.k + 1;
  counted_("bootstrap", {.calls = 1,
                         .bytes_read = stored_items(narrow) * level.rows() * (s.n + 1) * sizeof(u32) +
                                       (s.words() + level.tables.size()) * sizeof(u64),
                         .bytes_written = samples * level.outputs * (s.wide() + 1) * sizeof(u64),
                         .products = samples * s.groups() * (spectra * 4 * m + transforms * 2 * m * log_m)});
}

}  // namespace heliograph::backend::null
