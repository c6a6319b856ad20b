//! The structures are those of kentang.h in KENTANG_INCLUDE, as the C compiler lays them out.
use std::fmt::Write;
use std::process::Command;

#[test]
fn structures_are_the_headers() {
    let include = std::env::var("KENTANG_INCLUDE").expect("KENTANG_INCLUDE");
    let dir = std::env::temp_dir().join(format!("kentang-layout-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let mut c = String::from("#include <kentang.h>\n#include <stdio.h>\nint main(void) {\n");
    let mut ours = String::new();
    for (name, member, at) in kentang_sys::layout() {
        let member = if member == "where_" { "where" } else { member };
        let what = if member.is_empty() { format!("sizeof({name})") } else { format!("offsetof({name}, {member})") };
        writeln!(c, "printf(\"{name} {member} %zu\\n\", {what});").unwrap();
        writeln!(ours, "{name} {member} {at}").unwrap();
    }
    std::fs::write(dir.join("layout.c"), c + "}\n").unwrap();
    let program = dir.join("layout");
    let compiled = Command::new("cc").arg(dir.join("layout.c")).args(["-I", &include, "-o"]).arg(&program).status();
    assert!(compiled.unwrap().success());
    let theirs = Command::new(&program).output().unwrap().stdout;
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(ours, String::from_utf8(theirs).unwrap());
}
