// Letters: B batch, S sequence, H hidden, R = B S rows of all tiles, T rows of a tile.
#include "sftbench/ops/row_tiles.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "sftbench/base/torch.h"
#include "sftbench/ops/recomputation.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The tile that runs, while this lives.
class RunningTile {
 public:
  RunningTile(uint64_t number, int64_t first_row, bool more_follow)
      : before_(std::exchange(running_, {number, first_row, more_follow})) {}
  ~RunningTile() { running_ = before_; }
  RunningTile(const RunningTile&) = delete;
  RunningTile& operator=(const RunningTile&) = delete;

  struct State {
    uint64_t number = 0;
    int64_t first_row = 0;
    bool more_follow = false;
  };
  static const State& running() { return running_; }

 private:
  static thread_local State running_;
  State before_;
};

thread_local RunningTile::State RunningTile::running_;

struct Work : torch::CustomClassHolder {
  Work(PositionWise position_wise, int64_t tile_count)
      : run(std::move(position_wise)), tiles(tile_count) {}

  PositionWise run;
  int64_t tiles;
};

// Calls visit(number, first row, rows, whether it is the last) for each tile.
template <typename Visit>
void for_each_tile(int64_t rows, int64_t tiles, const Visit& visit) {
  const int64_t most = (rows + tiles - 1) / tiles;
  uint64_t number = 0;
  for (int64_t first = 0; first < rows; first += most) {
    const int64_t here = std::min(most, rows - first);
    visit(number++, first, here, first + here == rows);
  }
}

// [B, S, H] -> [1, R, H]
Tensor flat(const Tensor& x) {
  return x.reshape({1, -1, x.size(-1)});
}

Tensor run_forward(const Work& work, const Tensor& x) {
  {
    const LastProduct of_the_layer;
    if (!values_needed()) return torch::zeros(x.sizes(), x.options());
  }
  const torch::NoGradGuard not_recording;
  const Tensor x_1RH = flat(x);
  Tensor y_1RH;
  for_each_tile(x_1RH.size(1), work.tiles,
                [&](uint64_t number, int64_t first, int64_t rows, bool last) {
                  const RunningTile running(number, first, !last);
                  const Tensor y_1TH = work.run(x_1RH.narrow(1, first, rows));
                  // Under autocast the result is narrower than the stream.
                  if (!y_1RH.defined()) y_1RH = torch::empty(x_1RH.sizes(), y_1TH.options());
                  y_1RH.narrow(1, first, rows).copy_(y_1TH);
                });
  return y_1RH.view(x.sizes());
}

class RowTiles : public torch::autograd::Function<RowTiles> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x,
                        const c10::intrusive_ptr<Work>& work, bool needs_gradient) {
    context->save_for_backward({x});
    context->saved_data["needs_gradient"] = needs_gradient;
    context->saved_data["work"] = c10::IValue::make_capsule(work);
    return run_forward(*work, x);
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const Tensor x = context->get_saved_variables()[0];
    const bool needs_gradient = context->saved_data["needs_gradient"].toBool();
    const auto capsule = context->saved_data["work"].toCapsule();
    const Work& work = static_cast<Work&>(*capsule);
    const Tensor x_1RH = flat(x).detach();
    const Tensor y_gradient_1RH = flat(output_gradients[0]);
    Tensor x_gradient_1RH;
    if (needs_gradient) x_gradient_1RH = torch::empty_like(x_1RH);
    for_each_tile(x_1RH.size(1), work.tiles,
                  [&](uint64_t number, int64_t first, int64_t rows, bool last) {
                    const RunningTile running(number, first, !last);
                    const Tensor gradient =
                        tile_gradient(work, x_1RH.narrow(1, first, rows),
                                      y_gradient_1RH.narrow(1, first, rows), needs_gradient);
                    if (needs_gradient) x_gradient_1RH.narrow(1, first, rows).copy_(gradient);
                  });
    return {needs_gradient ? x_gradient_1RH.view(x.sizes()) : Tensor(), Tensor(), Tensor()};
  }

 private:
  // Of the tile's input; those of parameters go to where they belong.
  static Tensor tile_gradient(const Work& work, const Tensor& x_1TH, const Tensor& y_gradient_1TH,
                              bool needs_gradient) {
    const torch::AutoGradMode recording(true);
    const Tensor input = x_1TH.detach().set_requires_grad(needs_gradient);
    Tensor output;
    {
      const Recomputation without_last_product;
      output = work.run(input);
    }
    if (!output.requires_grad()) return input.grad();
    torch::autograd::backward({output}, {y_gradient_1TH.to(output.scalar_type())});
    return input.grad();
  }
};

}  // namespace

Tensor in_row_tiles(int64_t tiles, const Tensor& x, const PositionWise& run) {
  if (tiles == 1) return run(x);
  const auto work = c10::make_intrusive<Work>(run, tiles);
  if (!torch::GradMode::is_enabled()) return run_forward(*work, x);
  // Behind a frozen embedding x may need no gradient where the parameters do.
  const Tensor input = x.requires_grad() ? x : x.detach().set_requires_grad(true);
  return RowTiles::apply(input, work, x.requires_grad());
}

uint64_t current_row_tile() {
  return RunningTile::running().number;
}

int64_t first_row_of_tile() {
  return RunningTile::running().first_row;
}

bool more_row_tiles_follow() {
  return RunningTile::running().more_follow;
}

}  // namespace sftbench::ops
