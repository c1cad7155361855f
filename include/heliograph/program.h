// Recorded programs: a function of ciphertext tensors, recorded once, replayed without its host's work. Of every scheme.
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

/// A tensor that a function takes, and the evaluation keys it computes with (those that the tensor's owner gave), if any.
struct Operand {
  AnyCiphertext tensor;
  AnyKeys keys = {};
};

/// What a function is called with, and all that decides what it does with that, the words of the tensors aside: parameters,
/// shapes and strides, levels, scales, noise and bounds, flags, which tensors share memory or keys, and what the keys can.
/// Equal signatures: the same calls, and results that say the same of themselves.
class Operands {
 public:
  explicit Operands(std::vector<Operand> list);
  const std::vector<Operand>& list() const { return list_; }
  const std::string& signature() const { return signature_; }
  /// The part of it without figures (noise, bounds, scales, flags). Where this is equal, calls are expected to be the same.
  const std::string& shapes() const { return shapes_; }

 private:
  std::vector<Operand> list_;
  std::string shapes_, signature_;
};

class RecordedProgram;

/// What this thread computes between its making and `finish` or `stop` is performed and recorded.
class Recording {
 public:
  /// `dry`: what reads the inputs' words is recorded alone. What was made of them meanwhile serves for `finish`, and is refused
  /// with RecordingError wherever its words are asked for.
  enum class Mode : unsigned char { performed, dry };
  explicit Recording(Operands inputs, Mode mode = Mode::performed);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  /// Ends it, on the thread that began it. Where one of `known` makes the same calls, the new program shares them with it, its
  /// constants and graphs included. Throws RecordingError where results are not what was computed meanwhile.
  RecordedProgram finish(const std::vector<AnyCiphertext>& results, const std::vector<RecordedProgram>& known);
  RecordedProgram finish(const std::vector<AnyCiphertext>& results);
  /// Ends it without a program.
  void stop();

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// What a program from a file may take. LimitError where it takes more.
struct ProgramLimits {
  std::uint64_t memory =
      0;  // bytes, of a call and of the tables of its parameters; 0: what the device has, and 1 GiB of tables
  std::uint64_t products = 10'000'000'000'000;  // modular products of a call: minutes of a core
};

/// It holds no input, result or key of its inputs' owner: any operands of the recorded signature are as good, and each replay
/// returns results of its own. What the function took from elsewhere (plaintexts, weights, other tensors, other keys) is
/// part of it.
class RecordedProgram {
 public:
  RecordedProgram() = default;
  /// The function's results for other operands, with the bits that the function itself would give. Throws MismatchError where
  /// their signature is not the recorded one. Safe from several threads.
  std::vector<AnyCiphertext> operator()(const Operands& operands) const;
  /// Of the operands it was recorded with.
  const std::string& signature() const;
  /// Whether both make the same calls, of which there is one recording.
  bool shares_calls_with(const RecordedProgram& other) const;

  struct Summary {
    std::map<std::string, std::size_t> calls;  // by kernel
    std::size_t launches = 0;                  // of a replay as a graph, where a device has such: alike calls together
    std::size_t depth = 0;                     // calls that must come one after another
    std::size_t peak_bytes = 0;                // memory that a replay makes at most at a time
    std::size_t constant_bytes = 0;            // memory that the program holds
    std::uint64_t bytes_read = 0, bytes_written = 0, products = 0;  // of a replay
    std::string cycles;                     // of the last replay on a simulated device, for a person; else empty
    std::uint64_t replays = 0, graphs = 0;  // so far, of all that share its calls; those that a device replayed as one graph
  };
  Summary summary() const;
  /// Seconds of a replay on the device in use; 0 where nothing is known (TFHE). The first call in a process measures the device
  /// for a fraction of a second.
  struct Times {
    double floor = 0;  // no less: inputs and results moved once, and the products
    double predicted =
        0;  // call by call, each bound by its operands' bytes or by its products; of several devices the schedule's
  };
  Times times() const;
  /// Of several devices: what each does in a replay, by prediction, for operands that lie as those of the last one did. All members
  /// together are one more lane, if the schedule has calls for them. No lanes on one device, and for TFHE before the first replay.
  struct Timeline {
    struct Event {
      std::string name;           // a call's; "fetch": copies of what lies on another member
      double start = 0, end = 0;  // seconds
    };
    struct Lane {
      std::string member;
      std::vector<Event> events;
    };
    std::vector<Lane> lanes;
    double seconds = 0;  // of the whole
  };
  Timeline timeline() const;

  /// What is said of the operands that it was recorded with, and of its results: tensors without words. A program from a file has no
  /// operands.
  std::vector<AnyCiphertext> taken() const;
  std::vector<AnyCiphertext> given() const;
  /// The evaluation keys that its calls use, ascending: 0 relinearizes; odd below 2^20, the automorphism of that Galois element; others are of
  /// bootstrapping. TFHE's have no numbers.
  std::vector<std::uint64_t> key_numbers() const;
  /// Of each result: "exact" (BFV and BGV), "ckks", "tfhe".
  std::vector<std::string> result_kinds() const;

  /// The program as data (docs/format.md), with a text of the caller's. It holds parameters, calls, constants and what is said of
  /// results, nothing of the function. Throws RecordingError for what only this process has: calls with a key that no operand
  /// brings, operands that share memory, secrets.
  std::vector<std::byte> to_bytes(const std::string& note = {}) const;
  /// The program on the device in use, and the text. It takes operands of the recorded kind that are no noisier than the recorded
  /// ones; nothing that it says of its results is vouched for. It is verified whole before anything of it is prepared, allocated or
  /// run (docs/adr/0032), and runs no code but its kernels. Throws FormatError and its kinds, OutOfMemoryError, LimitError.
  using Noted = std::pair<RecordedProgram, std::string>;
  static Noted from_bytes(std::span<const std::byte> bytes, const ProgramLimits& limits = {});
  // The same in a file, which is written all or nothing. FileError besides.
  void save(const std::string& path, const std::string& note = {}) const;
  static Noted load(const std::string& path, const ProgramLimits& limits = {});

  class State;
  explicit RecordedProgram(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  const State& state() const { return *state_; }

 private:
  friend class Recording;
  Handle<State> state_;
};

/// Records `function` and returns its results with the program.
std::pair<RecordedProgram, std::vector<AnyCiphertext>> record(const Operands& inputs,
                                                              const std::function<std::vector<AnyCiphertext>()>& function);
/// The program for operands whose signature none of `known` has: what it says of its results is what `function` says for these
/// operands. `function` is followed and not performed; where its calls are those of a known program, they are shared.
RecordedProgram follow(const Operands& inputs, const std::function<std::vector<AnyCiphertext>()>& function,
                       const std::vector<RecordedProgram>& known);

}  // namespace heliograph
