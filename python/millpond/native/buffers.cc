#include "buffers.h"

#include <cstring>

namespace nb = nanobind;

namespace millpond::python {
namespace {

// Some dtypes (bfloat16) have no format letter; their bytes are as good as any.
bool get(PyObject* object, Py_buffer& view) {
  if (PyObject_GetBuffer(object, &view, PyBUF_STRIDES | PyBUF_FORMAT) == 0) return true;
  PyErr_Clear();
  if (PyObject_GetBuffer(object, &view, PyBUF_STRIDES) == 0) return true;
  PyErr_Clear();
  return false;
}

}  // namespace

Buffers::~Buffers() {
  for (auto& view : held_) PyBuffer_Release(&view);
}

std::span<std::byte> Buffers::hold(nb::handle object, bool writable, const std::string& what) {
  std::string type = Py_TYPE(object.ptr())->tp_name;
  auto& view = held_.emplace_back();
  if (!PyObject_CheckBuffer(object.ptr()) || !get(object.ptr(), view)) {
    held_.pop_back();
    throw nb::type_error((what + ": " + type + " gives no buffer; give bytes, bytearray, memoryview or a C-contiguous array in host "
                          "memory (of a torch tensor: tensor.numpy())").c_str());
  }
  if (writable && view.readonly)
    throw nb::type_error((what + ": " + type + " is read-only; a load needs memory that it may write").c_str());
  if (!PyBuffer_IsContiguous(&view, 'C'))
    throw nb::value_error((what + ": " + type + " is not C-contiguous; give each contiguous part as a piece, or a copy "
                           "(numpy.ascontiguousarray)").c_str());
  if (view.format && std::strchr(view.format, 'O'))
    throw nb::type_error((what + ": " + type + " holds Python objects, not bytes").c_str());
  return {static_cast<std::byte*>(view.buf), size_t(view.len)};
}

std::vector<std::span<std::byte>> Buffers::pieces(nb::handle block, bool writable, const std::string& what) {
  std::vector<std::span<std::byte>> out;
  if (!PyList_Check(block.ptr()) && !PyTuple_Check(block.ptr())) {
    out.push_back(hold(block, writable, what));
    return out;
  }
  size_t number = 0;
  for (nb::handle piece : block) out.push_back(hold(piece, writable, what + ", piece " + std::to_string(number++)));
  return out;
}

}  // namespace millpond::python
