// Table of loops for a transform arithmetic and an element-wise arithmetic.
#pragma once

#include "backend/cpu/loops/ntt_network.h"
#include "backend/cpu/loops/word_loops.h"

namespace heliograph::backend::cpu {
namespace {

/// The caller sets `uniform` and `spread`. Vector loops process 64 words at a time.
template <class Transform, class Words>
constexpr LimbOps limb_loops(const char* name) {
  using N = Network<Transform>;
  using L = WordLoops<Words>;
  constexpr std::size_t kLeast = Transform::kLanes > 1 ? 64 : 1;
  return {.name = name,
          .least_degree = N::kBlock < kLeast ? kLeast : N::kBlock,
          .table_bytes = N::table_bytes,
          .fill_forward = N::fill,
          .fill_inverse = N::fill,
          .forward = network_forward<Transform>,
          .inverse = network_inverse<Transform>,
          .add = L::add,
          .sub = L::sub,
          .neg = L::neg,
          .mul = L::mul,
          .mul_constant = L::mul_constant,
          .add_constant = L::add_constant,
          .dot = L::dot,
          .dot_pair = L::dot_pair,
          .scaled_sum = L::scaled_sum,
          .weighted_sum = L::weighted_sum,
          .permute = L::permute,
          .permute_eights = nullptr,
          .uniform = nullptr,
          .spread = nullptr};
}

}  // namespace
}  // namespace heliograph::backend::cpu
