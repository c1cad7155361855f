// Nothing: the source of the target that has the precompiled header.
