# A model's sources as one, for their names are known only when Verilator has run: FOLDER's into FOLDER/all.cpp.
file(GLOB sources RELATIVE ${FOLDER} ${FOLDER}/V*.cpp)
set(text)
foreach(source IN LISTS sources)
  string(APPEND text "#include \"${source}\"\n")
endforeach()
file(WRITE ${FOLDER}/all.cpp "${text}")
