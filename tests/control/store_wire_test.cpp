#include "llmtrain/control/store_wire.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

StoreRequest sample() {
  return {.op = StoreRequest::Op::kSet,
          .id = 0xFEDCBA98,
          .key = std::string("world/0\0x", 9),
          .value = std::string(StoreLimits::kValue, '\xFF'),
          .timeout_ms = 600'000};
}

}  // namespace

TEST_CASE("store wire: what is written is what is read, up to the limits", "[control]") {
  StoreRequest request = sample();
  CHECK(decode_store_request(encode(request)).value() == request);
  request.op = StoreRequest::Op::kGet;
  request.value.clear();
  request.key.assign(StoreLimits::kKey, 'k');
  CHECK(decode_store_request(encode(request)).value() == request);
  request.key.clear();
  CHECK(decode_store_request(encode(request)).value() == request);

  for (const StoreReply& reply : {StoreReply{.id = 7, .value = std::nullopt},
                                  StoreReply{.id = 0xFFFFFFFF, .value = ""},
                                  StoreReply{.id = 8, .value = std::string(StoreLimits::kValue, '\0')}})
    CHECK(decode_store_reply(encode(reply)).value() == reply);
  CHECK(encode(StoreRequest{.key = std::string(StoreLimits::kKey, 'k'),
                            .value = std::string(StoreLimits::kValue, 'v')})
            .size() <= StoreLimits::kPacket);
}

TEST_CASE("store wire: every cut, longer or strange packet is refused", "[control]") {
  StoreRequest request = sample();
  request.value = "value";
  const std::string whole = encode(request);
  for (std::size_t size = 0; size < whole.size(); ++size)
    CHECK_FALSE(decode_store_request(whole.substr(0, size)).ok());
  CHECK_FALSE(decode_store_request(whole + "x").ok());
  CHECK_FALSE(decode_store_request("\x03" + whole.substr(1)).ok());
  CHECK_FALSE(decode_store_reply(whole).ok());

  const std::string reply = encode(StoreReply{.id = 1, .value = "abc"});
  for (std::size_t size = 0; size < reply.size(); ++size)
    CHECK_FALSE(decode_store_reply(reply.substr(0, size)).ok());
  CHECK_FALSE(decode_store_reply(reply + "x").ok());
  CHECK_FALSE(decode_store_reply("\x04" + reply.substr(1)).ok());  // says none, brings one
  CHECK_FALSE(decode_store_request(reply).ok());
}

TEST_CASE("store wire: a length beyond the limit is refused, whatever follows it", "[control]") {
  StoreRequest request;
  request.key.assign(StoreLimits::kKey, 'k');
  std::string longer = encode(request);
  longer[9] = static_cast<char>(longer[9] + 1);  // the lowest byte of the key's length
  longer += 'k';
  CHECK_FALSE(decode_store_request(longer).ok());
  std::string huge = encode(StoreReply{.id = 1, .value = ""});
  huge.replace(5, 4, "\xFF\xFF\xFF\xFF");
  CHECK_FALSE(decode_store_reply(huge).ok());
}
