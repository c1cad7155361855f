// Ciphertexts and keys of every scheme as operands of a program.
#pragma once

#include <variant>

#include "heliograph/program.h"
#include "io/json.h"
#include "program/verify.h"
#include "ring/entropy.h"
#include "schemes/ckks/ranges.h"
#include "schemes/exact/bound.h"

namespace heliograph::recording {

using device::View;
using ring::KeyId;

/// The operands' key ids, each once, in the order in which they are first met: a program knows keys by their place here.
std::vector<KeyId> key_ids(const std::vector<Operand>& operands);

/// The views of a ciphertext's tensors.
std::vector<View> views_of(const AnyCiphertext& x);

using AnyContext =
    std::variant<std::shared_ptr<exact::Context>, std::shared_ptr<ckks::Context>, std::shared_ptr<tfhe::Context>>;
AnyContext context_of(const AnyCiphertext& x);

/// What operands must be for a program from a file, which has no function to ask again.
struct Takes {
  std::string text;  // equal where a program's calls are right for both
  std::vector<double>
      limits;  // assumed figures of noise and size, flags that make them smaller: results' grow with them; NaN: unknown
  std::vector<ckks::Ranges> ranges;  // assumed ones, of each operand of CKKS
  std::vector<AnyContext> contexts;  // of each operand
  std::vector<exact::Growth>
      bounds;  // on the integers of each operand of BFV and BGV; of sessions by their place among the operands'
  std::size_t keys = 0, sources = 0;  // different owners; operands with evaluation keys

  /// The tensors of the operands, as the text has them, of these contexts. Throws DamagedFileError for a text that is none.
  std::vector<program::InputForm> inputs() const;

  explicit Takes(const std::vector<Operand>& operands);
  Takes() = default;
};

/// A ciphertext without its words: what a replay fills in.
class Form {
 public:
  /// `operands` are what it was computed from.
  Form(const AnyCiphertext& x, const std::vector<Operand>& operands);
  /// How many tensors it has.
  std::size_t tensors() const { return tensors_; }
  /// The ciphertext with its words in `views`, computed from `operands`.
  AnyCiphertext filled(const View* views, const std::vector<Operand>& operands) const;
  AnyContext context() const { return context_of(x_); }
  /// The moduli of each tensor's limbs; none of LWE ciphertexts.
  std::vector<std::vector<math::u64>> moduli() const;
  /// What is said of it; its words are not there.
  const AnyCiphertext& said() const { return x_; }

  // In a file: nothing is vouched for that was read.

  /// Throws RecordingError for a result of a key that no operand has.
  io::Json describe(std::size_t parameters) const;
  /// `views` moves on behind those of its tensors. Throws DamagedFileError.
  Form(const io::Json& from, const AnyContext& context, const View*& views, std::size_t keys);
  /// The same of whose noise and size nothing is known.
  Form unknown() const;
  /// The same of the size of whose integers nothing is known.
  Form unbounded() const;

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  AnyCiphertext x_;
  std::size_t tensors_ = 0;
  std::size_t key_ = kNone;      // among key_ids
  std::size_t seed_ = kNone;     // the operand whose masks' seed it shares, where it shares one
  std::size_t session_ = kNone;  // among the sessions of the operands' bounds
};

/// The keys of an operand as a program takes them; null where it has none.
std::unique_ptr<program::KeySource> key_source(const AnyKeys& keys);

}  // namespace heliograph::recording
