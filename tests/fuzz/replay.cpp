// Runs the corpus and some thousand mutated files on every target as an ordinary test, without clang.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "mutate.h"
#include "targets.h"

namespace heliograph::fuzz {
namespace {

namespace fs = std::filesystem;

Bytes read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class Fuzz : public testing::TestWithParam<std::string> {
 protected:
  const Target& target_ = target(GetParam());
};

TEST_P(Fuzz, Bases) {
  ASSERT_FALSE(target_.bases().empty());
  for (const Bytes& base : target_.bases()) {
    EXPECT_NO_THROW(target_.run(base));
    if (!target_.container) continue;
    const auto document = open(base);
    ASSERT_TRUE(document);
    EXPECT_EQ(sign(*document), base);  // the fuzz tests write files in the same way as the engine
  }
}

TEST_P(Fuzz, Corpus) {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(HELIOGRAPH_FUZZ_CORPUS) / GetParam())) {
    EXPECT_NO_THROW(target_.run(read(entry.path()))) << entry.path();
    ++count;
  }
  EXPECT_GT(count, 0u);
}

TEST_P(Fuzz, Resigned) {
  if (!target_.container) GTEST_SKIP() << "the inputs of this target are not containers";
  const auto& bases = target_.bases();
  std::size_t opened = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    Random random(seed);
    auto document = open(bases[seed % bases.size()]);
    ASSERT_TRUE(document);
    Bytes bytes;
    try {
      mutate(*document, random, 1 << 17);
      bytes = sign(*document);
    } catch (const Error&) {  // not representable as JSON
      continue;
    }
    EXPECT_NO_THROW(target_.run(bytes)) << "seed " << seed;
    opened += open(bytes).has_value();
  }
  EXPECT_GT(opened, 200u);  // most files pass the container's checks and reach the readers of objects
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const Target& t : targets()) all.push_back(t.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Targets, Fuzz, testing::ValuesIn(names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace heliograph::fuzz

int main(int argc, char** argv) {
  ::setenv("HELIOGRAPH_DEVICE", "ref", 0);
  heliograph::fuzz::call_every_program = true;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
