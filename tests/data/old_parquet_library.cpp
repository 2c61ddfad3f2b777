// A libsftbench_parquet.so of a version that never was.
extern "C" const char* sftbench_parquet_version() {
  return "0.0.0";
}
