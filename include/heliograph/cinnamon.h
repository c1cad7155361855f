// Programs in the Cinnamon instruction set, whose instructions work on single limbs, as its public compiler writes them
// (docs/cinnamon.md): one instruction stream per chip. Compiled programs run on CKKS ciphertexts; programs written from a
// recorded program run on its scheme's ciphertexts, CKKS or BGV.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heliograph/program.h"

namespace heliograph::cinnamon {

/// Pairs of a file's name and its text.
using Files = std::vector<std::pair<std::string, std::string>>;

/// An input or output of a program.
struct Item {
  enum class Kind : unsigned char { ciphertext, plaintext, scalar };
  Kind kind = Kind::ciphertext;
  std::string name;
  std::size_t level = 0;  // lowest level that an input may have
};

class Program {
 public:
  /// Loads the output folder of a compiler: the files instructions0, inputs0, ... of each chip, and program_inputs. Throws
  /// FileError, InstructionError.
  static Program load(const std::string& folder);
  /// Parses the same files from texts and ignores files of other names. Throws InstructionError, which names file, line and
  /// word.
  static Program parse(const Files& files);
  /// Returns the program's files.
  Files files() const;

  std::size_t chips() const;
  std::size_t instructions() const;
  std::map<std::string, std::size_t> counts() const;  // number of instructions by name
  std::vector<Item> inputs() const;
  std::vector<Item> outputs() const;
  /// Returns the names of the required evaluation keys: "K:type:level:extension:steps:[digit][digit]".
  std::vector<std::string> keys() const;
  /// Return the required numbers of chain primes and special primes.
  std::size_t levels() const;
  std::size_t special() const;

  /// Returns a suitable set: 32-bit words, one prime of about `bits` bits per level.
  ckks::Spec spec(std::size_t n, double bits = 27.8, bool insecure = false) const;
  /// Returns the scales of plaintexts and scalars, inferred from the `given` ones. All ciphertexts are assumed to have
  /// the scale of their level; the summands of a sum then have equal scales. Throws ScaleError, which names the line.
  std::map<std::string, double> scales(const ckks::Parameters& parameters, const std::map<std::string, double>& given = {},
                                       double tolerance = 0x1p-20) const;
  /// Returns `base` with the additional keys that this program needs.
  ckks::EvaluationKeys keys(const ckks::SecretKey& secret, const ckks::EvaluationKeys& base) const;
  exact::EvaluationKeys keys(const exact::SecretKey& secret, const exact::EvaluationKeys& base) const;

  struct State;
  explicit Program(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  const State& state() const { return *state_; }

 private:
  Handle<State> state_;
};

/// Constants of a recording that was written as a program, and the metadata of its results.
struct Words;

/// Plaintexts and scalars of a program.
struct Constants {
  /// Constants of a program made by `write`; such a program needs no other constants.
  std::shared_ptr<const Words> words;
  std::map<std::string, ckks::Plaintext> plaintexts;
  /// Values by the name of their plaintext, one item each. The values are encoded at the scale that the program needs
  /// (Program::scales).
  std::map<std::string, ckks::Values> values;
  std::map<std::string, double> scalars;
  /// Scales of plaintexts and scalars by name, at least 1; override inferred scales.
  std::map<std::string, double> scales;
  /// Largest relative difference between the scales of a sum.
  double tolerance = 0x1p-20;
};

/// Optimisations and devices of a run. Disable an optimisation only to measure its effect.
struct Execution {
  bool fused = true;   // fuses element-wise instructions between two transforms into one sum
  bool merged = true;  // merges independent instructions of one kind into one call
  /// Replay as a device graph, if the device has graphs: calls in one stream, or in parallel branches.
  enum class Graph : unsigned char { none, stream, branches };
  Graph graph = Graph::branches;
  bool hints = true;  // keeps keys and plaintexts, which are read once, out of caches if the device can
  /// Devices for chips, in addition to the keys' own device, which comes first.
  std::vector<std::string> devices;
  /// Bytes on each device for intermediate values; 0: the free memory. Values beyond this limit are swapped to the host.
  std::size_t memory = 0;
};

/// A program with keys and constants, ready for repeated runs. Copies share its memory.
class Runner {
 public:
  /// Throws MissingKeyError; MismatchError; ParameterError if the set does not fit the program; InstructionError.
  Runner(const Program& program, const AnyKeys& keys, Constants constants = {}, Execution how = {});
  /// Runs the program and returns its results by name. Ciphertexts must have one shape, degree 1, and at least the level
  /// that the program needs. Throws LevelError, ShapeError, ScaleError, WrongKeyError, MismatchError, OutOfMemoryError.
  /// Thread-safe; runs of one program are serialised.
  std::map<std::string, AnyCiphertext> operator()(const std::map<std::string, AnyCiphertext>& inputs) const;

  struct Summary {
    std::map<std::string, std::size_t> calls;  // calls of one run, by kernel
    std::uint64_t bytes_read = 0, bytes_written = 0, products = 0;
    std::size_t bytes = 0;  // memory for values, keys excluded
    std::size_t devices = 0;
    std::size_t host_bytes = 0, bytes_out = 0,
                bytes_in = 0;              // host memory for swapped values; bytes that a run moves to the host and back
    std::map<std::string, double> scales;  // scales of plaintexts and scalars by name; empty for a recording's constants
  };
  /// Returns the summary of a run. Call this function after the first run.
  Summary summary() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

/// Options for writing a recorded program.
struct Writing {
  std::size_t chips = 1;  // limb l is stored on chip l modulo `chips`
  /// Key switching on several chips. `broadcast`: each chip raises all digits to its own limbs. `sum`: each chip raises its
  /// own digits to all limbs, and the products are added before the division. `broadcast` and `sum` give the bits of one
  /// chip. `aggregate`: each chip divides its products before they are added, as in the compiler's output aggregation; the
  /// roundings differ.
  enum class Switching : unsigned char { broadcast, sum, aggregate };
  Switching switching = Switching::broadcast;
  std::vector<std::string> inputs,
      results;  // names; ciphertexts of a larger tensor get the suffix ".index"
};
struct Written {
  Program program;
  Constants constants;
};
/// Writes a recorded program on CKKS or BGV ciphertexts as instructions. Throws ParameterError for other schemes, for sets
/// of several plaintext moduli, and for ciphertexts of a degree other than 1. A set whose levels are not prefixes of at most
/// 64 primes is a ParameterError too.
Written write(const RecordedProgram& program, const Writing& how);

}  // namespace heliograph::cinnamon
