// Empty source of the target that builds the precompiled header.
