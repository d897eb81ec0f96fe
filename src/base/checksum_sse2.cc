#include "base/checksum_kernel.inc"
namespace millpond {
ChecksumKernel checksum_kernel_sse2() { return kKernel; }
}  // namespace millpond
