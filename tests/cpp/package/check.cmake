# cmake -DBUILD= -DSOURCE= -DWORK= -DVERSION= -DCXX= -DGENERATOR= -P check.cmake
# Installs the build into an empty prefix and moves the prefix. Then builds the programs of the pages against it, by
# find_package and by pkg-config.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(status)
    message(FATAL_ERROR "${ARGV}:\n${said}")
  endif()
  set(said "${said}" PARENT_SCOPE)
endfunction()
function(expect pattern)
  if(NOT said MATCHES "${pattern}")
    message(FATAL_ERROR "not \"${pattern}\" but:\n${said}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/prefix)

# The prefix has only the public headers and one library, and no part of the Python package.
file(GLOB headers RELATIVE ${SOURCE}/include ${SOURCE}/include/heliograph/*.h)
file(GLOB_RECURSE installed RELATIVE ${WORK}/prefix/include ${WORK}/prefix/include/*)
if(NOT headers STREQUAL installed)
  message(FATAL_ERROR "headers: ${installed}\ninstead of ${headers}")
endif()
file(GLOB_RECURSE archives RELATIVE ${WORK}/prefix ${WORK}/prefix/*.a)
file(GLOB_RECURSE python RELATIVE ${WORK}/prefix ${WORK}/prefix/*_core*)
if(NOT archives MATCHES "^lib[^;]*/libheliograph\\.a$" OR python)
  message(FATAL_ERROR "installed: ${archives} ${python}")
endif()

set(
  build
  ${CMAKE_COMMAND}
  -S
  ${SOURCE}/tests/cpp/package
  -B
  ${WORK}/cmake
  -G
  ${GENERATOR}
  -DCMAKE_CXX_COMPILER=${CXX}
)
run(
  ${build}
  -DCMAKE_PREFIX_PATH=${WORK}/prefix
  -DPROGRAM=${SOURCE}/examples/cpp/ckks.cpp
  -DWANTED=${VERSION}
)
run(${CMAKE_COMMAND} --build ${WORK}/cmake)
run(${WORK}/cmake/program)
expect("${PRINTS_CKKS}")

# find_package refuses another minor version.
string(REGEX REPLACE "^([0-9]+)\\..*" "\\1.999" other ${VERSION})
execute_process(COMMAND ${build} -DWANTED=${other} RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE said)
expect("compatible with requested version \"${other}\"")

find_program(PKG_CONFIG pkg-config)
if(NOT PKG_CONFIG)
  message(STATUS "skipped: pkg-config is not installed")
  return()
endif()
file(GLOB_RECURSE pc ${WORK}/prefix/heliograph.pc)
cmake_path(GET pc PARENT_PATH folder)
set(ENV{PKG_CONFIG_PATH} ${folder})
run(${PKG_CONFIG} --modversion heliograph)
expect("^${VERSION}\n")
run(${PKG_CONFIG} --cflags --libs heliograph)
separate_arguments(flags UNIX_COMMAND "${said}")
run(${CXX} -std=c++20 ${SOURCE}/examples/cpp/bgv.cpp -o ${WORK}/program ${flags})
run(${WORK}/program)
expect("${PRINTS_BGV}")
file(REMOVE_RECURSE ${WORK})
