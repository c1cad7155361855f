// What `ref` gives for every case, kept as digests: nobody who is compared with it waits for it.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "op_cases.h"

namespace heliograph::test {

namespace {

constexpr const char* kFile = HELIOGRAPH_TEST_DATA "/ref_digests.txt";

std::string full_name(const OpCase& c) { return c.kernel + "/" + c.name; }

/// Of all bytes and of how many there are; in lanes, whose products need not wait for each other.
u64 digest(const Results& results) {
  constexpr std::size_t kLanes = 8;
  constexpr u64 kFactor = 0xd1342543de82ef95ULL;
  std::array<u64, kLanes> lanes;
  for (std::size_t l = 0; l < kLanes; ++l) lanes[l] = l + 1;
  const auto take = [](u64& lane, u64 word) {
    lane = (lane ^ word) * kFactor;
    lane ^= lane >> 32;
  };
  for (const auto& bytes : results) {
    for (std::size_t i = 0; i < bytes.size(); i += 8 * kLanes) {
      std::array<u64, kLanes> words{};
      std::memcpy(words.data(), &bytes[i], std::min<std::size_t>(8 * kLanes, bytes.size() - i));
      for (std::size_t l = 0; l < kLanes; ++l) take(lanes[l], words[l]);
    }
    take(lanes[0], bytes.size());
  }
  u64 d = 0;
  for (u64 lane : lanes) take(d, lane);
  return d;
}

const std::map<std::string, u64>& digests() {
  static const std::map<std::string, u64> known = [] {
    std::map<std::string, u64> all;
    std::ifstream file(kFile);
    for (std::string line; std::getline(file, line);) {
      const std::size_t mark = line.find(' ');  // digest, name
      u64 value = 0;
      const auto read = std::from_chars(line.data(), line.data() + line.size(), value, 16);
      if (mark != 16 || read.ptr != line.data() + mark) throw FormatError("not a digest and a name: " + line);
      all.emplace(line.substr(mark + 1), value);
    }
    return all;
  }();
  return known;
}

Results answer_of_ref(const OpCase& c) {
  static Target ref = open_target("ref");
  return run_case(ref, c);
}

/// Where two results part; empty where they do not.
std::string difference(const Results& got, const Results& want) {
  if (got.size() != want.size()) return std::to_string(got.size()) + " outputs, not " + std::to_string(want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    const auto [g, w] = std::mismatch(got[i].begin(), got[i].end(), want[i].begin(), want[i].end());
    if (w != want[i].end() || g != got[i].end())
      return "output " + std::to_string(i) + " of " + std::to_string(want.size()) + " differs from byte " +
             std::to_string(w - want[i].begin());
  }
  return "";
}

}  // namespace

std::string fault_in(const OpCase& c, const Results& results) {
  const auto known = digests().find(full_name(c));
  if (known != digests().end() && known->second == digest(results)) return "";
  if (known == digests().end())
    return full_name(c) + ": has no digest; `op_table --write-digests` writes tests/data/ref_digests.txt anew";
  const Results want = answer_of_ref(c);
  if (digest(want) != known->second)
    return full_name(c) +
           ": `ref` itself does not give what tests/data/ref_digests.txt has (meant? `op_table --write-digests`)";
  return full_name(c) + ": " + difference(results, want);
}

std::vector<std::string> names_with_digests() {
  std::vector<std::string> names;
  for (const auto& [name, value] : digests()) names.push_back(name);
  return names;
}

void write_digests() {
  std::map<std::string, u64> all;
  for (const OpCase& c : op_cases()) all.emplace(full_name(c), digest(answer_of_ref(c)));
  std::ofstream file(kFile);
  char text[17];
  for (const auto& [name, value] : all) {
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
    file << text << ' ' << name << '\n';
  }
  file.close();
  if (!file) throw DeviceError(std::string("cannot write ") + kFile);
}

}  // namespace heliograph::test
