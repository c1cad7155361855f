# Rules of cmake --install: the archive, the public headers, the CMake package and the pkg-config file.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The folder of modules that are loaded at run time, beside the archive. Programs get a run path to it.
set(modules ${CMAKE_INSTALL_LIBDIR}/heliograph)
set(configs ${CMAKE_INSTALL_LIBDIR}/cmake/heliograph)

install(
  TARGETS heliograph
  EXPORT heliograph
  COMPONENT development
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
)
install(
  DIRECTORY ${PROJECT_SOURCE_DIR}/include/heliograph
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT development
  FILES_MATCHING
  PATTERN "*.h"
)
install(
  FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE
  DESTINATION ${CMAKE_INSTALL_DOCDIR}
  COMPONENT development
)
set(run_path)
foreach(module hg_mpi hg_cuda)
  if(TARGET ${module})
    install(TARGETS ${module} LIBRARY DESTINATION ${modules} COMPONENT development)
    set(run_path -Wl,-rpath,\${libdir}/heliograph)
  endif()
endforeach()
if(run_path)
  target_link_options(heliograph INTERFACE $<INSTALL_INTERFACE:LINKER:-rpath,$<INSTALL_PREFIX>/${modules}>)
endif()

# A minor version may change interfaces before 1.0.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/heliograph-config-version.cmake COMPATIBILITY SameMinorVersion)
configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/heliograph-config.cmake.in
  ${PROJECT_BINARY_DIR}/heliograph-config.cmake
  INSTALL_DESTINATION ${configs}
)
install(EXPORT heliograph NAMESPACE heliograph:: FILE heliograph-targets.cmake DESTINATION ${configs} COMPONENT development)
install(
  FILES ${PROJECT_BINARY_DIR}/heliograph-config.cmake ${PROJECT_BINARY_DIR}/heliograph-config-version.cmake
  DESTINATION ${configs}
  COMPONENT development
)

# Paths are relative to the file, so an installed tree can be moved.
file(RELATIVE_PATH up /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p/)
string(REGEX REPLACE "/$" "" up ${up})
configure_file(${CMAKE_CURRENT_LIST_DIR}/heliograph.pc.in ${PROJECT_BINARY_DIR}/heliograph.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/heliograph.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
