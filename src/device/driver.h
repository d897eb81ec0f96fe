// A GPU's memory, seen from the host: what a pointer is, and copies between device and host that never block the engine.
// The CUDA driver (libcuda.so.1) is opened at run time; without it, or without a device, every pointer is host memory.
// Lives on: any thread. Design: docs/design/device.md.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "base/time.h"

namespace millpond::device {

// Where a registered region lives. Pieces inside it need no further question to the driver.
struct Place {
  bool device = false;
  int ordinal = -1;                      // of the device
  void* context = nullptr;               // that the memory belongs to; made current for each copy
};

// One copy between device memory and host memory of the same length.
struct Copy {
  std::byte* device = nullptr;
  std::byte* host = nullptr;             // pinned (pin(), staging()) for speed; any host memory is right
  uint64_t bytes = 0;
};

// Pinned host memory, given back when destroyed.
class Staging {
 public:
  virtual ~Staging() = default;
  virtual MutableByteSpan bytes() = 0;
};

// Copies under way on a stream of our own.
class Ticket {
 public:
  virtual ~Ticket() = default;           // waits until nothing is written or read any more
  // ok; timed_out: still under way (call again, or destroy it); unavailable: the driver reported an error, named in the status.
  virtual Status wait(Time deadline) = 0;
};

class Driver {
 public:
  virtual ~Driver() = default;
  // The one of this process, opened when first asked for (after a fork: a fresh one). `library`: "" = MILLPOND_CUDA_LIBRARY,
  // else libcuda.so.1. Never null: without CUDA, one that knows host memory only.
  static std::shared_ptr<Driver> get();
  static std::shared_ptr<Driver> open(const std::string& library);

  virtual bool present() const = 0;                      // a driver and at least one device
  virtual std::string about() const = 0;                 // for one log line: version, devices, or why there is none
  // Asks the driver once; host when it does not know the pointer.
  virtual Place classify(const void* pointer) = 0;
  // Pins host memory for asynchronous copies (an arena, a staging ring). A refusal is logged and leaves copies right but slower.
  virtual Status pin(void* base, uint64_t bytes) = 0;
  virtual void unpin(void* base) = 0;
  virtual Result<std::unique_ptr<Staging>> staging(uint64_t bytes) = 0;   // no_space: the driver has no more, or the bound is reached
  // Starts copies on a stream of the place's device; several calls overlap. The memory must stay until the ticket has ended.
  virtual Result<std::unique_ptr<Ticket>> to_host(const Place& place, std::span<const Copy> copies) = 0;
  virtual Result<std::unique_ptr<Ticket>> to_device(const Place& place, std::span<const Copy> copies) = 0;
};

}  // namespace millpond::device
