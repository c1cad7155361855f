// Programs of single limbs in the Cinnamon instruction set, as its public compiler writes them (docs/cinnamon.md): streams of
// instructions for one or several chips. Those of a compiler run on CKKS ciphertexts, those written of a recorded program on its scheme's,
// CKKS or BGV.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heliograph/program.h"

namespace heliograph::cinnamon {

/// A file's name and text.
using Files = std::vector<std::pair<std::string, std::string>>;

/// What a program takes or gives, by name.
struct Item {
  enum class Kind : unsigned char { ciphertext, plaintext, scalar };
  Kind kind = Kind::ciphertext;
  std::string name;
  std::size_t level = 0;  // of what is taken: at least
};

class Program {
 public:
  /// A compiler's folder: instructions0, inputs0, ... of each chip and program_inputs. Throws FileError, InstructionError.
  static Program load(const std::string& folder);
  /// The same from texts; files of other names are not looked at. Throws InstructionError, which names file, line and word.
  static Program parse(const Files& files);
  /// The files again.
  Files files() const;

  std::size_t chips() const;
  std::size_t instructions() const;
  std::map<std::string, std::size_t> counts() const;  // of instructions, by name
  std::vector<Item> inputs() const;
  std::vector<Item> outputs() const;
  /// Names of the evaluation keys that it needs: "K:type:level:extension:steps:[digit][digit]".
  std::vector<std::string> keys() const;
  /// Chain primes and special primes that it needs.
  std::size_t levels() const;
  std::size_t special() const;

  /// A set for it: single primes of about `bits` bits, one a level, 32-bit words.
  ckks::Spec spec(std::size_t n, double bits = 27.8, bool insecure = false) const;
  /// The scales of its plaintexts and scalars where ciphertexts have their level's: those of `given`, and what the program's sums and
  /// divisions leave for the rest. Summands have one scale, quotients their level's. Throws ScaleError, which names the line.
  std::map<std::string, double> scales(const ckks::Parameters& parameters, const std::map<std::string, double>& given = {},
                                       double tolerance = 0x1p-20) const;
  /// `base`, and the keys that this program needs beside those.
  ckks::EvaluationKeys keys(const ckks::SecretKey& secret, const ckks::EvaluationKeys& base,
                            const Progress& progress = {}) const;
  exact::EvaluationKeys keys(const exact::SecretKey& secret, const exact::EvaluationKeys& base,
                             const Progress& progress = {}) const;

  struct State;
  explicit Program(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  const State& state() const { return *state_; }

 private:
  Handle<State> state_;
};

/// Words of a recording: what a program that was written from it takes beside ciphertexts, and what its results are.
struct Words;

/// What a program takes beside ciphertexts.
struct Constants {
  /// Of a program that was written: it takes nothing else then.
  std::shared_ptr<const Words> words;
  std::map<std::string, ckks::Plaintext> plaintexts;
  /// Encoded at the scale that the program needs (Program::scales). One item each.
  std::map<std::string, ckks::Values> values;
  std::map<std::string, double> scalars;
  /// Scales of plaintexts and scalars, by name, in place of those that are inferred: 1 or more.
  std::map<std::string, double> scales;
  /// How much scales of a sum may differ, in proportion.
  double tolerance = 0x1p-20;
};

/// How a program is run: all of it unless somebody measures what each part is worth.
struct Execution {
  bool fused = true;   // element-wise instructions between two transforms are one sum
  bool merged = true;  // alike instructions that need nothing of each other are one call
  /// Replays as a graph, where a device has such: calls one after another, or side by side where they may.
  enum class Graph : unsigned char { none, stream, branches };
  Graph graph = Graph::branches;
  bool hints = true;  // keys and plaintexts, read once, are kept out of caches where a device can
  /// Devices that chips run on beside the keys' own, which is the first.
  std::vector<std::string> devices;
  /// Bytes that each device has for what a run makes; 0: what is free. What does not fit is moved to the host and back.
  std::size_t memory = 0;
};

/// A program with keys and constants, ready to run again and again. Its memory stays while this or a copy of it does.
class Runner {
 public:
  /// Throws MissingKeyError, MismatchError, ParameterError for a set that does not fit, InstructionError.
  Runner(const Program& program, const AnyKeys& keys, Constants constants = {}, Execution how = {});
  /// Results by name. Ciphertexts have one shape, degree 1, and the level that the program asks for or a higher one. Throws
  /// LevelError, ShapeError, ScaleError, WrongKeyError, MismatchError, OutOfMemoryError. Safe from several threads, which take turns.
  std::map<std::string, AnyCiphertext> operator()(const std::map<std::string, AnyCiphertext>& inputs) const;

  struct Summary {
    std::map<std::string, std::size_t> calls;  // of one run, by kernel
    std::uint64_t bytes_read = 0, bytes_written = 0, products = 0;
    std::size_t bytes = 0;  // memory for values, keys not counted
    std::size_t devices = 0;
    std::size_t host_bytes = 0, bytes_out = 0,
                bytes_in = 0;              // kept on the host for want of room; moved there and back by a run
    std::map<std::string, double> scales;  // of plaintexts and scalars; of a recording's constants none
  };
  /// After the first run.
  Summary summary() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

/// How a recorded program is written.
struct Writing {
  std::size_t chips = 1;  // limb l lies on chip l modulo the chips
  /// Of key switches on several chips. `broadcast`: each chip raises all digits to its own limbs; the bits of one chip. `sum`: each
  /// raises its own digits to all limbs, and products are added up before they are divided; the same bits. `aggregate`: each
  /// divides its products, which are added up then, as the compiler's output aggregation does; other roundings.
  enum class Switching : unsigned char { broadcast, sum, aggregate };
  Switching switching = Switching::broadcast;
  std::vector<std::string> inputs,
      results;  // names; of a tensor of several ciphertexts each has a dot and its number behind it
};
struct Written {
  Program program;
  Constants constants;
};
/// A recorded program of CKKS or BGV ciphertexts as instructions. Throws ParameterError for what the set does not say: other schemes,
/// sets of several plaintext moduli, sets whose levels are not the first few of at most 64 primes, ciphertexts of another degree than 1.
Written write(const RecordedProgram& program, const Writing& how);

}  // namespace heliograph::cinnamon
