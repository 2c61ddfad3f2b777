# Writes the stand-ins of all functions of NVIDIA's that the libraries of a CUDA libtorch refer to, as weak functions:
# what src/train/phantom defines itself takes their place. And the versions that the functions have in NVIDIA's libraries, and
# the names of these, as links to the one phantom library.
#   cmake -DTORCH_LIBRARIES_FOLDER=... -DOUTPUT=stubs.cpp -DVERSIONS=stubs.map -DLINKS=folder
#         -DLIBRARY=libsftbench_phantom.so -P <this>
file(GLOB libraries ${TORCH_LIBRARIES_FOLDER}/libtorch*.so ${TORCH_LIBRARIES_FOLDER}/libc10*.so
     ${TORCH_LIBRARIES_FOLDER}/libcaffe2_nvrtc.so)
set(functions)
set(needed libcuda.so.1 libnvidia-ml.so.1)
foreach(library IN LISTS libraries)
  execute_process(COMMAND nm -D --undefined-only ${library} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL " (__cuda|cu|nccl|nvrtc|nvshmem|nvml)[A-Za-z0-9_]+(@[A-Za-z0-9_.]+)?" found "${symbols}")
  list(APPEND functions ${found})
  execute_process(COMMAND readelf -d ${library} OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "\\[lib(cu|nccl|nvrtc|nvshmem)[A-Za-z0-9_.]+\\]" names "${dynamic}")
  list(APPEND needed ${names})
endforeach()
list(TRANSFORM functions STRIP)
list(TRANSFORM needed REPLACE "[][]" "")
list(REMOVE_DUPLICATES functions)
list(REMOVE_DUPLICATES needed)
list(SORT functions)

foreach(function IN LISTS functions)
  if(function MATCHES "^(.+)@(.+)$")
    list(APPEND versions ${CMAKE_MATCH_2})
    string(APPEND of_${CMAKE_MATCH_2} "  ${CMAKE_MATCH_1};\n")
  endif()
endforeach()
list(REMOVE_DUPLICATES versions)
set(text)
foreach(version IN LISTS versions)
  string(APPEND text "${version} {\n${of_${version}}};\n")
endforeach()
file(WRITE ${VERSIONS} "${text}")

list(TRANSFORM functions REPLACE "@.*" "")
list(REMOVE_DUPLICATES functions)

set(text "// Written by cmake/phantom_symbols.cmake.\nextern \"C\" {\nint sftbench_phantom_call(const char*);\n")
foreach(function IN LISTS functions)
  string(APPEND text "__attribute__((weak)) int ${function}() { return sftbench_phantom_call(\"${function}\"); }\n")
endforeach()
file(WRITE ${OUTPUT} "${text}}\n")

file(REMOVE_RECURSE ${LINKS})
file(MAKE_DIRECTORY ${LINKS})
foreach(name IN LISTS needed)
  file(CREATE_LINK ${LIBRARY} ${LINKS}/${name} SYMBOLIC)
endforeach()
