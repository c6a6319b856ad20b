# Cross-compiling for 64-bit ARM with Debian's gcc-aarch64-linux-gnu (or clang: -DKT_ARM_CLANG=ON), against the
# libraries of scripts/arm_sysroot.sh, tests under qemu-aarch64:
#   scripts/arm_sysroot.sh build-arm/sysroot
#   cmake -S . -B build-arm -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)

set(KT_ARM_SYSROOT "${CMAKE_BINARY_DIR}/sysroot" CACHE PATH "what scripts/arm_sysroot.sh unpacked")
option(KT_ARM_CLANG "clang instead of gcc" OFF)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES KT_ARM_SYSROOT KT_ARM_CLANG)

if(KT_ARM_CLANG)
    set(CMAKE_C_COMPILER clang)
    set(CMAKE_C_COMPILER_TARGET aarch64-linux-gnu)
    set(CMAKE_ASM_COMPILER clang)
    set(CMAKE_ASM_COMPILER_TARGET aarch64-linux-gnu)
else()
    set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
    set(CMAKE_ASM_COMPILER aarch64-linux-gnu-gcc)
endif()
set(CMAKE_SYSROOT ${KT_ARM_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${KT_ARM_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR}
    ${KT_ARM_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${KT_ARM_SYSROOT}/usr/share/pkgconfig)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${KT_ARM_SYSROOT})
