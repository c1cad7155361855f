// Private look-up: the server has a table in clear, the client a question that the server cannot read. docs/query.md; after
// SimplePIR (Henzinger et al., ePrint 2022/949), YPIR (Menon and Wu, ePrint 2024/270) and InsPIRe (Mahdavi et al., ePrint
// 2025/1352).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heliograph/errors.h"
#include "heliograph/types.h"

namespace heliograph::lookup {

/// A table is a matrix of bytes; a question asks for one row of it. Both are multiples of kStep.
struct Size {
  std::size_t rows = 0, columns = 0;
  bool operator==(const Size&) const = default;
};
inline constexpr std::size_t kStep = 2048, kMostRows = std::size_t{1} << 20, kMostColumns = std::size_t{1} << 17;
/// Words of a question's two keys, and bytes of an answer's masks for each column.
inline constexpr std::size_t kKeyWords = 2 * kStep, kMaskBytes = 3;

/// log2 of a bound on the probability that an answer is refused or wrong. Throws ParameterError for sizes that no table has.
double log2_failure(const Size& size);
/// A question's keys are residues of it.
std::uint64_t key_modulus();

struct TableData;
struct ClientData;
struct QuestionData;

/// What the server gives for questions: for each a body for each column, and the masks, which are one for all.
struct Answers {
  std::vector<std::uint16_t> bodies;
  std::vector<std::uint8_t> masks;
};

/// The server's half. Safe from several threads; a copy is the same table.
class Table {
 public:
  /// `bytes`: rows of `width` bytes one after another, as many as there are; what is missing of the matrix is zero. `seed`: 32
  /// bytes, public, of all that server and clients share; drawn where it is empty. `device` is opened for this table; empty: the
  /// process's own. Throws ParameterError, ShapeError, OutOfMemoryError.
  Table(const Size& size, const std::string& seed, std::span<const std::uint8_t> bytes, std::size_t width,
        const std::string& device = {}, const Progress& progress = {});

  const Size& size() const;
  std::string seed() const;
  /// Bytes on the device: the table, and what was prepared of it.
  std::size_t bytes() const;
  /// `width` bytes from column columns[i] on of row rows[i] become the i-th `width` of `bytes`. Prepares again the kStep columns
  /// around each. Throws ShapeError.
  void update(std::span<const std::uint64_t> rows, std::span<const std::uint64_t> columns, std::size_t width,
              std::span<const std::uint8_t> bytes);
  /// Of as many questions as there are keys: words[question][row], keys[question][kKeyWords]. Throws ShapeError, and
  /// DamagedFileError for keys that are no residues.
  Answers answer(std::span<const std::uint32_t> words, std::span<const std::uint64_t> keys) const;

 private:
  std::shared_ptr<TableData> data_;
};

/// One question: what goes to the server, and the secret that reads the answer. Each has a secret of its own.
class Question {
 public:
  explicit Question(std::shared_ptr<const QuestionData> data) : data_(std::move(data)) {}
  const std::vector<std::uint32_t>& words() const;
  const std::vector<std::uint64_t>& keys() const;
  /// The row that was asked for. Throws ShapeError, and WrongKeyError for an answer to another question.
  std::vector<std::uint8_t> read(std::span<const std::uint16_t> bodies, std::span<const std::uint8_t> masks) const;

 private:
  std::shared_ptr<const QuestionData> data_;
};

/// The client's half: public, made of the table's size and seed.
class Client {
 public:
  /// Throws ParameterError.
  Client(const Size& size, const std::string& seed, const std::string& device = {});
  /// No time or address depends on the row. Throws ShapeError where there is no such row.
  Question ask(std::size_t row) const;

 private:
  std::shared_ptr<const ClientData> data_;
};

}  // namespace heliograph::lookup
