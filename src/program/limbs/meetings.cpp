#include "program/limbs/meetings.h"

#include <algorithm>

namespace heliograph::program::limbs {

namespace {

void come(Meeting& m, u32 chip, const Stream& stream, const Instruction& i) {
  const auto fail = [&](const std::string& word, const std::string& why) { refuse(stream.file, i.line, word, why); };
  const std::string word = std::to_string(i.meeting) + ":" + std::to_string(i.size);
  const Op family = i.op == Op::joi_ ? Op::joi_ : Op::dis_;
  if (m.came == 0) m = {.op = family, .size = i.size, .prime = i.prime, .stream = &stream, .line = i.line};
  if (m.op != family) fail(word, "other chips have another instruction at this exchange");
  if (m.size != i.size) fail(word, "other chips expect " + std::to_string(m.size) + " chips at this exchange");
  if (m.prime != i.prime) fail(std::to_string(i.prime), "other chips have another prime at this exchange");
  if (std::find(m.chips.begin(), m.chips.end(), chip) != m.chips.end()) fail(word, "a chip takes part twice in an exchange");
  m.chips.push_back(chip);
  ++m.came;
  if (i.op == Op::dis_) ++m.senders;
  if (i.op == Op::dis_ && m.senders > 1) fail(word, "another chip sends in this exchange");
  if (i.op == Op::joi_ && i.a.kind != Register::Kind::none) ++m.senders;
  if (m.came > m.size) fail(word, "too many chips take part in this exchange");
}

}  // namespace

std::unordered_map<u64, Meeting> meetings_of(const Text& text) {
  std::unordered_map<u64, Meeting> meetings;
  for (u32 chip = 0; chip < text.streams.size(); ++chip) {
    const Stream& stream = text.streams[chip];
    for (const Instruction& i : stream.instructions) {
      if (i.op == Op::dis_ || i.op == Op::rcv_ || i.op == Op::joi_) come(meetings[i.meeting], chip, stream, i);
    }
  }
  for (const auto& [number, m] : meetings) {
    const std::string word = std::to_string(number) + ":" + std::to_string(m.size);
    if (m.came != m.size)
      refuse(m.stream->file, m.line, word, "only " + std::to_string(m.came) + " chips take part in this exchange");
    if (m.senders == 0) refuse(m.stream->file, m.line, word, "no chip sends in this exchange");
  }
  return meetings;
}

}  // namespace heliograph::program::limbs
