// Nothing: CMake makes the precompiled header of the tests a part of a target, and a target has a source.
