# Finds Parquet in C++, from Apache Arrow: a system's Arrow, else the one inside of a pyarrow wheel, which
# brings headers and libraries with it. (Debian 12 has no package; experiments/setup.sh installs the wheel.)
#
#   SFTBENCH_PYARROW     folder that the wheel is installed in (`pip install --target FOLDER pyarrow`)
#
#   ArrowParquet_FOUND
#   ArrowParquet_ORIGIN  where it was found, for messages
#   ArrowParquet_PYTHON  the wheel's folder when it is that one, else empty
#   ArrowParquet::ArrowParquet
#
# A wheel is made with another compiler: what is found counts only if this one can compile and link
# against it.
set(SFTBENCH_PYARROW ${PROJECT_SOURCE_DIR}/build/pyarrow CACHE PATH "Folder that a pyarrow wheel is installed in")

function(arrow_parquet_try ORIGIN)
  string(MAKE_C_IDENTIFIER "ARROW_PARQUET_LINKS_${ORIGIN}" works)
  if(NOT DEFINED ${works})
    try_compile(${works} SOURCES ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/arrow_parquet_probe.cpp
      LINK_LIBRARIES ${ARGN} CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON OUTPUT_VARIABLE output)
    if(NOT ${works})
      message(STATUS "Arrow of ${ORIGIN} cannot be used with this compiler:\n${output}")
    endif()
  endif()
  if(${works})
    set(ArrowParquet_ORIGIN ${ORIGIN} PARENT_SCOPE)
    add_library(ArrowParquet::ArrowParquet INTERFACE IMPORTED)
    target_link_libraries(ArrowParquet::ArrowParquet INTERFACE ${ARGN})
  endif()
endfunction()

function(arrow_parquet_library NAME FILE)
  add_library(${NAME} SHARED IMPORTED)
  set_target_properties(${NAME} PROPERTIES IMPORTED_LOCATION ${FILE}
    INTERFACE_INCLUDE_DIRECTORIES ${SFTBENCH_PYARROW}/pyarrow/include)
endfunction()

if(NOT TARGET ArrowParquet::ArrowParquet)
  find_package(Parquet CONFIG QUIET)
  if(TARGET Parquet::parquet_shared)
    arrow_parquet_try("system, ${Parquet_VERSION}" Parquet::parquet_shared Arrow::arrow_shared)
  endif()
endif()

if(NOT TARGET ArrowParquet::ArrowParquet)
  # Named by their ABI version only: libarrow.so.2600.
  file(GLOB arrow_file ${SFTBENCH_PYARROW}/pyarrow/libarrow.so.*)
  file(GLOB parquet_file ${SFTBENCH_PYARROW}/pyarrow/libparquet.so.*)
  if(arrow_file AND parquet_file)
    list(GET arrow_file 0 arrow_file)
    list(GET parquet_file 0 parquet_file)
    arrow_parquet_library(ArrowParquet::arrow ${arrow_file})
    arrow_parquet_library(ArrowParquet::parquet ${parquet_file})
    get_filename_component(arrow_name ${arrow_file} NAME)
    arrow_parquet_try("${SFTBENCH_PYARROW}, ${arrow_name}" ArrowParquet::parquet ArrowParquet::arrow)
    if(NOT TARGET ArrowParquet::ArrowParquet)
      message(FATAL_ERROR "The pyarrow in ${SFTBENCH_PYARROW} is of no use (see above); remove it to build without Parquet")
    endif()
    set(ArrowParquet_PYTHON ${SFTBENCH_PYARROW})
  endif()
endif()

if(TARGET ArrowParquet::ArrowParquet)
  set(ArrowParquet_FOUND TRUE)
  message(STATUS "Parquet: Arrow of ${ArrowParquet_ORIGIN}")
else()
  set(ArrowParquet_FOUND FALSE)
  message(STATUS "Parquet: no Arrow here, so libsftbench_parquet.so is not built "
                 "(bash experiments/setup.sh sftbench sftbench_parquet)")
endif()
