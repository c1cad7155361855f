# cmake -DNM= -DARCHIVES= -P process_state.cmake: checks that all process-wide state of the libraries below the backends is in
# base/process_state.h. The CUDA module has copies of these libraries (backend/cuda/module.h), so other state would exist twice.
execute_process(COMMAND ${NM} -C --defined-only ${ARCHIVES} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "[][;]" "" symbols "${symbols}") # CMake's lists treat these characters as syntax
string(REGEX MATCHALL "[0-9a-f]+ [bBdDu] [^\n]*heliograph::[^\n]*" found "${symbols}")
list(FILTER found EXCLUDE REGEX "vtable|typeinfo")
# Variables of base/process_state.h.
list(FILTER found EXCLUDE REGEX "::own\\(\\)::mine|::of_process|::registered")
# Variables that may exist twice: constants that are equal in every copy, a cache of memory statistics, state that no backend
# reads (observers, Ctrl-C, progress), and a table of texts.
list(
  FILTER found
  EXCLUDE
  REGEX "whole_pages|::reading\\(\\)::|::last_made|Interruptible::innermost|ProgressScope::current|readable_bytes"
)
if(found OR NOT symbols MATCHES "own\\(\\)::mine")
  message(FATAL_ERROR "once in the engine and once in a module; move them into base/process_state.h: ${found}")
endif()
