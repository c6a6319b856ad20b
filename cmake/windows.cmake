# Cross-compiling for Windows (x86-64) with Debian's gcc-mingw-w64-x86-64-posix, against the libraries of
# scripts/static_libs.sh, tests under wine:
#   scripts/static_libs.sh windows build-windows/libs
#   cmake -S . -B build-windows -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/windows.cmake
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)

set(KT_WINDOWS_LIBS "${CMAKE_BINARY_DIR}/libs" CACHE PATH "what scripts/static_libs.sh built")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES KT_WINDOWS_LIBS)

set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc-posix)
set(CMAKE_ASM_COMPILER x86_64-w64-mingw32-gcc-posix)
set(CMAKE_RC_COMPILER x86_64-w64-mingw32-windres)
set(CMAKE_FIND_ROOT_PATH /usr/x86_64-w64-mingw32 ${KT_WINDOWS_LIBS}/prefix)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${KT_WINDOWS_LIBS}/prefix/lib/pkgconfig)
set(PKG_CONFIG_ARGN --static CACHE STRING "")
set(CMAKE_CROSSCOMPILING_EMULATOR wine)
