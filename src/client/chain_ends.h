// Which node has the last block of the chains this client met most recently, so that what follows is stored there too.
// A guess: it may be old, and costs a hit at worst. Not synchronised. Limit: `kept` blocks, the oldest go first.
#pragma once
#include <deque>
#include <unordered_map>

#include "base/block_id.h"

namespace millpond::client {

class ChainEnds {
 public:
  explicit ChainEnds(size_t kept = 16 << 10) : kept_(kept) {}   // sessions of one engine: hundreds

  void set(const BlockId& block, NodeId node) {
    auto [found, is_new] = nodes_.insert_or_assign(block, node);
    if (is_new) order_.push_back(block);
    if (order_.size() <= kept_) return;
    nodes_.erase(order_.front());
    order_.pop_front();
  }
  NodeId find(const BlockId& block) const {                     // NodeId(): not known
    auto found = nodes_.find(block);
    return found == nodes_.end() ? NodeId() : found->second;
  }
  size_t size() const { return order_.size(); }

 private:
  const size_t kept_;
  std::unordered_map<BlockId, NodeId, BlockIdHash> nodes_;
  std::deque<BlockId> order_;
};

}  // namespace millpond::client
