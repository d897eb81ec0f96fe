#include "transfer/batches.h"

#include "wire/limits.h"

namespace millpond::transfer {

std::vector<std::vector<uint32_t>> cut(const std::vector<uint32_t>& chosen, const std::function<Weight(uint32_t)>& weigh) {
  std::vector<std::vector<uint32_t>> batches;
  Weight sum;
  for (uint32_t position : chosen) {
    auto weight = weigh(position);
    bool fits = !batches.empty() && sum.payload + weight.payload <= wire::kBatchPayloadBytes &&
                sum.message + weight.message <= kBatchMessageBytes && sum.group == weight.group &&
                batches.back().size() < wire::kIdsPerMessageMax;
    if (!fits) batches.emplace_back(), sum = {.group = weight.group};
    batches.back().push_back(position);
    sum.payload += weight.payload, sum.message += weight.message;
  }
  return batches;
}

}  // namespace millpond::transfer
