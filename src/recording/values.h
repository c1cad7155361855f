// Ciphertexts and keys of every scheme as operands of a program.
#pragma once

#include "heliograph/program.h"
#include "program/program.h"
#include "ring/entropy.h"

namespace heliograph::recording {

using device::View;
using ring::KeyId;

/// The operands' key ids, each once, in the order in which they are first met: a program knows keys by their place here.
std::vector<KeyId> key_ids(const std::vector<Operand>& operands);

/// The views of a ciphertext's tensors.
std::vector<View> views_of(const AnyCiphertext& x);

/// A ciphertext without its words: what a replay fills in.
class Form {
 public:
  /// `operands` are what it was computed from.
  Form(const AnyCiphertext& x, const std::vector<Operand>& operands);
  /// How many tensors it has.
  std::size_t tensors() const { return tensors_; }
  /// The ciphertext with its words in `views`, computed from `operands`.
  AnyCiphertext filled(const View* views, const std::vector<Operand>& operands) const;

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  AnyCiphertext x_;
  std::size_t tensors_ = 0;
  std::size_t key_ = kNone;   // among key_ids
  std::size_t seed_ = kNone;  // the operand whose masks' seed it shares, where it shares one
};

/// The keys of an operand as a program takes them; null where it has none.
std::unique_ptr<program::KeySource> key_source(const AnyKeys& keys);

}  // namespace heliograph::recording
