// On every device, every declared case has the bits of `ref`, also if the case is repeated. `null` counts every case, and
// every kernel has at least one case.
#include <gtest/gtest.h>
#include <algorithm>
#include <set>

#include "op_cases.h"

namespace heliograph::test {

namespace {

/// Returns a device that is opened once for all tests, or null and the `reason` why this machine lacks the device.
Target* target(const std::string& name, std::string* reason = nullptr) {
  static std::map<std::string, Target> open;
  static std::map<std::string, std::string> missing;
  if (!open.contains(name) && !missing.contains(name)) {
    try {
      open.emplace(name, open_target(name));
    } catch (const Error& e) {
      missing.emplace(name, e.what());
    }
  }
  if (reason != nullptr && missing.contains(name)) *reason = missing.at(name);
  const auto found = open.find(name);
  return found == open.end() ? nullptr : &found->second;
}

std::vector<const OpCase*> cases_of(const std::string& kernel, bool large) {
  std::vector<const OpCase*> found;
  for (const OpCase& c : op_cases()) {
    if (c.kernel == kernel && c.large == large) found.push_back(&c);
  }
  return found;
}

/// Returns whether a target has several threads, whose order could affect results. On targets with several threads, each
/// case of geometry runs twice.
bool has_threads(const std::string& target) { return !target.ends_with(" x1"); }

struct Parameter {
  std::string target, kernel;
};

std::vector<Parameter> parameters(bool large) {
  std::vector<Parameter> all;
  for (const std::string& t : target_names()) {
    if (large && !has_threads(t)) continue;
    for (const std::string& k : contract_kernels()) {
      if (!cases_of(k, large).empty()) all.push_back({t, k});
    }
  }
  return all;
}

std::string name_of(const testing::TestParamInfo<Parameter>& info) {
  std::string name = info.param.target + "_" + info.param.kernel;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

class Operation : public testing::TestWithParam<Parameter> {
 protected:
  void check(bool large, const std::set<Kind>& again) {
    std::string reason;
    Target* device = target(GetParam().target, &reason);
    if (device == nullptr) GTEST_SKIP() << reason;
    for (const OpCase* c : cases_of(GetParam().kernel, large)) {
      const Results first = run_case(*device, *c);
      EXPECT_EQ(fault_in(*c, first), "");
      if (!again.contains(c->kind)) continue;
      EXPECT_TRUE(first == run_case(*device, *c)) << c->name << ": the second run has another result";
    }
  }
};

class LargeOperation : public Operation {};
class FullOperation : public Operation {};  // runs each case twice, also on one thread and with large degrees

}  // namespace

TEST_P(Operation, HasTheBitsOfRef) {
  check(false, has_threads(GetParam().target) ? std::set{Kind::geometry} : std::set<Kind>{});
}
INSTANTIATE_TEST_SUITE_P(All, Operation, testing::ValuesIn(parameters(false)), name_of);

TEST_P(LargeOperation, HasTheBitsOfRef) { check(true, {}); }
INSTANTIATE_TEST_SUITE_P(All, LargeOperation, testing::ValuesIn(parameters(true)), name_of);

TEST_P(FullOperation, HasTheBitsOfRefAgain) {
  const std::set<Kind> all = {Kind::geometry, Kind::arithmetic};
  for (const bool large : {false, true}) check(large, all);
}
INSTANTIATE_TEST_SUITE_P(All, FullOperation, testing::ValuesIn(parameters(false)), name_of);

TEST(Contract, InnerProductRotatesDigitsAsPermuteDoes) {
  constexpr std::size_t kTurns = 37, kDegree = 1024;
  const PrimeList primes{0, 2};
  for (const Field* f : main_fields()) {
    for (const std::string& name : target_names()) {
      Target* device = target(name);
      if (device == nullptr) continue;
      Rig rig(*device);
      const auto ring = ring_of(*f, kDegree, 3);
      const auto prepared = rig.prepare(ring);
      const View x = rig.input(*ring, primes, {{2}, 1}), key = rig.input(*ring, primes, {{}, 2 * kTurns});
      const View digits = rig.output(*ring, primes, {{2}, kTurns});
      const View out[] = {rig.output(*ring, primes, {{2}, 2}), rig.output(*ring, primes, {{2}, 2})};
      std::vector<device::PermutationHandle> turns;
      for (std::size_t j = 0; j < kTurns; ++j) {
        turns.push_back(rig.kernels().prepare(device::Permutation{math::automorphism_table(kDegree, 6 * j + 5), {}}));
        rig.queue().enqueue(device::Permute{prepared, primes, turns[j], x, digits.with_components(j, 1)});
      }
      const PrimeList limbs = PrimeList::range(0, 2);
      rig.queue().enqueue(device::InnerProduct{prepared, primes, digits, key, limbs, out[0]});
      rig.queue().enqueue(device::InnerProduct{prepared, primes, x, key, limbs, out[1], turns});
      const Results results = rig.results();
      EXPECT_TRUE(results[1] == results[2]) << name << " " << f->name;
    }
  }
}

/// A weighted sum equals separate products and sums. The sum changes if its last weight or its first term changes.
TEST(Contract, WeightedSumsEqualProductsAndSums) {
  const PrimeList primes{0, 2};
  for (const Field* f : main_fields()) {
    for (const std::string& name : target_names()) {
      Target* device = target(name);
      if (device == nullptr) continue;
      for (std::size_t terms = 1; terms <= device::WeightedSum::kMost; ++terms) {
        SCOPED_TRACE(name + " " + f->name + ", terms: " + std::to_string(terms));
        Rig rig(*device);
        const auto ring = ring_of(*f, 1024, 3);
        const auto prepared = rig.prepare(ring);
        device::WeightedSum call{
            .ring = prepared, .primes = primes, .x = {}, .weights = {}, .constant = device::LimbConstants{5, 7}, .out = {}};
        std::vector<device::LimbConstants> weights(terms, device::LimbConstants{});
        const View sum = rig.output(*ring, primes, {{3}, 2}), scaled = rig.output(*ring, primes, {{3}, 2});
        for (std::size_t k = 0; k < terms; ++k) {
          for (std::size_t l = 0; l < primes.size(); ++l) weights[k][l] = rig.random() % ring->prime(primes[l]);
          call.x.push_back(rig.input(*ring, primes, {{3}, 2}));
          const View& to = k == 0 ? sum : scaled;
          rig.queue().enqueue(device::MulConstants{prepared, primes, call.x[k], weights[k], to});
          if (k > 0) rig.queue().enqueue(device::Add{prepared, primes, sum, scaled, sum});
        }
        const View first = sum.with_components(0, 1);
        rig.queue().enqueue(device::AddConstants{prepared, primes, first, *call.constant, math::Domain::ntt, first});
        const auto to_another = [&](device::WeightedSum other) {
          other.out = rig.output(*ring, primes, {{3}, 2});
          rig.queue().enqueue(other);
        };
        call.weights = weights;
        to_another(call);
        device::WeightedSum wrong = call;
        wrong.x.front() = rig.input(*ring, primes, {{3}, 2});
        to_another(wrong);
        weights.back()[1] = math::add_mod(weights.back()[1], 1, ring->prime(primes[1]));
        wrong = call, wrong.weights = weights;
        to_another(wrong);
        const Results results = rig.results();
        EXPECT_TRUE(results[2] == results[0]);
        EXPECT_FALSE(results[3] == results[0]);
        EXPECT_FALSE(results[4] == results[0]);
      }
    }
  }
}

TEST(Contract, KernelsAndCasesMatch) {
  const std::vector<std::string> kernels = contract_kernels();
  ASSERT_GE(kernels.size(), 25u) << "device/call.h has fewer kernels than expected";
  std::set<std::string> cases;
  for (const OpCase& c : op_cases()) cases.insert(c.kernel);
  EXPECT_EQ(cases, std::set<std::string>(kernels.begin(), kernels.end()));
}

TEST(Contract, CasesHaveDistinctNames) {
  std::set<std::string> names;
  for (const OpCase& c : op_cases()) EXPECT_TRUE(names.insert(c.kernel + "/" + c.name).second) << c.kernel << "/" << c.name;
}

TEST(Contract, EveryCaseHasADigestAndEveryDigestACase) {
  EXPECT_EQ(cases_by_line(), digests_by_line()) << "run `op_table --write-digests` to update the file";
}

namespace {

void check_ref(bool large) {
  for (const OpCase& c : op_cases()) {
    if (c.large != large) continue;
    EXPECT_EQ(fault_in(c, run_case(*target("ref"), c)), "");
  }
}

}  // namespace

TEST(RefContract, HasItsDigests) { check_ref(false); }
TEST(FullRefContract, HasItsDigestsForLargeDegrees) { check_ref(true); }

TEST(Contract, MeshesRunAllGeometryAndASampleOfArithmetic) {
  std::map<std::string, std::set<Kind>> kinds;
  std::set<const OpCase*> shared;
  std::size_t shares = 0;
  for (std::size_t mesh = 0; mesh < kShares; ++mesh) {
    for (const OpCase* c : mesh_cases(mesh)) kinds[c->kernel].insert(c->kind), shared.insert(c), ++shares;
  }
  EXPECT_EQ(shares, shared.size());
  for (const OpCase* c : all_mesh_cases()) EXPECT_TRUE(shared.contains(c) || c->kind == Kind::arithmetic) << c->name;
  for (const std::string& kernel : contract_kernels()) {
    const bool moves = kernel == "gather";  // gather only moves words, so it has no cases of kind arithmetic
    EXPECT_EQ(kinds[kernel].size(), moves ? 1u : 2u) << kernel;
  }
}

TEST(Contract, RefWritesEveryWordWithACanonicalResidue) {
  // Garbage bytes 0xa5a5a5a5 exceed every modulus, so an unwritten word of a packed output is detected.
  for (const OpCase& c : op_cases()) {
    if (c.large || c.name.find("n=1024 batch=3") == std::string::npos) continue;
    for (const auto& bytes : run_case(*target("ref"), c)) {
      const bool narrow = c.name.starts_with("w32");
      for (std::size_t i = 0; i + 8 <= bytes.size(); i += narrow ? 4 : 8) {
        u64 word = 0;
        for (int b = narrow ? 3 : 7; b >= 0; --b)
          word = word << 8 | static_cast<u64>(bytes[i + static_cast<std::size_t>(b)]);
        ASSERT_LT(word, u64{1} << (narrow ? 30 : 60)) << c.kernel << "/" << c.name;
      }
    }
  }
}

TEST(Null, CountsEveryCase) {
  const std::set<std::string> composites = {"decompose",  "apply_key",  "apply_keys",  "key_switch",         "divide",
                                            "linear_sum", "baby_steps", "giant_steps", "partial_key_switch", "bfv_multiply"};
  Target null = open_target("null");
  device::Counter& device = *null.device->counter();
  for (const OpCase& c : op_cases()) {
    if (c.large) continue;
    device.reset();
    run_case(null, c);
    auto counts = device.counts();
    counts.erase("upload"), counts.erase("download");
    if (composites.contains(c.kernel)) {
      EXPECT_FALSE(counts.empty()) << c.kernel << "/" << c.name;
    } else {
      EXPECT_EQ(counts.size(), 1u) << c.kernel << "/" << c.name;
      EXPECT_EQ(counts[c.kernel].calls, 1u) << c.kernel << "/" << c.name;
      EXPECT_EQ(counts[c.kernel].bytes_written == 0, c.name.find("empty batch") != std::string::npos)
          << c.kernel << "/" << c.name;
    }
  }
  EXPECT_EQ(device.live_bytes(), 0u);
}

}  // namespace heliograph::test
