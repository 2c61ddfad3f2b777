# Writes OUTPUT, a header with a digest of each interface between the program and a library of its own, unless it says so
# already. An interface is a header below INCLUDE with all headers of this program that it includes, without comments. Its
# virtual functions and structs are what both sides must have alike: the version does not tell builds of one version apart.
cmake_policy(SET CMP0057 NEW)  # IN_LIST

function(digest_of HEADER RESULT)
  set(left ${HEADER})
  set(seen)
  while(left)
    list(POP_FRONT left header)
    if(NOT header IN_LIST seen)
      list(APPEND seen ${header})
      file(READ ${INCLUDE}/${header} text)
      string(REGEX MATCHALL "#include \"sftbench/[^\"]+" includes "${text}")
      list(TRANSFORM includes REPLACE "#include \"" "")
      list(APPEND left ${includes})
    endif()
  endwhile()
  list(SORT seen)
  set(all)
  foreach(header IN LISTS seen)
    file(READ ${INCLUDE}/${header} text)
    string(REGEX REPLACE "//[^\n]*" "" text "${text}")
    string(REGEX REPLACE "[ \t\n]+" " " text "${text}")
    string(APPEND all "${header}:${text}\n")
  endforeach()
  string(SHA256 digest "${all}")
  string(SUBSTRING ${digest} 0 12 digest)
  set(${RESULT} ${digest} PARENT_SCOPE)
endfunction()

digest_of(sftbench/engine/engine.h engine)
digest_of(sftbench/data/parquet_library.h parquet)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define SFTBENCH_ENGINE_INTERFACE \"${engine}\"
#define SFTBENCH_PARQUET_INTERFACE \"${parquet}\"
")
