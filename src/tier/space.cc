#include "tier/space.h"

#include "base/check.h"

namespace millpond::tier {

using memory::PageIndex;

Space::Space(memory::Arena& arena, ArenaLayout& layout)
    : arena_(arena), layout_(layout), page_size_(arena.page_size().count), pool_(layout.arena_pages(), arena.page_count()),
      headers_(layout.slots_per_page()) {
  // Two steps to an octave: at worst a third of a slot is lost.
  for (uint32_t count = 2, step = 1; page_size_ / count >= 256; count += step) {
    classes_.push_back({uint32_t(page_size_ / count / 64 * 64), memory::SlabPool(count)});
    if (count >= 4 && (count & (count - 1)) == 0) step = count / 2;
  }
  MP_CHECK(classes_.size() < Place::kWholePages, "{} size classes", classes_.size());
}

uint8_t Space::class_of(uint64_t length) const {
  uint8_t fit = Place::kWholePages;
  for (size_t i = 0; i < classes_.size() && classes_[i].slot_bytes >= length; ++i) fit = uint8_t(i);
  return fit;
}

uint64_t Space::footprint(uint64_t length) const {
  uint8_t size_class = class_of(length);
  return size_class == Place::kWholePages ? uint64_t(pages_for(length)) * page_size_ : classes_[size_class].slot_bytes;
}

uint32_t Space::header_pages_missing(uint32_t header_slots) const {
  uint64_t free = headers_.free_slots();
  if (free >= header_slots) return 0;
  return uint32_t((header_slots - free + layout_.slots_per_page() - 1) / layout_.slots_per_page());
}

bool Space::fits(uint64_t length, uint32_t header_slots) const {
  uint64_t header_pages = (header_slots + layout_.slots_per_page() - 1) / layout_.slots_per_page();
  return (length + page_size_ - 1) / page_size_ + header_pages <= pool_.page_count();
}

bool Space::take(uint64_t length, uint32_t header_slots, Place& place) {
  uint8_t size_class = class_of(length);
  bool small = size_class != Place::kWholePages;
  uint32_t header_pages = header_pages_missing(header_slots);
  uint32_t slab_pages = small && classes_[size_class].slots.free_slots() == 0 ? 1 : 0;
  uint32_t pages = small ? 0 : pages_for(length);
  uint64_t needed = uint64_t(header_pages) + slab_pages + pages;
  if (needed > pool_.free_count()) return false;

  place = Place{.page_count = small ? 1 : pages, .size_class = size_class};
  place.refs.reserve(place.page_count + header_slots);
  uint32_t faulted = arena_.pages_faulted();
  new_pages_.clear();
  MP_CHECK(pool_.take(header_pages + slab_pages, faulted, new_pages_), "{} of {} pages", needed, pool_.free_count());
  for (uint32_t i = 0; i < header_pages; ++i) {
    layout_.add_header_page(PageIndex(new_pages_[i]));
    headers_.add_page(PageIndex(new_pages_[i]));
  }
  if (small) {
    auto& slots = classes_[size_class].slots;
    if (slab_pages > 0) slots.add_page(PageIndex(new_pages_.back())), ++small_pages_;
    auto slot = slots.take();
    place.refs.push_back(slot.page.value);
    place.offset = slot.index * classes_[size_class].slot_bytes;
    small_payload_ += length;
  } else {
    MP_CHECK(pool_.take(pages, faulted, place.refs), "{} of {} pages", pages, pool_.free_count());
    tails_ += pages * page_size_ - length;
  }
  for (uint32_t i = 0; i < header_slots; ++i) place.refs.push_back(layout_.slot_number(headers_.take()));
  return true;
}

void Space::give(const Place& place, uint64_t length) {
  if (place.size_class != Place::kWholePages) {
    auto& size_class = classes_[place.size_class];
    small_payload_ -= length;
    if (auto page = size_class.slots.give({PageIndex(place.refs[0]), place.offset / size_class.slot_bytes})) pool_.give(*page), --small_pages_;
  } else {
    tails_ -= place.page_count * page_size_ - length;
    for (uint32_t page : place.pages()) pool_.give(PageIndex(page));
  }
  for (uint32_t number : place.header_slots()) {
    if (auto page = headers_.give(layout_.slot(number))) {
      layout_.remove_header_page(*page);
      pool_.give(*page);
    }
  }
}

uint64_t Space::overhead() const {
  uint64_t pages = layout_.arena_pages() + headers_.page_count() + small_pages_;
  return pages * page_size_ - small_payload_ + tails_;
}

}  // namespace millpond::tier
