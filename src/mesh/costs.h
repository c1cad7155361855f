// What the members and their links can do, measured once and remembered; what picks layouts. Results never depend on it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.h"

namespace heliograph::mesh {

struct Costs {
  std::vector<double> weights;         // shares of work, about 1 in the mean
  std::vector<double> limbs_a_second;  // transforms of limbs of 2^14 64-bit words, each member
  double link_bytes_a_second = 300e9;  // what a member reads from another
  double exchange_seconds = 12e-6;     // of an exchange of nothing, queue to queue
  bool measured = false;

  /// Seconds of a BFV multiplication and relinearization of one ciphertext: on one member, and over the limbs of `members`.
  double alone(std::size_t limbs, std::size_t n) const;
  double over_limbs(std::size_t limbs, std::size_t n, std::size_t members) const;
};

class State;
/// Reads the cached measurement of these very devices, or makes and caches it.
/// `kinds`: members of one kind are equally fast, whatever was measured.
Costs measure(const std::shared_ptr<State>& state, const std::vector<std::string>& descriptions,
              const std::vector<std::string>& kinds);
/// For a person: each member, then the links.
std::vector<std::string> report(State& state);

}  // namespace heliograph::mesh
