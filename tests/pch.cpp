// Nothing: the precompiled header of the tests without libtorch belongs to this file
// (tests/CMakeLists.txt).
