// Memory of Python objects, held by the buffer protocol for as long as a call runs.
#pragma once
#include <nanobind/nanobind.h>

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <vector>

namespace millpond::python {

// Holds what it has been given until it is destroyed, with the GIL.
class Buffers {
 public:
  Buffers() = default;
  Buffers(const Buffers&) = delete;
  ~Buffers();

  // The pieces of one block: a buffer, or a list or tuple of buffers. `what` names it in errors ("block 3").
  // Raises TypeError: no buffer, or of Python objects, or read-only where `writable`; ValueError: not C-contiguous.
  std::vector<std::span<std::byte>> pieces(nanobind::handle block, bool writable, const std::string& what);

 private:
  std::span<std::byte> hold(nanobind::handle object, bool writable, const std::string& what);
  std::deque<Py_buffer> held_;           // never moved: a view may point into itself
};

}  // namespace millpond::python
