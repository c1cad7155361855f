# Writes FOLDER/all.cpp, which includes all sources of a model. Their names are known only after Verilator has run.
file(GLOB sources RELATIVE ${FOLDER} ${FOLDER}/V*.cpp)
set(text)
foreach(source IN LISTS sources)
  string(APPEND text "#include \"${source}\"\n")
endforeach()
file(WRITE ${FOLDER}/all.cpp "${text}")
