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
fn a_parent_that_uses_its_child_is_not_used_by_it() {
    let mut files = [
        ("lib.rs", "mod room;"),
        ("room.rs", "mod child; pub use child::Child; pub struct Room;"),
        ("room/child.rs", "pub struct Child; fn make() -> super::Room { loop {} }"),
    ];
    assert_eq!(circles_of(&files), [] as [&str; 0], "what it passes on, it does not use");
    files[1].1 = "mod child; use child::Child; pub struct Room(Child);";
    assert_eq!(circles_of(&files), ["room.rs -> room/child.rs"]);
}

#[test]
fn methods_of_one_type_in_two_files_that_call_each_other_are_a_circle() {
    let circles = |calls: &str| {
        let text = format!(
            "mod more; pub struct Queue; impl Queue {{ fn send(&self) {{}} fn end(&self) {{ {calls} }} }}"
        );
        circles_of(&[
            ("lib.rs", "mod queue;"),
            ("queue.rs", &text),
            ("queue/more.rs", "use super::Queue; impl Queue { pub fn again(&self) { self.send(); } }"),
        ])
    };
    assert_eq!(circles(""), [] as [&str; 0]);
    for calls in
        ["self.again()", "Self::again(self)", "Queue::again(self)", "let queue = self; queue.again()"]
    {
        assert_eq!(circles(calls), ["queue.rs -> queue/more.rs"], "{calls}");
    }
}

#[test]
fn a_method_of_another_type_with_the_same_name_is_no_circle() {
    let files = [
        ("lib.rs", "mod queue; mod other;"),
        ("other.rs", "pub struct Other; impl Other { pub fn again(&self) {} }"),
        (
            "queue.rs",
            "mod more; pub struct Queue(crate::other::Other); impl Queue { fn send(&self) { self.0.again(); } }",
        ),
        ("queue/more.rs", "use super::Queue; impl Queue { pub fn again(&self) { self.send(); } }"),
    ];
    assert_eq!(circles_of(&files), [] as [&str; 0]);
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
