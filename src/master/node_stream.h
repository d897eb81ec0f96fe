// One node's ordered stream of advertisements: what comes next, what is a repetition, what is a gap. Plain data.
#pragma once
#include <cstdint>
#include <vector>

#include "master/directory.h"

namespace millpond::master {

struct NodeStream {
  enum class Verdict : uint8_t { next, repeated, gap };

  uint32_t round = 0;
  bool complete = false;                   // the round's inventory
  uint64_t acked = 0;                      // sequence of the last item applied
  uint64_t batch_first = 0;                // of the last batch, with the answers to repeat
  std::vector<AdvertAnswer> answers;

  void begin(uint32_t new_round) { *this = NodeStream{.round = new_round}; }
  // A batch of no items (it only says "complete") applies twice without harm.
  Verdict judge(uint64_t sequence_first, size_t items) const {
    if (sequence_first == acked + 1) return Verdict::next;
    if (batch_first && sequence_first == batch_first && items == answers.size() && acked + 1 == batch_first + items) return Verdict::repeated;
    return Verdict::gap;
  }
  void applied(uint64_t sequence_first, std::vector<AdvertAnswer> batch_answers) {
    if (batch_answers.empty()) return;     // keeps the former batch repeatable
    batch_first = sequence_first;
    acked = sequence_first + batch_answers.size() - 1;
    answers = std::move(batch_answers);
  }
};

}  // namespace millpond::master
