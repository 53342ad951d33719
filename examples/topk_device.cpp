#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

#include <laconic/cuda.h>
#include <laconic/laconic.h>
#include <laconic/methods.h>

// Two workers that share one GPU. Each has a place, which is a stream, and its gradient in the GPU's memory.
int main() {
  if (laconic::cuda_device_count() == 0) {
    std::puts("no CUDA device");
    return 0;
  }
  laconic::run_ranks(2, [](laconic::Communicator& communicator) {
    const auto place = laconic::cuda_place({.device = 0});
    auto method = laconic::make_method("topk", {.keep = 0.01}, communicator, *place);

    constexpr std::size_t kSize = 100'000;
    std::vector<float> computed(kSize);
    void* memory = nullptr;
    cudaMalloc(&memory, kSize * sizeof(float));
    const laconic::View<float> gradient(static_cast<float*>(memory), kSize, laconic::Device::cuda);
    for (std::uint32_t step = 0; step < 3; ++step) {
      for (std::size_t i = 0; i < kSize; ++i) {
        computed[i] = static_cast<float>((i * 2'654'435'761U + step + communicator.rank()) % 1009) - 504.0F;
      }
      // Your own kernels would write the gradient. On the place's stream, the method's kernels run after them.
      CUstream_st* const stream = laconic::cuda_stream(*place);
      cudaMemcpyAsync(memory, computed.data(), kSize * sizeof(float), cudaMemcpyHostToDevice, stream);
      const auto rank = static_cast<std::uint32_t>(communicator.rank());
      const auto report = method->reduce({.seed = 1, .step = step, .rank = rank}, gradient);
      // Work on that stream now finds the aggregate in `gradient`. Other streams and the CPU must wait for the stream.
      if (rank == 0) {
        std::printf("step %u: sent %llu bytes\n", step, static_cast<unsigned long long>(report.traffic.sent_bytes));
      }
    }
    cudaStreamSynchronize(laconic::cuda_stream(*place));
    cudaFree(memory);
  });
}
