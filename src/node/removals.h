// What was removed, in the master's order: the last number applied, and the last records, which a new master starts
// from. A plain list: it says what is to be dropped, the shell drops.
// Lives on: the node's loop. Limits: `kept` records.
#pragma once
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/block_id.h"

namespace millpond::node {

// The same 40 bytes as wire::Removal.
struct Removal {
  BlockId id;                            // kind namespace_wiped: only namespace_id counts
  uint64_t number = 0;
  uint32_t generation = 0;               // namespace_wiped: blocks below it are gone
  uint8_t kind = 0;                      // wire::RemovalKind
  uint8_t zero1 = 0;
  uint16_t zero2 = 0;
  bool wipes() const { return kind == 1; }
};
static_assert(sizeof(Removal) == 40);

class Removals {
 public:
  explicit Removals(size_t kept) : kept_(kept) {}

  // Records in the order of the log; `after` is the number of the one before records[0]. Answers those that are new
  // here, in order: the caller carries them out. Nothing, when they begin beyond last(): there is a gap, and the sender
  // is told where we stand.
  std::vector<Removal> apply(uint64_t after, std::span<const Removal> records);
  // No log reaches back to last(): the caller drops whole namespaces, the tail starts anew with these records (all of
  // them are to be carried out).
  std::vector<Removal> restart(std::span<const Removal> records);

  uint64_t last() const { return last_; }
  std::vector<Removal> tail() const { return {tail_.begin(), tail_.end()}; }   // oldest first, without gaps

 private:
  std::vector<Removal> append(std::span<const Removal> records);
  const size_t kept_;
  uint64_t last_ = 0;
  std::deque<Removal> tail_;
};

}  // namespace millpond::node
