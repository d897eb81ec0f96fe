#include "memory/page_pool.h"

#include "base/check.h"

namespace millpond::memory {

PagePool::PagePool(uint32_t first, uint32_t page_count) : first_(first), page_count_(page_count), fresh_(first) {
  MP_CHECK(first <= page_count, "pool from page {} of {}", first, page_count);
}

bool PagePool::take(uint32_t count, uint32_t faulted, std::vector<uint32_t>& pages) {
  if (count > free_count()) return false;
  for (; count > 0 && fresh_ < page_count_ && fresh_ < faulted; --count) pages.push_back(fresh_++);
  for (; count > 0 && !returned_.empty(); --count) {
    pages.push_back(returned_.front());
    returned_.pop_front();
  }
  for (; count > 0; --count) pages.push_back(fresh_++);
  return true;
}

void PagePool::give(PageIndex page) {
  MP_CHECK(page.value >= first_ && page.value < fresh_, "page {} is not one of {} … {}", page.value, first_, fresh_);
  returned_.push_back(page.value);
  MP_CHECK(returned_.size() <= fresh_ - first_, "page {} given back twice", page.value);
}

}  // namespace millpond::memory
