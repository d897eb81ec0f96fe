// Goal: no bytes crash the header decoder, and what decodes encodes to a header that says the same.
// Method: the input as it is; then with the commit word that a writer would have put there, for no random one matches.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/checksum.h"
#include "wire/block_header.h"

namespace {

void check(millpond::ByteSpan bytes) {
  using namespace millpond;
  auto header = wire::decode_block_header(bytes);
  if (!header) return;
  ByteVector again(wire::block_header_bytes(header->sums.size(), header->pages.size(), header->key.size()));
  wire::encode_block_header(header->view(), again);
  auto twice = wire::decode_block_header(again);
  if (!twice || !(*twice == *header)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millpond;
  ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  check(bytes);
  auto total = wire::block_header_bytes(bytes);
  if (!total || *total > size) return 0;
  ByteVector sealed(bytes.begin(), bytes.begin() + long(*total));
  uint64_t commit = hash64(ByteSpan(sealed).subspan(wire::kBlockHeaderCommitBytes), 0x4842504D);
  std::memcpy(sealed.data(), &commit, sizeof commit);
  check(sealed);
  return 0;
}
