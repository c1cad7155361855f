// Private information retrieval: the server has a clear table and cannot read which row a client requests. docs/query.md;
// after SimplePIR (Henzinger et al., ePrint 2022/949), YPIR (Menon and Wu, ePrint 2024/270) and InsPIRe (Mahdavi et al.,
// ePrint 2025/1352).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heliograph/errors.h"
#include "heliograph/types.h"

namespace heliograph::lookup {

/// Size of a table, a matrix of bytes. A question requests one row. The numbers of rows and columns are multiples of kStep.
struct Size {
  std::size_t rows = 0, columns = 0;
  bool operator==(const Size&) const = default;
};
inline constexpr std::size_t kStep = 2048, kMostRows = std::size_t{1} << 20, kMostColumns = std::size_t{1} << 17;
/// Number of words of the two keys that a question contains.
inline constexpr std::size_t kKeyWords = 2 * kStep, kMaskBytes = 3;

/// Returns log2 of a bound on the probability that an answer is refused or wrong. Throws ParameterError for invalid sizes.
double log2_failure(const Size& size);
/// Returns the modulus of the words of a question's keys.
std::uint64_t key_modulus();

struct TableData;
struct ClientData;
struct QuestionData;

/// Answers to a batch of questions: one body per question and column, and masks that all questions share.
struct Answers {
  std::vector<std::uint16_t> bodies;
  std::vector<std::uint8_t> masks;
};

/// The server of a table. Thread-safe; copies share one table.
class Table {
 public:
  /// `bytes`: consecutive rows of `width` bytes; the rest of the matrix is zero. `seed`: the public 32-byte seed that server
  /// and clients share; empty: a random one. `device`: opened for this table; empty: the process's device. Throws
  /// ParameterError, ShapeError, OutOfMemoryError.
  Table(const Size& size, const std::string& seed, std::span<const std::uint8_t> bytes, std::size_t width,
        const std::string& device = {});

  const Size& size() const;
  std::string seed() const;
  /// Returns the bytes on the device: the table and its precomputed data.
  std::size_t bytes() const;
  /// Replaces `width` bytes from column columns[i] of row rows[i] by the i-th `width` bytes of `bytes`. Repeats the
  /// precomputation for the kStep columns around each replaced range. Throws ShapeError.
  void update(std::span<const std::uint64_t> rows, std::span<const std::uint64_t> columns, std::size_t width,
              std::span<const std::uint8_t> bytes);
  /// Answers a batch of questions: words[question][row], keys[question][kKeyWords]. Throws ShapeError; DamagedFileError if
  /// key words are not residues.
  Answers answer(std::span<const std::uint32_t> words, std::span<const std::uint64_t> keys) const;

 private:
  std::shared_ptr<TableData> data_;
};

/// One question: its message to the server, and a fresh secret that reads the answer.
class Question {
 public:
  explicit Question(std::shared_ptr<const QuestionData> data) : data_(std::move(data)) {}
  const std::vector<std::uint32_t>& words() const;
  const std::vector<std::uint64_t>& keys() const;
  /// Decrypts the requested row. Throws ShapeError; WrongKeyError for an answer to another question.
  std::vector<std::uint8_t> read(std::span<const std::uint16_t> bodies, std::span<const std::uint8_t> masks) const;

 private:
  std::shared_ptr<const QuestionData> data_;
};

/// The client of a table, made from the table's public size and seed.
class Client {
 public:
  /// Throws ParameterError.
  Client(const Size& size, const std::string& seed, const std::string& device = {});
  /// Makes a question for a row, in constant time. Throws ShapeError if the row is out of range.
  Question ask(std::size_t row) const;

 private:
  std::shared_ptr<const ClientData> data_;
};

}  // namespace heliograph::lookup
