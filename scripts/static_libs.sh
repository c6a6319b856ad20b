#!/bin/sh
# The libraries that kentang links, built static from Debian's source packages: against musl what one binary that runs
# on any Linux needs, and with mingw-w64 what kentang.exe needs (and its tests: cmocka). Nothing on this machine is
# changed but the packages that scripts/package installs.
#   scripts/static_libs.sh x86_64|aarch64|windows|shared DIR      (shared: for a libkentang.so of this machine)
# DIR then holds prefix/ (libraries, headers, pkg-config files), cc (the compiler to use), licences/ (NAME.copyright) and
# versions (lines of NAME VERSION LICENCE).
set -eu
arch=${1:?usage: scripts/static_libs.sh x86_64|aarch64|windows|shared DIR}
mkdir -p "${2:?usage: scripts/static_libs.sh ARCH DIR}"
dir=$(cd "$2" && pwd)
libraries="utf8proc jansson hwloc ncurses libedit libmicrohttpd"
[ "$arch" != shared ] || libraries="utf8proc hwloc"
[ "$arch" != windows ] || libraries="utf8proc jansson hwloc libmicrohttpd curl cmocka"
[ "$(cat "$dir/.complete" 2>/dev/null)" = "$libraries" ] && exit 0

prefix=$dir/prefix
mkdir -p "$dir/src" "$dir/licences" "$dir/apt/lists/partial" "$prefix"
cd "$dir/src"

# An apt of its own for sources, so that the machine's lists stay as they are.
apt_sources() {
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
        [ -f "$file" ] || continue
        case "$file" in
        *.sources) sed 's/^Types: *deb *$/Types: deb-src/' "$file" >>"$dir/apt/src.sources"; echo >>"$dir/apt/src.sources" ;;
        *.list) sed -n 's/^deb /deb-src /p' "$file" >>"$dir/apt/src.list" ;;
        esac
    done
}
in_apt() {
    list=$dir/apt/src.sources
    [ -s "$list" ] || list=$dir/apt/src.list
    apt-get -q -o Dir::Etc::sourceparts=- -o Dir::Etc::sourcelist="$list" -o Dir::State::Lists="$dir/apt/lists" \
        -o APT::Sandbox::User= "$@"
}
# run_logged WHAT COMMAND...
run_logged() {
    what=$1
    shift
    "$@" >"$dir/log" 2>&1 || {
        tail -20 "$dir/log" >&2
        echo "static_libs.sh: $what failed (log: $dir/log)" >&2
        exit 1
    }
}

# ---- the compiler: gcc with musl's headers and start files, and the kernel's headers, which musl has not ----

kernel_headers() { # from FOLDER, where asm lies
    mkdir -p "$dir/kernel"
    ln -sfn /usr/include/linux "$dir/kernel/linux"
    ln -sfn /usr/include/asm-generic "$dir/kernel/asm-generic"
    ln -sfn "$1/asm" "$dir/kernel/asm"
}
write_cc() { # COMMAND WITH OPTIONS
    mkdir -p "$dir/kernel"
    printf '#!/bin/sh\nexec %s "$@" -idirafter %s\n' "$1" "$dir/kernel" >"$dir/cc"
    chmod +x "$dir/cc"
}
musl_of_arm64() {
    mkdir -p "$dir/musl" "$dir/musl-apt/lists/partial" "$dir/musl-apt/cache/archives/partial"
    : >"$dir/musl-apt/status"
    cat /etc/apt/sources.list.d/*.sources >"$dir/musl-apt/src.sources" 2>/dev/null || cp /etc/apt/sources.list "$dir/musl-apt/src.sources"
    arm_apt() {
        apt-get -q -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State::status="$dir/musl-apt/status" \
            -o Dir::State::Lists="$dir/musl-apt/lists" -o Dir::Cache="$dir/musl-apt/cache" -o Dir::Etc::sourceparts=- \
            -o Dir::Etc::sourcelist="$dir/musl-apt/src.sources" -o APT::Sandbox::User= "$@"
    }
    run_logged "apt-get update for arm64" arm_apt update
    (cd "$dir/musl-apt" && run_logged "getting musl for arm64" arm_apt download musl-dev musl musl-tools)
    for deb in "$dir"/musl-apt/*.deb; do dpkg -x "$deb" "$dir/musl"; done
}

case "$arch" in
x86_64)
    kernel_headers /usr/include/x86_64-linux-gnu
    write_cc "musl-gcc -static"
    host=x86_64-linux-musl
    ;;
aarch64)
    kernel_headers /usr/aarch64-linux-gnu/include
    musl_of_arm64
    sed "s| /usr/| $dir/musl/usr/|g; s|-L/usr/|-L$dir/musl/usr/|g; s|^/usr/|$dir/musl/usr/|" \
        "$dir/musl/usr/lib/aarch64-linux-musl/musl-gcc.specs" >"$dir/musl.specs"
    # without outline atomics, whose start code asks glibc
    write_cc "aarch64-linux-gnu-gcc -specs=$dir/musl.specs -static -mno-outline-atomics"
    host=aarch64-linux-musl
    ;;
windows)
    host=x86_64-w64-mingw32
    write_cc $host-gcc-posix
    export RC=$host-windres STRIP=$host-strip
    tools=$host- windows_flags="-D__USE_MINGW_ANSI_STDIO=1 -D_WIN32_WINNT=0x0a00" # printf as in C99; what Windows 10 has
    ;;
shared)
    write_cc "cc -fPIC"
    host=$(cc -dumpmachine)
    ;;
*) echo "static_libs.sh: $arch: x86_64, aarch64, windows or shared" >&2; exit 2 ;;
esac

# ---- the libraries ----

apt_sources
run_logged "apt-get update for sources" in_apt update
export CC="$dir/cc" AR="${tools:-}ar" RANLIB="${tools:-}ranlib" PKG_CONFIG_LIBDIR="$prefix/lib/pkgconfig"
export CFLAGS="-O2 -g0 -ffile-prefix-map=$dir=." CPPFLAGS="-I$prefix/include -I$prefix/include/ncurses ${windows_flags:-}" LDFLAGS="-L$prefix/lib"
jobs=$(nproc)

# autotools NAME CONFIGURE-OPTIONS...
autotools() {
    name=$1
    shift
    [ -x "$(echo "$name"-*/configure)" ] || (cd "$name"-*/ && run_logged "autoreconf of $name" autoreconf -fi)
    (cd "$name"-*/ && run_logged "configuring $name" ./configure --host="$host" --prefix="$prefix" "$@" &&
        run_logged "building $name" make -j "$jobs" && run_logged "installing $name" make install)
}
# cmake_library NAME CMAKE-OPTIONS...
cmake_library() {
    name=$1
    shift
    (cd "$name"-*/ && run_logged "configuring $name" cmake -B build -DCMAKE_C_COMPILER="$CC" -DCMAKE_AR="$(command -v "$AR")" \
        -DCMAKE_RANLIB="$(command -v "$RANLIB")" -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_C_FLAGS="$CFLAGS $CPPFLAGS" "$@" &&
        run_logged "building $name" cmake --build build && run_logged "installing $name" cmake --install build)
}
licence_of() {
    case "$1" in
    utf8proc | jansson | musl | ncurses) echo MIT ;;
    hwloc | libedit) echo BSD-3-Clause ;;
    curl) echo curl ;;
    cmocka) echo Apache-2.0 ;;
    libmicrohttpd) echo LGPL-2.1-or-later ;;
    esac
}
for name in $libraries; do
    [ ! -f "$dir/.built-$name" ] || continue
    echo "static_libs.sh: $name"
    rm -rf "$name"-*/
    run_logged "getting $name" in_apt source "$name"
    cp "$name"-*/debian/copyright "$dir/licences/$name.copyright"
    case "$name" in
    utf8proc)
        (cd "$name"-*/ && run_logged "building $name" make CC="$CC" CFLAGS="$CFLAGS -DUTF8PROC_STATIC -std=c99" libutf8proc.a libutf8proc.pc prefix="$prefix" &&
            mkdir -p "$prefix/lib/pkgconfig" "$prefix/include" && cp libutf8proc.a "$prefix/lib/" &&
            cp libutf8proc.pc "$prefix/lib/pkgconfig/" && cp utf8proc.h "$prefix/include/")
        ;;
    jansson) autotools "$name" --disable-shared --enable-static ;;
    hwloc)
        autotools "$name" --disable-shared --enable-static --disable-libxml2 --disable-io --disable-cairo --disable-libudev \
            --disable-plugin-dlopen --disable-nvml --disable-opencl --disable-cuda --disable-rsmi --disable-levelzero
        ;;
    ncurses) # terminals that people have are compiled in: there may be no database where the binary runs
        autotools "$name" --without-shared --without-debug --without-cxx --without-cxx-binding --without-ada --without-manpages \
            --without-progs --without-tests --disable-db-install --enable-widec --with-build-cc=cc \
            --with-default-terminfo-dir=/usr/share/terminfo --with-terminfo-dirs=/etc/terminfo:/lib/terminfo:/usr/share/terminfo \
            --with-fallbacks=xterm,xterm-256color,linux,vt100,vt220,screen,screen-256color,tmux,tmux-256color,rxvt,ansi,dumb
        ln -sf libncursesw.a "$prefix/lib/libncurses.a"
        ;;
    libedit) # Debian's patch of configure.ac asks for libbsd: upstream's own configure stays in force
        touch "$name"-*/aclocal.m4 && sleep 1 && touch "$name"-*/configure "$name"-*/config.h.in
        find "$name"-*/ -name Makefile.in -exec touch {} +
        CPPFLAGS="$CPPFLAGS -I$prefix/include/ncursesw -D__STDC_ISO_10646__=201103L" \
            autotools "$name" --disable-shared --enable-static --disable-examples
        ;;
    libmicrohttpd) autotools "$name" --disable-shared --enable-static --disable-https --disable-doc --disable-examples --disable-tools --disable-curl ;;
    curl) # HTTP and the certificates that Windows trusts, nothing else
        autotools "$name" --disable-shared --enable-static --with-schannel --disable-ldap --disable-ldaps --disable-rtsp --disable-dict \
            --disable-telnet --disable-tftp --disable-pop3 --disable-imap --disable-smb --disable-smtp --disable-gopher --disable-mqtt \
            --disable-ftp --disable-file --disable-manual --without-zlib --without-brotli --without-zstd --without-libidn2 \
            --without-libpsl --without-nghttp2 --without-libssh2 --without-librtmp
        ;;
    cmocka)
        cmake_library "$name" -DWITH_STATIC_LIB=ON -DWITH_EXAMPLES=OFF -DCMAKE_SYSTEM_NAME=Windows -DCMAKE_RC_COMPILER="$RC"
        find "$name"-*/build -name libcmocka-static.a -exec cp {} "$prefix/lib/libcmocka.a" \;
        rm -f "$prefix/lib/libcmocka.dll.a" "$prefix/bin/cmocka.dll"
        ;;
    esac
    : >"$dir/.built-$name"
done

# libcurl is looked for when a program needs it; a static binary for Linux cannot, and says so. Its headers name the calls.
if [ "$arch" != windows ]; then
    mkdir -p "$prefix/include/curl"
    cp /usr/include/*/curl/*.h "$prefix/include/curl/"
    printf 'Name: libcurl\nDescription: headers\nVersion: 7\nCflags: -I%s/include\n' "$prefix" >"$prefix/lib/pkgconfig/libcurl.pc"
fi

case "$arch" in
x86_64) cp /usr/share/doc/musl/copyright "$dir/licences/musl.copyright"; musl=$(dpkg-query -W -f '${Version}' musl) ;;
aarch64) cp "$dir/musl/usr/share/doc/musl/copyright" "$dir/licences/musl.copyright"; musl=$(dpkg-deb -f "$dir"/musl-apt/musl_*.deb Version) ;;
windows)
    rm -f "$dir/licences/cmocka.copyright"
    cp /usr/share/doc/mingw-w64-x86-64-dev/copyright "$dir/licences/mingw-w64.copyright" # its start files and winpthreads
    cp /usr/share/doc/gcc-mingw-w64-x86-64-posix/copyright "$dir/licences/gcc.copyright" 2>/dev/null ||
        cp /usr/share/doc/gcc-mingw-w64-base/copyright "$dir/licences/gcc.copyright" # libgcc, with its exception
    ;;
esac
{
    for name in $libraries; do
        [ "$name" != cmocka ] || continue # the tests' alone
        echo "$name $(dpkg-parsechangelog -l "$(echo "$dir/src/$name"-*/debian/changelog)" -S Version) $(licence_of "$name")"
    done
    case "$arch" in
    shared) ;; # against this machine's libc
    windows) echo "mingw-w64 $(dpkg-query -W -f '${Version}' mingw-w64-x86-64-dev) ZPL-2.1" ;;
    *) echo "musl $musl $(licence_of musl)" ;;
    esac
} >"$dir/versions"
cat >"$dir/licences/README" <<'TEXT'
The binary holds these libraries, linked static from Debian's source packages of the versions that sbom.spdx.json names.
libmicrohttpd is under the LGPL 2.1: to link the binary with another version of it, change scripts/static_libs.sh of
kentang's source and run scripts/package --static (for Windows: --windows).
TEXT
echo "$libraries" >"$dir/.complete"
