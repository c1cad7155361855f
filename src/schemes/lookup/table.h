// The server's half.
#pragma once

#include <set>
#include <shared_mutex>

#include "schemes/lookup/parameters.h"

namespace heliograph::lookup {

struct TableData {
  using View = device::View;
  TableData(const Size& size, const Key256& seed, const std::string& device);

  /// Columns [first, first + kBlock), as they are wanted on the device: [column][row].
  static constexpr std::size_t kBlock = 64;
  View block(std::size_t first) const { return bytes.with_components(first, kBlock); }
  /// The hint of a block's columns, from its bytes.
  void prepare_hint(std::size_t first, std::span<const unsigned char> block);
  /// The digits of some packs, and their masks, from the hint (packing.cpp).
  void pack(const std::vector<std::size_t>& packs);
  std::size_t packs() const { return size.columns / kDegree; }
  /// Packs those whose hint has changed; what an interruption leaves of them the next one does.
  void repack();

  const Size size;
  const Key256 seed;
  const std::shared_ptr<device::Device> device;
  const std::shared_ptr<Engine> exact, packing;
  const std::unique_ptr<device::Queue> uploads, downloads;
  RnsTensor masks;        // of questions
  View bytes;             // 32-bit words, a component for each column
  std::vector<u32> hint;  // p_j, [column][N]
  /// NTT domain: [turn][pack], and of the last key [pack].
  RnsTensor digits, last;
  /// Of the turns and the two ways' beginnings: where the automorphism's values come from, [turn][N].
  std::vector<u32> tables;
  std::vector<device::PermutationHandle> turns;
  std::vector<std::uint8_t> answer_masks;  // [column][kMaskBytes]
  std::set<std::size_t> stale;             // packs that are not of their hint
  mutable std::shared_mutex mutex;

 private:
  void pack_some(std::span<const std::size_t> packs);
};

}  // namespace heliograph::lookup
