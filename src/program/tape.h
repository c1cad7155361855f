// A recording of a thread's session calls while a function runs.
#pragma once

#include <unordered_map>

#include "device/session.h"
#include "program/program.h"

namespace heliograph::program {

/// Observes its thread's calls until `finish`. A call whose operands depend on no input and no key runs once, during the
/// recording, and its result is a constant of the program.
class Tape final : public device::Observer {
 public:
  /// `inputs` are the views of all input tensors; `keys` are the sources of keys. `dry`: calls that depend on inputs or keys
  /// are recorded but not executed.
  Tape(const std::vector<View>& inputs, std::vector<const KeySource*> keys, bool dry = false);

  void allocated(const Buffer& buffer, const View& shape, const PrimeList& primes, Secrecy secrecy) override;
  bool enqueues(const Session& session, const Call& call) override;
  void uploads(const View& to, std::optional<std::span<const std::byte>> from) override;
  void downloads(const View& from) override;

  /// Returns the steps that `outputs` need, and no others. Throws RecordingError.
  Program::Parts parts(const std::vector<View>& outputs);
  std::shared_ptr<Program> finish(const std::vector<View>& outputs) { return std::make_shared<Program>(parts(outputs)); }

 private:
  /// Returns the place of a view. Makes a new place for memory that is no input and was allocated before the recording.
  u32 place_of(const View& view);
  /// Returns whether the words of a place depend on an input or a key.
  bool varies(u32 place) const { return varies_[place]; }
  /// Stores how the needed constants were made.
  void keep_makings(std::vector<bool> needed);

  Program::Parts parts_;
  std::vector<const KeySource*> keys_;
  bool dry_;
  std::vector<Making> constant_;  // all steps and writes whose results do not depend on an input or key
  std::vector<bool> varies_;
  std::vector<std::weak_ptr<Memory>> held_;  // memory of each place; later memory at the same address is a new place
  std::vector<const std::byte*> base_;       // address of each place's first byte
  std::unordered_map<const Memory*, u32> known_;
};

}  // namespace heliograph::program
