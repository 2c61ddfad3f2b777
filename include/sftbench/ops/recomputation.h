// A layer that is recomputed runs for the graph that its backward pass needs: nobody looks at its
// output again, and what the layer multiplies last (a quarter of a Llama layer's products) need not
// be computed. Who recomputes says so by a Recomputation, who multiplies last by a LastProduct;
// while both live on a thread, linears record their graph and give zeros. torch.utils.checkpoint
// stops early for the same reason.
#pragma once

namespace sftbench::ops {

class Recomputation {
 public:
  Recomputation() { ++depth_; }
  ~Recomputation() { --depth_; }
  Recomputation(const Recomputation&) = delete;
  Recomputation& operator=(const Recomputation&) = delete;

 private:
  friend bool values_needed();
  friend bool recomputing();
  static thread_local int depth_;
};

class LastProduct {
 public:
  LastProduct() { ++depth_; }
  ~LastProduct() { --depth_; }
  LastProduct(const LastProduct&) = delete;
  LastProduct& operator=(const LastProduct&) = delete;

 private:
  friend class ReadProduct;
  friend bool values_needed();
  static thread_local int depth_;
};

// While it lives, a last product is computed all the same: something reads it before the output.
class ReadProduct {
 public:
  ReadProduct() : before_(LastProduct::depth_) { LastProduct::depth_ = 0; }
  ~ReadProduct() { LastProduct::depth_ = before_; }
  ReadProduct(const ReadProduct&) = delete;
  ReadProduct& operator=(const ReadProduct&) = delete;

 private:
  int before_;
};

bool values_needed();

// What runs now has run before in this pass.
bool recomputing();

}  // namespace sftbench::ops
