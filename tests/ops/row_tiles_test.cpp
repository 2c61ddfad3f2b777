#include "sftbench/ops/row_tiles.h"

#include "op_test_support.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/linear.h"
#include "sftbench/ops/recomputation.h"
#include "sftbench/ops/swiglu.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

constexpr int64_t kHidden = 8, kInner = 24;

// down(silu(gate x) * up x), which notes the rows of every call.
struct ToyMlp {
  explicit ToyMlp(torch::Dtype dtype = torch::kFloat32)
      : gate(leaf(random_tensor({kInner, kHidden}, dtype, 1))),
        up(leaf(random_tensor({kInner, kHidden}, dtype, 2))),
        down(leaf(random_tensor({kHidden, kInner}, dtype, 3))) {}

  Tensor gate, up, down;
  std::vector<int64_t> calls;

  Tensor operator()(const Tensor& x) {
    calls.push_back(x.size(1));
    const Tensor inner = swiglu(linear(x, gate, Tensor()), linear(x, up, Tensor()));
    const LastProduct of_the_layer;
    return linear(inner, down, Tensor());
  }
};

Tensor in_tiles(int64_t tiles, ToyMlp& mlp, const Tensor& x) {
  return in_row_tiles(tiles, x, [&mlp](const Tensor& rows) { return mlp(rows); });
}

TEST(RowTiles, GiveTheResultAndTheGradientsOfWholeRows) {
  for (const torch::Dtype dtype : {torch::kFloat64, torch::kFloat32}) {
    const Tensor rows = random_tensor({2, 7, kHidden}, dtype, 4);
    const Tensor gradient = random_tensor({2, 7, kHidden}, dtype, 5);
    ToyMlp whole(dtype);
    const Tensor x = leaf(rows);
    const Tensor y = whole(x);
    y.backward(gradient);
    for (const int64_t tiles : {1, 2, 3, 5, 14, 100}) {
      SCOPED_TRACE(tiles);
      ToyMlp mlp(dtype);
      const Tensor tiled_x = leaf(rows);
      const Tensor tiled_y = in_tiles(tiles, mlp, tiled_x);
      tiled_y.backward(gradient);
      expect_close("y", tiled_y, y);
      expect_close("x gradient", tiled_x.grad(), x.grad());
      expect_close("gate gradient", mlp.gate.grad(), whole.gate.grad());
      expect_close("up gradient", mlp.up.grad(), whole.up.grad());
      expect_close("down gradient", mlp.down.grad(), whole.down.grad());
    }
  }
}

TEST(RowTiles, DivideAllRowsAndComputeEachTwice) {
  ToyMlp mlp;
  const Tensor x = leaf(random_tensor({2, 7, kHidden}, torch::kFloat32, 4));
  const Tensor y = in_tiles(4, mlp, x);
  EXPECT_EQ(mlp.calls, (std::vector<int64_t>{4, 4, 4, 2}));
  mlp.calls.clear();
  y.sum().backward();
  EXPECT_EQ(mlp.calls, (std::vector<int64_t>{4, 4, 4, 2}));
  {
    mlp.calls.clear();
    const torch::NoGradGuard not_recording;
    in_tiles(3, mlp, x);
    EXPECT_EQ(mlp.calls, (std::vector<int64_t>{5, 5, 4}));
  }
  mlp.calls.clear();
  in_tiles(1, mlp, x);
  EXPECT_EQ(mlp.calls, (std::vector<int64_t>{7}));  // of both rows, as they are
}

// What a checkpointed layer computes once more is the MLP's input: the tiles come when they are
// needed.
TEST(RowTiles, RunOnceMoreInALayerThatIsRecomputed) {
  const Tensor rows = random_tensor({1, 6, kHidden}, torch::kFloat32, 4);
  ToyMlp whole, mlp;
  const Tensor x = leaf(rows), tiled_x = leaf(rows);
  whole(x).sum().backward();
  Tensor y;
  {
    const Recomputation again;
    y = in_tiles(2, mlp, tiled_x);
  }
  EXPECT_TRUE(mlp.calls.empty());
  y.sum().backward();
  EXPECT_EQ(mlp.calls, (std::vector<int64_t>{3, 3}));
  expect_close("x gradient", tiled_x.grad(), x.grad());
  expect_close("down gradient", mlp.down.grad(), whole.down.grad());
}

TEST(RowTiles, TrainParametersBehindAnInputThatNeedsNoGradient) {
  ToyMlp whole, mlp;
  const Tensor x = random_tensor({1, 6, kHidden}, torch::kFloat32, 4);
  whole(x).sum().backward();
  in_tiles(2, mlp, x).sum().backward();
  expect_close("gate gradient", mlp.gate.grad(), whole.gate.grad());
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(x.requires_grad());
}

TEST(RowTiles, AddToGradientsThatAreThere) {
  ToyMlp whole, mlp;
  const Tensor x = random_tensor({1, 6, kHidden}, torch::kFloat32, 4);
  for (int i = 0; i < 2; ++i) {
    whole(x).sum().backward();
    in_tiles(3, mlp, x).sum().backward();
  }
  expect_close("down gradient", mlp.down.grad(), whole.down.grad());
}

TEST(RowTiles, FrozenParametersGetNoGradient) {
  ToyMlp mlp;
  mlp.gate.requires_grad_(false);
  mlp.down.requires_grad_(false);
  in_tiles(3, mlp, leaf(random_tensor({1, 6, kHidden}, torch::kFloat32, 4))).sum().backward();
  EXPECT_FALSE(mlp.gate.grad().defined());
  EXPECT_FALSE(mlp.down.grad().defined());
  EXPECT_TRUE(mlp.up.grad().defined());
}

TEST(RowTiles, SayWhichRunsAndWhetherMoreFollow) {
  struct Seen {
    uint64_t tile;
    int64_t first_row;
    bool more;
    bool operator==(const Seen&) const = default;
  };
  std::vector<Seen> seen;
  const auto run = [&seen](const Tensor& rows) {
    seen.push_back({current_row_tile(), first_row_of_tile(), more_row_tiles_follow()});
    return rows * 2;
  };
  const Tensor x = leaf(random_tensor({1, 6, kHidden}, torch::kFloat32, 4));
  const Tensor y = in_row_tiles(3, x, run);
  const std::vector<Seen> each = {{0, 0, true}, {1, 2, true}, {2, 4, false}};
  EXPECT_EQ(seen, each);
  seen.clear();
  y.sum().backward();
  EXPECT_EQ(seen, each);
  EXPECT_EQ(current_row_tile(), 0u);
  EXPECT_EQ(first_row_of_tile(), 0);
  EXPECT_FALSE(more_row_tiles_follow());
  seen.clear();
  in_row_tiles(1, x, run);
  EXPECT_EQ(seen, (std::vector<Seen>{{0, 0, false}}));
}

TEST(RowTiles, AreForgottenWhenOneFails) {
  const Tensor x = random_tensor({1, 6, kHidden}, torch::kFloat32, 4);
  const auto fail = [](const Tensor&) -> Tensor { throw std::runtime_error("no memory"); };
  EXPECT_THROW(in_row_tiles(3, x, fail), std::runtime_error);
  EXPECT_EQ(current_row_tile(), 0u);
  EXPECT_FALSE(more_row_tiles_follow());
}

// Under autocast an MLP gives less than the width of its input.
TEST(RowTiles, KeepTheDtypeOfTheResult) {
  const auto narrow = [](const Tensor& rows) { return rows.to(torch::kBFloat16) * 2; };
  const Tensor x = leaf(random_tensor({1, 6, kHidden}, torch::kFloat32, 4));
  const Tensor y = in_row_tiles(4, x, narrow);
  EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
  (x + y).sum().backward();
  EXPECT_TRUE(x.grad().equal(torch::full_like(x, 3)));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
