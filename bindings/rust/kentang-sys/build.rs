//! Where libkentang is: the folder KENTANG_LIB_DIR, else as pkg-config says, else as the linker finds it.
use std::process::Command;

fn from_pkg_config() -> Option<String> {
    let out = Command::new("pkg-config").args(["--variable=libdir", "kentang"]).output().ok()?;
    let dir = String::from_utf8(out.stdout).ok()?.trim().to_string();
    (out.status.success() && !dir.is_empty()).then(|| dir)
}

fn main() {
    println!("cargo:rerun-if-env-changed=KENTANG_LIB_DIR");
    if let Some(dir) = std::env::var("KENTANG_LIB_DIR").ok().or_else(from_pkg_config) {
        println!("cargo:rustc-link-search=native={dir}");
    }
    println!("cargo:rustc-link-lib=dylib=kentang");
}
