#include <gtest/gtest.h>

#include <cstring>

#include "laconic/error.h"
#include "laconic/threads.h"
#include "support/support.h"
#include "transport/agreement_text.h"

namespace laconic::test {
namespace {

const std::vector<AgreedField> kFields{{"method", "topk"}, {"keep", ""}};

std::string refusal(const std::string& text) {
  return message_of<TransportError>([&] { agreement_fields(text, 3); });
}

std::string with_length(std::string text, std::size_t at, std::uint64_t length) {
  std::memcpy(text.data() + at, &length, sizeof(length));
  return text;
}

TEST(AgreementText, ComesBack) {
  const auto fields = agreement_fields(agreement_text(kFields), 0);
  ASSERT_EQ(kFields.size(), fields.size());
  for (std::size_t i = 0; i < fields.size(); ++i) {
    EXPECT_EQ(kFields[i].name, fields[i].name);
    EXPECT_EQ(kFields[i].value, fields[i].value);
  }
  EXPECT_TRUE(agreement_fields("", 0).empty());
}

TEST(AgreementText, EveryCutIsRefusedButThoseBetweenFields) {
  const std::string text = agreement_text(kFields);
  const std::size_t first = agreement_text({kFields.data(), 1}).size();
  for (std::size_t length = 1; length < text.size(); ++length) {
    if (length == first) continue;
    EXPECT_TRUE(contains(refusal(text.substr(0, length)), "what rank 3 sent to compare its settings")) << length;
  }
}

TEST(AgreementText, LengthsBeyondTheEndAreRefused) {
  const std::string text = agreement_text(kFields);
  const std::uint64_t most = ~std::uint64_t{0};
  // The sums of the last ones with their place wrap round.
  for (const std::uint64_t length : {std::uint64_t{text.size()}, std::uint64_t{1} << 40, most - 8, most - 7, most}) {
    EXPECT_EQ("what rank 3 sent to compare its settings announces " + std::to_string(length) + " bytes at byte 8 of " +
                  std::to_string(text.size()) + ": run the same build of the program on all ranks",
              refusal(with_length(text, 0, length)));
    EXPECT_TRUE(contains(refusal(with_length(text, 14, length)), "bytes at byte 22")) << length;
  }
  EXPECT_TRUE(contains(refusal("abc"), "ends within a length, at byte 0 of 3"));
}

/// Rank 0's refusal of a rank 1 that announces `digest` and sends `text` as its own.
std::string refusal_of_peer(AgreementDigest digest, std::string text) {
  std::string said;
  run_ranks(2, [&](Communicator& communicator) {
    if (communicator.rank() == 0) {
      said = message_of<TransportError>([&] { require_agreement(communicator, kFields); });
      return;
    }
    std::vector<AgreementDigest> mine{digest};
    std::vector<AgreementDigest> all(2);
    communicator.all_gather(as_bytes(View<AgreementDigest>(mine)), as_writable_bytes(View<AgreementDigest>(all)))
        .wait();
    if (digest.bytes > kLargestAgreementText) return;
    std::string theirs(all[0].bytes, '\0');
    communicator.broadcast({reinterpret_cast<std::byte*>(theirs.data()), theirs.size()}, 0).wait();
    communicator.broadcast({reinterpret_cast<std::byte*>(text.data()), text.size()}, 1).wait();
  });
  return said;
}

TEST(Agreement, AnnouncedLengthIsBoundedBeforeItIsAllocated) {
  for (const std::uint64_t bytes : {kLargestAgreementText + 1, ~std::uint64_t{0}}) {
    EXPECT_EQ("what rank 1 sent to compare its settings is " + std::to_string(bytes) +
                  " bytes, more than 67108864: run the same build of the program on all ranks",
              refusal_of_peer({bytes, 0}, ""));
  }
}

TEST(Agreement, TextMustBeTheAnnouncedOneAndBeFields) {
  const std::string same = agreement_text(kFields);
  EXPECT_TRUE(contains(refusal_of_peer({same.size(), 1}, same), "what rank 1 sent to compare its settings is not"));
  const std::string bad = with_length(same, 0, 1000);
  EXPECT_TRUE(contains(refusal_of_peer(agreement_digest(bad), bad), "announces 1000 bytes"));
}

}  // namespace
}  // namespace laconic::test
