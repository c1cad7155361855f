#include "backend/rtl/list.h"

#include <algorithm>

namespace heliograph::backend::rtl {

List::Entries::iterator List::first_over(u64 address) {
  auto at = entries_.upper_bound(address);
  if (at != entries_.begin() && std::prev(at)->first + std::prev(at)->second.bytes > address) --at;
  return at;
}

void List::erase(Entries::iterator at) {
  dirty_ -= at->second.dirty ? 1 : 0;
  entries_.erase(at);
}

void List::touch(u64 address, u64 bytes) {
  u64 from = address, to = address + bytes;
  auto at = touched_.upper_bound(from);
  if (at != touched_.begin() && std::prev(at)->second >= from) --at;
  while (at != touched_.end() && at->first <= to) {
    from = std::min(from, at->first), to = std::max(to, at->second);
    at = touched_.erase(at);
  }
  touched_.emplace(from, to);
}

bool List::touches(u64 address, u64 bytes) const {
  auto at = touched_.upper_bound(address);
  if (at != touched_.begin() && std::prev(at)->second > address) return true;
  return at != touched_.end() && at->first < address + bytes;
}

void List::settle(u64 address, u64 bytes) {
  const u64 end = address + bytes;
  for (auto at = first_over(address); at != entries_.end() && at->first < end;) {
    const auto next = std::next(at);
    if (at->first != address || at->second.bytes != bytes) {
      if (at->second.dirty) {
        Step step{.op = Op::store, .words = {}, .in = {at->second.value}, .out = {}};
        step.words[8] = static_cast<u32>(at->first), step.words[9] = static_cast<u32>(at->first >> 32);
        steps_.push_back(std::move(step));
        ++stored_;
      }
      erase(at);
    }
    at = next;
  }
}

Value List::fresh(int log_n) {
  values_.push_back({.log_n = log_n});
  return static_cast<Value>(values_.size() - 1);
}

Value List::read(u64 address, int log_n) {
  const u64 bytes = bytes_of(log_n);
  settle(address, bytes);
  if (const auto at = entries_.find(address); at != entries_.end()) return at->second.value;
  touch(address, bytes);
  const Value value = fresh(log_n);
  values_[value].address = address, values_[value].since = steps_.size();
  entries_.emplace(address, Entry{bytes, value, false, false});
  return value;
}

void List::put(u64 address, int log_n, Value value, bool lasting) {
  const u64 bytes = bytes_of(log_n);
  settle(address, bytes);
  touch(address, bytes);
  if (const auto at = entries_.find(address); at != entries_.end()) erase(at);
  entries_.emplace(address, Entry{bytes, value, true, lasting});
  ++dirty_;
}

void List::write(u64 address, int log_n, Value value) { put(address, log_n, value, false); }
void List::wipe(u64 address, int log_n, Value value) { put(address, log_n, value, true); }

void List::add(Step step) { steps_.push_back(std::move(step)); }

void List::release(u64 address, u64 bytes) {
  const u64 end = address + bytes;
  for (auto at = first_over(address); at != entries_.end() && at->first < end;) {
    const auto next = std::next(at);
    if (at->second.lasting) lasting_.push_back({at->first, at->second.value});
    erase(at);
    at = next;
  }
}

std::vector<List::Store> List::stores() const {
  std::vector<Store> all = lasting_;
  for (const auto& [address, entry] : entries_) {
    if (entry.dirty) all.push_back({address, entry.value});
  }
  return all;
}

}  // namespace heliograph::backend::rtl
