//! Where libkentang comes from: the folder KENTANG_LIB_DIR; with the feature `system` as pkg-config says; else the sources, which
//! a published crate has in `vendor` and a checkout two folders up, are compiled with CMake and linked static.
use std::path::{Path, PathBuf};
use std::process::Command;

const NEEDED: [&str; 2] = ["utf8proc", "hwloc"];

fn has(feature: &str) -> bool {
    std::env::var_os(format!("CARGO_FEATURE_{}", feature.to_uppercase())).is_some()
}

fn from_pkg_config() -> String {
    let out = Command::new("pkg-config").args(["--variable=libdir", "kentang"]).output();
    let dir = out.ok().filter(|o| o.status.success()).and_then(|o| String::from_utf8(o.stdout).ok());
    dir.map(|d| d.trim().to_string())
        .filter(|d| !d.is_empty())
        .expect("the feature `system` is on and pkg-config does not know kentang: install it, or build without that feature")
}

/// From `dir`: the shared library, or with the feature `static` the other one and what it needs.
fn link_installed(dir: &str) {
    println!("cargo:rustc-link-search=native={dir}");
    println!("cargo:rustc-link-lib={}=kentang", if has("static") { "static" } else { "dylib" });
    if has("static") {
        link_needed();
    }
}

fn link_needed() {
    for name in NEEDED {
        println!("cargo:rustc-link-lib=dylib={name}");
    }
    println!("cargo:rustc-link-lib=dylib=m");
}

fn sources() -> PathBuf {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let vendored = here.join("vendor");
    if vendored.join("CMakeLists.txt").exists() { vendored } else { here.join("../../..") }
}

/// The kernels of every processor are compiled, each in its own file: there is no flag to choose them by.
fn build(source: &Path) {
    for name in ["CMakeLists.txt", "include", "src/lib"] {
        println!("cargo:rerun-if-changed={}", source.join(name).display());
    }
    let out = cmake::Config::new(source)
        .profile("Release")
        .define("KT_PROGRAM", "OFF")
        .define("KT_TESTS", "OFF")
        .build_target("kentang_static")
        .build();
    println!("cargo:rustc-link-search=native={}", out.join("build").display());
    println!("cargo:rustc-link-lib=static=kentang");
    link_needed();
}

fn main() {
    println!("cargo:rerun-if-env-changed=KENTANG_LIB_DIR");
    match std::env::var("KENTANG_LIB_DIR") {
        Ok(dir) => link_installed(&dir),
        Err(_) if has("system") => link_installed(&from_pkg_config()),
        Err(_) => build(&sources()),
    }
}
