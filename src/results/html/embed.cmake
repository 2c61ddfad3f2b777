# Makes the page of the HTML report one text: page.html with the style sheet and the scripts in it, cut
# in two where the data goes, as a C++ header.
# usage: cmake -DFOLDER=src/results/html -DSCRIPTS="data.js,..." -DOUTPUT=sftbench_report_page.h -P embed.cmake
file(READ ${FOLDER}/page.html page)
file(READ ${FOLDER}/page.css style)
string(REPLACE "," ";" names "${SCRIPTS}")
set(script "")
foreach(name IN LISTS names)
  file(READ ${FOLDER}/${name} text)
  string(APPEND script "\n// ---- ${name}\n" "${text}")
endforeach()

string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
string(FIND "${page}" "@DATA@" cut)
if(cut EQUAL -1)
  message(FATAL_ERROR "page.html has no @DATA@")
endif()
string(SUBSTRING "${page}" 0 ${cut} head)
math(EXPR after "${cut} + 6")
string(SUBSTRING "${page}" ${after} -1 tail)

set(header "// Made by embed.cmake from the files beside it; do not edit.\n#pragma once\n\n#include <string_view>\n\n")
string(APPEND header "namespace sftbench::html {\n\n")
string(APPEND header "inline constexpr std::string_view kPageHead = R\"page-(${head})page-\";\n\n")
string(APPEND header "inline constexpr std::string_view kPageTail = R\"page-(${tail})page-\";\n\n")
string(APPEND header "}  // namespace sftbench::html\n")
file(WRITE ${OUTPUT} "${header}")
