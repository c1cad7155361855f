// JSON and SHA-256, the parts of the file container.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "base/errors.h"
#include "base/shared.h"
#include "io/json.h"
#include "io/sha256.h"

namespace heliograph::io {
namespace {

constexpr auto max_u64 = std::numeric_limits<std::uint64_t>::max();
constexpr auto min_i64 = std::numeric_limits<std::int64_t>::min();

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

template <class Body>
std::string message_of(Body body) {
  try {
    body();
  } catch (const DamagedFileError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Json, CanonicalText) {
  Json value;
  value["zeta"] = 1;
  value["alpha"]["list"].push_back(nullptr);
  value["alpha"]["list"].push_back(true);
  value["alpha"]["list"].push_back(-7);
  value["alpha"]["list"].push_back(max_u64);
  value["alpha"]["list"].push_back(min_i64);
  value["alpha"]["list"].push_back(0.5);
  value["text"] = "a\"b\\c\n\x01\x7f \xc3\xa9 \xf0\x9f\x94\x86";
  value["empty"] = Json::object({{"a", Json::array()}, {"o", Json::object()}});
  const std::string text =
      "{\"alpha\":{\"list\":[null,true,-7,18446744073709551615,-9223372036854775808,0.5]},"
      "\"empty\":{\"a\":[],\"o\":{}},\"text\":\"a\\\"b\\\\c\\n\\u0001\x7f \xc3\xa9 \xf0\x9f\x94\x86\",\"zeta\":1}";
  EXPECT_EQ(value.dump(), text);
  EXPECT_TRUE(Json::parse(text) == value);
  EXPECT_EQ(Json::parse(text).dump(), text);
}

TEST(Json, KeysAreSortedByBytes) {
  const Json value = Json::object({{"b", 1}, {"\xc3\xa9", 2}, {"B", 3}, {"", 4}, {"ba", 5}});
  EXPECT_EQ(value.dump(), "{\"\":4,\"B\":3,\"b\":1,\"ba\":5,\"\xc3\xa9\":2}");
}

TEST(Json, DoublesStayDoublesAndComeBackExactly) {
  for (const double value : {0.0, -0.0, 1.0, 3.19, 1e300, 5e-324, 0.1, 1e16, -2.5e-7, 123456789.0}) {
    const Json back = Json::parse(Json(value).dump());
    EXPECT_EQ(back.kind(), Json::Kind::real) << value;
    EXPECT_EQ(back.as_double("x"), value);
    EXPECT_EQ(std::signbit(back.as_double("x")), std::signbit(value));
  }
  EXPECT_EQ(Json(1.0).dump(), "1.0");
}

TEST(Json, IntegersAreExact) {
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1} << 53 | 1, max_u64}) {
    EXPECT_EQ(Json::parse(Json(value).dump()).as_unsigned("x"), value);
  }
  EXPECT_EQ(Json::parse("-9223372036854775808").as_signed("x", min_i64, 0), min_i64);
  EXPECT_TRUE(Json(5) == Json(5u));
  EXPECT_TRUE(Json(std::int64_t{5}) == Json::parse("5"));
  EXPECT_FALSE(Json(5) == Json(5.0));
}

TEST(Json, AcceptsTheStandardsTexts) {
  EXPECT_EQ(Json::parse(" {\n\"a\" :\t[ 1 , 2 ]\r} ").dump(), "{\"a\":[1,2]}");
  EXPECT_EQ(Json::parse("\"\\u00e9\\ud83d\\udd06\\/\\b\\f\\n\\r\\t\\u0000\"").dump(),
            "\"\xc3\xa9\xf0\x9f\x94\x86/\\b\\f\\n\\r\\t\\u0000\"");
  EXPECT_EQ(Json::parse("1E2").as_double("x"), 100.0);
  EXPECT_EQ(Json::parse(nested(Json::max_depth)).dump(), nested(Json::max_depth));
}

TEST(Json, RefusesInvalidTexts) {
  const std::string bad[] = {"",
                             " ",
                             "nul",
                             "nullx",
                             "tru",
                             "True",
                             "+1",
                             "01",
                             "-",
                             "-a",
                             "1.",
                             ".5",
                             "1e",
                             "1e+",
                             "0x10",
                             "NaN",
                             "Infinity",
                             "-Infinity",
                             "18446744073709551616",
                             "-9223372036854775809",
                             "1e999",
                             "[",
                             "]",
                             "[1",
                             "[1,",
                             "[1,]",
                             "[,1]",
                             "[1 2]",
                             "{",
                             "}",
                             "{\"a\"",
                             "{\"a\":",
                             "{\"a\":1",
                             "{\"a\":1,}",
                             "{a:1}",
                             "{\"a\" 1}",
                             "{1:2}",
                             "{\"a\":1 \"b\":2}",
                             "{\"a\":1,\"a\":1}",
                             "{\"a\":1,\"\\u0061\":2}",
                             "\"",
                             "\"a",
                             "\"\\\"",
                             "\"\\",
                             "\"\\x\"",
                             "\"\\u12\"",
                             "\"\\u12g4\"",
                             "\"\\ud800\"",
                             "\"\\ud800x\"",
                             "\"\\ud800\\n\"",
                             "\"\\ud800\\u0041\"",
                             "\"\\udc00\"",
                             "\"\n\"",
                             "\"\x1f\"",
                             std::string("\"\0\"", 3),
                             std::string("1\0", 2),
                             "\"\x80\"",
                             "\"\xc3\"",
                             "\"\xc0\xaf\"",
                             "\"\xe0\x80\x80\"",
                             "\"\xed\xa0\x80\"",
                             "\"\xf4\x90\x80\x80\"",
                             "\"\xf0\x80\x80\x80\"",
                             "\"\xff\"",
                             "\"\xe2\x82\"",
                             "1 2",
                             "{}{}",
                             "[] x",
                             "'a'",
                             "\xef\xbb\xbf{}",
                             "// c\n1",
                             nested(Json::max_depth + 1),
                             std::string(100000, '['),
                             std::string(Json::max_text, ' ') + "1"};
  for (const std::string& text : bad) {
    EXPECT_THROW(Json::parse(text), DamagedFileError) << text.substr(0, 40);
  }
  std::string deep = "1";
  for (int i = 0; i < 33; ++i) deep = "{\"a\":" + deep + "}";
  EXPECT_THROW(Json::parse(deep), DamagedFileError);
  EXPECT_NE(message_of([] { Json::parse("{\"key\":1,\"key\":2}"); }).find("at byte 14: a key appears twice"),
            std::string::npos)
      << message_of([] { Json::parse("{\"key\":1,\"key\":2}"); });
}

TEST(Json, AccessorsNameTheField) {
  const Json value = Json::parse(
      "{\"n\":4096,\"minus\":-3,\"name\":\"hcnn5\",\"ok\":false,\"list\":[1,2,3],\"x\":0.5,\"sub\":{\"deep\":1},\"odd\":[1,"
      "\"a\"]}");
  EXPECT_EQ(value.unsigned_at("n", 4096), 4096u);
  EXPECT_EQ(value.string_at("name", 5), "hcnn5");
  EXPECT_FALSE(value.bool_at("ok"));
  EXPECT_EQ(value.double_at("x"), 0.5);
  EXPECT_EQ(value.double_at("minus"), -3.0);
  EXPECT_EQ(value.array_at("list", 3).size(), 3u);
  EXPECT_EQ(value.unsigned_array_at("list", 3, 3), (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(value.object_at("sub").unsigned_at("deep"), 1u);
  EXPECT_TRUE(value.contains("n") && !value.contains("m"));

  const auto names = [&](auto body, const char* field) {
    const std::string text = message_of([&] { body(value); });
    EXPECT_NE(text.find(std::string("'") + field + "'"), std::string::npos) << text;
  };
  names([](const Json& v) { v.at("absent"); }, "absent");
  names([](const Json& v) { v.unsigned_at("n", 4095); }, "n");
  names([](const Json& v) { v.unsigned_at("minus"); }, "minus");
  names([](const Json& v) { v.unsigned_at("x"); }, "x");
  names([](const Json& v) { v.unsigned_at("name"); }, "name");
  names([](const Json& v) { v.unsigned_at("ok"); }, "ok");
  names([](const Json& v) { v.string_at("name", 4); }, "name");
  names([](const Json& v) { v.string_at("n", 4); }, "n");
  names([](const Json& v) { v.bool_at("n"); }, "n");
  names([](const Json& v) { v.double_at("name"); }, "name");
  names([](const Json& v) { v.array_at("list", 2); }, "list");
  names([](const Json& v) { v.array_at("sub", 2); }, "sub");
  names([](const Json& v) { v.object_at("list"); }, "list");
  names([](const Json& v) { v.unsigned_array_at("odd", 2); }, "odd");
  names([](const Json& v) { v.unsigned_array_at("list", 3, 2); }, "list");
  names([](const Json& v) { v.require_only({"n", "minus", "name", "ok", "list", "x", "sub"}, "whole"); }, "odd");
  names([](const Json& v) { v.at("list").at("inside"); }, "inside");
}

TEST(Json, MisuseIsAnInternalError) {
  Json number = 1;
  EXPECT_THROW(number["a"], InternalError);
  EXPECT_THROW(number.push_back(1), InternalError);
  EXPECT_THROW(Json(std::nan("")).dump(), InternalError);
  EXPECT_THROW(Json(std::numeric_limits<double>::infinity()).dump(), InternalError);
  EXPECT_THROW(Json("\xff").dump(), InternalError);
  EXPECT_THROW(Json::object({{"\xff", 1}}).dump(), InternalError);
  EXPECT_THROW(Json(std::string(Json::max_text, 'a')).dump(), FormatError);
  Json deep = 1;
  for (int i = 0; i < 33; ++i) deep = Json::array({deep});
  EXPECT_THROW(deep.dump(), InternalError);
}

// If a text parses, then its canonical form parses to the same value.
TEST(Json, MutantsAreRefusedOrStable) {
  const std::string original =
      "{\"arrays\":[{\"bytes\":24,\"dtype\":\"u64\",\"shape\":[3]}],\"x\":[-1,2.5e-3,\"\\u00e9\xc3\xa9\\n\",null,true,false,"
      "{}]}";
  std::mt19937_64 random(20);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = original;
    for (std::uint64_t k = random() % 3 + 1; k != 0; --k) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 4 + 1);
          break;
        case 2:
          text.insert(at, 1, "{}[]\":,\\0-.eu"[random() % 13]);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 16));
      }
      if (text.empty()) text.push_back('0');
    }
    try {
      const Json value = Json::parse(text);
      ++accepted;
      ASSERT_TRUE(Json::parse(value.dump()) == value) << text;
    } catch (const DamagedFileError&) {
    }
  }
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 15000);
}

std::string hash_in_pieces(Sha256Compress compress, std::string_view text, std::size_t piece) {
  Sha256 hash(compress);
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  for (std::size_t i = 0; i < bytes.size(); i += piece) hash.update(bytes.subspan(i, std::min(piece, bytes.size() - i)));
  return to_hex(hash.finish());
}

// Examples of FIPS 180-4 (csrc.nist.gov, "SHA256") and the empty message.
void check_vectors(Sha256Compress compress) {
  const std::pair<std::string, std::string> vectors[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
       "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
      {std::string(1000000, 'a'), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"}};
  for (const auto& [text, digest] : vectors) {
    for (const std::size_t piece : {1, 3, 63, 64, 65, 1000000}) {
      if (text.size() / piece < 20000) {
        EXPECT_EQ(hash_in_pieces(compress, text, piece), digest) << text.size() << " by " << piece;
      }
    }
  }
}

TEST(Sha256, VectorsScalar) { check_vectors(sha256_compress_scalar); }

TEST(Sha256, VectorsNative) {
  if (sha256_compress_native() == nullptr) GTEST_SKIP() << "this processor has no SHA instructions";
  check_vectors(sha256_compress_native());
}

TEST(Sha256, BothImplementationsAgreeOnEveryLength) {
  std::string text;
  for (int length = 0; length < 300; ++length) {
    const std::string expected = hash_in_pieces(sha256_compress_scalar, text, 7);
    EXPECT_EQ(to_hex(sha256(text)), expected);
    if (sha256_compress_native() != nullptr) {
      EXPECT_EQ(hash_in_pieces(sha256_compress_native(), text, 29), expected);
    }
    text += static_cast<char>(length * 37);
  }
}

TEST(Hex, BothWays) {
  EXPECT_EQ(to_hex(std::vector<unsigned char>{0, 1, 0xab, 0xff}), "0001abff");
  EXPECT_EQ(from_hex("0001abff"), (std::vector<unsigned char>{0, 1, 0xab, 0xff}));
  EXPECT_TRUE(from_hex("").empty());
  for (const char* bad : {"0", "0g", "AB", "0 ", " 0", "0x", "-1"}) EXPECT_THROW(from_hex(bad), DamagedFileError) << bad;
}

TEST(Shared, CachesOnlyReferencedObjects) {
  Shared<int> shared;
  int made = 0;
  const auto make = [&] { return std::make_shared<int>(++made); };
  const std::shared_ptr<int> first = shared.open("first", make);
  EXPECT_EQ(shared.open("first", make), first);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(*shared.open("name " + std::to_string(i), make), made);  // no reference is left, so the value is made again
    EXPECT_THROW(shared.open("bad " + std::to_string(i), []() -> std::shared_ptr<int> { throw ParameterError("no"); }),
                 ParameterError);
  }
  EXPECT_LE(shared.size(), 2u);
  EXPECT_EQ(shared.open("first", make), first);
  const std::shared_ptr<int> again = shared.open("name 0", make);
  EXPECT_EQ(*again, 1002);
  EXPECT_EQ(shared.size(), 2u);
}

}  // namespace
}  // namespace heliograph::io
