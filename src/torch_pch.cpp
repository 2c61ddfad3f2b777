// Holds the precompiled <torch/torch.h> that all modules of the engine share.
