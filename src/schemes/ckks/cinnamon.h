// Programs of instructions as CKKS runs them.
#pragma once

#include "heliograph/cinnamon.h"
#include "program/limbs/link.h"
#include "schemes/ckks/context.h"

namespace heliograph::cinnamon {

struct Program::State {
  program::limbs::Text text;
  std::shared_ptr<const program::limbs::Linked> linked;  // for one device
};

/// The primes of a program's key in a set: its level's, then the special ones it uses. None where the set lacks some.
std::optional<rlwe::KeyLayout> layout_of(const rlwe::Context& context, const program::limbs::Key& key);
/// Throws ParameterError unless the set has one prime a level, and as many as the program needs.
void require_fit(const ckks::Context& context, const program::limbs::Linked& program);

}  // namespace heliograph::cinnamon
