#include "llmtrain/control/handshake.hpp"

#include <sys/random.h>

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "llmtrain/core/check.hpp"

#include "wire_bytes.hpp"

namespace llmtrain {
namespace {

constexpr std::size_t kNonce = 32;
constexpr std::string_view kMagic = "LLMT";

Error no_agent() {
  return {ErrorCode::kCorrupt,
          "what answers there does not speak the protocol of llmtrain agents",
          "another program may hold the port"};
}

bool same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

// Text from the other side, on its way to a console.
std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) out += c >= ' ' && c < 127 ? c : '?';
  return out;
}

}  // namespace

std::string hmac_sha256(std::string_view key, std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const unsigned char* done = HMAC(EVP_sha256(),
                                   key.data(),
                                   static_cast<int>(key.size()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   text.size(),
                                   digest,
                                   &size);
  LLMTRAIN_CHECK(done != nullptr && size == 32, "libcrypto has no HMAC-SHA256");
  return {reinterpret_cast<const char*>(digest), size};
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t done = 0; done < count;) {
    const ssize_t n = ::getrandom(bytes.data() + done, count - done, 0);
    if (n < 0 && errno == EINTR) continue;
    LLMTRAIN_CHECK(n > 0, "the kernel gives no random bytes");
    done += static_cast<std::size_t>(n);
  }
  return bytes;
}

Handshake::Handshake(Side side, std::string token, std::string nonce, std::uint16_t version)
    : side_(side), token_(std::move(token)), mine_(std::move(nonce)), version_(version) {}

std::optional<std::string> Handshake::first() const {
  if (side_ == Side::kServer) return std::nullopt;
  return ByteWriter().u8('H').raw(kMagic).u16(version_).raw(mine_).take();
}

Result<std::optional<std::string>> Handshake::take(std::string_view frame) {
  LLMTRAIN_CHECK(!done_, "a handshake that is over got a frame");
  if (frame.empty()) return no_agent();
  const char type = frame.front();
  const std::string_view body = frame.substr(1);
  if (type == 'R' && side_ == Side::kClient) {
    refused_ = true;
    return Error{ErrorCode::kPreflight, printable(body), ""};
  }
  const int turn = turn_++;
  if (side_ == Side::kServer && turn == 0 && type == 'H') return take_hello(body);
  if (side_ == Side::kServer && turn == 1 && type == 'P') return take_proof(body);
  if (side_ == Side::kClient && turn == 0 && type == 'C') return take_challenge(body);
  if (side_ == Side::kClient && turn == 1 && type == 'A') return take_accept(body);
  return no_agent();
}

Result<std::optional<std::string>> Handshake::take_hello(std::string_view body) {
  ByteReader r(body);
  const std::string magic = r.raw(kMagic.size());
  const std::uint16_t version = r.u16();
  if (!r.ok() || magic != kMagic) return no_agent();
  if (version != version_)
    return refuse(fmt::format(
        "the agents speak protocol version {} here and {} there: start the same build on every node",
        version_,
        version));
  theirs_ = r.raw(kNonce);
  if (!r.done()) return no_agent();
  return std::optional(ByteWriter().u8('C').u16(version_).raw(mine_).take());
}

Result<std::optional<std::string>> Handshake::take_challenge(std::string_view body) {
  ByteReader r(body);
  const std::uint16_t version = r.u16();
  theirs_ = r.raw(kNonce);
  if (!r.done() || version != version_ || same(theirs_, mine_)) return no_agent();
  return std::optional(ByteWriter().u8('P').raw(proof("client")).take());
}

Result<std::optional<std::string>> Handshake::take_proof(std::string_view body) {
  if (!same(body, proof("client")))
    return refuse(
        "the tokens of the two agents differ: they belong to different runs, or one was given a wrong token");
  done_ = true;
  return std::optional(ByteWriter().u8('A').raw(proof("server")).take());
}

Result<std::optional<std::string>> Handshake::take_accept(std::string_view body) {
  if (!same(body, proof("server"))) {
    refused_ = true;
    return Error{ErrorCode::kPreflight, "the leader does not know the run's token", ""};
  }
  done_ = true;
  return std::optional<std::string>();
}

Error Handshake::refuse(std::string text) {
  refused_ = true;
  parting_ = "R" + text.substr(0, 200);
  return {ErrorCode::kPreflight, std::move(text), ""};
}

std::string Handshake::proof(std::string_view role) const {
  const std::string& client = side_ == Side::kClient ? mine_ : theirs_;
  const std::string& server = side_ == Side::kClient ? theirs_ : mine_;
  return hmac_sha256(token_, std::string(role) + client + server);
}

}  // namespace llmtrain
