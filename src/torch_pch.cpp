// Holds the precompiled sftbench/base/torch.h that all modules of the engine share.
