//! Mistakes in overrides: each is found, with its line and what was expected.

use super::at_once::CALLERS_READ;
use super::*;
use crate::overrides::check::check;
use crate::overrides::file::open_file;
use crate::overrides::{MAX_FILE_LEN, Problem};

/// The text of the error for overrides in this form.
fn error_of(text: &str) -> String {
    limiter(text).err().map_or_else(|| panic!("no error for\n{text}"), |error| error.to_string())
}

#[test]
fn a_mistake_is_told_with_its_line_and_what_was_expected() {
    for (text, expected) in [
        ("[limit.shopp]\nmax = 1", "line 1: unknown limit `shopp`"),
        ("[limit.shopp]\nmax = 1", "did you mean `shop`?"),
        ("[limit.shpo]\nmax = 1", "did you mean `shop`?"),
        ("[limits.shop]\nmax = 1", "line 1: unknown table `limits`; expected `[limit.NAME]`"),
        ("max = 1", "line 1: unknown table; expected `[limit.NAME]`"),
        ("limit = 5", "expected a table for each limit, such as `[limit.shop]`, found a number"),
        ("[limit]\nshop = 5", "line 2: expected a table for a limit"),
        ("[[limit.shop]]\nmax = 1", "found an array"),
        (
            "[limit.shop]\nmx = 1",
            "line 2: unknown field `mx` of limit `shop`, expected one of `max`, `window`",
        ),
        ("[limit.shop]\nmx = 1", "did you mean `max`?"),
        ("[limit.shop]\nplan = {}", "did you mean `plans`?"),
        (
            "[limit.shop.plans]\npro = 1000",
            "expected a table for a plan of limit `shop`, such as `{ max = 500 }`",
        ),
        (
            "[limit.shop.plans]\npro = { plans = 1 }",
            "unknown field of a plan of limit `shop`, expected one of `max`",
        ),
        ("[limit.shop.plans]\npro = { mx = 1 }", "unknown field `mx` of a plan of limit `shop`"),
        ("[limit.shop]\ncallers = ['a']", "expected a table for a caller of limit `shop`"),
        (
            "[limit.shop.callers]\na = { mx = 1 }",
            "line 2: unknown field of a caller of limit `shop`, expected one of",
        ),
        ("[limit.shop.callers]\na = { mx = 1 }", "did you mean `max`?"),
        ("[limit.\"a\\nb\"]\nmax = 1", "unknown limit `a\\nb`"),
        ("[limit.shop]\nmax = 0", "line 1: limit `shop`: max must be from 1 to 1000000000000"),
        ("[limit.shop]\nmax = 1000000000001", "max must be from 1"),
        ("[limit.shop]\nmax = -1", "line 2: `max` of limit `shop`: expected a whole number from 1"),
        ("[limit.shop]\nmax = 99999999999999999999", "expected a whole number from 1"),
        ("[limit.shop]\nmax = 1.5", "expected a whole number, found a number with a fraction"),
        ("[limit.shop]\nmax = '5'", "expected a whole number, found a string"),
        ("[limit.shop]\nmax = true", "expected a whole number, found a boolean"),
        ("[limit.shop]\nmax = 2026-01-01", "expected a whole number, found a date"),
        ("[limit.shop]\nwindow = 60", "expected a time such as \"60s\", found a number"),
        ("[limit.shop]\nwindow = '60'", "did you mean \"60s\"?"),
        ("[limit.shop]\nwindow = '367d'", "at most 366d"),
        ("[limit.shop]\nburst = 5", "burst is only for the token bucket"),
        ("[limit.bucket]\nburst = 0", "burst must be from 1"),
        ("[limit.bucket]\nmax = 1\nwindow = '366d'\nburst = 2", "burst * window / max"),
        ("[limit.shop]\nblock = '1s'", "block must be at least the window"),
        ("[limit.login]\nwindow = '1h'", "limit `login`: block must be at least the window"),
        ("[limit.shop]\nblock = '367d'", "line 2: `block` of limit `shop`: `block` must be at most 366d"),
        ("[limit.shop]\nblock = 'window'", "`block` of limit `shop`: `block` must begin with a number"),
        ("[limit.shop]\nblock = 5", "expected a time such as \"10m\", or \"off\", found a number"),
        (
            "[limit.shop]\nmode = 'shadwo'",
            "unknown value \"shadwo\" for `mode`: expected one of \"enforce\", \"shadow\", \"off\"",
        ),
        ("[limit.shop]\nmode = 'shadwo'", "did you mean \"shadow\"?"),
        ("[limit.shop]\nmode = false", "expected one of \"enforce\", \"shadow\", \"off\", found a boolean"),
        ("[limit.shop]\non_error = 'close'", "for `on_error`: expected one of \"local\""),
        ("[limit.shop]\nmax = 1\nmax = 2", "line 3: expected TOML: duplicate key"),
        ("[limit.shop\nmax = 1", "line 1: expected TOML"),
        ("[limit.shop]\nmax =", "line 2: expected TOML"),
        (
            "[limit.shop.callers]\nsecret = {}",
            "line 2: a caller of limit `shop`: expected `gate`; `partition tenant-42` for a policy that the application checks itself",
        ),
    ] {
        let error = error_of(text);
        assert!(error.contains(expected), "{text}\n{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn all_mistakes_are_told_at_once_and_callers_are_not() {
    let text = "[limit.shop]\nmx = 1\nwindow = 5\n[limit.shop.callers]\n\"secret-name\" = { max = 'x' }\n\"secret-other\" = 7";
    let error = text.parse::<Overrides>().unwrap_err();
    let lines: Vec<_> = error.problems().iter().map(Problem::line).collect();
    assert_eq!(lines, [Some(2), Some(3), Some(5), Some(6)]);
    assert!(!format!("{error} {error:?}").contains("secret"), "{error}");

    let duplicate =
        "[limit.shop.callers]\n\"secret-name\" = {}\n\"secret-name\" = {}".parse::<Overrides>().unwrap_err();
    assert!(!duplicate.to_string().contains("secret"), "{duplicate}");

    for misplaced in [
        "[limit.shop]\n\"secret-name\" = { max = 500 }",
        "[limit.shop.callers]\nsecret.name = { max = 5 }",
        "[limit.shop.callers]\nsecret.secret = 5",
        "[secret-name]\nmax = 5",
    ] {
        let error = misplaced.parse::<Overrides>().unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
    }

    let many: Vec<String> = (0..20).map(|number| format!("field{number} = 1\n")).collect();
    let error = error_of(&format!("[limit.shop]\n{}", many.concat()));
    assert!(error.ends_with("; and 12 more"), "{error}");
}

#[test]
fn after_100_mistakes_no_further_ones_are_looked_for() {
    let rows = |head: &str, row: fn(usize) -> String| {
        let rows: Vec<String> = (2..5_002).map(|line| row(line) + "\n").collect();
        format!("{head}\n{}", rows.concat())
    };
    let texts = [
        rows("", |line| format!("table{line} = 1")),
        rows("[limit.shop]", |line| format!("field{line} = 1")),
        rows("[limit.shop.plans]", |line| format!("plan{line} = {{ mx = 1 }}")),
        rows("[limit.shop.callers]", |line| format!("acct{line} = {{ mx = 1, my = 2 }}")),
        rows("[limit.shop.callers]", |line| format!("acct{line} = {{ max = '1' }}")),
        rows("[limit.shop.callers]", |line| format!("acct{line} = 1")),
        rows("", |line| format!("[limit.l{line}]")),
        rows("[limit.shop.plans]", |line| format!("plan{line} = {{ max = 0 }}")),
        rows("[limit.shop.callers]", |line| format!("acct{line} = {{ max = 1 }}")),
        rows("[limit.shop.callers]", |line| format!("'partition {line}' = {{ max = 0 }}")),
    ];
    for text in texts {
        let error = limiter(&text).err().unwrap();
        assert_eq!(error.problems().len(), 100, "{error}");
        assert!(error.to_string().ends_with("; and at least 92 more"), "{error}");
    }
}

#[test]
fn a_file_of_the_largest_size_is_read_with_the_line_of_each_row() {
    let rows: Vec<String> =
        (0..40_000).map(|row| format!("[limit.l{row:05}]\nmax = {}\n", row + 1)).collect();
    let pad = "#".repeat(99);
    let text = (pad + "\n").repeat(31_000) + &rows.concat() + "[limit.last]\nmx = 1\n";
    assert!((4_000_000..=usize::try_from(MAX_FILE_LEN).unwrap()).contains(&text.len()));
    let error = text.parse::<Overrides>().unwrap_err();
    assert_eq!(error.problems().iter().map(Problem::line).collect::<Vec<_>>(), [Some(111_002)]);
}

/// Limits of different handlers with one policy, and one with another cost.
fn shared_by_handlers() -> Vec<KnownLimit> {
    let handler =
        |line| KnownLimit { place: Some(format!("shop::h{line} (src/shop.rs:{line})")), ..declared(&SHOP) };
    let dearer = KnownLimit { cost: Some(4), ..declared(&SHOP) };
    (0..50).map(handler).chain([dearer, declared(&LOGIN)]).collect()
}

#[test]
fn mistakes_that_limits_of_one_name_repeat_count_once() {
    let rows = |rows: std::ops::Range<usize>| -> String {
        rows.map(|row| format!("'acct{row}' = {{}}\n")).collect::<Vec<_>>().concat()
    };
    let text = format!("[limit.login.callers]\n{}[limit.shop.callers]\n{}", rows(0..30), rows(30..99));
    assert_eq!(problems(&text, &shared_by_handlers()).len(), 99);
    // `login` is checked before `shop`, and `shop` before `zoo`.
    let text = format!("[limit.shop.callers]\n{}[limit.zoo]\n", rows(0..60));
    let error = check(&parsed(&text), &shared_by_handlers()).unwrap_err();
    let error = OverridesError::new("", error);
    assert_eq!(error.problems().len(), 61);
    assert!(error.to_string().ends_with("; and 53 more"), "{error}");
}

#[test]
fn the_rows_of_a_policy_that_many_handlers_share_are_made_once_for_each_cost() {
    let read = CALLERS_READ.get();
    let text = "[limit.shop.callers]\n'gate a' = {}\n'gate b' = {}";
    assert_eq!(problems(text, &shared_by_handlers()), [""; 0]);
    assert_eq!(CALLERS_READ.get() - read, 2 * 2);
}

fn problems(overrides: &str, known: &[KnownLimit]) -> Vec<String> {
    match check(&parsed(overrides), known) {
        Ok(_) => Vec::new(),
        Err(problems) => {
            OverridesError::new("", problems).problems().iter().map(ToString::to_string).collect()
        }
    }
}

#[test]
fn a_cost_above_what_can_pass_is_a_mistake() {
    let known = [declared(&SHOP)];
    let place =
        "a request of shop::orders (src/shop.rs:12) costs 3 units, more than the 2 that can pass at once";
    assert_eq!(problems("[limit.shop]\nmax = 2", &known), [format!("line 1: limit `shop`: {place}")]);
    assert_eq!(
        problems(
            "[limit.shop.callers]\n'partition a' = { max = 2 }\n'partition b' = { max = 2, mode = 'off' }",
            &known
        ),
        [format!("line 2: a caller of limit `shop`: {place}")]
    );
    assert_eq!(problems("[limit.shop]\nmax = 3", &known), [""; 0]);
    let computed = [KnownLimit { computes_max: true, ..declared(&Policy::builder("shop").max(1).build()) }];
    assert_eq!(problems("[limit.shop]\nwindow = '2m'", &computed), [""; 0], "`max` is not known");
    assert_eq!(problems("[limit.shop]\nmax = 2", &computed).len(), 1);
}

#[test]
fn plans_need_a_limit_with_plans() {
    let text = "[limit.shop.plans]\npro = { max = 9 }";
    let expected = "line 2: limit `shop` has no `plan` in its attribute, so no request has a plan";
    assert_eq!(problems(text, &[declared(&SHOP)]), [expected]);
    assert_eq!(problems(text, &[KnownLimit { has_plan: true, ..declared(&SHOP) }]), [""; 0]);
}

#[test]
fn a_name_stands_for_every_limit_that_has_it() {
    let smaller = Policy::builder("shop").max(4).algorithm(Algorithm::FixedWindow).build();
    let known = [declared(&SHOP), declared(&smaller)];
    let table = check(&parsed("[limit.shop]\nwindow = '2m'"), &known).unwrap();
    for policy in [&SHOP, &smaller] {
        let found = table.limit(policy).unwrap().limit().policy.clone();
        assert_eq!((found.max(), found.window()), (policy.max(), Duration::from_secs(120)));
    }
    assert_eq!(problems("[limit.shop]\nburst = 5", &known).len(), 1, "reported once");
}

#[test]
fn the_name_of_a_handler_without_its_module_is_found() {
    let known = [declared(&Policy::builder("shop::orders::list").build())];
    let [problem] = problems("[limit.list]\nmax = 5", &known).try_into().unwrap();
    assert!(problem.ends_with("did you mean `shop::orders::list`?"), "{problem}");
    assert!(problems("[limit.list]", &[])[0].contains("this program has no limits"));
}

#[test]
fn what_is_not_a_short_text_file_is_a_mistake() {
    let folder = tempfile::tempdir().unwrap();
    let error_of = |name: &str| Overrides::from_file(folder.path().join(name)).unwrap_err().to_string();
    assert!(error_of("none.toml").contains("none.toml` cannot be used: cannot read the file"));
    assert!(error_of(".").contains("expected a file, found a directory"));
    std::fs::write(folder.path().join("bytes.toml"), [0xff, 0xfe]).unwrap();
    assert!(error_of("bytes.toml").contains("expected UTF-8 text"));
    // 100 MB, without writing them.
    let long = std::fs::File::create(folder.path().join("long.toml")).unwrap();
    long.set_len(100_000_000).unwrap();
    assert!(error_of("long.toml").contains("expected at most 4194304 bytes, found 100000000"));
    long.set_len(MAX_FILE_LEN).unwrap();
    assert!(!error_of("long.toml").contains("expected at most"), "nothing but zeros, which are no TOML");
    std::fs::write(folder.path().join("cut.toml"), "[limit.shop]\nmax = 6").unwrap();
    assert!(error_of("cut.toml").contains("the last line does not end with a line break"));
    std::fs::write(folder.path().join("empty.toml"), "").unwrap();
    let overrides = Overrides::from_file(folder.path().join("empty.toml")).unwrap();
    assert!(RateLimiter::builder(MemoryStore::new()).overrides(overrides).try_build().is_ok());
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
#[test]
fn a_named_pipe_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let error = Overrides::from_file(&path).unwrap_err();
    assert!(error.to_string().contains("expected a regular file"), "{error}");
    // It may take the place of a file between the look and the opening.
    let (sender, opened) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(open_file(&path).map(|file| file.metadata().unwrap().is_file())));
    let opened = opened.recv_timeout(Duration::from_secs(10)).expect("opened without a writer");
    assert!(matches!(opened, Ok(false)), "{opened:?}");
}
