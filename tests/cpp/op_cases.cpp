#include "op_cases.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <set>

namespace heliograph::test {

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> cases = [] {
    std::vector<OpCase> all;
    elementwise_cases(all);
    transform_cases(all);
    conversion_cases(all);
    product_cases(all);
    composite_cases(all);
    transformed_cases(all);
    return all;
  }();
  return cases;
}

std::vector<std::string> contract_kernels() {
  std::vector<std::string> names;
  for (const char* name : device::kernel_names()) {
    // TFHE's have tests of their own (test_tfhe_kernels.cpp): not all of their bits are defined.
    static const std::set<std::string> tfhe = {"combine", "lwe_key_switch", "bootstrap", "evaluate"};
    if (!tfhe.contains(name)) names.push_back(name);
  }
  return names;
}

std::vector<std::vector<std::byte>> run_case(Target& target, const OpCase& c) {
  Rig rig(target);
  c.declare(rig)();
  return rig.results();
}

double time_case(Target& target, const OpCase& c, int repetitions) {
  Rig rig(target);
  const std::function<void()> call = c.declare(rig);
  std::vector<double> seconds;
  for (int i = 0; i <= repetitions; ++i) {
    rig.queue().wait();
    const auto start = std::chrono::steady_clock::now();
    call();
    rig.queue().wait();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (i > 0) seconds.push_back(taken.count());  // the first warms caches and tables
  }
  std::nth_element(seconds.begin(), seconds.begin() + repetitions / 2, seconds.end());
  return seconds[repetitions / 2];
}

Target open_target(const std::string& name) {
  const std::size_t mark = name.find(" x");
  setenv("HELIOGRAPH_THREADS", mark == std::string::npos ? "1" : name.c_str() + mark + 2, 1);
  return {name, device::open_device(name.substr(0, mark)), {}};
}

const std::vector<std::string>& target_names() {
  static const std::vector<std::string> names = {"cpu:scalar x1", "cpu:scalar x2", "cpu:avx2 x1", "cpu:avx2 x2",
                                                 "cpu:avx512 x1", "cpu:avx512 x2", "cuda"};
  return names;
}

const std::vector<std::vector<std::byte>>& results_of_ref(const OpCase& c) {
  static Target ref = open_target("ref");
  static std::map<const OpCase*, std::vector<std::vector<std::byte>>> known;
  const auto found = known.find(&c);
  return found != known.end() ? found->second : known[&c] = run_case(ref, c);
}

bool is_slice(const OpCase& c) {
  for (const char* word : {"slice of", "slices to", "windows"}) {
    if (c.name.find(word) != std::string::npos) return true;
  }
  return false;
}

}  // namespace heliograph::test
