// Ciphertexts and keys of every scheme as operands of a program.
#pragma once

#include <variant>

#include "heliograph/program.h"
#include "io/json.h"
#include "program/verify.h"
#include "ring/entropy.h"
#include "schemes/ckks/guards.h"
#include "schemes/ckks/ranges.h"
#include "schemes/exact/bound.h"

namespace heliograph::recording {

using device::View;
using ring::KeyId;

/// Returns the operands' key ids, each once, in order of first occurrence. A program refers to a key by its index in this
/// list.
std::vector<KeyId> key_ids(const std::vector<Operand>& operands);

std::vector<View> views_of(const AnyCiphertext& x);

/// Returns a result without the guards of the operands. Throws RecordingError if these guards were joined with other guards.
AnyCiphertext without_guards_of(const std::vector<AnyCiphertext>& operands, const AnyCiphertext& result);

using AnyContext =
    std::variant<std::shared_ptr<exact::Context>, std::shared_ptr<ckks::Context>, std::shared_ptr<tfhe::Context>>;
AnyContext context_of(const AnyCiphertext& x);

/// Requirements on the operands of a program from a file. A program from a file has no function that could be recorded
/// again.
struct Takes {
  std::string text;  // programs with equal texts have the same calls
  std::vector<double>
      limits;  // assumed noise and size, and flags that reduce them; they limit the noise and size of results; NaN: unknown
  std::vector<double> spreads;        // limits on the assumed noise spreads of each CKKS operand; empty in older files
  std::vector<ckks::Ranges> ranges;   // assumed ranges of each CKKS operand
  std::vector<AnyContext> contexts;   // context of each operand
  std::vector<exact::Growth> bounds;  // bounds on the integers of each BFV and BGV operand; sessions are indices
  std::size_t keys = 0, sources = 0;  // number of distinct key owners; number of operands with evaluation keys

  /// Returns the input tensors that the text describes, for these contexts. Throws DamagedFileError for an invalid text.
  std::vector<program::InputForm> inputs() const;

  explicit Takes(const std::vector<Operand>& operands);
  Takes() = default;
};

/// A result's ciphertext without words. A replay provides the words.
class Form {
 public:
  /// `operands`: the operands from which x was computed.
  Form(const AnyCiphertext& x, const std::vector<Operand>& operands);
  std::size_t tensors() const { return tensors_; }
  /// Returns the ciphertext with its words in `views`, computed from `operands`. `parts`: the parts of the replay's guards.
  AnyCiphertext filled(const View* views, const std::vector<Operand>& operands, ckks::NewParts& parts) const;
  AnyContext context() const { return context_of(x_); }
  /// Returns the moduli of each tensor's limbs; none for LWE ciphertexts.
  std::vector<std::vector<math::u64>> moduli() const;
  /// Returns the metadata as a ciphertext without words.
  const AnyCiphertext& said() const { return x_; }

  // File form: metadata that was read is not trusted.

  /// Throws RecordingError for a result with a key that no operand has.
  io::Json describe(std::size_t parameters) const;
  /// Reads the form of a result whose words are in `views`, and advances `views` past its tensors. Throws
  /// DamagedFileError.
  Form(const io::Json& from, const AnyContext& context, const View*& views, std::size_t keys);
  Form unknown() const;
  /// Returns the form with unknown bounds on its integers.
  Form unbounded() const;

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  AnyCiphertext x_;
  std::size_t tensors_ = 0;
  std::size_t key_ = kNone;      // index of the result's key in key_ids
  std::size_t seed_ = kNone;     // operand with the same mask seed, if any
  std::size_t session_ = kNone;  // index of the bound's session in the operands' list of sessions
};

/// Returns the keys of an operand as a program uses them; null if it has none.
std::unique_ptr<program::KeySource> key_source(const AnyKeys& keys);

}  // namespace heliograph::recording
