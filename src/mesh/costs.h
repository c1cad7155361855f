// What the members and their links can do, measured once and remembered; what picks layouts. Results never depend on it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/device.h"

namespace heliograph::mesh {

/// What exchanges between members cost.
struct Links {
  double bytes_a_second = 300e9;    // what a member reads from the others
  double exchange_seconds = 12e-6;  // of an exchange of nothing, queue to queue
};

/// What is computed on ciphertexts, and what layouts are chosen by.
enum class Work : unsigned char {
  key_switch,  // a rotation; a product of CKKS or BGV
  multiply,    // a product of BFV, relinearized
};

struct Costs {
  std::vector<double> weights;         // shares of work, about 1 in the mean
  std::vector<double> limbs_a_second;  // transforms of limbs of 2^14 64-bit words, each member
  Links all;                           // where all members take part
  std::optional<Links> inside;         // where those of `group` alone do; none where that is one member
  std::vector<std::size_t> group;      // the most members that one of several hosts has; empty where there is one host
  double spread_seconds = 40e-6;       // more than on one member that a call waited for takes whose items lie on all
  double step_seconds = 8e-6;          // of the host, for a member's share of a call that exchanges
  bool measured = false;

  /// Seconds of a limb's transform on the fastest member.
  double transform(std::size_t n) const;
  /// Seconds for one ciphertext on the fastest member, whatever a launch takes; over the limbs of `members`.
  double alone(Work work, std::size_t limbs, std::size_t n) const;
  double over_limbs(Work work, std::size_t limbs, std::size_t n, std::size_t members, const Links& links) const;
  /// Whether any work on one ciphertext takes less time over limbs, by as much as predictions were found to be wrong.
  bool limbs_pay(std::size_t limbs, std::size_t n) const;

  /// Shares of limbs: everybody's where the links between hosts allow, else 0 for all who are not of the group.
  std::vector<double> limb_weights() const;
  /// Of those who share limbs.
  std::size_t limb_members() const { return limbs_stay_on_one_host() ? group.size() : weights.size(); }
  const Links& limb_links() const { return limbs_stay_on_one_host() ? *inside : all; }

 private:
  bool limbs_stay_on_one_host() const;
};

class State;
/// Reads the cached measurement of these devices, or measures and caches it. Over ranks a cached measurement is compared with a
/// brief one of the links, and replaced where they differ.
/// `kinds`: members of one kind are equally fast, whatever was measured.
/// `group`: the most members that one host has, where there are several hosts.
Costs measure(const std::shared_ptr<State>& state, const std::vector<std::string>& descriptions,
              const std::vector<std::string>& kinds, const std::vector<std::size_t>& group);
/// Text to read: each member, then the links.
std::vector<std::string> report(State& state);

}  // namespace heliograph::mesh
