#include "base/checksum_kernel.inc"
namespace millpond {
ChecksumKernel checksum_kernel_avx2() { return kKernel; }
}  // namespace millpond
