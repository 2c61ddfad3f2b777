// Who is let in at a port where ranks are expected, connection by connection.
#include "ranks/reception.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <deque>
#include <thread>

#include "ranks/handshake.h"
#include "ranks/keyed_hash.h"
#include "ranks/tcp_socket.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const Message kHello = {MessageKind::kHello, {"1", "who I am"}};

OwnedFd connected(int port, const std::string& from = "127.0.0.1") {
  OwnedFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ::inet_pton(AF_INET, from.c_str(), &address.sin_addr);
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  address.sin_port = htons(static_cast<uint16_t>(port));
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return socket;
}

void send_all(const OwnedFd& socket, const std::string& bytes) {
  ASSERT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

// What is there to be read within a moment; "closed" at the end.
std::string received(const OwnedFd& socket) {
  std::array<char, 4096> buffer;
  const timeval patience = {0, 200000};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const ssize_t got = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
  if (got > 0) return {buffer.data(), static_cast<size_t>(got)};
  return got == 0 || errno == ECONNRESET ? "closed" : "nothing";
}

class ReceptionTest : public testing::Test {
 protected:
  // The next thing that somebody who connects is told.
  Message challenge_of(const OwnedFd& socket) {
    reception_.receive();
    MessageReader reader(1000);
    const std::string bytes = received(socket);
    reader.append(bytes.data(), bytes.size());
    return reader.next().value();
  }

  // What a guest with `key` writes in answer.
  static std::string answer_to(const Message& challenge, const std::string& key) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    Connection guest{OwnedFd(ends[0])};
    const OwnedFd other(ends[1]);
    answer_challenge(challenge, key, kHello, guest);
    EXPECT_TRUE(guest.flush());
    return received(other);
  }

  size_t let_in(const OwnedFd& socket, const std::string& bytes) {
    send_all(socket, bytes);
    size_t guests = 0;
    for (int i = 0; i < 3; ++i) guests += reception_.receive().size();
    return guests;
  }

  const std::string key_ = key_of_use("a secret of a test", "test");
  Reception reception_{listen_on_loopback(), key_};
};

TEST_F(ReceptionTest, WhoHasTheKeyIsLetInWithWhatItSays) {
  const OwnedFd socket = connected(reception_.port());
  send_all(socket, answer_to(challenge_of(socket), key_));
  const auto guests = reception_.receive();
  ASSERT_THAT(guests, SizeIs(1));
  EXPECT_EQ(guests[0].hello.parts, kHello.parts);
  EXPECT_EQ(reception_.turned_away(), "");
}

TEST_F(ReceptionTest, WhoHasAnotherKeyIsDroppedAndCounted) {
  for (const std::string& key : {key_of_use("a secret of a tesT", "test"),
                                 key_of_use("a secret of a test", "another use")}) {
    const OwnedFd socket = connected(reception_.port());
    EXPECT_EQ(let_in(socket, answer_to(challenge_of(socket), key)), 0u);
    EXPECT_EQ(received(socket), "closed");
  }
  EXPECT_EQ(reception_.turned_away(),
            "2 connections without this job's secret, the last from 127.0.0.1");
}

TEST_F(ReceptionTest, WhatWasRecordedIsOfNoUseAgain) {
  const OwnedFd socket = connected(reception_.port());
  const std::string recorded = answer_to(challenge_of(socket), key_);
  EXPECT_EQ(let_in(socket, recorded), 1u);
  const OwnedFd again = connected(reception_.port());
  challenge_of(again);
  EXPECT_EQ(let_in(again, recorded), 0u);
  EXPECT_EQ(received(again), "closed");
}

TEST_F(ReceptionTest, EveryByteOfAGreetingIsUnderItsSeal) {
  size_t bytes = 1;
  for (size_t at = 0; at < bytes; ++at) {
    const OwnedFd socket = connected(reception_.port());
    std::string answer = answer_to(challenge_of(socket), key_);
    bytes = answer.size();
    answer[at] = static_cast<char>(answer[at] ^ 0x10);
    EXPECT_EQ(let_in(socket, answer), 0u) << "byte " << at;
  }
  EXPECT_GT(bytes, 90u);
}

TEST_F(ReceptionTest, WhoSpeaksAnotherLanguageIsDroppedAtOnce) {
  for (const std::string& words :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\xff\xff\xff\xff", 4),
        std::string("\0\0\0\0", 4), std::string("\1\0\0\0\x63", 5), encode(kHello),
        encode({MessageKind::kAnswer, {"sftbench ranks 2", "short"}})}) {
    const OwnedFd socket = connected(reception_.port());
    challenge_of(socket);
    EXPECT_EQ(let_in(socket, words), 0u);
    EXPECT_EQ(received(socket), "closed") << words;
  }
}

TEST_F(ReceptionTest, WhoIsSlowIsDroppedWhenItsTimeIsOver) {
  Reception impatient(listen_on_loopback(), key_, 0.2);
  const OwnedFd silent = connected(impatient.port());
  const OwnedFd slow = connected(impatient.port());
  impatient.receive();
  const std::string answer = encode({MessageKind::kAnswer, {"sftbench ranks 2", key_}});
  for (size_t at = 0; at < 6; ++at) {
    send_all(slow, answer.substr(at, 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_THAT(impatient.receive(), IsEmpty());
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_THAT(impatient.receive(), IsEmpty());
  for (const OwnedFd* socket : {&silent, &slow}) {
    received(*socket);  // the challenge
    EXPECT_EQ(received(*socket), "closed");
  }
}

TEST_F(ReceptionTest, AFloodMakesRoomAmongItsOwn) {
  const OwnedFd elsewhere = connected(reception_.port(), "127.0.0.2");
  const Message challenge = challenge_of(elsewhere);
  const OwnedFd first = connected(reception_.port());
  challenge_of(first);
  std::deque<OwnedFd> flood;
  for (size_t i = 0; i < kMostStrangers + 10; ++i) {
    flood.push_back(connected(reception_.port()));
    reception_.receive();
  }
  EXPECT_EQ(received(first), "closed");
  EXPECT_EQ(let_in(elsewhere, answer_to(challenge, key_)), 1u);
  std::vector<pollfd> fds;
  reception_.add_to(fds);
  EXPECT_EQ(fds.size(), kMostStrangers);  // the port, and one place was left free
}

TEST(KeyedHashTest, IsHmacSha256) {
  // RFC 4231, test case 2.
  EXPECT_EQ(to_hexadecimal(keyed_hash("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_TRUE(equal_in_constant_time("ab", "ab"));
  EXPECT_FALSE(equal_in_constant_time("ab", "aB"));
  EXPECT_FALSE(equal_in_constant_time("ab", "abc"));
  EXPECT_NE(random_bytes(32), random_bytes(32));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
