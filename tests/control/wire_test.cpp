#include <fstream>

#include <sys/stat.h>
#include <unistd.h>

#include "llmtrain/control/endpoint.hpp"
#include "llmtrain/control/frame.hpp"
#include "llmtrain/control/handshake.hpp"
#include "llmtrain/control/message.hpp"
#include "llmtrain/control/token.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace llmtrain;
using Catch::Matchers::Contains;

TEST_CASE("an endpoint is a host and a port, with brackets around IPv6", "[control]") {
  const auto parsed = [](const char* text) {
    const auto endpoint = parse_endpoint(text);
    return endpoint ? to_string(*endpoint) : "refused: " + endpoint.error().message;
  };
  CHECK(parsed("node01") == "node01:29400");
  CHECK(parsed("node01:1234") == "node01:1234");
  CHECK(parsed("10.0.0.1:0") == "10.0.0.1:0");
  CHECK(parsed("::1") == "[::1]:29400");
  CHECK(parsed("[fd00::1]:7") == "[fd00::1]:7");
  CHECK(parsed("[fd00::1]") == "[fd00::1]:29400");
  CHECK(parsed("fe80::1%eth0") == "[fe80::1%eth0]:29400");
  CHECK(parse_endpoint("n1", 7)->port == 7);
  for (const char* bad : {"",
                          ":1",
                          "a:",
                          "a:b",
                          "a:65536",
                          "a:-1",
                          "a:1x",
                          "a:1 ",
                          "[::1",
                          "[::1]1",
                          "[::1]:",
                          "a:b:c",
                          "a b:1",
                          "a;b",
                          "http://a"}) {
    INFO(bad);
    const auto endpoint = parse_endpoint(bad, 29'400, "--rdzv-endpoint");
    REQUIRE_FALSE(endpoint);
    CHECK(endpoint.error().code == ErrorCode::kUsage);
    CHECK(endpoint.error().message.starts_with("--rdzv-endpoint = \""));
  }
}

TEST_CASE("a name that does not resolve is named; one that is loopback in secret is refused", "[control]") {
  const auto nowhere = resolve({"no-such-host.invalid", 1});
  REQUIRE_FALSE(nowhere);
  CHECK_THAT(to_string(nowhere.error()), Contains("no-such-host.invalid") && Contains("does not resolve"));

  const auto loopback = resolve({"127.0.1.1", 5});
  REQUIRE(loopback);
  CHECK(to_string(loopback->front()) == "127.0.1.1:5");
  CHECK(is_hidden_loopback({"myhost", 5}, *loopback));  // as Debian's /etc/hosts has it
  CHECK_FALSE(is_hidden_loopback({"127.0.1.1", 5}, *loopback));
  CHECK_FALSE(is_hidden_loopback({"localhost", 5}, *loopback));
  CHECK_THAT(to_string(hidden_loopback({"myhost", 5}, *loopback)),
             Contains("myhost") && Contains("127.0.1.1"));
}

TEST_CASE("frames come out whole however the stream is cut, and bad lengths end it", "[control]") {
  std::string stream;
  append_frame(stream, "first");
  append_frame(stream, std::string(200, 'x'));
  for (std::size_t cut = 0; cut <= stream.size(); cut += 7) {
    FrameReader reader(256);
    std::vector<std::string> frames;
    for (const std::string& part : {stream.substr(0, cut), stream.substr(cut)}) {
      reader.append(part);
      while (true) {
        auto frame = reader.next();
        REQUIRE(frame);
        if (!*frame) break;
        frames.push_back(**frame);
      }
    }
    REQUIRE(frames == std::vector<std::string>{"first", std::string(200, 'x')});
    CHECK(reader.buffered() == 0);
  }
  for (const std::string& bad :
       {std::string(4, '\0'), std::string("\x01\x01\x00\x00", 4), std::string(4, '\xff')}) {
    FrameReader reader(256);
    reader.append(bad);
    CHECK_FALSE(reader.next());  // before a byte of the frame is stored
  }
}

TEST_CASE("HMAC-SHA256 gives the values of RFC 4231", "[control]") {
  const auto hex = [](const std::string& bytes) {
    std::string text;
    for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
    return text;
  };
  CHECK(hex(hmac_sha256("Jefe", "what do ya want for nothing?")) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")) ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
}

namespace {

// Both sides until one is content or an error; what was said last.
std::string converse(Handshake& client, Handshake& server) {
  std::string said = *client.first();
  for (Handshake* listener = &server;; listener = listener == &server ? &client : &server) {
    auto answer = listener->take(said);
    if (!answer) {
      if (!listener->parting()) return answer.error().message;
      said = *listener->parting();
      continue;
    }
    if (!*answer) return "";
    said = **answer;
  }
}

}  // namespace

TEST_CASE("both sides prove that they know the token", "[control]") {
  using Side = Handshake::Side;
  SECTION("the same token") {
    Handshake client(Side::kClient, "secret"), server(Side::kServer, "secret");
    CHECK(converse(client, server).empty());
    CHECK((client.done() && server.done()));
  }
  SECTION("another token") {
    Handshake client(Side::kClient, "secret"), server(Side::kServer, "Secret");
    CHECK_THAT(converse(client, server), Contains("tokens") && Contains("differ"));
    CHECK((!client.done() && !server.done() && client.refused()));
  }
  SECTION("another protocol version is said, with both numbers") {
    Handshake client(Side::kClient, "secret", random_bytes(32), 7), server(Side::kServer, "secret");
    CHECK_THAT(converse(client, server), Contains("version 1") && Contains("7"));
    CHECK(client.refused());
  }
  SECTION("a server that does not know the token cannot pose as one") {
    Handshake client(Side::kClient, "secret");
    REQUIRE(client.take(std::string("C\x01\x00", 3) + std::string(32, 'n')));
    CHECK_FALSE(client.take("A" + std::string(32, 'x')));
    CHECK_FALSE(client.done());
  }
  SECTION("a proof cannot be played back: the nonces differ") {
    Handshake first(Side::kClient, "secret"), server(Side::kServer, "secret");
    const auto challenge = server.take(*first.first());
    const auto proof = first.take(**challenge);
    Handshake again(Side::kServer, "secret");
    REQUIRE(again.take(*first.first()));
    CHECK_FALSE(again.take(**proof));
  }
  SECTION("garbage is not answered") {
    for (const std::string& garbage : {std::string("GET / HTTP/1.1"),
                                       std::string("H"),
                                       std::string("HLLMT"),
                                       std::string("A"),
                                       std::string("R no"),
                                       std::string(256, '\0')}) {
      Handshake server(Side::kServer, "secret");
      CHECK_FALSE(server.take(garbage));
      CHECK_FALSE(server.parting());
    }
  }
}

TEST_CASE("messages survive the wire, and nothing malformed is taken", "[control]") {
  NodeIdentity id;
  id.rdzv_id = "job";
  id.host = "n1";
  id.address = "10.0.0.1";
  id.node_rank = 3;
  id.survivor = true;
  id.control_port = 29400;
  id.num_workers = 8;
  id.build = "b";
  id.job_digest = "j";
  id.data_digest = "d";
  id.pid = 77;
  const Message messages[] = {{5, JoinMessage{id, std::string(16, 'i'), "nonce"}},
                              {6, WelcomeMessage{-1, 4, "n0"}},
                              {0, RefuseMessage{RefusalKind::kRetry, ErrorCode::kPreflight, "why"}},
                              {7, HeartbeatMessage{}},
                              {8, PayloadMessage{std::string("a\0b", 3)}},
                              {9, EndMessage{}}};
  for (const Message& message : messages) {
    const std::string bytes = encode(message);
    const auto back = decode_message(bytes);
    REQUIRE(back);
    CHECK(back->epoch == message.epoch);
    CHECK(back->body.index() == message.body.index());
    CHECK(encode(*back) == bytes);
    if (std::holds_alternative<PayloadMessage>(message.body)) continue;  // takes whatever follows
    for (std::size_t size = 0; size < bytes.size(); ++size)
      CHECK_FALSE(decode_message(bytes.substr(0, size)));
    CHECK_FALSE(decode_message(bytes + "x"));
  }
  CHECK(std::get<JoinMessage>(decode_message(encode(messages[0]))->body).identity == id);
  CHECK_FALSE(decode_message("\x63" + std::string(8, '\0')));                       // no such type
  CHECK_FALSE(decode_message("\x04" + std::string(8, '\xff')));                     // a negative epoch
  CHECK_FALSE(decode_message("\x01" + std::string(8, '\0') + "\xff\xff\xff\xff"));  // a text of 4 GiB
}

TEST_CASE("the token is made once, and a file that others can read is refused", "[control]") {
  const test::TemporaryDirectory directory;
  const std::string path = directory / "token";
  const auto made = make_or_read_token(path);
  REQUIRE(made);
  CHECK(made->size() == 64);
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  CHECK(*make_or_read_token(path) == *made);

  REQUIRE(::chmod(path.c_str(), 0644) == 0);
  const auto open = read_token(path);
  REQUIRE_FALSE(open);
  CHECK_THAT(to_string(open.error()), Contains("0644") && Contains("chmod 600"));
  REQUIRE(::chmod(path.c_str(), 0600) == 0);

  std::ofstream(path) << "short\n";
  CHECK_THAT(read_token(path).error().message, Contains("6 bytes"));
  CHECK(read_token(directory / "none").error().code == ErrorCode::kNotFound);
  CHECK_FALSE(read_token(directory.path()));
}
