// Containers in memory are read as they were written, and damage of every kind is detected.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include "base/errors.h"
#include "container_sample.h"
#include "heliograph/container.h"
#include "io/container.h"
#include "io/sha256.h"

namespace heliograph::io {
namespace {

constexpr std::size_t max_size = ~std::size_t{0};

/// Recomputes the digest, so that only the other checks of the reader can detect changed bytes.
Bytes& sign(Bytes& bytes) {
  const Digest digest = sha256(std::span<const std::byte>(bytes).first(bytes.size() - 32));
  std::memcpy(bytes.data() + bytes.size() - 32, digest.data(), 32);
  return bytes;
}

void put_u32(Bytes& bytes, std::size_t at, std::uint32_t value) { std::memcpy(bytes.data() + at, &value, 4); }
void put_u64(Bytes& bytes, std::size_t at, std::uint64_t value) { std::memcpy(bytes.data() + at, &value, 8); }

/// Returns a forged file: this header text, `body` zero bytes after its padding, and a matching digest.
Bytes forge(const std::string& text, std::size_t body = 0) {
  Bytes bytes((32 + text.size() + 63) / 64 * 64 + body + 32);
  const unsigned char magic[] = {0x89, 'H', 'E', 'L', 'I', 'O', '\r', '\n'};
  std::memcpy(bytes.data(), magic, 8);
  put_u32(bytes, 8, 1);
  put_u64(bytes, 16, text.size());
  put_u64(bytes, 24, bytes.size());
  std::memcpy(bytes.data() + 32, text.data(), text.size());
  return sign(bytes);
}

template <class E>
void expect_error(const Bytes& bytes, const std::string& part) {
  try {
    from_bytes(bytes);
    ADD_FAILURE() << "no error, expected one with: " << part;
  } catch (const E& error) {
    EXPECT_TRUE(typeid(error) == typeid(E)) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

/// Returns an array of the octets 0, 1, ... 9, written in pieces of these sizes; reading the complete array at once is an
/// error.
Array in_pieces(const std::vector<std::size_t>& sizes) {
  const auto never = []() -> Held { throw InternalError("read whole"); };
  return Array::made("octets", "u8", {10}, never, [sizes](const Sink& sink) {
    std::uint8_t next = 0;
    for (const std::size_t size : sizes) {
      std::vector<std::uint8_t> piece(size);
      for (std::uint8_t& octet : piece) octet = next++;
      sink(std::as_bytes(std::span(piece)));
    }
  });
}

TEST(Container, ArraysInPieces) {
  const std::vector<std::uint8_t> all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  Container whole = sample(), pieces = whole;
  whole.arrays[1] = Array::of<std::uint8_t>("octets", {10}, all);
  for (const std::vector<std::size_t>& sizes : {std::vector<std::size_t>{10}, {3, 0, 7}, {1, 1, 8, 0}}) {
    pieces.arrays[1] = in_pieces(sizes);
    EXPECT_EQ(to_bytes(pieces), to_bytes(whole));
    Bytes sent;
    write(pieces, [&](std::span<const std::byte> piece) { sent.insert(sent.end(), piece.begin(), piece.end()); });
    EXPECT_EQ(sent, to_bytes(whole));
  }
  for (const std::vector<std::size_t>& sizes : {std::vector<std::size_t>{9}, {5, 6}, {}, {10, 1}}) {
    pieces.arrays[1] = in_pieces(sizes);
    EXPECT_THROW(to_bytes(pieces), InternalError);
  }
}

TEST(Container, RoundTrip) {
  const Container before = sample();
  const Bytes bytes = to_bytes(before);
  EXPECT_EQ(bytes.size(), byte_size(before));
  EXPECT_EQ(bytes.size() % 64, 32u);
  for (const bool copy : {true, false}) {
    const Container after = from_bytes(bytes, copy);
    EXPECT_TRUE(same(before, after));
    EXPECT_TRUE(after.verified);
    EXPECT_EQ(after.file_bytes, bytes.size());
    EXPECT_EQ(to_bytes(after), bytes);
    EXPECT_EQ(after.array("words", "u64", {2, 3}).values<std::uint64_t>()[3], 0x0123456789abcdefu);
    EXPECT_EQ(after.array("weights", "i8", {3, 1}).values<std::int8_t>()[0], -128);
    EXPECT_EQ(after.array("scalar", "i64", {}).values<std::int64_t>()[0], -42);
    EXPECT_EQ(after.array("halves", "u32", {2}).values<std::uint32_t>()[0], 0xffffffffu);
    EXPECT_TRUE(after.array("nothing", "u64", {5, 0}).values<std::uint64_t>().empty());
    for (const Array& array : after.arrays) EXPECT_EQ(array.owner == nullptr, !copy);
  }
}

TEST(Container, ReadingMakesACopyOfTheBytes) {
  Bytes bytes = to_bytes(sample());
  const Container kept = from_bytes(bytes);
  std::fill(bytes.begin(), bytes.end(), std::byte{0xee});
  EXPECT_TRUE(same(kept, sample()));
}

TEST(Container, MisalignedBytesAreCopied) {
  const Bytes bytes = to_bytes(sample());
  Bytes shifted(bytes.size() + 1);
  std::copy(bytes.begin(), bytes.end(), shifted.begin() + 1);
  const Container after = from_bytes(std::span<const std::byte>(shifted).subspan(1), false);
  EXPECT_NE(after.arrays[0].owner, nullptr);
  EXPECT_EQ(after.array("words", "u64", {2, 3}).values<std::uint64_t>()[4], 5u);
}

TEST(Container, WrittenInPieces) {
  const Container before = sample();
  Bytes pieces;
  write(before, [&](std::span<const std::byte> piece) { pieces.insert(pieces.end(), piece.begin(), piece.end()); });
  EXPECT_EQ(pieces, to_bytes(before));
  const auto full = [](std::span<const std::byte>) { throw OutOfMemoryError("full"); };
  EXPECT_THROW(write(before, full), OutOfMemoryError);
}

TEST(Container, IsReadWhileItArrives) {
  const Bytes whole = to_bytes(sample());
  for (const bool copy : {true, false}) {
    Bytes come(whole.size(), std::byte{0xee});  // bytes that have not arrived yet have arbitrary values
    std::size_t there = 0;
    const auto arrived = [&](std::size_t count) {
      ASSERT_LE(count, whole.size());
      for (; there < count; ++there) come[there] = whole[there];
    };
    const Container after = from_bytes(come, copy, kAnyBytes, arrived);
    EXPECT_EQ(there, whole.size());
    EXPECT_TRUE(same(after, sample()));
  }
  const auto never = [](std::size_t count) {
    if (count > 100) throw CancelledError("it ends");
  };
  EXPECT_THROW(from_bytes(whole, false, kAnyBytes, never), CancelledError);
  Bytes damaged = whole;
  damaged[damaged.size() / 2] ^= std::byte{1};
  EXPECT_THROW(from_bytes(damaged, false, kAnyBytes, [](std::size_t) {}), DamagedFileError);
}

TEST(Container, NoArraysAndManyArrays) {
  Container c;
  c.type = std::string("t");
  EXPECT_TRUE(same(from_bytes(to_bytes(c)), c));
  for (std::uint8_t i = 0; i < 200; ++i) c.arrays.push_back(Array::of<std::uint8_t>(std::to_string(i), {7}, octets));
  const Bytes bytes = to_bytes(c);
  EXPECT_TRUE(same(from_bytes(bytes), c));
  Bytes direct(byte_size(c));
  write_bytes(c, direct);
  EXPECT_EQ(direct, bytes);
  direct.pop_back();
  EXPECT_THROW(write_bytes(c, direct), InternalError);
}

TEST(Container, OffsetsAreRightForEveryHeaderLength) {
  Container c;
  c.type = std::string("t");
  for (int i = 0; i < 1200; ++i) {
    c.header = Json::object({{"pad", std::string(i, 'x')}});
    c.arrays = {Array::of<std::uint8_t>("a", {7}, octets), Array::of<std::uint64_t>("b", {6}, words)};
    ASSERT_TRUE(same(from_bytes(to_bytes(c)), c)) << i;
  }
}

TEST(Container, RefusesUnwritableContents) {
  const auto refused = [](auto change) {
    Container c = sample();
    change(c);
    EXPECT_THROW(to_bytes(c), InternalError);
  };
  refused([](Container& c) { c.type.clear(); });
  refused([](Container& c) { c.type = std::string(65, 'a'); });
  refused([](Container& c) { c.type = "\xff"; });
  refused([](Container& c) { c.header = Json::array(); });
  refused([](Container& c) { c.arrays[1].name = "words"; });
  refused([](Container& c) { c.arrays[1].name.clear(); });
  refused([](Container& c) { c.arrays[1].name = std::string(257, 'a'); });
  refused([](Container& c) { c.arrays[1].dtype = "f64"; });
  refused([](Container& c) { c.arrays[1].shape = {8}; });
  refused([](Container& c) { c.arrays[1].shape = std::vector<std::size_t>(17, 1); });
  Container c = sample();
  c.arrays[0].shape = {std::size_t{1} << 61, 8};
  EXPECT_THROW(to_bytes(c), OutOfMemoryError);
  c = sample();
  c.header["big"] = std::string(Json::max_text, 'a');
  EXPECT_THROW(to_bytes(c), FormatError);
}

TEST(Container, ChecksTypeAndShapeOfArrays) {
  const Container c = from_bytes(to_bytes(sample()));
  const auto message = [&](auto... arguments) -> std::string {
    try {
      c.array(arguments...);
    } catch (const DamagedFileError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(message("wordz", "u64", std::vector<std::size_t>{2, 3}).find("'wordz'"), std::string::npos);
  EXPECT_NE(message("words", "u64", std::vector<std::size_t>{3, 2}).find("u64[2, 3], expected u64[3, 2]"),
            std::string::npos);
  EXPECT_NE(message("words", "i64", std::vector<std::size_t>{2, 3}).find("expected i64"), std::string::npos);
  EXPECT_NE(message("words", "u64", std::vector<std::size_t>{2}).find("expected u64[2]"), std::string::npos);
  EXPECT_NE(message("words", "u64", std::vector<std::size_t>{}).find("expected u64[]"), std::string::npos);
  EXPECT_THROW(c.find("words")->values<std::int64_t>(), InternalError);
}

TEST(ContainerDamage, TruncationAtEveryLength) {
  const Bytes bytes = to_bytes(sample());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    expect_error<DamagedFileError>({bytes.begin(), bytes.begin() + length}, "truncated");
  }
}

TEST(ContainerDamage, EverySingleBitFlipped) {
  const Bytes bytes = to_bytes(sample());
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    Bytes flipped = bytes;
    flipped[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    const std::size_t at = bit / 8;
    if (at < 8) {
      expect_error<FormatError>(flipped, "not a Heliograph file");
    } else if (at == 8 && bit % 8 < 2) {  // 3 becomes 2 or 1, the numbers of older versions
      expect_error<DamagedFileError>(flipped, "digest");
    } else if (at < 12) {
      expect_error<VersionError>(flipped, "reads versions 1 to 3");
    } else {
      expect_error<DamagedFileError>(flipped, at >= 32 ? "digest" : "");
    }
  }
}

// Flips every bit and recomputes the digest, so that only the other checks can detect the flip.
TEST(ContainerDamage, EverySingleBitFlippedAndSigned) {
  const Container original = sample();
  const Bytes bytes = to_bytes(original);
  const std::size_t first_array = 576;  // end of sample()'s header and its padding
  ASSERT_EQ(std::memcmp(bytes.data() + first_array, words.data(), 48), 0);
  std::size_t accepted = 0;
  for (std::size_t bit = 0; bit < 8 * (bytes.size() - 32); ++bit) {
    Bytes flipped = bytes;
    flipped[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    try {
      const Container read = from_bytes(sign(flipped));
      if (bit / 8 == 8) {  // an older version with the same layout
        ASSERT_EQ(read.version, flipped[8] == std::byte{1} ? 1u : 2u);
        continue;
      }
      ASSERT_FALSE(same(read, original)) << bit;  // the flip makes another valid file: a name, value or element differs
      ASSERT_EQ(to_bytes(read), flipped) << bit;
      ++accepted;
      const std::size_t within = bit / 8 < first_array ? 0 : (bit / 8 - first_array) % 64;
      ASSERT_LT(within, 48u) << "padding was accepted at byte " << bit / 8;
    } catch (const FormatError&) {
    }
  }
  EXPECT_GE(accepted, 8 * (48 + 7 + 3 + 8 + 8));  // each flipped bit of an element makes another valid file
}

TEST(ContainerDamage, Oversized) {
  Bytes bytes = to_bytes(sample());
  bytes.push_back(std::byte{0});
  expect_error<DamagedFileError>(bytes, "oversized");
  bytes.resize(bytes.size() + 5000);
  expect_error<DamagedFileError>(bytes, "oversized");
  const Bytes one = to_bytes(sample());
  bytes = one;
  bytes.insert(bytes.end(), one.begin(), one.end());
  expect_error<DamagedFileError>(bytes, "oversized");
  put_u64(bytes, 24, bytes.size());  // length and digest match, but some bytes follow the arrays
  expect_error<DamagedFileError>(sign(bytes), "do not fill");
}

TEST(ContainerDamage, ForeignFiles) {
  for (const std::string text :
       {"{\"type\":\"x\"}", "PK\x03\x04", "\x89PNG\r\n\x1a\n", "\x89HELIO\n\n padding padding padding padding"}) {
    const auto bytes = std::as_bytes(std::span(text));
    expect_error<FormatError>({bytes.begin(), bytes.end()}, "not a Heliograph file");
  }
  expect_error<FormatError>(Bytes(4096), "not a Heliograph file");
}

TEST(ContainerDamage, PrefixFields) {
  const Bytes good = to_bytes(sample());
  for (const std::uint32_t version : {0u, 4u, 256u, 0xffffffffu}) {
    Bytes bytes = good;
    put_u32(bytes, 8, version);
    expect_error<VersionError>(sign(bytes), "version " + std::to_string(version) + "; this release reads versions 1 to 3");
  }
  Bytes bytes = good;
  put_u32(bytes, 12, 1);
  expect_error<DamagedFileError>(sign(bytes), "reserved");
  for (const std::size_t length : {std::size_t{Json::max_text} + 1, max_size, max_size - 31, std::size_t{1} << 63}) {
    bytes = good;
    put_u64(bytes, 16, length);
    expect_error<DamagedFileError>(sign(bytes), "at most 1 MiB");
  }
  for (const std::size_t length : {good.size(), good.size() - 32, std::size_t{Json::max_text}}) {
    bytes = good;
    put_u64(bytes, 16, length);
    expect_error<DamagedFileError>(sign(bytes), "longer than the file");
  }
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{400}}) {
    bytes = good;
    put_u64(bytes, 16, length);
    expect_error<DamagedFileError>(sign(bytes), "");
  }
  for (const std::size_t total : {good.size() + 1, good.size() + 64, max_size}) {
    bytes = good;
    put_u64(bytes, 24, total);
    expect_error<DamagedFileError>(sign(bytes), "truncated");
  }
  bytes = good;
  put_u64(bytes, 24, good.size() - 1);
  expect_error<DamagedFileError>(sign(bytes), "oversized");
  for (const std::size_t total : {0, 1, 95}) {
    bytes = good;
    put_u64(bytes, 24, total);
    expect_error<DamagedFileError>(sign(bytes), "longer than the file");
  }
}

std::string entry(const std::string& shape, const std::string& offset, const std::string& bytes,
                  const std::string& name = "\"a\"", const std::string& dtype = "\"u8\"") {
  return "{\"bytes\":" + bytes + ",\"dtype\":" + dtype + ",\"name\":" + name + ",\"offset\":" + offset +
         ",\"shape\":" + shape + "}";
}

std::string header(const std::string& arrays) { return "{\"arrays\":[" + arrays + "],\"header\":{},\"type\":\"t\"}"; }

TEST(ContainerDamage, ValidForgedHeadersAreAccepted) {
  EXPECT_EQ(from_bytes(forge(header(""))).type, "t");
  EXPECT_EQ(from_bytes(forge(header(entry("[7]", "128", "7")), 64)).arrays.size(), 1u);
  EXPECT_EQ(
      from_bytes(forge(header(entry("[7]", "192", "7") + "," + entry("[64]", "256", "64", "\"b\"")), 128)).arrays.size(),
      2u);
}

TEST(ContainerDamage, ForgedHeaders) {
  const std::string deep = std::string(40, '[') + std::string(40, ']');
  const std::pair<std::string, std::string> cases[] = {
      {"", "malformed"},
      {"{", "malformed"},
      {"[]", "not an object"},
      {"7", "not an object"},
      {"{\"arrays\":[],\"header\":{},\"type\":\"t\"} ", "canonical"},
      {"{\"arrays\": [],\"header\":{},\"type\":\"t\"}", "canonical"},
      {"{\"header\":{},\"arrays\":[],\"type\":\"t\"}", "canonical"},
      {"{\"arrays\":[],\"header\":{\"x\":1.50},\"type\":\"t\"}", "canonical"},
      {"{\"arrays\":[],\"header\":{\"x\":\"\\u0041\"},\"type\":\"t\"}", "canonical"},
      {"{\"arrays\":[],\"header\":{},\"type\":\"t\",\"type\":\"t\"}", "twice"},
      {"{\"arrays\":[],\"header\":{\"x\":1,\"x\":1},\"type\":\"t\"}", "twice"},
      {"{\"arrays\":[],\"header\":{\"x\":" + deep + "},\"type\":\"t\"}", "nested"},
      {"{\"arrays\":[],\"header\":{},\"more\":0,\"type\":\"t\"}", "'more'"},
      {"{\"header\":{},\"type\":\"t\"}", "'arrays'"},
      {"{\"arrays\":[],\"type\":\"t\"}", "'header'"},
      {"{\"arrays\":[],\"header\":{}}", "'type'"},
      {"{\"arrays\":{},\"header\":{},\"type\":\"t\"}", "'arrays'"},
      {"{\"arrays\":[],\"header\":[],\"type\":\"t\"}", "'header'"},
      {"{\"arrays\":[],\"header\":{},\"type\":7}", "'type'"},
      {"{\"arrays\":[],\"header\":{},\"type\":\"\"}", "type is empty"},
      {"{\"arrays\":[],\"header\":{},\"type\":\"" + std::string(65, 't') + "\"}", "'type'"},
      {"{\"arrays\":[],\"header\":{},\"type\":\"\xff\"}", "UTF-8"},
      {header("7"), "'arrays'"},
      {header("{}"), "'name'"},
      {header(entry("[7]", "128", "7", "\"\"")), "no name"},
      {header(entry("[7]", "128", "7", "7")), "'name'"},
      {header(entry("[7]", "128", "7", "\"" + std::string(257, 'n') + "\"")), "'name'"},
      {header(entry("[7]", "128", "7", "\"a\"", "\"f64\"")), "unknown dtype"},
      {header(entry("[7]", "128", "7", "\"a\"", "\"\"")), "unknown dtype"},
      {header(entry("7", "128", "7")), "'shape'"},
      {header(entry("[-7]", "128", "7")), "'shape'"},
      {header(entry("[7.0]", "128", "7")), "'shape'"},
      {header(entry("[18446744073709551615]", "128", "18446744073709551615")), "'shape'"},
      {header(entry("[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,7]", "192", "7")), "'shape'"},
      {header(entry("[4294967296,4294967296]", "192", "0")), "overflows"},
      {header(entry("[4611686018427387904]", "192", "0", "\"a\"", "\"u64\"")), "overflows"},
      {header(entry("[4611686018427387904]", "192", "4611686018427387904")), "beyond the file"},
      {header(entry("[65]", "192", "65")), "beyond the file"},
      {header(entry("[8]", "128", "7")), "does not match its shape"},
      {header(entry("[7]", "128", "8")), "does not match its shape"},
      {header(entry("[7]", "128", "\"7\"")), "'bytes'"},
      {header(entry("[7]", "129", "7")), "has the wrong offset"},
      {header(entry("[7]", "64", "7")), "has the wrong offset"},
      {header(entry("[7]", "0", "7")), "has the wrong offset"},
      {header(entry("[7]", "192", "7")), "has the wrong offset"},
      {header(entry("[7]", "18446744073709551552", "7")), "has the wrong offset"},
      // the two arrays overlap
      {header(entry("[7]", "192", "7") + "," + entry("[7]", "192", "7", "\"b\"")), "has the wrong offset"},
      {header(entry("[7]", "192", "7") + "," + entry("[7]", "256", "7")), "beyond the file"},
      {header(""), "do not fill"}};
  for (const auto& [text, part] : cases) {
    SCOPED_TRACE(text.substr(0, 120));
    expect_error<DamagedFileError>(forge(text, 64), part);
  }
  expect_error<DamagedFileError>(forge(header(entry("[7]", "192", "7") + "," + entry("[7]", "256", "7")), 128), "same name");
  expect_error<DamagedFileError>(forge(header(entry("[7]", "128", "7")), 128), "do not fill");
  expect_error<DamagedFileError>(forge(std::string(900000, '[')), "nested");
  for (const std::size_t padding : {32 + header("").size(), std::size_t{127}}) {
    Bytes loud = forge(header(""));
    loud[padding] = std::byte{1};
    expect_error<DamagedFileError>(sign(loud), "padding");
  }
}

TEST(ContainerDamage, MutantsAreRefusedOrValid) {
  const Bytes original = to_bytes(sample());
  std::mt19937_64 random(1);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    Bytes bytes = original;
    for (std::uint64_t k = random() % 4 + 1; k != 0; --k) {
      const std::size_t at = random() % (random() % 2 ? std::min<std::size_t>(bytes.size(), 560) : bytes.size());
      switch (random() % 6) {
        case 0:
          bytes[at] ^= static_cast<std::byte>(1 << random() % 8);
          break;
        case 1:
          bytes[at] = static_cast<std::byte>(random());
          break;
        case 2:
          bytes[at] = static_cast<std::byte>("0123456789\"{}[],:"[random() % 17]);
          break;
        case 3:
          bytes.erase(bytes.begin() + at, bytes.begin() + std::min(bytes.size(), at + random() % 70));
          break;
        case 4:
          bytes.insert(bytes.begin() + at, random() % 70, static_cast<std::byte>(random() % 2 ? 0 : random()));
          break;
        default:
          std::swap(bytes[at], bytes[random() % bytes.size()]);
      }
      if (bytes.size() < 64) bytes.resize(64);
    }
    if (random() % 4 != 0) {
      if (random() % 2) put_u64(bytes, 24, bytes.size());
      sign(bytes);
    }
    try {
      const Container read = from_bytes(bytes, random() % 2 == 0);
      ++accepted;
      ASSERT_EQ(to_bytes(read), bytes) << i;  // the reader accepts only canonical bytes
    } catch (const Error&) {
    }
  }
  EXPECT_GT(accepted, 100);
}

/// Writes a container by the public writer, array by array.
Bytes written(const Container& c) {
  std::vector<container::Array> arrays;
  for (const Array& a : c.arrays) arrays.push_back({.name = a.name, .dtype = a.dtype, .shape = a.shape});
  container::Writer writer(c.type, c.header.dump(), arrays);
  Bytes bytes = writer.head();
  const auto append = [&](std::span<const std::byte> piece) { bytes.insert(bytes.end(), piece.begin(), piece.end()); };
  for (const Array& a : c.arrays) append(a.data), append(writer.padding(a.data));
  append(writer.digest());
  return bytes;
}

TEST(PublicContainer, IsWrittenArrayByArray) { EXPECT_EQ(written(sample()), to_bytes(sample())); }

TEST(PublicContainer, DescribesAFile) {
  const Bytes bytes = to_bytes(sample());
  const container::Contents found = container::read(bytes);
  EXPECT_EQ(found.type, "test.sample");
  EXPECT_EQ(found.header, sample().header.dump());
  EXPECT_EQ(found.digest, to_hex(sha256(std::span<const std::byte>(bytes))));
  ASSERT_EQ(found.arrays.size(), sample().arrays.size());
  for (std::size_t i = 0; i < found.arrays.size(); ++i) {
    const Array wanted = sample().arrays[i];
    const container::Array& a = found.arrays[i];
    EXPECT_EQ(std::tie(a.name, a.dtype, a.shape), std::tie(wanted.name, wanted.dtype, wanted.shape));
    ASSERT_EQ(a.bytes, wanted.data.size());
    EXPECT_TRUE(std::equal(wanted.data.begin(), wanted.data.end(), bytes.begin() + static_cast<std::ptrdiff_t>(a.offset)));
  }
}

TEST(PublicContainer, ReadsHeaderAndTypeFromTheFirstBytes) {
  const Bytes bytes = to_bytes(sample());
  const std::span<const std::byte> all(bytes);
  const std::size_t end = container::header_end(all.first(container::kPrefixBytes), bytes.size());
  EXPECT_EQ(container::header_end(all, bytes.size()), end);
  EXPECT_EQ(container::type_of(all.first(end)), "test.sample");
  for (const std::size_t few : {std::size_t{0}, std::size_t{31}, end - 1})
    EXPECT_EQ(container::type_of(all.first(few)), std::nullopt);
  EXPECT_THROW(container::header_end(all.first(20), 20), DamagedFileError);
  EXPECT_THROW(container::header_end(all, bytes.size() - 1), DamagedFileError);
  const Bytes other(64);
  EXPECT_THROW(container::header_end(other, 64), FormatError);
  EXPECT_EQ(container::type_of(other), std::nullopt);
}

TEST(PublicContainer, RefusesChangedBytesAndLargeHeaders) {
  Bytes bytes = to_bytes(sample());
  bytes[bytes.size() - 40] ^= std::byte{1};
  EXPECT_THROW(container::read(bytes), DamagedFileError);
  const std::string large(container::kMaxHeaderBytes - 8, 'x');
  EXPECT_THROW(container::Writer("test", "{\"pad\":\"" + large + "\"}", {}), FormatError);
  EXPECT_THROW(container::Writer("test", "{\"pad\":\"" + large.substr(20) + "\"}", {}), FormatError);
  EXPECT_THROW(container::Writer("test", "{", {}), DamagedFileError);
  EXPECT_THROW(container::Writer("test", "{}", std::vector<container::Array>((1 << 16) + 1)), FormatError);
  container::Writer writer("test", "{}", {{.name = "a", .dtype = "u8", .shape = {2}}});
  EXPECT_THROW(writer.digest(), InternalError);
  EXPECT_THROW(writer.padding(std::span<const std::byte>(bytes).first(3)), InternalError);
}

}  // namespace
}  // namespace heliograph::io
