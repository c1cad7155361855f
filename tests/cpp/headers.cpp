// This file is empty: CMake attaches the tests' precompiled header to a target, and a target needs a source.
