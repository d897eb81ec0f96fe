#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "tier/eviction.h"

namespace millpond::tier {
namespace {

constexpr uint32_t kNone = kNoSlot.value;

// Stamp of a use: the count orders (many blocks are used at one `time`), the time tells the age.
struct Stamp {
  uint64_t count = 0;
  Time time;
};

struct Record {
  bool here = false;
  uint32_t parent = kNone;
  uint32_t first_child = kNone;
  uint32_t next_sibling = kNone, previous_sibling = kNone;
  Stamp stamp;
  Time protected_until{Duration::min()};   // min(): not protected
  uint32_t heap_at = kNone;                // place in the heap it is in: waiting_ while protected, else leaves_
};

// A heap of four children each, of slots, smallest key first; each slot's record knows its place, so that any can leave.
class SlotHeap {
 public:
  explicit SlotHeap(std::vector<Record>& records) : records_(records) {}
  bool empty() const { return entries_.empty(); }
  uint32_t top() const { return entries_.front().slot; }
  int64_t top_key() const { return entries_.front().key; }

  void add(uint32_t slot, int64_t key) {
    entries_.push_back({key, slot});
    up(entries_.size() - 1, {key, slot});
  }
  void remove(uint32_t slot) {
    size_t at = records_[slot].heap_at;
    MP_CHECK(at < entries_.size() && entries_[at].slot == slot, "slot {} is not in this heap", slot);
    records_[slot].heap_at = kNone;
    Entry last = entries_.back();
    entries_.pop_back();
    if (at == entries_.size()) return;
    settle(at, last);
  }
  void change(uint32_t slot, int64_t key) { settle(records_[slot].heap_at, {key, slot}); }

 private:
  struct Entry {
    int64_t key;
    uint32_t slot;
  };
  void put(size_t at, Entry entry) {
    entries_[at] = entry;
    records_[entry.slot].heap_at = uint32_t(at);
  }
  void settle(size_t at, Entry entry) {
    if (at > 0 && entry.key < entries_[(at - 1) / 4].key) up(at, entry);
    else down(at, entry);
  }
  void up(size_t at, Entry entry) {
    for (; at > 0 && entry.key < entries_[(at - 1) / 4].key; at = (at - 1) / 4) put(at, entries_[(at - 1) / 4]);
    put(at, entry);
  }
  void down(size_t at, Entry entry) {
    for (;;) {
      size_t least = at, end = std::min(entries_.size(), at * 4 + 5);
      int64_t key = entry.key;
      for (size_t child = at * 4 + 1; child < end; ++child) {
        if (entries_[child].key < key) least = child, key = entries_[child].key;
      }
      if (least == at) break;
      put(at, entries_[least]);
      at = least;
    }
    put(at, entry);
  }
  std::vector<Record>& records_;
  std::vector<Entry> entries_;
};

class LeafLru final : public EvictionPolicy {
 public:
  void added(SlotIndex slot, SlotIndex parent, uint64_t, Time now) override {
    if (slot.value >= records_.size()) records_.resize(slot.value + 1);
    Record& record = records_[slot.value];
    MP_CHECK(!record.here, "slot {} was added twice", slot.value);
    record = Record{.here = true, .stamp = {++count_, now}};
    ++blocks_;
    if (parent != kNoSlot) adopt(slot.value, parent.value);
    enter(slot.value);
  }

  void used(SlotIndex slot, Time now) override {
    Record& record = at(slot);
    record.stamp = {++count_, now};
    if (record.heap_at != kNone && !is_protected(record)) leaves_.change(slot.value, int64_t(record.stamp.count));
  }

  void gone(SlotIndex slot) override {
    Record& record = at(slot);
    if (record.heap_at != kNone) leave(slot.value);
    for (uint32_t child = record.first_child; child != kNone;) {
      Record& orphan = records_[child];
      child = orphan.next_sibling;
      orphan.parent = orphan.next_sibling = orphan.previous_sibling = kNone;
    }
    if (record.parent != kNone) inherit(slot.value, record);
    record = Record{};
    --blocks_;
  }

  void protect(SlotIndex slot, Time until) override {
    Record& record = at(slot);
    bool leaf = record.heap_at != kNone;
    if (leaf) leave(slot.value);
    record.protected_until = std::max(record.protected_until, until);
    if (leaf) enter(slot.value);
  }

  std::optional<SlotIndex> victim(Time now) override {
    release_expired(now);
    if (leaves_.empty()) return std::nullopt;
    return SlotIndex(leaves_.top());
  }

  Duration victim_age(Time now) override {
    if (blocks_ == 0) return Duration::max();
    release_expired(now);
    if (leaves_.empty()) return Duration(0);   // all protected: whoever must leave next was looked up just now
    return std::max(Duration(0), now - records_[leaves_.top()].stamp.time);
  }

 private:
  Record& at(SlotIndex slot) {
    MP_CHECK(slot.value < records_.size() && records_[slot.value].here, "slot {} is not here", slot.value);
    return records_[slot.value];
  }
  static bool is_protected(const Record& record) { return record.protected_until.since_start != Duration::min(); }

  void enter(uint32_t slot) {
    Record& record = records_[slot];
    if (is_protected(record)) waiting_.add(slot, record.protected_until.since_start.count());
    else leaves_.add(slot, int64_t(record.stamp.count));
  }
  void leave(uint32_t slot) { (is_protected(records_[slot]) ? waiting_ : leaves_).remove(slot); }

  // A protection that has run out leaves its block where its stamp puts it.
  void release_expired(Time now) {
    while (!waiting_.empty() && Duration(waiting_.top_key()) <= now.since_start) {
      uint32_t slot = waiting_.top();
      waiting_.remove(slot);
      records_[slot].protected_until = {Duration::min()};
      enter(slot);
    }
  }

  void adopt(uint32_t slot, uint32_t parent_slot) {
    Record& parent = at(SlotIndex(parent_slot));
    Record& child = records_[slot];
    if (parent.heap_at != kNone) leave(parent_slot);   // it has a child now
    child.parent = parent_slot;
    child.next_sibling = parent.first_child;
    if (parent.first_child != kNone) records_[parent.first_child].previous_sibling = slot;
    parent.first_child = slot;
  }

  // A parent is used whenever its child is: it takes over the child's stamp, and may leave once the last child has.
  void inherit(uint32_t slot, const Record& child) {
    Record& parent = records_[child.parent];
    if (child.previous_sibling != kNone) records_[child.previous_sibling].next_sibling = child.next_sibling;
    else parent.first_child = child.next_sibling;
    if (child.next_sibling != kNone) records_[child.next_sibling].previous_sibling = child.previous_sibling;
    MP_CHECK(slot != child.parent, "slot {} is its own parent", slot);
    if (parent.stamp.count < child.stamp.count) parent.stamp = child.stamp;
    if (parent.first_child == kNone) enter(child.parent);
  }

  std::vector<Record> records_;
  SlotHeap leaves_{records_};    // by stamp
  SlotHeap waiting_{records_};   // protected leaves, by the end of their protection
  uint64_t count_ = 0;
  uint64_t blocks_ = 0;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_leaf_lru() { return std::make_unique<LeafLru>(); }

}  // namespace millpond::tier
