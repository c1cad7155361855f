// Costs of the members and their links, measured once and cached, for the choice of layouts. The results of calls never
// depend on the rates.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/device.h"

namespace heliograph::mesh {

/// Measured speed of exchanges between members.
struct Links {
  double bytes_a_second = 300e9;    // rate at which a member reads from the others
  double exchange_seconds = 12e-6;  // seconds of an exchange without data, from queue to queue
};

/// Kinds of work on ciphertexts for which layouts are chosen.
enum class Work : unsigned char {
  key_switch,  // a rotation; a product of CKKS or BGV
  multiply,    // a product of BFV with relinearization
};

struct Costs {
  std::vector<double> weights;         // each member's share of work, about 1 on average; 0: no work
  std::vector<double> limbs_a_second;  // for each member: transforms per second of limbs of 2^14 64-bit words
  Links all;                           // links between all members
  std::optional<Links> inside;         // links within `group`; nullopt if `group` has one member
  std::vector<std::size_t> group;      // with several hosts: the largest set of members on one of them; else empty
  // extra seconds of a call that the host waits for, if its items are on all members instead of one
  double spread_seconds = 40e-6;
  double step_seconds = 8e-6;  // host time of one member's share of a call with an exchange
  bool measured = false;

  /// Returns the seconds of a limb's transform on the fastest member.
  double transform(std::size_t n) const;
  /// Return the seconds of work on one ciphertext: the first function for the fastest member alone, without launch times;
  /// the second for the ciphertext's limbs on `members` members.
  double alone(Work work, std::size_t limbs, std::size_t n) const;
  double over_limbs(Work work, std::size_t limbs, std::size_t n, std::size_t members, const Links& links) const;
  /// Returns whether work on one ciphertext is faster over limbs, by more than the error of predictions.
  bool limbs_pay(std::size_t limbs, std::size_t n) const;

  /// Returns each member's share of limbs. Members outside `group` get 0 if the links between hosts are too slow.
  std::vector<double> limb_weights() const;
  /// Returns the number of members that share limbs.
  std::size_t limb_members() const { return limbs_stay_on_one_host() ? group.size() : members(); }
  const Links& limb_links() const { return limbs_stay_on_one_host() ? *inside : all; }

 private:
  std::size_t members() const;  // number of members with a share
  bool limbs_stay_on_one_host() const;
};

class State;
/// Reads the cached measurement of these devices, or measures and caches it. Repeats a measurement after 30 days, or if
/// the machine was busy then and has half the load now. Over ranks, compares a cached measurement with a brief
/// measurement of the links, and replaces it if they differ. `kinds`: members of the same kind get equal rates. `group`:
/// the largest set of members on one host, if there are several hosts.
Costs measure(const std::shared_ptr<State>& state, const std::vector<std::string>& descriptions,
              const std::vector<std::string>& kinds, const std::vector<std::size_t>& group);
/// Returns a readable report: a line for each member, then one for the links.
std::vector<std::string> report(State& state);

}  // namespace heliograph::mesh
