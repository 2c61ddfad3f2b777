#include "ranks/tcp_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/ranks/network_interface.h"

namespace sftbench {
namespace SFTBENCH_FILE {

// Linux lets one connection wait behind a backlog of 0, and answers further ones not at all.
TEST(TcpSocketTest, WhoAnswersNotIsGivenUpAfterTheTime) {
  const OwnedFd full = listen_on_loopback();
  ASSERT_EQ(::listen(full.get(), 0), 0);
  std::vector<OwnedFd> waiting;
  std::string why;
  constexpr size_t kMore = 8;
  while (waiting.size() < kMore) {
    OwnedFd socket = connect_to(kLoopback, port_of(full.get()), 0.2, why);
    if (!socket) break;
    waiting.push_back(std::move(socket));
  }
  EXPECT_LT(waiting.size(), kMore);
  EXPECT_EQ(why, std::strerror(ETIMEDOUT));
}

TEST(TcpSocketTest, WhereNobodyListensTheReasonIsTold) {
  OwnedFd closed = listen_on_loopback();
  const int port = port_of(closed.get());
  std::string why;
  EXPECT_TRUE(connect_to(kLoopback, port, 5, why));
  closed = OwnedFd();
  EXPECT_FALSE(connect_to(kLoopback, port, 5, why));
  EXPECT_EQ(why, std::strerror(ECONNREFUSED));
}

TEST(TcpSocketTest, APortThatIsTakenIsAnError) {
  const OwnedFd first = listen_on_loopback();
  EXPECT_THROW(listen_at(kLoopback, port_of(first.get())), RunError);
}

TEST(NetworkInterfaceTest, AnInterfaceHasItsAddressAndAnUnknownOneIsRefusedWithThoseThatThereAre) {
  EXPECT_THAT(network_interfaces(), testing::Contains("lo"));
  EXPECT_EQ(address_of_interface("V", "lo"), kLoopback);
  try {
    address_of_interface("V", "lo0");
    FAIL();
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(),
                testing::AllOf(testing::HasSubstr("V is 'lo0'"), testing::HasSubstr("lo")));
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
