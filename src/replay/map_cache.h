// A pool that is a map, for tests: one process, no limits, and the faults that a test asks for.
#pragma once
#include <cstring>
#include <functional>
#include <map>
#include <string>

#include "replay/engine_cache.h"

namespace millpond::replay {

struct MapCache final : EngineCache {
  std::map<std::string, std::vector<std::byte>>* blocks;
  std::function<Outcome(const std::string& key)> on_load = [](auto&) { return Outcome::ok; };
  std::function<void(const std::string& key, std::vector<std::byte>&)> on_landing;   // what the wire does to the bytes
  size_t store_calls = 0;
  size_t loads_without_plan = 0;           // each would cost a real pool a second lookup

  explicit MapCache(std::map<std::string, std::vector<std::byte>>* shared) : blocks(shared) {}

  Lookup lookup(std::span<const std::string> keys) override {
    Lookup answer{.plan = std::make_shared<int>(0)};
    while (answer.matched < keys.size() && blocks->contains(keys[answer.matched])) {
      answer.blocks.push_back({.length = blocks->at(keys[answer.matched]).size(), .replicas = {}});
      ++answer.matched;
    }
    return answer;
  }
  std::vector<LoadAnswer> load(const Lookup& found, std::span<const LoadBlock> list) override {
    loads_without_plan += found.plan == nullptr;
    std::vector<LoadAnswer> answers;
    for (auto& block : list) {
      LoadAnswer answer{.outcome = on_load(block.key), .length = 0, .owner = "map", .transport = "local"};
      if (answer.outcome == Outcome::ok) {
        std::vector<std::byte> bytes = blocks->at(block.key);
        if (on_landing) on_landing(block.key, bytes);
        size_t at = 0;
        for (auto piece : block.pieces) {
          size_t here = std::min(piece.size(), bytes.size() - at);
          std::memcpy(piece.data(), bytes.data() + at, here);
          at += here;
        }
        answer.length = bytes.size();
      }
      answers.push_back(answer);
    }
    return answers;
  }
  std::vector<Outcome> store(std::span<const StoreBlock> list) override {
    ++store_calls;
    std::vector<Outcome> outcomes;
    for (auto& block : list) {
      std::vector<std::byte> bytes;
      for (auto piece : block.pieces) bytes.insert(bytes.end(), piece.begin(), piece.end());
      outcomes.push_back(blocks->emplace(block.key, bytes).second ? Outcome::ok : Outcome::exists);
    }
    return outcomes;
  }
};

}  // namespace millpond::replay
