// A mesh over several processes: every declared case has the bits of `ref` on every rank, and all ranks report the failure
// of one rank. The tests start this program again as the ranks, which run the disabled tests below.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "backend/cpu/cpu.h"
#include "backend/cuda/cuda.h"
#include "file_channels.h"
#include "heliograph/bfv.h"
#include "mesh/mesh.h"
#include "mesh/ranks.h"
#include "mesh/transport/mpi.h"
#include "op_cases.h"
#include "ranks_rig.h"
#include "said.h"

namespace heliograph::test {

namespace {

std::vector<std::string> split(const std::string& text, char mark) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == mark) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

mesh::LaunchInfo launch() { return mesh::own_launch_info().value(); }
std::size_t own_rank() { return launch().rank; }

/// Opens a mesh; the name "2*channels/limb" means cpu devices with channels.
std::unique_ptr<mesh::Mesh> open_mesh(const std::string& name) {
  if (const std::size_t at = name.find("channels"); at != std::string::npos) {
    mesh::Own own;
    for (std::size_t i = 0; i < (at == 0 ? 1 : std::stoul(name)); ++i)
      own.devices.push_back(std::make_shared<ChannelProcessor>());
    own.options = {.layout = holds(name, "limb") ? mesh::Layout::limb : mesh::Layout::batch, .calibrate = false};
    return mesh::join_ranks(
        *mesh::rendezvous_from_environment(), [&] { return own; }, name.substr(at));
  }
  auto device = mesh::open_device(name);
  auto* const mesh = dynamic_cast<mesh::Mesh*>(device.get());
  if (mesh == nullptr) throw InternalError("not a mesh");
  device.release();
  return std::unique_ptr<mesh::Mesh>(mesh);
}

/// Redistributes a tensor from limbs to coefficients and back, `rounds` times. In each round every member exchanges data
/// with all others.
void shuffle(mesh::Mesh& mesh, device::Queue& queue, int rounds, const std::function<void(int)>& between = {}) {
  const View shape = View::dense(nullptr, Word::w64, {2}, 1, 8, 1024);
  const PrimeList primes = PrimeList::range(0, 8);
  const device::Buffer from = mesh.allocate(shape, primes, queue);
  View v = shape;
  v.data = from->address();
  queue.enqueue(device::Zero{v});
  for (int i = 0; i < rounds; ++i) {
    if (between) between(i);
    const device::Buffer to = mesh.reshard(v, primes, mesh::Layout::coefficient, queue);
    View w = shape;
    w.data = to->address();
    queue.enqueue(device::Copy{w, v});
    queue.wait();
  }
}

void expect_passed(const std::vector<Outcome>& outcomes) {
  for (std::size_t r = 0; r < outcomes.size(); ++r)
    EXPECT_TRUE(outcomes[r].passed) << "rank " << r << " (signal " << outcomes[r].signal << "):\n" << outcomes[r].text;
}

/// Returns the text that the ranks printed after `mark` on the same line. The text must be equal on all ranks.
std::string common_line(const std::vector<Outcome>& outcomes, const std::string& mark) {
  std::vector<std::string> lines;
  for (const Outcome& o : outcomes) {
    const std::size_t at = o.text.find(mark);
    lines.push_back(at == std::string::npos ? "" : o.text.substr(at, o.text.find('\n', at) - at));
  }
  for (const std::string& l : lines) EXPECT_EQ(l, lines[0]);
  return lines[0];
}

std::function<Environment(std::size_t)> devices(const std::vector<std::string>& names) {
  return [names](std::size_t rank) {
    return Environment{{"HELIOGRAPH_TEST_DEVICES", names[std::min(rank, names.size() - 1)]}};
  };
}

/// Makes each mesh on the ranks run one share of the cases: mesh i runs share `first` + i. Without this variable, each mesh
/// runs all cases.
std::function<Environment(std::size_t)> on_shares(std::size_t first, const std::function<Environment(std::size_t)>& extra) {
  return [=](std::size_t rank) {
    Environment e = extra(rank);
    e["HELIOGRAPH_TEST_CASES"] = std::to_string(first);
    return e;
  };
}

/// A temporary folder.
class Folder {
 public:
  Folder() { std::filesystem::create_directories(path_); }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }
  /// Returns the environment `extra` with this folder as the ranks' TMPDIR.
  std::function<Environment(std::size_t)> with(const std::function<Environment(std::size_t)>& extra) const {
    return [this, extra](std::size_t rank) {
      Environment e = extra(rank);
      e["TMPDIR"] = path_.string();
      return e;
    };
  }

 private:
  std::filesystem::path path_ = std::filesystem::temp_directory_path() / ("heliograph-ranks-" + std::to_string(getpid()));
};

}  // namespace

// ---- Bodies of the ranks

TEST(RankBody, DISABLED_HasTheBitsOfRef) {
  const std::string first = given("HELIOGRAPH_TEST_CASES");  // number of the share of the first mesh; empty: all cases
  std::size_t mesh = first.empty() ? 0 : std::stoul(first);
  for (const std::string& name : split(given("HELIOGRAPH_TEST_DEVICES"), ';')) {
    SCOPED_TRACE(name);
    Target target{name, open_mesh(name), {}};
    for (const OpCase* c : first.empty() ? all_mesh_cases() : mesh_cases(mesh++)) {
      Results got;
      ASSERT_NO_THROW(got = run_case(target, *c)) << c->kernel << "/" << c->name;
      ASSERT_EQ(fault_in(*c, got), "");
    }
  }
}

TEST(RankBody, DISABLED_EncryptsTheSameOnEveryRank) {
  constexpr std::size_t kN = 2048;
  constexpr std::int64_t kPlain = 12289;
  for (const std::string& name : split(given("HELIOGRAPH_TEST_DEVICES"), ';')) {
    SCOPED_TRACE(name);
    const bfv::Parameters set =
        bfv::Parameters(bfv::make_spec(kN, 150, 1, {kPlain}, 64, 0, true)).on_device(name + "/uncalibrated");
    const bfv::SecretKey secret = bfv::SecretKey::generate(set);
    const bfv::EvaluationKeys keys = secret.evaluation_keys(true, {1}, false);
    bfv::Values a{.shape = {3}, .width = kN};
    for (std::size_t i = 0; i < 3 * kN; ++i) a.data.push_back(static_cast<std::int64_t>(i % 100));
    const bfv::Ciphertext x = secret.public_key().encrypt(a, bfv::Packing::slots),
                          y = secret.encrypt(a, bfv::Packing::slots);
    const bfv::Ciphertext product = bfv::rotate_rows(bfv::relinearize(bfv::multiply(x, y, nullptr), keys), {1}, keys);
    const std::vector<std::uint64_t> got = secret.decrypt(product);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::size_t half = kN / 2, slot = i % kN, row = slot / half;
      const std::int64_t v = a.data[i - slot + row * half + (slot % half + 1) % half];
      ASSERT_EQ(static_cast<std::int64_t>(got[i]), v * v % kPlain) << i;
    }
    std::size_t sum = 0;
    for (const bfv::Ciphertext& c : {x, y, product}) {
      for (auto b : c.to_bytes()) sum = sum * 1099511628211u + static_cast<unsigned char>(b);
    }
    std::printf("%s: key %s, ciphertexts %zu\n", name.substr(name.find('/')).c_str(), secret.key_id().c_str(), sum);
  }
}

TEST(RankBody, DISABLED_ChoosesTheSameOnEveryRank) {
  const auto mesh = open_mesh(given("HELIOGRAPH_TEST_DEVICES"));
  EXPECT_EQ(mesh->broadcast([] { return std::vector(5, static_cast<std::byte>(own_rank() + 7)); }),
            std::vector(5, std::byte{7}));
  EXPECT_THROW(mesh->broadcast([]() -> std::vector<std::byte> { throw NoiseError("too much"); }), NoiseError);
  EXPECT_EQ(mesh->rank(), own_rank());
  EXPECT_EQ(mesh->key_holder() != nullptr, own_rank() == 0);
  mesh->confirm("the colour", "blue");
  EXPECT_THROW(mesh->confirm("the number", std::to_string(own_rank())), MismatchError);
  const auto queue = mesh->make_queue();
  const std::size_t before = mesh->memory().available;
  {
    const device::Buffer some =
        mesh->allocate(View::dense(nullptr, Word::w64, {4}, 2, 8, 1024), PrimeList::range(0, 8), *queue);
    EXPECT_EQ(mesh->memory().available, before - 4 * 2 * 8 * 1024 * 8);
  }
  EXPECT_EQ(mesh->memory().available, before);
  {
    // An upload takes data of rank 0 only, and a download gives data to rank 0 only.
    const View shape = View::dense(nullptr, Word::w64, {5}, 2, 3, 1024);
    const std::size_t count = shape.words() * 8;
    const device::Buffer some = mesh->allocate(shape, PrimeList::range(0, 3), *queue);
    std::vector<std::byte> words(own_rank() == 0 ? count : 0), back(words.size()), all(count);
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::byte>(i * 37 % 251);
    mesh->scatter(*queue, words, count, some->address());
    mesh->gather(*queue, some->address(), count, back);
    EXPECT_EQ(back, words);
    mesh->download(*queue, some->address(), all);
    for (std::size_t i = 0; i < count; i += 97) ASSERT_EQ(all[i], static_cast<std::byte>(i * 37 % 251)) << i;
  }
  shuffle(*mesh, *queue, 3);
  std::string line;
  for (const std::string& l : mesh->report()) {
    const std::size_t share = l.find(", share");
    line += share == std::string::npos ? l : l.substr(share);
  }
  const mesh::Moved moved = mesh->moved();
  std::printf("choices: %s; %zu exchanges, %zu bytes, %zu of %zu free\n", line.c_str(),
              static_cast<std::size_t>(moved.exchanges), static_cast<std::size_t>(moved.bytes), mesh->memory().available,
              mesh->memory().total);
}

// Rank 1 kills itself; the other ranks must end with an error that names rank 1.
TEST(RankBody, DISABLED_DetectsAKilledRank) {
  const auto mesh = open_mesh(given("HELIOGRAPH_TEST_DEVICES"));
  const auto queue = mesh->make_queue();
  const std::string said = message_of<DeviceError>([&] {
    shuffle(*mesh, *queue, 1000000, [](int i) {
      if (own_rank() == 1 && i == 20) kill(getpid(), SIGKILL);
    });
  });
  EXPECT_TRUE(holds(said, "rank 1 (")) << said;
  EXPECT_TRUE(holds(said, "disconnected")) << said;
  EXPECT_EQ(message_of<DeviceError>([&] { queue->wait(); }), said);
}

TEST(RankBody, DISABLED_DetectsARankThatExited) {
  const auto mesh = open_mesh(given("HELIOGRAPH_TEST_DEVICES"));
  const auto queue = mesh->make_queue();
  if (own_rank() == 1) {
    shuffle(*mesh, *queue, 2);
    return;
  }
  // Another rank may detect and report the missing rank while this rank is still in the first two rounds.
  const std::string said = message_of<DeviceError>([&] { shuffle(*mesh, *queue, 12); });
  EXPECT_TRUE(holds(said, "rank 1 (")) << said;
}

TEST(RankBody, DISABLED_TimesOutOnAHangingRank) {
  const auto mesh = open_mesh(given("HELIOGRAPH_TEST_DEVICES"));
  const auto queue = mesh->make_queue();
  shuffle(*mesh, *queue, 2);
  const std::string limit = given("HELIOGRAPH_TIMEOUT");
  if (own_rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1000 * std::stoi(limit) + 400));
  const std::string said = message_of<DeviceError>([&] { shuffle(*mesh, *queue, 1); });
  EXPECT_TRUE(holds(said, "has sent nothing for " + limit) || holds(said, "has not ended for " + limit)) << said;
}

TEST(RankBody, DISABLED_TimesOutOnAStoppedRank) {
  const auto mesh = open_mesh(given("HELIOGRAPH_TEST_DEVICES"));
  const auto queue = mesh->make_queue();
  shuffle(*mesh, *queue, 2);
  const std::string said = message_of<DeviceError>([&] {
    shuffle(*mesh, *queue, 1000000, [](int i) {
      if (own_rank() == 1 && i == 20) raise(SIGSTOP);
    });
  });
  // The other ranks detect the stopped rank by the heartbeat. Without the heartbeat, a rank would wait 600 s and report "has
  // sent nothing for 600".
  EXPECT_TRUE(holds(said, "rank 1 (") && holds(said, "does not answer")) << said;
  // mpirun ends all ranks if one exits early, so this rank waits until the others have reported.
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr)
    std::atexit([] { std::this_thread::sleep_for(std::chrono::seconds(1)); });
}

TEST(RankBody, DISABLED_DividesTheGpusOfAHost) {
  const std::vector<std::string> found = device::found_devices();
  const auto mesh = open_mesh("cuda/uncalibrated");
  EXPECT_EQ(mesh->size(), std::max(found.size(), launch().ranks));
  for (const std::string& line : mesh->report()) std::printf("%s\n", line.c_str());
}

TEST(RankBody, DISABLED_MovesLongMessages) {
  const auto mesh = open_mesh(given("HELIOGRAPH_TEST_DEVICES"));
  const auto queue = mesh->make_queue();
  // Sizes in bytes: the largest message that is sent in one part, one byte more, and a message so long that the sender waits
  // for the receiver.
  for (const std::size_t bytes : {std::size_t{1} << 16, (std::size_t{1} << 16) + 1, std::size_t{100} << 20}) {
    const auto made = [&] {
      std::vector<std::byte> b(bytes);
      for (std::size_t i = 0; i < bytes; ++i) b[i] = static_cast<std::byte>(i * 31 % 253);
      return b;
    };
    EXPECT_TRUE(mesh->broadcast(made) == made()) << bytes;
  }
}

TEST(RankBody, DISABLED_RunsAnotherProgram) {
  const auto mesh = open_mesh(given("HELIOGRAPH_TEST_DEVICES"));
  const auto queue = mesh->make_queue();
  const std::string said = message_of<DeviceError>([&] {
    shuffle(*mesh, *queue, 2);  // the third rank may still be in this call when the error reaches it
    const View shape = View::dense(nullptr, Word::w64, {2}, 1, 8, own_rank() == 1 ? 2048 : 1024);
    const device::Buffer from = mesh->allocate(shape, PrimeList::range(0, 8), *queue);
    View v = shape;
    v.data = from->address();
    mesh->reshard(v, PrimeList::range(0, 8), mesh::Layout::coefficient, *queue);
    queue->wait();
  });
  EXPECT_TRUE(holds(said, "must run the same program")) << said;
}

TEST(RankBody, DISABLED_RunsOutOfMemory) {
  const auto mesh = open_mesh(given("HELIOGRAPH_TEST_DEVICES"));
  const auto queue = mesh->make_queue();
  std::atomic<bool> begun{false}, done{false};
  std::thread thief([&] {  // fails repeatedly, because the mesh retries a failed allocation
    while (!done) {
      if (begun) backend::cpu::fail_allocation(mesh->member(1), 1);
    }
  });
  const std::string said = message_of<OutOfMemoryError>(
      [&] { shuffle(*mesh, *queue, 100000, [&](int i) { begun = own_rank() == 1 && i > 2; }); });
  done = true;
  thief.join();
  EXPECT_FALSE(said.empty());
  EXPECT_EQ(holds(said, "rank 1 ("), own_rank() != 1) << said;
}

TEST(RankBody, DISABLED_IsRefused) {
  const std::string wanted = given("HELIOGRAPH_TEST_REASON");
  if (given("HELIOGRAPH_TEST_KIND") == "mismatch") {
    const std::string said = message_of<MismatchError>([&] { mesh::open_device(given("HELIOGRAPH_TEST_DEVICES")); });
    EXPECT_TRUE(holds(said, wanted)) << "said: " << said;
  } else {
    const std::string said = message_of<Error>([&] { mesh::open_device(given("HELIOGRAPH_TEST_DEVICES")); });
    EXPECT_TRUE(holds(said, wanted)) << "said: " << said;
  }
}

// Connections of other programs to a listening socket have no effect.
TEST(RankBody, DISABLED_ConnectsDespiteOtherPrograms) {
  if (own_rank() == 1) {
    const std::string place = given("HELIOGRAPH_MEET"), port = place.substr(place.rfind(':') + 1);
    for (const char* text : {"", "{}", "GET / HTTP/1.1\r\n\r\n", "{\"greeting\":\"heliograph ranks\",\"rank\":\"one\"}"}) {
      mesh::tcp::Socket s;
      while (!(s = mesh::tcp::connect("127.0.0.1", port, std::chrono::seconds(1)))) usleep(10000);
      *text ? s.send_text(text, std::chrono::seconds(1)) : s.shut();
    }
    mesh::tcp::Socket s = mesh::tcp::connect("127.0.0.1", port, std::chrono::seconds(1));
    const std::uint32_t much = 0xffffffff;
    const std::span<const std::byte> parts[] = {std::as_bytes(std::span(&much, 1))};
    if (s) s.send(parts, std::chrono::seconds(1));
  }
  const auto mesh = open_mesh(given("HELIOGRAPH_TEST_DEVICES"));
  const auto queue = mesh->make_queue();
  shuffle(*mesh, *queue, 2);
}

// ---- Tests

namespace {

// The ranks open these meshes in sequence at the same port. Options such as weights cover the members of all ranks.
const auto kOfTwo =
    devices({"cpu/batch/uncalibrated;2*cpu/limb/broadcast/staged/uncalibrated;cpu/coefficient/uncalibrated"});
const auto kOfThree = devices({"2*cpu/batch/uncalibrated/weights=1:5:1:2:1:1;cpu/limb/transpose/uncalibrated"});
// In this test the ranks have different kinds and numbers of members.
const auto kOfFour = devices({"cpu/limb/output/uncalibrated;cpu/batch/uncalibrated",
                              "2*cpu:scalar/limb/output/uncalibrated;2*cpu:scalar/batch/uncalibrated",
                              "ref/limb/output/uncalibrated;ref/batch/uncalibrated",
                              "cpu,ref/limb/output/uncalibrated;cpu,ref/batch/uncalibrated"});
const auto kWithChannels = devices({"2*channels/limb", "channels/limb"});

}  // namespace

TEST(Ranks, TwoHaveTheBitsOfRef) { expect_passed(run_ranks("HasTheBitsOfRef", 2, on_shares(0, kOfTwo))); }
TEST(Ranks, ThreeHaveTheBitsOfRef) { expect_passed(run_ranks("HasTheBitsOfRef", 3, on_shares(2, kOfThree))); }
TEST(Ranks, FourHaveTheBitsOfRef) { expect_passed(run_ranks("HasTheBitsOfRef", 4, on_shares(1, kOfFour))); }
TEST(Ranks, WithChannelsHaveTheBitsOfRef) {
  const Folder folder;
  expect_passed(run_ranks("HasTheBitsOfRef", 2, on_shares(0, folder.with(kWithChannels))));
}
TEST(FullRanks, TwoHaveTheBitsOfRef) { expect_passed(run_ranks("HasTheBitsOfRef", 2, kOfTwo)); }
TEST(FullRanks, ThreeHaveTheBitsOfRef) { expect_passed(run_ranks("HasTheBitsOfRef", 3, kOfThree)); }
TEST(FullRanks, FourHaveTheBitsOfRef) { expect_passed(run_ranks("HasTheBitsOfRef", 4, kOfFour)); }
TEST(FullRanks, WithChannelsHaveTheBitsOfRef) {
  const Folder folder;
  expect_passed(run_ranks("HasTheBitsOfRef", 2, folder.with(kWithChannels)));
}

TEST(Ranks, AKilledRankEndsTheOtherRanksChannels) {
  const Folder folder;
  auto outcomes = run_ranks("DetectsAKilledRank", 3, folder.with(devices({"channels/limb"})), 30);
  EXPECT_EQ(outcomes[1].signal, SIGKILL);
  outcomes.erase(outcomes.begin() + 1);
  expect_passed(outcomes);
}

TEST(Ranks, EncryptTheSame) {
  const auto outcomes = run_ranks("EncryptsTheSameOnEveryRank", 2, devices({"cpu/batch;2*cpu/limb;cpu/coefficient"}));
  expect_passed(outcomes);
  for (const char* layout : {"/batch: key", "/limb: key", "/coefficient: key"}) EXPECT_NE(common_line(outcomes, layout), "");
}

TEST(Ranks, ChooseByTheMeasurementsOfRank0) {
  const Folder folder;
  // Rank 1 has no cached measurement; rank 0 has a cached measurement in the second round.
  for (int round = 0; round < 2; ++round) {
    const auto outcomes = run_ranks("ChoosesTheSameOnEveryRank", 2, [&](std::size_t rank) {
      return Environment{{"HELIOGRAPH_TEST_DEVICES", "2*cpu/slowdown=1:1:1:3"},
                         {"XDG_CACHE_HOME", (folder.path() / std::to_string(rank + (rank ? round : 0))).string()}};
    });
    expect_passed(outcomes);
    EXPECT_NE(common_line(outcomes, "choices: "), "");
  }
}

TEST(Ranks, ChangedLinksAreMeasuredAgain) {
  const Folder folder;
  const auto run = [&] {
    expect_passed(run_ranks("ChoosesTheSameOnEveryRank", 2, [&](std::size_t rank) {
      return Environment{{"HELIOGRAPH_TEST_DEVICES", "cpu"},
                         {"XDG_CACHE_HOME", (folder.path() / std::to_string(rank)).string()}};
    }));
  };
  const std::filesystem::path file = folder.path() / "0" / "heliograph" / "mesh.json";
  const auto text = [&] {
    std::string all;
    std::getline(std::ifstream(file), all, '\0');
    return all;
  };
  run();
  // Changes the cache as if the hosts had a network with ten thousand times the bandwidth or latency.
  for (const std::string name : {"\"bytes_a_second\":", "\"exchange_seconds\":"}) {
    std::string planted = text();
    const std::size_t at = planted.find(name);
    ASSERT_NE(at, std::string::npos) << planted;
    const std::size_t from = at + name.size(), end = planted.find_first_of(",}", from);
    const double wrong = 1e4 * std::stod(planted.substr(from, end - from));
    planted.replace(from, end - from, std::to_string(wrong));
    std::ofstream(file) << planted;
    run();
    EXPECT_LT(std::stod(text().substr(text().find(name) + name.size())), wrong / 10) << name;
  }
}

TEST(Ranks, AKilledRankEndsTheOthers) {
  for (const char* name : {"cpu/limb/uncalibrated", "2*cpu/limb/uncalibrated"}) {
    SCOPED_TRACE(name);
    // a rank that hangs is killed after the limit of 300 s and fails
    auto outcomes = run_ranks("DetectsAKilledRank", 3, devices({name}), 300);
    EXPECT_EQ(outcomes[1].signal, SIGKILL);
    outcomes.erase(outcomes.begin() + 1);
    expect_passed(outcomes);
  }
}

TEST(Ranks, AnExitedRankIsReported) {
  expect_passed(run_ranks("DetectsARankThatExited", 3, devices({"cpu/limb/uncalibrated"}), 30));
}

TEST(Ranks, AHangingRankIsReportedAfterTheTimeout) {
  expect_passed(run_ranks(
      "TimesOutOnAHangingRank", 2,
      [](std::size_t) {
        return Environment{{"HELIOGRAPH_TEST_DEVICES", "cpu/limb/uncalibrated"}, {"HELIOGRAPH_TIMEOUT", "1"}};
      },
      30));
}

TEST(Ranks, AStoppedRankIsReported) {
  auto outcomes = run_ranks("TimesOutOnAStoppedRank", 3, [](std::size_t) {
    return Environment{{"HELIOGRAPH_TEST_DEVICES", "cpu/limb/uncalibrated"}, {"HELIOGRAPH_HASTE", "4"}};
  });
  EXPECT_FALSE(outcomes[1].passed);
  outcomes.erase(outcomes.begin() + 1);
  expect_passed(outcomes);
}

TEST(Ranks, HasteShortensTheHeartbeatOnlyInTests) {
  const auto waits = [](const char* haste) {
    struct Hurry {
      explicit Hurry(const char* haste) { setenv("HELIOGRAPH_HASTE", haste, 1); }
      ~Hurry() { unsetenv("HELIOGRAPH_HASTE"); }
    } hurry(haste);
    const mesh::TimeLimits w = mesh::time_limits_from_environment();
    return std::vector<std::int64_t>{w.probe_interval.count(), w.max_probes, w.stall_limit.count(), w.late_arrivals.count()};
  };
  EXPECT_EQ(waits(""), (std::vector<std::int64_t>{1000, 6, 7000, 5000}));
  EXPECT_EQ(waits("8"), (std::vector<std::int64_t>{125, 6, 875, 625}));
  EXPECT_THROW(waits("0"), ParameterError);
  EXPECT_EQ(mesh::Rendezvous{}.limit, std::chrono::minutes(10));
}

TEST(Ranks, AnotherProgramIsReported) {
  expect_passed(run_ranks("RunsAnotherProgram", 3, devices({"cpu/limb/uncalibrated"}), 30));
}

TEST(Ranks, OutOfMemoryIsAnErrorOnAllRanks) {
  expect_passed(run_ranks("RunsOutOfMemory", 3, devices({"cpu/limb/uncalibrated"}), 30));
}

TEST(Ranks, OtherProgramsConnectionsHaveNoEffect) {
  expect_passed(run_ranks("ConnectsDespiteOtherPrograms", 3, devices({"cpu/limb/uncalibrated"}), 60));
}

// Runs the same test bodies as processes of mpirun, which connect and exchange data by MPI.
class MpiRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string trouble = mesh::mpi::trouble(); !trouble.empty()) GTEST_SKIP() << trouble;
    if (!has_mpirun()) GTEST_SKIP() << "mpirun is not installed";
  }
};

class FullMpiRanks : public MpiRanks {};

TEST_F(MpiRanks, EncryptTheSame) {
  expect_passed({run_by_mpi("EncryptsTheSameOnEveryRank", 2, "cpu/batch;2*cpu/limb;cpu/coefficient")});
}
TEST_F(MpiRanks, ChooseTheSame) { expect_passed({run_by_mpi("ChoosesTheSameOnEveryRank", 3, "cpu")}); }
TEST_F(MpiRanks, HaveTheBitsOfRef) {
  expect_passed({run_by_mpi("HasTheBitsOfRef", 2, "cpu/limb/uncalibrated", 300, {{"HELIOGRAPH_TEST_CASES", "2"}})});
}
TEST_F(FullMpiRanks, HaveTheBitsOfRef) { expect_passed({run_by_mpi("HasTheBitsOfRef", 2, "cpu/limb/uncalibrated", 300)}); }
TEST_F(MpiRanks, MoveLongMessages) { expect_passed({run_by_mpi("MovesLongMessages", 3, "cpu/limb/uncalibrated")}); }
TEST_F(MpiRanks, AKilledRankEndsTheOthers) {
  const Outcome o = run_by_mpi("DetectsAKilledRank", 3, "cpu/limb/uncalibrated");
  EXPECT_FALSE(o.passed);
  // mpirun reports the first exit that it notices: the exit of the killed rank, or of a rank that ended because of it.
  EXPECT_TRUE((holds(o.text, "rank 1") && holds(o.text, "signal 9")) || holds(o.text, "exiting improperly")) << o.text;
}
TEST_F(MpiRanks, AStoppedRankIsReported) {
  const Outcome o = run_by_mpi("TimesOutOnAStoppedRank", 3, "cpu/limb/uncalibrated", 120, {{"HELIOGRAPH_HASTE", "4"}});
  // the stopped rank passes, too, if mpirun continues it before ending it
  EXPECT_GE(count_of(o.text, "[  PASSED  ] 1 test"), 2U) << o.text;
}

struct Disagreement {
  std::string reason, kind;
  std::vector<Environment> ranks;
};

TEST(Ranks, WithDifferentSettingsAreRefused) {
  const std::vector<Disagreement> all = {
      {"options", "mismatch", {{{"HELIOGRAPH_TEST_DEVICES", "cpu/limb"}}, {{"HELIOGRAPH_TEST_DEVICES", "cpu/batch"}}, {}}},
      {"has 4 ranks, rank 0 has 3", "mismatch", {{}, {{"HELIOGRAPH_RANKS", "4"}}, {{"HELIOGRAPH_RANKS", "4"}}}},
      {"two processes are rank 1", "mismatch", {{}, {}, {{"HELIOGRAPH_RANK", "1"}}}},
      {"unknown device", "device", {{}, {}, {{"HELIOGRAPH_TEST_DEVICES", "abacus/limb"}}}},
      {"unknown option", "device", {{{"HELIOGRAPH_TEST_DEVICES", "cpu/diagonal"}}, {}, {}}},
      {"one weight for each member", "device", {{}, {}, {}}},
  };
  for (const Disagreement& d : all) {
    SCOPED_TRACE(d.reason);
    const std::string usual = holds(d.reason, "weight") ? "cpu/weights=1:2" : "cpu/limb";
    const auto outcomes = run_ranks(
        "IsRefused", 3,
        [&](std::size_t rank) {
          Environment e = d.ranks[rank];
          e.insert({{"HELIOGRAPH_TEST_DEVICES", usual},
                    {"HELIOGRAPH_TEST_REASON", d.reason},
                    {"HELIOGRAPH_TEST_KIND", d.kind},
                    {"HELIOGRAPH_HASTE", "2"}});
          return e;
        },
        30);
    expect_passed(outcomes);
  }
}

TEST(Ranks, WithDifferentVersionsAreRefused) {
  std::vector<std::string> said(2);
  std::vector<std::thread> threads;
  const Port reserved;
  const std::string& port = reserved.number();
  for (std::size_t r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      mesh::Rendezvous meeting{.launch = {.rank = r, .ranks = 2}, .hosts = {"127.0.0.1"}, .port = port};
      said[r] = message_of<MismatchError>([&] { mesh::meet(meeting, {{"version", r ? "8.1" : "8.0"}}, {}, ""); });
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(said[0], said[1]);
  EXPECT_TRUE(holds(said[0], "has the version \"8.1\", rank 0 \"8.0\"")) << said[0];
}

TEST(Ranks, AMissingRankIsReportedAfterTheTimeout) {
  const auto extra = [](std::size_t) {
    return Environment{{"HELIOGRAPH_TEST_DEVICES", "cpu"},
                       {"HELIOGRAPH_TEST_REASON", "rank 2 did not connect to 127.0.0.1:"},
                       {"HELIOGRAPH_TIMEOUT", "2"}};
  };
  expect_passed(run_ranks("IsRefused", 3, extra, 20, 2));
  const auto headless = [](std::size_t) {
    return Environment{{"HELIOGRAPH_RANK", "1"},
                       {"HELIOGRAPH_TEST_DEVICES", "cpu"},
                       {"HELIOGRAPH_TEST_REASON", "rank 0 did not answer at 127.0.0.1:"},
                       {"HELIOGRAPH_TIMEOUT", "2"}};
  };
  expect_passed(run_ranks("IsRefused", 2, headless, 20, 1));
}

TEST(Ranks, RefuseInvalidEnvironmentVariables) {
  for (const auto& [variable, value] : Environment{{"HELIOGRAPH_RANK", "2"},
                                                   {"HELIOGRAPH_RANKS", "many"},
                                                   {"HELIOGRAPH_MEET", "nowhere"},
                                                   {"HELIOGRAPH_TIMEOUT", "0"}}) {
    expect_passed(run_ranks(
        "IsRefused", 2,
        [&, name = variable, text = value](std::size_t) {
          return Environment{
              {name, text}, {"HELIOGRAPH_TEST_DEVICES", "cpu"}, {"HELIOGRAPH_TEST_REASON", name + " is \"" + text}};
        },
        20));
  }
}

// ---- GPUs: one per rank, with channels if this build has them

namespace {

std::size_t gpus() { return static_cast<std::size_t>(std::max(0, backend::cuda::count())); }

std::function<Environment(std::size_t)> a_gpu_each(const std::string& options) {
  return [options](std::size_t rank) {
    std::string all;
    const std::string gpu = std::string("cuda:").append(std::to_string(rank));
    for (const std::string& o : split(options, ';')) all.append(all.empty() ? "" : ";").append(gpu).append(o);
    return Environment{{"HELIOGRAPH_TEST_DEVICES", all}, {"HELIOGRAPH_DEVICE", ""}};
  };
}

class GpuRanks : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    if (backend::cuda::count(&reason) == 0) GTEST_SKIP() << reason;
    if (gpus() < 2) GTEST_SKIP() << "needs two GPUs";
    if (device::open_device("cuda:0")->endpoint()->identity().empty())
      GTEST_SKIP() << "this build has no channels between GPUs";
  }
};

}  // namespace

TEST_F(GpuRanks, HaveTheBitsOfRef) {
  expect_passed(run_ranks("HasTheBitsOfRef", std::min<std::size_t>(gpus(), 4),
                          a_gpu_each("/batch/uncalibrated;/limb/uncalibrated;/limb/output/broadcast/uncalibrated;"
                                     "/coefficient/uncalibrated;/limb/uncalibrated/sockets"),
                          600));
}
TEST_F(GpuRanks, EncryptTheSame) {
  const auto outcomes = run_ranks("EncryptsTheSameOnEveryRank", 2, a_gpu_each("/batch;/limb"));
  expect_passed(outcomes);
  EXPECT_NE(common_line(outcomes, "/limb: key"), "");
}
TEST_F(GpuRanks, DivideTheGpusOfAHost) { expect_passed(run_ranks("DividesTheGpusOfAHost", 2)); }
TEST_F(GpuRanks, ChooseTheSame) {
  const auto outcomes = run_ranks("ChoosesTheSameOnEveryRank", 2, a_gpu_each("/limb"));
  expect_passed(outcomes);
  std::printf("%s\n", common_line(outcomes, "choices: ").c_str());
}
TEST_F(GpuRanks, AKilledRankEndsTheOthers) {
  auto outcomes = run_ranks("DetectsAKilledRank", 2, a_gpu_each("/limb/uncalibrated"), 60);
  EXPECT_EQ(outcomes[1].signal, SIGKILL);
  outcomes.erase(outcomes.begin() + 1);
  expect_passed(outcomes);
}
TEST_F(GpuRanks, AHangingRankIsReportedAfterTheTimeout) {
  expect_passed(run_ranks(
      "TimesOutOnAHangingRank", 2,
      [](std::size_t rank) {
        Environment e = a_gpu_each("/limb/uncalibrated")(rank);
        e["HELIOGRAPH_TIMEOUT"] = "10";
        return e;
      },
      60));
}

// If there is only one GPU, two ranks use it together; they exchange data by sockets.
TEST(GpuRanksBySockets, HaveTheBitsOfRef) {
  std::string reason;
  if (backend::cuda::count(&reason) == 0) GTEST_SKIP() << reason;
  expect_passed(
      run_ranks("HasTheBitsOfRef", 2, devices({"cuda:0/limb/uncalibrated/sockets;cuda:0,cpu/batch/uncalibrated"}), 600));
}

}  // namespace heliograph::test
