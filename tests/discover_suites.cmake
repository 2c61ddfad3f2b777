# Called after a test binary was linked: writes one ctest test for each of its Google Test suites, whose tests run each in
# a process of its own, forked from one (forked_main.cpp).
#   cmake -DEXECUTABLE=... -DLAUNCHER=... -DLABEL=... -DLIMIT_S=... -DROOT=... -DOUTPUT=... -P discover_suites.cmake
execute_process(COMMAND ${LAUNCHER} "${EXECUTABLE}" --gtest_list_tests
  WORKING_DIRECTORY "${ROOT}" OUTPUT_VARIABLE listed RESULT_VARIABLE status TIMEOUT 120)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${EXECUTABLE} cannot list its tests: ${status}\n${listed}")
endif()
set(tests "")
string(REGEX MATCHALL "(^|\n)[^ \n]+\\." suites "${listed}")
foreach(suite IN LISTS suites)
  string(REGEX REPLACE "^\n|\\.$" "" suite "${suite}")
  string(APPEND tests "add_test([=[${suite}]=]")
  foreach(word IN LISTS LAUNCHER EXECUTABLE)
    string(APPEND tests " [=[${word}]=]")
  endforeach()
  string(APPEND tests " --each-in-a-process [=[--gtest_filter=${suite}.*]=])\n"
    "set_tests_properties([=[${suite}]=] PROPERTIES LABELS ${LABEL} SKIP_RETURN_CODE 77 TIMEOUT 3600\n"
    "  WORKING_DIRECTORY [=[${ROOT}]=]\n"
    "  ENVIRONMENT \"OMP_WAIT_POLICY=passive;SFTBENCH_TEST_LIMIT_S=${LIMIT_S}\")\n")
endforeach()
file(WRITE "${OUTPUT}" "${tests}")
