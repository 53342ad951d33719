#include "methods/core.h"

#include "laconic/error.h"
#include "transport/staged/communicator.h"

namespace laconic {

MethodCore::MethodCore(std::string name, Communicator& communicator, Place& place, MethodMemory& memory,
                       ChunkedStep* chunked)
    : name_(std::move(name)), place_(&place), memory_(memory), chunked_(chunked) {
  communicator_ = &reaching(communicator);
}

/// The communicator itself, or one around it that stages the place's memory.
Communicator& MethodCore::reaching(Communicator& given) {
  if (given.takes(place_->device())) return given;
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
  return chunk_entries_ > 0 ? chunk_entries_ : chunked_->usual_chunk_entries();
}

void MethodCore::register_tensors(std::span<const Tensor> tensors) {
  if (registered_) {
    throw InvalidConfig(name_ + ": register_tensors() was called already: make a new method for another model");
  }
  tensors_.assign(tensors.begin(), tensors.end());
  require_agreement(*communicator_, agreed_fields());
  for (const Tensor& tensor : tensors_) parameters_ += tensor.size;
  registered_ = true;
  if (chunked_ != nullptr) {
    pipeline_ = std::make_unique<ChunkPipeline>(*this, *chunked_, full_chunk());
    pipeline_->join(*communicator_);
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
  if (full_chunk() > 0) fields.push_back({"entries of a chunk", std::to_string(full_chunk())});
  return fields;
}

}  // namespace laconic
