// Digests of the results of `ref` for every case, so that comparisons need not run `ref`.
#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <set>
#include <sstream>

#include "op_cases.h"

namespace heliograph::test {

namespace {

constexpr const char* kFile = HELIOGRAPH_TEST_DATA "/ref_digests.txt";

std::string full_name(const OpCase& c) { return c.kernel + "/" + c.name; }

/// Returns the line of a case: its kernel and the first word of its name, mostly the word size.
std::string line_of(const OpCase& c) {
  const std::string name = full_name(c);
  return name.substr(0, name.find(' '));
}

/// Returns a digest of a case's name, of all bytes of its results, and of their number. The lanes are independent, so their
/// products can be computed in parallel.
u64 digest(const OpCase& c, const Results& results) {
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
  for (const char letter : full_name(c)) take(d, static_cast<unsigned char>(letter));
  return d;
}

/// Returns the digests in the file, by line.
const std::map<std::string, std::set<u64>>& digests() {
  static const std::map<std::string, std::set<u64>> known = [] {
    std::map<std::string, std::set<u64>> all;
    std::ifstream file(kFile);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string name;
      words >> name >> std::hex;
      for (u64 value = 0; words >> value;) all[name].insert(value);
      if (!words.eof() || all[name].empty()) throw FormatError("not a name and digests: " + line);
    }
    return all;
  }();
  return known;
}

/// Returns whether the file has the digest of these results of a case.
bool is_known(const OpCase& c, const Results& results) {
  const auto line = digests().find(line_of(c));
  return line != digests().end() && line->second.contains(digest(c, results));
}

Results answer_of_ref(const OpCase& c) {
  static Target ref = open_target("ref");
  return run_case(ref, c);
}

/// Describes the first difference of two results; "" if they are equal.
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
  if (is_known(c, results)) return "";
  const Results want = answer_of_ref(c);
  if (!is_known(c, want))
    return full_name(c) +
           ": tests/data/ref_digests.txt lacks the digest that `ref` gives; after an intended change run `op_table "
           "--write-digests`";
  return full_name(c) + ": " + difference(results, want);
}

std::map<std::string, std::size_t> cases_by_line() {
  std::map<std::string, std::size_t> counts;
  for (const OpCase& c : op_cases()) ++counts[line_of(c)];
  return counts;
}

std::map<std::string, std::size_t> digests_by_line() {
  std::map<std::string, std::size_t> counts;
  for (const auto& [line, known] : digests()) counts[line] = known.size();
  return counts;
}

void write_digests() {
  std::map<std::string, std::map<std::string, u64>> all;
  for (const OpCase& c : op_cases()) all[line_of(c)].emplace(full_name(c), digest(c, answer_of_ref(c)));
  std::ofstream file(kFile);
  for (const auto& [line, cases] : all) {
    file << line << std::hex << std::setfill('0');
    for (const auto& [name, value] : cases) file << ' ' << std::setw(16) << value;
    file << '\n';
  }
  file.close();
  if (!file) throw DeviceError(std::string("cannot write ") + kFile);
}

}  // namespace heliograph::test
