// A libsftbench_parquet.so of a version that never was, or of an older build of this one.
#ifndef OLD_PARQUET_VERSION
#define OLD_PARQUET_VERSION "0.0.0"
#endif

extern "C" const char* sftbench_parquet_version() {
  return OLD_PARQUET_VERSION;
}

#ifdef OLD_PARQUET_INTERFACE
extern "C" const char* sftbench_parquet_interface() {
  return OLD_PARQUET_INTERFACE;
}
#endif
