// The server of a table.
#pragma once

#include <set>
#include <shared_mutex>

#include "schemes/lookup/parameters.h"

namespace heliograph::lookup {

struct TableData {
  using View = device::View;
  TableData(const Size& size, const Key256& seed, const std::string& device);

  /// Columns [first, first + kBlock) on the device: [column][row].
  static constexpr std::size_t kBlock = 64;
  View block(std::size_t first) const { return bytes.with_components(first, kBlock); }
  /// Computes the hint of a block's columns from its bytes.
  void prepare_hint(std::size_t first, std::span<const unsigned char> block);
  /// Computes the digits and masks of `packs` from the hint (packing.cpp).
  void pack(const std::vector<std::size_t>& packs);
  std::size_t packs() const { return size.columns / kDegree; }
  /// Packs the packs in `stale`. If a call is interrupted, the next call packs the remaining columns.
  void repack();

  const Size size;
  const Key256 seed;
  const std::shared_ptr<device::Device> device;
  const std::shared_ptr<Engine> exact, packing;
  const std::unique_ptr<device::Queue> uploads, downloads;
  RnsTensor masks;        // masks of questions
  View bytes;             // 32-bit words, one component per column
  std::vector<u32> hint;  // masks p_j: [column][N]
  /// digits in the NTT domain: [turn][pack]; digits of the last key: [pack].
  RnsTensor digits, last;
  /// Source indices of the automorphisms' values: for each turn, then for the first steps of both paths. [turn][N].
  std::vector<u32> tables;
  std::vector<device::PermutationHandle> turns;
  std::vector<std::uint8_t> answer_masks;  // masks: [column][kMaskBytes]
  std::set<std::size_t> stale;             // packs whose hint changed after they were packed
  mutable std::shared_mutex mutex;

 private:
  void pack_some(std::span<const std::size_t> packs);
};

}  // namespace heliograph::lookup
