// Nothing but a reason to compile the precompiled header of its plane; see cmake/Precompiled.cmake.
