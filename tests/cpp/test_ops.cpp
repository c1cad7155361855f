// Every declared case: the same bits as `ref`, the same bits again, counts on `null`; and a case for every kernel.
#include <gtest/gtest.h>
#include <algorithm>
#include <cstring>
#include <set>

#include "op_cases.h"

namespace heliograph::test {

namespace {

using Results = std::vector<std::vector<std::byte>>;

/// A device opened once for all tests; null where this machine has it not, `reason` says why.
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

/// Two independent 64-bit digests: what is kept of `ref`'s results.
using Digest = std::pair<u64, u64>;
Digest digest(const Results& results) {
  Digest d{0xcbf29ce484222325ULL, 0x9e3779b97f4a7c15ULL};
  for (const auto& bytes : results) {
    for (std::size_t i = 0; i < bytes.size(); i += 8) {
      u64 word = 0;
      std::memcpy(&word, &bytes[i], std::min<std::size_t>(8, bytes.size() - i));
      d.first = (d.first ^ word) * 0x100000001b3ULL;
      d.first ^= d.first >> 32;
      d.second = (d.second + word + 1) * 0xd1342543de82ef95ULL;
      d.second ^= d.second >> 29;
    }
    d.first += bytes.size();
  }
  return d;
}

Digest expected(const OpCase& c) {
  static std::map<const OpCase*, Digest> known;
  const auto found = known.find(&c);
  if (found != known.end()) return found->second;
  return known[&c] = digest(run_case(*target("ref"), c));
}

/// Where two results part.
std::string difference(const Results& got, const Results& want) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    const auto [g, w] = std::mismatch(got[i].begin(), got[i].end(), want[i].begin(), want[i].end());
    if (w != want[i].end())
      return "output " + std::to_string(i) + " differs from byte " + std::to_string(w - want[i].begin());
  }
  return "no difference";
}

std::vector<const OpCase*> cases_of(const std::string& kernel, bool large) {
  std::vector<const OpCase*> found;
  for (const OpCase& c : op_cases()) {
    if (c.kernel == kernel && c.large == large) found.push_back(&c);
  }
  return found;
}

struct Parameter {
  std::string target, kernel;
};

std::vector<Parameter> parameters(bool large) {
  std::vector<Parameter> all;
  for (const std::string& t : target_names()) {
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
  void check(bool large) {
    std::string reason;
    Target* device = target(GetParam().target, &reason);
    if (device == nullptr) GTEST_SKIP() << reason;
    for (const OpCase* c : cases_of(GetParam().kernel, large)) {
      const Results first = run_case(*device, *c);
      EXPECT_EQ(digest(first), expected(*c)) << c->name << ": " << difference(first, run_case(*target("ref"), *c));
      EXPECT_TRUE(first == run_case(*device, *c)) << c->name << ": another result the second time";
    }
  }
};

class LargeOperation : public Operation {};

}  // namespace

TEST_P(Operation, HasTheBitsOfRef) { check(false); }
INSTANTIATE_TEST_SUITE_P(All, Operation, testing::ValuesIn(parameters(false)), name_of);

TEST_P(LargeOperation, HasTheBitsOfRef) { check(true); }
INSTANTIATE_TEST_SUITE_P(All, LargeOperation, testing::ValuesIn(parameters(true)), name_of);

TEST(Contract, EveryKernelHasACaseAndEveryCaseAKernel) {
  const std::vector<std::string> kernels = contract_kernels();
  ASSERT_GE(kernels.size(), 21u) << "device/call.h has fewer";
  std::set<std::string> cases;
  for (const OpCase& c : op_cases()) cases.insert(c.kernel);
  EXPECT_EQ(cases, std::set<std::string>(kernels.begin(), kernels.end()));
}

TEST(Contract, CasesHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const OpCase& c : op_cases()) EXPECT_TRUE(names.insert(c.kernel + "/" + c.name).second) << c.kernel << "/" << c.name;
}

TEST(Contract, RefRepeatsItself) {
  for (const OpCase& c : op_cases()) {
    if (c.large) continue;
    EXPECT_EQ(digest(run_case(*target("ref"), c)), expected(c)) << c.kernel << "/" << c.name;
  }
}

TEST(Contract, RefLeavesCanonicalWordsAndNothingUnwritten) {
  // Garbage bytes 0xa5a5a5a5 are above every modulus: an untouched word of a packed output would show.
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
  const std::set<std::string> composites = {"decompose", "apply_key", "key_switch", "divide", "bfv_multiply"};
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
