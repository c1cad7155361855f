// Strict JSON parser (RFC 8259) within the limits of json.h.
#include <charconv>
#include <cmath>

#include "base/errors.h"
#include "io/json.h"
#include "io/utf8.h"

namespace heliograph::io {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Json whole() {
    if (text_.size() > Json::max_text) fail("the text is longer than 1 MiB");
    Json value = any(0);
    skip_space();
    if (here_ != text_.size()) fail("bytes follow the value");
    return value;
  }

 private:
  [[noreturn]] void fail(const char* why) const {
    throw DamagedFileError("the JSON header is malformed at byte " + std::to_string(here_) + ": " + why);
  }

  bool at_end() const { return here_ == text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[here_]; }
  bool take(char c) {
    if (at_end() || text_[here_] != c) return false;
    ++here_;
    return true;
  }
  void skip_space() {
    while (!at_end() && (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r')) ++here_;
  }
  bool take_word(std::string_view word) {
    if (text_.substr(here_, word.size()) != word) return false;
    here_ += word.size();
    return true;
  }

  Json any(std::size_t depth) {
    skip_space();
    if (at_end()) fail("a value is missing");
    switch (peek()) {
      case '{':
        return object(depth);
      case '[':
        return array(depth);
      case '"':
        return string();
      case 't':
        if (take_word("true")) return true;
        break;
      case 'f':
        if (take_word("false")) return false;
        break;
      case 'n':
        if (take_word("null")) return nullptr;
        break;
      default:
        if (peek() == '-' || (peek() >= '0' && peek() <= '9')) return number();
    }
    fail("not a value");
  }

  template <class Read>
  void enclosed(std::size_t depth, char end, const char* unended, Read read) {
    if (depth == Json::max_depth) fail("nested beyond 32 levels");
    ++here_;
    skip_space();
    if (take(end)) return;
    while (true) {
      read();
      skip_space();
      if (take(end)) return;
      if (!take(',')) fail(unended);
    }
  }

  Json array(std::size_t depth) {
    Json::Array items;
    enclosed(depth, ']', "',' or ']' is missing", [&] { items.push_back(any(depth + 1)); });
    return items;
  }

  Json object(std::size_t depth) {
    Json::Object members;
    enclosed(depth, '}', "',' or '}' is missing", [&] {
      skip_space();
      if (peek() != '"') fail("a key is missing");
      std::string key = string();
      const auto place = members.lower_bound(key);
      if (place != members.end() && place->first == key) fail("a key appears twice");
      skip_space();
      if (!take(':')) fail("':' is missing");
      Json value = any(depth + 1);
      members.emplace_hint(place, std::move(key), std::move(value));
    });
    return members;
  }

  std::string string() {
    ++here_;
    std::string out;
    while (!take('"')) {
      if (at_end()) fail("a string without an end");
      if (static_cast<unsigned char>(peek()) < 0x20) fail("a control character in a string");
      if (take('\\')) {
        escape(out);
      } else {
        const std::size_t length = utf8_length(text_.substr(here_, 4));
        if (length == 0) fail("not UTF-8");
        out += text_.substr(here_, length);
        here_ += length;
      }
    }
    return out;
  }

  void escape(std::string& out) {
    static constexpr std::string_view names = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
    if (take('u')) {
      std::uint32_t point = hex4();
      if (point >= 0xdc00 && point < 0xe000) fail("a lone surrogate");
      if (point >= 0xd800 && point < 0xdc00) {
        if (!take_word("\\u")) fail("a lone surrogate");
        const std::uint32_t low = hex4();
        if (low < 0xdc00 || low >= 0xe000) fail("a lone surrogate");
        point = 0x10000 + ((point - 0xd800) << 10 | (low - 0xdc00));
      }
      return append_utf8(out, point);
    }
    const std::size_t which = at_end() ? names.npos : names.find(peek());
    if (which == names.npos) fail("an unknown escape");
    out += meanings[which];
    ++here_;
  }

  std::uint32_t hex4() {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i, ++here_) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) fail("four hexadecimal digits are missing");
      value = value << 4 | static_cast<std::uint32_t>(digit);
    }
    return value;
  }

  static void append_utf8(std::string& out, std::uint32_t point) {
    const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
    if (point < 0x80) {
      put(point);
    } else if (point < 0x800) {
      put(0xc0 | point >> 6), put(0x80 | (point & 63));
    } else if (point < 0x10000) {
      put(0xe0 | point >> 12), put(0x80 | (point >> 6 & 63)), put(0x80 | (point & 63));
    } else {
      put(0xf0 | point >> 18), put(0x80 | (point >> 12 & 63)), put(0x80 | (point >> 6 & 63)), put(0x80 | (point & 63));
    }
  }

  std::size_t digits() {
    const std::size_t before = here_;
    while (peek() >= '0' && peek() <= '9') ++here_;
    return here_ - before;
  }

  Json number() {
    const std::size_t begin = here_;
    const bool negative = take('-');
    const bool zero_first = peek() == '0';
    const std::size_t whole_digits = digits();
    if (whole_digits == 0 || (zero_first && whole_digits > 1)) fail("a malformed number");
    bool integer = true;
    if (take('.')) {
      integer = false;
      if (digits() == 0) fail("a malformed number");
    }
    if (take('e') || take('E')) {
      integer = false;
      if (!take('+')) take('-');
      if (digits() == 0) fail("a malformed number");
    }
    const std::string_view text = text_.substr(begin, here_ - begin);
    if (!integer) return convert<double>(text);
    return negative ? convert<std::int64_t>(text) : convert<std::uint64_t>(text);
  }

  template <class Number>
  Json convert(std::string_view text) const {
    Number value{};
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    if (result.ec != std::errc() || result.ptr != text.data() + text.size()) fail("a number out of range");
    return value;
  }

  std::string_view text_;
  std::size_t here_ = 0;
};

}  // namespace

Json Json::parse(std::string_view text) { return Parser(text).whole(); }

}  // namespace heliograph::io
