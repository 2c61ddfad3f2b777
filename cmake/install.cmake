# Where `cmake --install` and CPack put the files. The program finds all of them from its own place, so that a prefix may
# move and two versions stand side by side.
#
#   bin/sftbench                        the program
#   lib/sftbench/                       the engine, and the reader of Parquet with the Arrow that it is linked to
#   share/sftbench/                     experiments, models, GPUs, prices, the schema of results, seed text
#   share/man, share/{bash-completion,zsh,fish}   made by the program itself
if(NOT TARGET sftbench OR SFTBENCH_SANITIZE)
  return()
endif()
set(private lib/sftbench)
set(shared share/sftbench)

install(TARGETS sftbench RUNTIME DESTINATION bin)
install(TARGETS sftbench_engine_library LIBRARY DESTINATION ${private})
if(TARGET sftbench_parquet)
  set_target_properties(sftbench_parquet PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS sftbench_parquet LIBRARY DESTINATION ${private} OPTIONAL)
  if(ArrowParquet_PYTHON)
    install(FILES $<TARGET_FILE:ArrowParquet::arrow> $<TARGET_FILE:ArrowParquet::parquet> DESTINATION ${private})
    install(CODE "
      file(GLOB arrow \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${private}/lib[ap]*.so.*\")
      execute_process(COMMAND ${CMAKE_STRIP} --strip-unneeded \${arrow} COMMAND_ERROR_IS_FATAL ANY)")
    file(GLOB arrow_license ${ArrowParquet_PYTHON}/pyarrow-*.dist-info/licenses/LICENSE.txt)
    install(FILES ${arrow_license} DESTINATION share/doc/sftbench RENAME LICENSE.arrow)
  endif()
endif()

install(DIRECTORY config datasets DESTINATION ${shared} PATTERN generated EXCLUDE)
install(DIRECTORY experiments DESTINATION ${shared} FILES_MATCHING PATTERN "*.yaml" PATTERN "*.json"
        PATTERN "ray_nodes.py")
install(FILES LICENSE README.md packaging/copyright DESTINATION share/doc/sftbench)
install(FILES packaging/lintian-overrides DESTINATION share/lintian/overrides RENAME sftbench)

# The texts that the program makes of its own commands.
set(texts ${CMAKE_BINARY_DIR}/texts)
install(CODE "
  file(MAKE_DIRECTORY ${texts})
  foreach(text \"manual;sftbench.1\" \"completion bash;sftbench.bash\" \"completion zsh;_sftbench\" \"completion fish;sftbench.fish\")
    list(GET text 0 command)
    list(GET text 1 file)
    separate_arguments(command)
    execute_process(COMMAND \"$<TARGET_FILE:sftbench>\" \${command} OUTPUT_FILE ${texts}/\${file} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  file(COPY_FILE ${PROJECT_SOURCE_DIR}/CHANGELOG.md ${texts}/changelog)
  execute_process(COMMAND gzip -9nf ${texts}/sftbench.1 ${texts}/changelog COMMAND_ERROR_IS_FATAL ANY)")
install(FILES ${texts}/sftbench.1.gz DESTINATION share/man/man1)
install(FILES ${texts}/changelog.gz DESTINATION share/doc/sftbench)
install(FILES ${texts}/sftbench.bash DESTINATION share/bash-completion/completions RENAME sftbench)
install(FILES ${texts}/_sftbench DESTINATION share/zsh/vendor-completions)
install(FILES ${texts}/sftbench.fish DESTINATION share/fish/vendor_completions.d)

# --- packages: packaging/packages.sh --------------------------------------------------------------------------------------
set(CPACK_PACKAGE_NAME sftbench)
set(CPACK_PACKAGE_VENDOR "sftbench")
set(CPACK_PACKAGE_CONTACT "the sftbench developers <sftbench@users.noreply.github.com>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "measure what fine-tuning a language model costs")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
  "Trains each configuration of a space for real, samples the machine meanwhile
 and writes speed, memory and energy as JSON. Predicts, compares and recommends
 configurations. Takes the discovery spaces of IBM ado. This package trains on
 CPUs.")
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${SFTBENCH_PYARROW}/pyarrow)
# Loaded when weights are fetched or checked (src/base/http). Without OpenBLAS libtorch multiplies by the reference BLAS.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libcurl4, libssl3, libopenblas0-openmp")
include(CPack)
