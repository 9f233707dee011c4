//! Small crates as texts.

use crate::graph::circles;
use crate::modules::Modules;

/// The circles of a crate, each as the names of its files, in order.
fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let mut modules = Modules::default();
    for (file, text) in files {
        let path = file.trim_end_matches(".rs").split('/').map(str::to_owned);
        let path = if *file == "lib.rs" { Vec::new() } else { path.collect() };
        modules.add(file, path, text).unwrap();
    }
    let names = |circle: Vec<(String, String)>| {
        circle.into_iter().map(|(from, _)| from).collect::<Vec<_>>().join(" -> ")
    };
    circles(&modules.arrows()).into_iter().map(names).collect()
}

#[test]
fn files_in_order_have_no_circle() {
    let files = [
        ("lib.rs", "mod low; mod high; pub use high::High;"),
        ("low.rs", "pub struct Low;"),
        ("high.rs", "use crate::low::Low; pub struct High(Low);"),
    ];
    assert_eq!(circles_of(&files), [] as [&str; 0]);
}

#[test]
fn a_use_back_from_a_lower_file_is_a_circle_of_both() {
    let files = [
        ("lib.rs", "mod low; mod high;"),
        ("low.rs", "use crate::high::High; pub struct Low;"),
        ("high.rs", "use crate::low::Low; pub struct High(Low);"),
    ];
    assert_eq!(circles_of(&files), ["high.rs -> low.rs"]);
}

#[test]
fn a_name_is_followed_through_imports_to_the_file_that_defines_it() {
    // `two` uses a name of its parent, which is defined in `one`: no arrow goes to the parent.
    let files = [
        ("lib.rs", "mod room;"),
        ("room.rs", "mod one; mod two; pub use one::One; pub use two::*;"),
        ("room/one.rs", "pub struct One;"),
        ("room/two.rs", "use super::One; pub struct Two(One);"),
    ];
    assert_eq!(circles_of(&files), [] as [&str; 0]);
}

#[test]
fn a_child_may_use_its_parent_but_not_what_uses_the_parent() {
    let files = [
        ("lib.rs", "mod room; mod high;"),
        ("room.rs", "mod child; use child::Child; pub struct Room(Child);"),
        ("room/child.rs", "pub struct Child; fn make() -> super::Room { loop {} }"),
        ("high.rs", "use crate::room::Room;"),
    ];
    assert_eq!(circles_of(&files), [] as [&str; 0]);
    let mut files = files;
    files[2].1 = "pub struct Child; use crate::high;";
    assert_eq!(circles_of(&files), ["high.rs -> room.rs -> room/child.rs"]);
}

#[test]
fn paths_in_functions_and_in_macro_calls_count() {
    let files = [
        ("lib.rs", "mod low; mod high;"),
        ("low.rs", "fn low() { println!(\"{}\", crate::high::NAME); }"),
        ("high.rs", "pub const NAME: u8 = 1; fn high() { crate::low::low(); }"),
    ];
    assert_eq!(circles_of(&files), ["high.rs -> low.rs"]);
}

#[test]
fn code_of_tests_does_not_count() {
    let files = [
        ("lib.rs", "mod low; mod high;"),
        (
            "low.rs",
            "pub struct Low; #[cfg(test)] use crate::high::High; #[cfg(test)] mod tests { use crate::high::High; }",
        ),
        ("high.rs", "use crate::low::Low; pub struct High(Low);"),
    ];
    assert_eq!(circles_of(&files), [] as [&str; 0]);
}
