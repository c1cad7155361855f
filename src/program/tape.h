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
  Tape(const std::vector<View>& inputs, std::vector<const KeySource*> keys);

  void allocated(const Buffer& buffer, const View& shape, const PrimeList& primes, Secrecy secrecy) override;
  void enqueues(const Session& session, const Call& call) override;
  void uploads(const View& to) override;
  void downloads(const View& from) override;

  /// The program whose results are `outputs`. Throws RecordingError.
  std::shared_ptr<Program> finish(const std::vector<View>& outputs);

 private:
  /// The place of what a view shows; a new one for memory that was there before and is not an input.
  u32 place_of(const View& view);
  /// Whether what lies there follows from an input or a key.
  bool varies(u32 place) const { return varies_[place]; }

  Program::Parts parts_;
  std::vector<const KeySource*> keys_;
  std::vector<bool> varies_;
  std::vector<std::weak_ptr<Memory>> held_;  // of each place: its memory is not mistaken for another's that follows it
  std::vector<const std::byte*> base_;       // of each place: where it begins
  std::unordered_map<const Memory*, u32> known_;
};

}  // namespace heliograph::program
