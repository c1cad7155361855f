// Fuzz targets for the container format and its JSON header, which the files of all schemes use.
#include <algorithm>
#include <string_view>

#include "io/container.h"
#include "targets.h"

namespace heliograph::fuzz {

namespace {

using io::Container;
using io::Json;

/// Calls every accessor on every field; each accessor returns a value or throws DamagedFileError.
void read_everything(const Json& value) {
  constexpr std::size_t kMost = 1 << 20;
  attempt([&] { value.as_bool("value"); });
  attempt([&] { value.as_unsigned("value", 1000); });
  attempt([&] { value.as_signed("value", -1000, 1000); });
  attempt([&] { value.as_double("value"); });
  attempt([&] { value.as_string("value", 16); });
  attempt([&] {
    for (const Json& item : value.as_array("value", kMost)) read_everything(item);
  });
  attempt([&] {
    for (const auto& field : value.as_object("value")) {
      const std::string& name = field.first;
      value.at(name);
      attempt([&] { value.unsigned_array_at(name, 16); });
      attempt([&] { value.require_only({"a", "b"}, "value"); });
      read_everything(field.second);
    }
  });
}

void run_json(std::span<const std::byte> input) {
  const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  Json value;
  if (!attempt([&] { value = Json::parse(text); })) return;
  const std::string canonical = value.dump();
  const Json again = Json::parse(canonical);
  expect(again == value, "a JSON value differs from the parsed canonical text");
  expect(again.dump() == canonical, "a canonical text differs from the text of its value");
  if (choice(input, 16) == 0) read_everything(value);
}

void read_arrays(const Container& c) {
  std::uint64_t sum = 0;
  const auto add = [&]<class T>(const io::Array& a, T) {
    if (a.dtype == io::dtype_of<T>)
      for (const T v : a.values<T>()) sum += static_cast<std::uint64_t>(v);
  };
  for (const io::Array& a : c.arrays) {
    add(a, std::uint8_t{}), add(a, std::int8_t{}), add(a, std::uint32_t{}), add(a, std::uint64_t{}), add(a, std::int64_t{});
    expect(&c.array(a.name, a.dtype, a.shape) == &a, "an array cannot be found by its name");
  }
  volatile std::uint64_t kept = sum;  // reads the words
  static_cast<void>(kept);
}

void run_container(std::span<const std::byte> input) {
  Container in_place, copied, peeked;
  const bool read = attempt([&] { in_place = io::from_bytes(input, false); });
  const bool read_copy = attempt([&] { copied = io::from_bytes(input, true); });
  expect(read == read_copy, "a copied container is read differently from one in place");
  if (read) {
    read_arrays(in_place), read_arrays(copied);
    if (choice(input, 16) == 0) read_everything(in_place.header);
    const Bytes again = io::to_bytes(in_place);
    const bool same = std::equal(again.begin(), again.end(), input.begin(), input.end());
    expect(same == (in_place.version == io::format_version), "a container that was read is written with other bytes");
  }
  if (choice(input, 8) != 0) return;
  const MemoryFile file(input);
  const bool peek = attempt([&] { peeked = io::peek(file.path()); });
  const bool loaded = attempt([&] { read_arrays(io::load(file.path(), {.secret = choice(input, 16) == 0})); });
  expect(loaded == read, "a container is read differently from a file than from bytes");
  expect(peek || !loaded, "the header of a readable container cannot be read alone");
}

Container sample() {
  static const std::vector<std::uint64_t> words = {0, 1, 0xffffffffffffffff, 0x0123456789abcdef, 5, 6};
  static const std::vector<std::int8_t> weights = {-128, 127, 0};
  static const std::vector<std::int64_t> scalar = {-42};
  Container c;
  c.type = "test.sample";
  c.header = Json::object({{"n", 4096}, {"key", "00ff"}, {"list", Json::array({1, -2, 2.5, nullptr, true})}});
  c.arrays = {io::Array::of<std::uint64_t>("words", {2, 3}, words), io::Array::of<std::int8_t>("weights", {3, 1}, weights),
              io::Array::of<std::uint64_t>("nothing", {5, 0}, {}), io::Array::of<std::int64_t>("scalar", {}, scalar)};
  return c;
}

const std::vector<Bytes>& containers() {
  static const std::vector<Bytes> all = [] {
    Container empty;
    empty.type = "t";
    return std::vector<Bytes>{io::to_bytes(sample()), io::to_bytes(empty)};
  }();
  return all;
}

const std::vector<Bytes>& texts() {
  static const std::vector<Bytes> all = [] {
    std::vector<Bytes> found;
    for (const std::string_view text :
         {R"({"a":[1,-2,2.5,null,true,false],"b":{"c":"\n\u0001\"\\"}})",
          R"(["\ud83d\ude00",18446744073709551615,-9223372036854775808])", R"([1e300,-0.0,5e-324,[[[[]]]],{}])"}) {
      const auto bytes = std::as_bytes(std::span(text));
      found.emplace_back(bytes.begin(), bytes.end());
    }
    return found;
  }();
  return all;
}

}  // namespace

std::vector<Target> io_targets() {
  return {{"json", run_json, texts, false}, {"container", run_container, containers, true}};
}

}  // namespace heliograph::fuzz
