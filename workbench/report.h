// Shared host parts of the workbench's programs: medians, a JSON file of records, exit status.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace heliograph::device {}
namespace heliograph::math {}

namespace workbench {

namespace device = heliograph::device;
namespace math = heliograph::math;

/// A flat JSON object; keys keep insertion order.
class Record {
 public:
  Record& add(const std::string& key, const std::string& value) { return raw(key, quoted(value)); }
  Record& add(const std::string& key, const char* value) { return raw(key, quoted(value)); }
  Record& add(const std::string& key, bool value) { return raw(key, value ? "true" : "false"); }
  Record& add(const std::string& key, double value) {
    char text[40];
    std::snprintf(text, sizeof text, "%.6g", value);
    return raw(key, text);
  }
  Record& add(const std::string& key, int value) { return raw(key, std::to_string(value)); }
  Record& add(const std::string& key, std::size_t value) { return raw(key, std::to_string(value)); }
  Record& raw(const std::string& key, const std::string& json) {
    fields_.emplace_back(key, json);
    return *this;
  }
  std::string text() const {
    std::string s = "{";
    for (std::size_t i = 0; i < fields_.size(); ++i)
      s += (i ? ", " : "") + quoted(fields_[i].first) + ": " + fields_[i].second;
    return s + "}";
  }

 private:
  static std::string quoted(const std::string& value) {
    std::string s = "\"";
    for (char c : value) {
      if (c == '"' || c == '\\') s += '\\';
      if (static_cast<unsigned char>(c) >= 0x20) s += c;
    }
    return s + "\"";
  }
  std::vector<std::pair<std::string, std::string>> fields_;
};

/// The JSON file: settings, then lists of records.
class Report {
 public:
  /// Records HELIOGRAPH_COMMIT, the measured commit, if it is set.
  explicit Report(std::string program) {
    settings.add("program", program);
    if (const char* commit = std::getenv("HELIOGRAPH_COMMIT")) settings.add("commit", commit);
  }
  Record settings;

  Record& row(const std::string& list) {
    for (auto& [name, rows] : lists_) {
      if (name == list) return rows.emplace_back();
    }
    return lists_.emplace_back(list, std::vector<Record>{}).second.emplace_back();
  }
  void write(const std::string& path) const {
    std::ofstream file(path);
    file << "{\n  \"settings\": " << settings.text();
    for (const auto& [name, rows] : lists_) {
      file << ",\n  \"" << name << "\": [";
      for (std::size_t i = 0; i < rows.size(); ++i) file << (i ? ",\n    " : "\n    ") << rows[i].text();
      file << "\n  ]";
    }
    file << "\n}\n";
    if (!file.flush()) throw std::runtime_error("cannot write " + path);
  }

 private:
  std::vector<std::pair<std::string, std::vector<Record>>> lists_;
};

inline double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  const std::size_t half = v.size() / 2;
  return v.size() % 2 ? v[half] : (v[half - 1] + v[half]) / 2;
}

/// Returns the program's exit status; prints an exception and returns 1.
template <class Run>
int told(const char* program, Run run) {
  try {
    return run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", program, e.what());
    return 1;
  }
}

}  // namespace workbench
