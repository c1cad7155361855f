// Several devices as one: every declared case has the bits of `ref` in every layout, whatever the members, their number,
// their shares and their links.
#include <gtest/gtest.h>
#include <algorithm>
#include <cstdlib>

#include "mesh/mesh.h"
#include "op_cases.h"

namespace heliograph::test {

namespace {

Target open_mesh(const std::string& name) {
  setenv("HELIOGRAPH_THREADS", "1", 1);
  return {name, mesh::open_device(name), {}};
}

const std::vector<std::vector<std::byte>>& expected(const OpCase& c) {
  static Target ref = open_target("ref");
  static std::map<const OpCase*, std::vector<std::vector<std::byte>>> known;
  const auto found = known.find(&c);
  return found != known.end() ? found->second : known[&c] = run_case(ref, c);
}

/// Above backend/ nobody makes slices of coefficients: a mesh makes them itself.
bool is_slice(const OpCase& c) {
  for (const char* word : {"slice of", "slices to", "windows"}) {
    if (c.name.find(word) != std::string::npos) return true;
  }
  return false;
}

class MeshOperation : public testing::TestWithParam<std::string> {};

std::string name_of(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

}  // namespace

TEST_P(MeshOperation, HasTheBitsOfRef) {
  Target target;
  try {
    target = open_mesh(GetParam() + "/uncalibrated");
  } catch (const Error& e) {
    GTEST_SKIP() << e.what();
  }
  for (const OpCase& c : op_cases()) {
    if (c.large || is_slice(c)) continue;
    const auto& want = expected(c);
    std::vector<std::vector<std::byte>> got;
    ASSERT_NO_THROW(got = run_case(target, c)) << c.kernel << "/" << c.name;
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      const auto [g, w] = std::mismatch(got[i].begin(), got[i].end(), want[i].begin(), want[i].end());
      EXPECT_TRUE(w == want[i].end()) << c.kernel << "/" << c.name << ": output " << i << " of " << want.size()
                                      << " differs from byte " << w - want[i].begin();
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, MeshOperation,
                         testing::Values("1*cpu", "2*cpu", "3*cpu", "3*cpu/batch", "2*cpu/limb/broadcast", "3*cpu/limb/transpose",
                                         "4*cpu/limb/output", "5*cpu/limb/weights=1:2:3:1:1", "8*cpu/limb",
                                         "2*cpu/coefficient", "7*cpu/coefficient", "6*cpu/batch/weights=1:5:1:2:1:1",
                                         "3*cpu/batch/staged", "2*cpu/limb/staged", "cpu,ref,cpu:scalar/limb",
                                         "2*cpu/coefficient/staged", "cuda:0,cuda:1", "cuda:0,cuda:1/limb/broadcast",
                                         "cuda:0,cuda:1/limb/transpose/output", "cuda:0,cuda:1/coefficient",
                                         "cuda:0,cuda:1/limb/staged", "cuda:0,cuda:0,cuda:0/limb", "cuda:0,cpu/batch",
                                         "cuda:0,cpu,cuda:0/limb/weights=3:1:2"),
                         name_of);

}  // namespace heliograph::test
