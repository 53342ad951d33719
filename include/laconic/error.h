#pragma once

#include <stdexcept>
#include <string>

namespace laconic {

/// An error that a caller can cause and can fix. The message names the value, the allowed range and the remedy.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A parameter or a view is wrong, or the ranks do not agree.
class InvalidConfig : public Error {
 public:
  using Error::Error;
};

/// A payload was not written by an encoder of this wire version, or is damaged.
class CorruptPayload : public Error {
 public:
  using Error::Error;
};

/// A rank failed, vanished or did not answer in time.
class TransportError : public Error {
 public:
  using Error::Error;
};

/// A bug in Laconic: an invariant that no input may break is broken. Never caught inside the library.
class BrokenInvariant : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

}  // namespace laconic
