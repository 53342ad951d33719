#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codecs/payload.h"
#include "laconic/place.h"
#include "laconic/status.h"

namespace laconic::test {

using Payload = std::vector<std::byte>;

/// What a decoder did with a payload, in buffers with guards around them.
struct Outcome {
  bool accepted = false;
  Status status;
  bool guards_intact = false;
  bool untouched = false;              ///< nothing was written at all
  std::vector<float> values;           ///< the decoder's view afterwards
  std::vector<std::uint32_t> indices;  ///< sparse: those that count as decoded
};

/// One codec with its arguments and an input: the table that all codec tests loop over.
class Sample {
 public:
  virtual ~Sample() = default;
  virtual std::string name() const = 0;
  virtual std::uint64_t max_payload_bytes() const = 0;
  /// Whether max_payload_bytes() is promised to be the length itself.
  virtual bool exact() const { return true; }
  /// The payload lies in the memory of the place.
  void encode(Place& place, View<std::byte> payload, Status& status) const;
  virtual Outcome decode(Place& place, View<const std::byte> payload) const = 0;
  /// Fails the test unless the outcome is what the input must decode to.
  virtual void expect_sound(const Outcome& outcome) const = 0;

  /// What max_payload_bytes() of the place's memory hold after encoding, cut to the payload's length.
  Payload encoded(Place& place) const;

 private:
  virtual void encode_into(Place& place, View<std::byte> payload, StatusView status) const = 0;
};

using Samples = std::vector<std::unique_ptr<Sample>>;

/// Every codec, format, index coding and some widths, for views of about n entries.
Samples samples_of(std::size_t n);

/// Writes a fresh checksum, after a test has changed a field: what a careful adversary would send.
void reseal(Place& place, Payload& payload);

/// Overwrites sizeof(T) bytes at `offset`.
template <class T>
void overwrite(Payload& payload, std::size_t offset, T value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  std::copy(bytes, bytes + sizeof(T), payload.begin() + static_cast<std::ptrdiff_t>(offset));
}

}  // namespace laconic::test
