// Guards: ciphertexts that show at decryption whether the arguments of a function were inside their declared interval.
//
// A guard holds T_k(u)^2 per slot, for an argument u that a caller declared to be in [-1, 1] and a Chebyshev polynomial T_k.
// The square is at most 1 inside and grows as cosh(k arcosh |u|)^2 outside. Sums of such squares guard several ciphertexts
// and operations, because no square is negative: an argument outside cannot be hidden by others.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "io/json.h"
#include "ring/tensor.h"
#include "rlwe/keys.h"

namespace heliograph::ckks {

class Context;
struct CiphertextData;
struct SecretKeyData;

struct Guard {
  /// Identity of one guarded argument. A copy of a guard has the same parts, so that it is not added to itself.
  using Part = std::shared_ptr<const char>;
  static Part part();

  std::vector<std::string> operations;            // names of the guarded operations, each once
  std::shared_ptr<const CiphertextData> squares;  // one ciphertext of degree 2 at level 1, without guards of its own
  double limit = 0;                               // largest sum for arguments inside, `noise` included
  double noise = 0;                               // bound on the error of the sum
  double power = 1;                               // the smallest k of all summands
  std::vector<Part> parts;                        // ascending addresses

  /// Returns the share of half the interval's length by which an argument must be outside to be noticed for certain.
  double excess() const;
};

/// The guards of a tensor. Operations unite the guards of their operands.
class Guards {
 public:
  using Item = std::shared_ptr<const Guard>;
  /// Largest number of a tensor's guards. More guards are joined by sums; guards of the same operation are joined first.
  /// Guards that cannot be joined (their sum would not fit the modulus, or their scales differ) may exceed the number.
  static constexpr std::size_t kMost = 8;

  bool empty() const { return list_.empty(); }
  const std::vector<Item>& list() const { return list_; }
  static Guards of(std::vector<Item> list);
  static Guards joined(const Guards& a, const Guards& b);

 private:
  std::vector<Item> list_;  // in order of computation
};

/// Largest number of guards in a file.
inline constexpr std::size_t kGuardsInFile = 256;
/// Writes everything of guards except their words to a header.
io::Json described(const Guards& guards);
/// Reads guards. `words` returns the words of each, at level 1. Throws DamagedFileError.
Guards guards_from(const io::Json& list, const std::shared_ptr<Context>& context, const rlwe::KeyId& key,
                   const std::function<ring::RnsTensor()>& words);

/// New parts for copies of guards that a replay of a program computes anew.
using NewParts = std::map<const char*, Guard::Part>;

/// Throws OutOfIntervalError if a guard shows an argument outside its interval.
void require_silent(const SecretKeyData& key, const CiphertextData& x);

}  // namespace heliograph::ckks
