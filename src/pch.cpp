// Holds the precompiled headers that the modules without libtorch share.
