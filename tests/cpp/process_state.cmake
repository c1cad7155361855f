# cmake -DNM= -DARCHIVES= -P process_state.cmake: what the floors below the backends keep for the process stands in base/process_state.h.
# The CUDA module has copies of these floors (backend/cuda/module.h): anything else would be there twice.
execute_process(COMMAND ${NM} -C --defined-only ${ARCHIVES} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "[][;]" "" symbols "${symbols}") # which are more than text to lists
string(REGEX MATCHALL "[0-9a-f]+ [bBdDu] [^\n]*heliograph::[^\n]*" found "${symbols}")
list(FILTER found EXCLUDE REGEX "vtable|typeinfo")
# Its own.
list(FILTER found EXCLUDE REGEX "::own\\(\\)::mine|::of_process|::registered")
# The same in every copy, or a copy's own cache of the memory's files; what no backend asks, for it speaks to no observer and does not look
# for Ctrl-C; a table of texts.
list(FILTER found EXCLUDE REGEX "whole_pages|::reading\\(\\)::|::last_made|Interruptible::innermost|readable_bytes")
if(found OR NOT symbols MATCHES "own\\(\\)::mine")
  message(FATAL_ERROR "one in the engine and another in a module, if they do not move into base/process_state.h: ${found}")
endif()
