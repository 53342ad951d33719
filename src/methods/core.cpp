#include "methods/core.h"

#include <algorithm>

#include "laconic/error.h"
#include "transport/staged/communicator.h"

namespace laconic {

MethodCore::MethodCore(std::string name, Communicator& communicator, Place& place, MethodMemory& memory,
                       ChunkedStep* chunked)
    : name_(std::move(name)), place_(&place), memory_(memory), chunked_(chunked) {
  communicator_ = &reaching(communicator);
}

/// The communicator itself, or for a place on a device one around it that follows the place's work.
Communicator& MethodCore::reaching(Communicator& given) {
  if (place_->device() == Device::cpu) return given;
  staged_ = std::make_unique<staged::StagedCommunicator>(given, *place_);
  return *staged_;
}

void MethodCore::set_chunk_entries(std::uint64_t entries) {
  if (registered_) throw InvalidConfig(name_ + ": set_chunk_entries() after register_tensors(): set it before");
  if (entries == 0) throw InvalidConfig(name_ + ": a chunk must have 1 entry or more, got 0");
  chunk_entries_ = entries;
}

/// Entries of a full chunk; 0: all tensors are one chunk.
std::uint64_t MethodCore::full_chunk() const {
  if (chunked_ == nullptr || !chunked_->by_tensor()) return 0;
  if (chunked_->fixed_chunk_entries() > 0) return chunked_->fixed_chunk_entries();
  return chunk_entries_ > 0 ? chunk_entries_ : usual_chunk_;
}

/// Ranks on the CPU and on a device use the larger. On an engine that needs one order, messages of chunks do not hide
/// behind each other, so that small chunks gain less.
void MethodCore::agree_on_chunks() {
  if (chunked_ == nullptr) return;
  std::uint64_t mine = chunked_->usual_chunk_entries(place_->device());
  if (place_->device() == Device::cuda && !communicator_->duplicates_overlap()) {
    mine = std::max(mine, kLeastInOneOrder);
  }
  std::vector<std::uint64_t> all(static_cast<std::size_t>(ranks()));
  communicator_->all_gather(as_bytes(View<const std::uint64_t>(&mine, 1)), as_writable_bytes(View<std::uint64_t>(all)))
      .wait();
  usual_chunk_ = *std::max_element(all.begin(), all.end());
  const AgreedField chunk = chunk_field();
  require_agreement(*communicator_, {&chunk, 1});
}

void MethodCore::register_tensors(std::span<const Tensor> tensors) {
  if (registered_) {
    throw InvalidConfig(name_ + ": register_tensors() was called already: make a new method for another model");
  }
  tensors_.assign(tensors.begin(), tensors.end());
  require_agreement(*communicator_, agreed_fields());
  agree_on_chunks();
  for (const Tensor& tensor : tensors_) parameters_ += tensor.size;
  registered_ = true;
  if (chunked_ != nullptr) {
    pipeline_ = std::make_unique<ChunkPipeline>(*this, *chunked_, full_chunk());
    pipeline_->join(chunked_->chunk_communicator(*communicator_));
  }
  memory_.prepare();
}

void MethodCore::require_registered(const char* call) const {
  if (registered_) return;
  throw InvalidConfig(name_ + ": " + call + " before register_tensors(): register the tensors first");
}

std::vector<AgreedField> MethodCore::agreed_fields() const {
  std::vector<AgreedField> fields{{"method", name_}, {"number of tensors", std::to_string(tensors_.size())}};
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    fields.push_back({"tensor " + std::to_string(i), tensors_[i].name + " of " + std::to_string(tensors_[i].size)});
  }
  if (chunked_ != nullptr) fields.push_back(overlap_field(chunked_->chunk_communicator(*communicator_)));
  if (registered_) fields.push_back(chunk_field());
  return fields;
}

AgreedField MethodCore::chunk_field() const {
  return {"entries of a chunk", full_chunk() > 0 ? std::to_string(full_chunk()) : "all"};
}

}  // namespace laconic
