// Devices by name, and the device of this process.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <mutex>

#include "mesh/ranks.h"

namespace heliograph::mesh {

namespace {

std::vector<std::string> split(const std::string& text, char mark) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  for (std::size_t at; (at = text.find(mark, from)) != std::string::npos; from = at + 1)
    parts.push_back(text.substr(from, at - from));
  parts.push_back(text.substr(from));
  return parts;
}

std::vector<double> numbers(const std::string& text, const std::string& name) {
  std::vector<double> values;
  for (const std::string& part : split(text, ':')) {
    double value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || end != part.data() + part.size())
      throw ParameterError("cannot open device \"" + name + "\": \"" + part + "\" must be a number");
    values.push_back(value);
  }
  return values;
}

/// An option of a mesh without a value.
struct Flag {
  std::string_view word;
  void (*set)(Options&);
};
constexpr Flag kFlags[] = {
    {"batch", [](Options& o) { o.layout = Layout::batch; }},
    {"limb", [](Options& o) { o.layout = Layout::limb; }},
    {"coefficient", [](Options& o) { o.layout = Layout::coefficient; }},
    {"staged", [](Options& o) { o.staged = true; }},
    {"events", [](Options& o) { o.events = true; }},
    {"broadcast", [](Options& o) { o.exchange = Exchange::broadcast; }},
    {"transpose", [](Options& o) { o.exchange = Exchange::transpose; }},
    {"input", [](Options& o) { o.key_switch = SwitchMethod::input; }},
    {"output", [](Options& o) { o.key_switch = SwitchMethod::output; }},
    {"uncalibrated", [](Options& o) { o.calibrate = false; }},
    {"sockets", [](Options& o) { o.sockets = true; }},
};
/// An option of a mesh with a list of numbers.
struct List {
  std::string_view name;
  std::vector<double> Options::*values;
};
constexpr List kLists[] = {{"weights=", &Options::weights},
                           {"slowdown=", &Options::slowdown},
                           {"costs=", &Options::costs},
                           {"hosts=", &Options::hosts}};

Options options_of(const std::vector<std::string>& words, const std::string& name) {
  Options o;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& w = words[i];
    const Flag* const flag = std::find_if(std::begin(kFlags), std::end(kFlags), [&](const Flag& f) { return f.word == w; });
    const List* const list =
        std::find_if(std::begin(kLists), std::end(kLists), [&](const List& l) { return w.starts_with(l.name); });
    if (flag != std::end(kFlags)) {
      flag->set(o);
    } else if (list != std::end(kLists)) {
      o.*list->values = numbers(w.substr(list->name.size()), name);
    } else {
      throw ParameterError("cannot open this mesh: unknown option \"" + w +
                           "\"; options are batch, limb, coefficient, staged, events, broadcast, transpose, input, output, "
                           "weights=, slowdown=, hosts=, costs=, uncalibrated and sockets");
    }
  }
  return o;
}

/// Returns this rank's share of its host's devices. If there are fewer devices than ranks, several ranks share a device.
std::vector<std::string> share_of(const LaunchInfo& launch, const std::vector<std::string>& all) {
  if (all.size() < launch.local_ranks) return {all[launch.local_rank % all.size()]};
  const std::size_t begin = launch.local_rank * all.size() / launch.local_ranks,
                    end = (launch.local_rank + 1) * all.size() / launch.local_ranks;
  return {all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(end)};
}

/// Returns the names of a list's devices. "3*cpu" is three devices. The name of a kind that found_devices numbers stands for
/// all devices of the kind, or for this rank's share of them.
std::vector<std::string> members_of(const std::string& list, const std::optional<LaunchInfo>& launch) {
  std::vector<std::string> names;
  // A device's options may contain commas: "rtl:butterflies=8,lanes=8".
  std::vector<std::string> words;
  for (const std::string& part : split(list, ',')) {
    if (!words.empty() && words.back().find(':') != std::string::npos && part.find('=') < part.find(':'))
      words.back() += "," + part;
    else
      words.push_back(part);
  }
  for (const std::string& word : words) {
    const std::size_t star = word.find('*');
    if (star != std::string::npos) {
      int count = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + star, count);
      if (error != std::errc() || end != word.data() + star || count < 1 || count > 64)
        throw ParameterError("cannot open devices \"" + word + "\": the number before \"*\" must be from 1 to 64");
      names.insert(names.end(), static_cast<std::size_t>(count), word.substr(star + 1));
      continue;
    }
    std::vector<std::string> of_kind = device::found_devices();
    std::erase_if(of_kind, [&](const std::string& found) { return !found.starts_with(word + ":"); });
    if (of_kind.empty()) of_kind = {word};
    if (launch && of_kind.size() > 1) of_kind = share_of(*launch, of_kind);
    names.insert(names.end(), of_kind.begin(), of_kind.end());
  }
  return names;
}

}  // namespace

std::unique_ptr<device::Device> open_device(const std::string& name) {
  const std::vector<std::string> words = split(name, '/');
  const auto open_all = [](const std::vector<std::string>& names) {
    std::vector<std::shared_ptr<device::Device>> devices;
    for (const std::string& n : names) devices.push_back(device::open_device(n));
    return devices;
  };
  const auto options = [&] {
    Options o = options_of(words, name);
    o.name = name;
    return o;
  };
  // The null device runs in each process separately.
  if (std::optional<Rendezvous> meeting = name == "null" ? std::nullopt : rendezvous_from_environment()) {
    const auto open = [&] { return Own{open_all(members_of(words[0], meeting->launch)), options()}; };
    return join_ranks(std::move(*meeting), open, name.substr(words[0].size()));
  }
  const std::vector<std::string> members = members_of(words[0], {});
  if (members.size() == 1 && words.size() == 1 && words[0].find('*') == std::string::npos)
    return device::open_device(members[0]);
  return make_mesh(open_all(members), options());
}

namespace {

/// Gives this rank its share of the host's cores, unless HELIOGRAPH_THREADS is set or the launcher bound the ranks to
/// cores.
void share_cores(const LaunchInfo& launch) {
  if (!launch.launched || std::getenv("HELIOGRAPH_THREADS") != nullptr) return;
  cpu_set_t mine;
  const auto all = static_cast<std::size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  if (sched_getaffinity(0, sizeof mine, &mine) != 0 ||
      static_cast<std::size_t>(CPU_COUNT(&mine)) * launch.local_ranks <= all)
    return;
  setenv("HELIOGRAPH_THREADS", std::to_string(std::max<std::size_t>(1, all / launch.local_ranks)).c_str(), 0);
}

}  // namespace

namespace {

std::atomic<pid_t> owner{0};  // process that opened the device; set before opening, so that a fork never waits for the mutex

[[noreturn]] void refuse_fork() {
  throw ForkError(
      "cannot use Heliograph in this process: it was forked after Heliograph opened its device; start workers with spawn");
}

}  // namespace

void require_own_process() {
  if (const pid_t who = owner; who != 0 && who != getpid()) refuse_fork();
}

device::Device& default_device() {
  static std::mutex mutex;
  static device::Device* opened = nullptr;  // never closed: buffers may outlive every static object
  pid_t expected = 0;
  if (!owner.compare_exchange_strong(expected, getpid()) && expected != getpid()) refuse_fork();
  const std::lock_guard lock(mutex);
  if (opened == nullptr) {
    const char* const given = std::getenv("HELIOGRAPH_DEVICE");
    try {
      owner = getpid();
      const std::optional<LaunchInfo> launch = own_launch_info();
      if (launch) share_cores(*launch);
      std::string name = given != nullptr ? given : "";
      if (name.empty()) {
        const std::vector<std::string> all = device::found_devices();
        for (const std::string& found : launch ? share_of(*launch, all) : all) name += (name.empty() ? "" : ",") + found;
      }
      opened = open_device(name).release();
    } catch (...) {
      owner = 0;
      throw;
    }
  }
  return *opened;
}

bool over_ranks() { return own_launch_info().has_value(); }

}  // namespace heliograph::mesh
