// Recorded programs: a function of ciphertext tensors is recorded once and replayed without its host code. For all schemes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "heliograph/ckks.h"
#include "heliograph/exact.h"
#include "heliograph/tfhe.h"

namespace heliograph {

using AnyCiphertext = std::variant<exact::Ciphertext, ckks::Ciphertext, tfhe::Ciphertext>;
using AnyKeys = std::variant<std::monostate, exact::EvaluationKeys, ckks::EvaluationKeys, tfhe::EvaluationKeys>;

/// A tensor argument, and the evaluation keys for it, if any.
struct Operand {
  AnyCiphertext tensor;
  AnyKeys keys = {};
};

/// The arguments of a recorded function, with their signature. The signature holds all data, except the words, that
/// determine the function's calls: parameters, shapes, strides, levels, scales, noise, bounds, flags, aliasing, and the
/// keys' contents. Equal signatures give the same calls and results with the same metadata. Guards of CKKS tensors are no
/// part of the operands: a program runs without them, and its results get them (ckks::drop_guards).
class Operands {
 public:
  explicit Operands(std::vector<Operand> list);
  /// Returns a result with the guards of all operands under the result's key.
  AnyCiphertext guarded(const AnyCiphertext& result) const;
  /// Returns the operands that have guards.
  const std::vector<AnyCiphertext>& with_guards() const;
  const std::vector<Operand>& list() const { return list_; }
  const std::string& signature() const { return signature_; }
  /// The signature without noise, bounds, scales and flags. Arguments with equal shapes are expected to give the same calls.
  const std::string& shapes() const { return shapes_; }

 private:
  std::vector<Operand> list_;
  std::vector<AnyCiphertext> guarded_;  // the operands that have guards, with their guards
  std::string shapes_, signature_;
};

class RecordedProgram;

/// Executes and records this thread's computations from construction to `finish` or `stop`.
class Recording {
 public:
  /// `dry`: calls that read the inputs' words are recorded but not performed. The tensors made from them serve only as
  /// arguments of `finish`; reading their words throws RecordingError.
  enum class Mode : unsigned char { performed, dry };
  explicit Recording(Operands inputs, Mode mode = Mode::performed);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  /// Ends the recording, on the thread that began it. If a program of `known` makes the same calls, the new program shares
  /// them, with their constants and graphs. Throws RecordingError if a result was not computed during the recording.
  RecordedProgram finish(const std::vector<AnyCiphertext>& results, const std::vector<RecordedProgram>& known);
  RecordedProgram finish(const std::vector<AnyCiphertext>& results);
  /// Ends the recording without a program.
  void stop();

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// Limits on a program from a file. A program that exceeds a limit causes a LimitError.
struct ProgramLimits {
  std::uint64_t memory =
      0;  // bytes of a replay and of its parameters' tables; 0: the device's free memory, and 1 GiB for tables
  std::uint64_t products = 10'000'000'000'000;  // modular products of a replay; the default takes minutes on one core
};

/// A program holds no input, result or key of its inputs' owner. The program accepts any operands of the recorded signature,
/// and each replay returns new results. Other values that the recorded function used (plaintexts, weights, tensors, keys)
/// are part of the program.
class RecordedProgram {
 public:
  RecordedProgram() = default;
  /// Returns the function's results for other operands, with the bits that the function itself would return. Throws
  /// MismatchError if their signature is not the recorded one. Thread-safe.
  std::vector<AnyCiphertext> operator()(const Operands& operands) const;
  /// Returns the signature of the recorded operands.
  const std::string& signature() const;
  /// Returns whether both programs share one recording of the same calls.
  bool shares_calls_with(const RecordedProgram& other) const;

  struct Summary {
    std::map<std::string, std::size_t> calls;  // number of calls of a replay, by kernel
    std::size_t launches = 0;        // launches of a replay as a graph, with equal calls merged, if the device has graphs
    std::size_t depth = 0;           // longest chain of dependent calls
    std::size_t peak_bytes = 0;      // peak memory of a replay
    std::size_t constant_bytes = 0;  // memory that the program holds
    std::uint64_t bytes_read = 0, bytes_written = 0, products = 0;  // bytes and modular products of a replay
    std::string cycles;  // report of the last replay on a simulated device; else empty
    std::uint64_t replays = 0,
                  graphs = 0;  // replays so far, of all programs that share these calls; `graphs`: replays as a graph
  };
  Summary summary() const;
  /// Predicted seconds of a replay on the device in use; 0 if unknown (TFHE). The first call in a process benchmarks the
  /// device for a fraction of a second.
  struct Times {
    double floor = 0;  // lower bound: inputs and results moved once, and all products
    /// Sum over all calls; each call takes the time of its bytes or of its products, whichever is longer. On several
    /// devices, the length of the schedule.
    double predicted = 0;
  };
  Times times() const;
  /// Predicted schedule of a replay on several devices, for operands placed as in the last replay. Calls that all members
  /// perform together have a lane of their own. On one device, and for TFHE before the first replay, there are no lanes.
  struct Timeline {
    struct Event {
      std::string name;           // name of a call; "fetch": copies from another member
      double start = 0, end = 0;  // seconds
    };
    struct Lane {
      std::string member;
      std::vector<Event> events;
    };
    std::vector<Lane> lanes;
    double seconds = 0;  // length of the schedule
  };
  Timeline timeline() const;

  /// Metadata of the recorded operands and of the results: tensors without words. A program from a file has no operands.
  std::vector<AnyCiphertext> operands() const;
  std::vector<AnyCiphertext> results() const;
  /// Returns the numbers of the evaluation keys that the calls use, ascending. The number 0 is relinearization. An odd
  /// number below 2^20 is the automorphism of that Galois element. All other numbers are keys of bootstrapping. TFHE keys
  /// have no numbers.
  std::vector<std::uint64_t> key_numbers() const;
  /// Returns the scheme of each result: "exact" (BFV and BGV), "ckks", "tfhe".
  std::vector<std::string> result_kinds() const;

  /// Serialises the program (docs/format.md) with the caller's `note`. The bytes hold parameters, calls, constants and
  /// the results' metadata. Throws RecordingError for contents that a file cannot hold: evaluation keys that are not
  /// those of an operand, aliased operands, secrets.
  std::vector<std::byte> to_bytes(const std::string& note = {}) const;
  /// Returns the program, on the device in use, and its note. The program accepts operands of the recorded kind whose noise
  /// is at most the noise of the recorded operands. The metadata of its results is untrusted. The whole program is verified
  /// before any part of it is prepared, allocated or run (docs/adr/0032), and runs only kernels. Throws FormatError or a
  /// subclass, OutOfMemoryError, LimitError.
  using Noted = std::pair<RecordedProgram, std::string>;
  static Noted from_bytes(std::span<const std::byte> bytes, const ProgramLimits& limits = {});
  // Saves the program to a file, atomically; loads a program from a file. May also throw FileError.
  void save(const std::string& path, const std::string& note = {}) const;
  static Noted load(const std::string& path, const ProgramLimits& limits = {});

  class State;
  explicit RecordedProgram(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  const State& state() const { return *state_; }

 private:
  friend class Recording;
  Handle<State> state_;
};

/// Records `function`; returns the program and the function's results.
std::pair<RecordedProgram, std::vector<AnyCiphertext>> record(const Operands& inputs,
                                                              const std::function<std::vector<AnyCiphertext>()>& function);
/// Returns the program for operands whose signature no program of `known` has. Records `function` without performing it, for
/// the results' metadata. Calls equal to the calls of a known program are shared with that program.
RecordedProgram follow(const Operands& inputs, const std::function<std::vector<AnyCiphertext>()>& function,
                       const std::vector<RecordedProgram>& known);

}  // namespace heliograph
