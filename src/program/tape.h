// A recording: what the sessions of one thread do while a function runs.
#pragma once

#include <unordered_map>

#include "device/session.h"
#include "program/program.h"

namespace heliograph::program {

/// Observes until `finish`. What a function does with memory that is neither an input, a key nor made of one of these is
/// done once, while recording: such memory is a constant of the program.
class Tape final : public device::Observer {
 public:
  /// `inputs` are the views of all input tensors; `keys` what programs take keys from.
  /// `dry`: calls that read what varies are not performed, only recorded.
  Tape(const std::vector<View>& inputs, std::vector<const KeySource*> keys, bool dry = false);

  void allocated(const Buffer& buffer, const View& shape, const PrimeList& primes, Secrecy secrecy) override;
  bool enqueues(const Session& session, const Call& call) override;
  void uploads(const View& to, std::optional<std::span<const std::byte>> from) override;
  void downloads(const View& from) override;

  /// What makes `outputs`, and nothing else. Throws RecordingError.
  Program::Parts parts(const std::vector<View>& outputs);
  /// The program whose results are `outputs`.
  std::shared_ptr<Program> finish(const std::vector<View>& outputs) { return std::make_shared<Program>(parts(outputs)); }

 private:
  /// The place of what a view shows; a new one for memory that was there before and is not an input.
  u32 place_of(const View& view);
  /// Whether what lies there follows from an input or a key.
  bool varies(u32 place) const { return varies_[place]; }
  /// Keeps how the constants among the needed places were made.
  void keep_makings(std::vector<bool> needed);

  Program::Parts parts_;
  std::vector<const KeySource*> keys_;
  bool dry_;
  std::vector<Making> constant_;  // all that was done with what does not vary
  std::vector<bool> varies_;
  std::vector<std::weak_ptr<Memory>> held_;  // of each place: its memory is not mistaken for another's that follows it
  std::vector<const std::byte*> base_;       // of each place: where it begins
  std::unordered_map<const Memory*, u32> known_;
};

}  // namespace heliograph::program
