#!/bin/sh
# Sourced by scripts/package: what is installed by the package managers of Python, Node and Rust. Each holds the library
# for this machine's architecture, so that whoever installs it needs no compiler; the crate holds the sources.

# The libkentang.so that goes into them: what it needs besides libc is linked static. FOLDER/tree has it with its licences.
shared_tree() { # FOLDER
    libs=$out/static-shared
    run_logged "libraries for a shared library" sh scripts/static_libs.sh shared "$libs"
    rm -rf "$1"
    export_tree "$1/src"
    PKG_CONFIG_LIBDIR="$libs/prefix/lib/pkgconfig" run_logged "configuring the shared library" cmake -S "$1/src" -B "$1/build" -G Ninja \
        -DCMAKE_BUILD_TYPE=Release -DKT_PROGRAM=OFF -DCMAKE_C_COMPILER="$libs/cc" -DCMAKE_ASM_COMPILER="$libs/cc" \
        -DPKG_CONFIG_ARGN=--static "-DCMAKE_C_FLAGS=-ffile-prefix-map=$1/src=. -ffile-prefix-map=$1/build=."
    run_logged "building the shared library" ninja -C "$1/build" kentang_shared
    mkdir -p "$1/tree/licences"
    strip -o "$1/tree/libkentang.so" "$1/build/libkentang.so"
    cp "$libs"/licences/*.copyright "$1/tree/licences/"
    cp LICENSE "$1/tree/licences/kentang.copyright"
    needed=$(objdump -p "$1/tree/libkentang.so" | sed -n 's/ *NEEDED *//p' | grep -v -E '^(libc|libm|ld-linux-[a-z0-9-]*)\.so' || :)
    [ -z "$needed" ] || die "libkentang.so needs $needed, which not every machine has" "link it static: scripts/static_libs.sh"
}

# The oldest glibc that has all that a file asks for: 2.34
least_glibc() { # FILE
    objdump -T "$1" | sed -n 's/.*(\{0,1\}GLIBC_\([0-9.]*\).*/\1/p' | sort -Vu | tail -n 1
}

need_shared() {
    [ -f "$out/build-shared/tree/libkentang.so" ] || shared_tree "$out/build-shared"
}
need_static() {
    [ -f "$out/build-x86_64/tree/kentang" ] || make_static x86_64
}

# The texts of all that a wheel holds, in $out/licences
gather_licences() { # FOLDER...
    rm -rf "$out/licences"
    mkdir -p "$out/licences"
    for folder in "$@"; do cp "$folder"/* "$out/licences/"; done
    cp LICENSE "$out/licences/kentang.copyright"
}

# kentang-VERSION-py3-none-TAG.whl: the module, the library and the program; the same bytes whenever it is made
make_wheel() { # [TREE]: where the library is
    install_packages python3
    need_shared
    need_static
    shared=${1:-$out/build-shared/tree}
    library=$shared/libkentang.so
    tag=manylinux_$(least_glibc "$library" | tr . _)_x86_64
    say "a wheel for $tag"
    gather_licences "$shared/licences" "$out/build-x86_64/tree/licences"
    python3 scripts/make_wheel.py "$out" "$version" "$tag" "$SOURCE_DATE_EPOCH" "$library" "$out/build-x86_64/tree/kentang" "$out/licences"
    rm -rf "$out/licences"
}
make_windows_wheel() { # TREE
    say "a wheel for win_amd64"
    gather_licences "$1/licences"
    python3 scripts/make_wheel.py "$out" "$version" win_amd64 "$SOURCE_DATE_EPOCH" "$1/libkentang.dll" "$1/kentang.exe" "$out/licences"
    rm -rf "$out/licences"
}

# kentang-VERSION.tgz of npm: the module, and for this architecture the addon, the library and the program
make_npm() { # [FOLDER]: what shared_tree made
    install_packages gcc
    command -v node >/dev/null && command -v npm >/dev/null || die "node and npm are not here" "install nodejs, libnode-dev and npm"
    need_shared
    need_static
    shared=${1:-$out/build-shared}
    tree=$out/npm/package
    rm -rf "$out/npm"
    mkdir -p "$tree/linux-x64/licences"
    cp bindings/node/index.mjs bindings/node/index.d.ts LICENSE "$tree/"
    cp bindings/node/README.md "$tree/"
    sed 's|"private": true,|"os": ["linux"],\n  "cpu": ["x64"],\n  "bin": { "kentang": "linux-x64/kentang" },|' bindings/node/package.json >"$tree/package.json"
    cp "$shared/tree/libkentang.so" "$tree/linux-x64/"
    cp "$shared/tree"/licences/* "$tree/linux-x64/licences/"
    cp "$out/build-x86_64/tree"/licences/* "$tree/linux-x64/licences/"
    cp "$out/build-x86_64/tree/kentang" "$tree/linux-x64/"
    KENTANG_INCLUDE=$shared/src/include KENTANG_LIB_DIR=$tree/linux-x64 run_logged "the addon for node" \
        sh bindings/node/build.sh "$tree/linux-x64/kentang.node" "-Wl,-rpath,\$ORIGIN -ffile-prefix-map=$KT_ROOT=."
    strip "$tree/linux-x64/kentang.node"
    mv "$tree/linux-x64/libkentang.so" "$tree/linux-x64/libkentang.so.0" # as the addon asks for it
    rm -f "$out/kentang-$version.tgz"
    tar -C "$out/npm" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --mode=go=rX,u+rw,a-s -cf - package |
        gzip -n -9 >"$out/kentang-$version.tgz"
    rm -rf "$out/npm"
}

# kentang-sys-VERSION.crate with the library's sources, and kentang-VERSION.crate; verified by building each from its package
make_crates() {
    command -v cargo >/dev/null || die "cargo is not here" "install cargo"
    # shellcheck disable=SC2086
    install_packages $KT_PACKAGES
    tree=$out/crates
    rm -rf "$tree"
    mkdir -p "$tree"
    git archive HEAD bindings/rust LICENSE | tar -x -C "$tree"
    git archive --prefix=bindings/rust/kentang-sys/vendor/ HEAD CMakeLists.txt LICENSE cmake include scripts/rooms.txt src/lib | tar -x -C "$tree"
    cp "$tree/LICENSE" "$tree/bindings/rust/kentang-sys/"
    cp "$tree/LICENSE" "$tree/bindings/rust/kentang/"
    (cd "$tree/bindings/rust" && CARGO_TARGET_DIR="$out/crates-target" run_logged "the crates" cargo package --allow-dirty --no-verify --workspace)
    cp "$out/crates-target/package/kentang-sys-$version.crate" "$out/crates-target/package/kentang-$version.crate" "$out/"
    rm -rf "$tree"
}

# Each in an empty folder, with nothing of this checkout on the paths.
try_bindings() {
    question="How do I run a GGUF file?"
    [ $want_wheel -eq 0 ] || for python in python3.8 python3.9 python3.10 python3.11 python3.12 python3.13 python3; do
        command -v "$python" >/dev/null && "$python" -c 'import venv, ensurepip' 2>/dev/null || continue
        rm -rf "$out/try"
        "$python" -m venv "$out/try"
        run_logged "the wheel in $("$python" --version)" env -i PATH="$out/try/bin:/usr/bin:/bin" HOME="$out/try" sh -eu -c '
            pip install -q --no-index '"$out"'/kentang-*.whl
            cd /
            kentang run --temp 0 -n 16 -p "$1" </dev/null | grep .
            python -c "import kentang
with kentang.Context() as ctx, ctx.open(None) as model, model.engine() as engine, engine.sequence() as seq:
    seq.chat(\"Who are you?\", print, temperature=0, n_predict=8)"
            pip uninstall -q -y kentang' try "$question"
    done
    [ $want_npm -eq 0 ] || {
        rm -rf "$out/try"
        mkdir -p "$out/try"
        run_logged "the package for node" sh -eu -c 'cd "$1" && npm init -y && npm install --no-audit --no-fund "$2"
            npx --no-install kentang run --temp 0 -n 16 -p "$3" </dev/null | grep .
            echo "import { Model } from \"kentang\"; const m = new Model(); console.log(await m.chat(\"Who are you?\", { temperature: 0, n_predict: 8 }).text()); m.close();" >ask.mjs
            node ask.mjs | grep .' try "$out/try" "$out/kentang-$version.tgz" "$question"
    }
    [ $want_crate -eq 0 ] || {
        rm -rf "$out/try"
        mkdir -p "$out/try/src"
        for crate in kentang-sys kentang; do tar -xzf "$out/$crate-$version.crate" -C "$out/try"; done
        cat >"$out/try/Cargo.toml" <<TOML
[package]
name = "ask"
version = "0.1.0"
edition = "2021"
[dependencies]
kentang = { path = "kentang-$version", features = ["native"] }
[patch.crates-io]
kentang-sys = { path = "kentang-sys-$version" }
TOML
        cp bindings/rust/kentang/examples/ask.rs "$out/try/src/main.rs"
        run_logged "the crates in a program of their own" sh -eu -c 'cd "$1" && cargo run --release -q' try "$out/try"
    }
    rm -rf "$out/try"
}
