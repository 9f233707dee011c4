//! Every accepted form of the attribute, a program in `pass/`, compiles and starts.

use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn every_accepted_form_starts() {
    let folder = Path::new(env!("CARGO_BIN_EXE_pass-bare")).parent().unwrap();
    let files = fs::read_dir(env!("CARGO_MANIFEST_DIR")).unwrap().map(|file| file.unwrap().path());
    let forms: Vec<_> = files.filter(|file| file.extension().is_some_and(|of| of == "rs")).collect();
    assert!(forms.len() >= 25, "{forms:?}");
    for form in forms {
        let name = format!("pass-{}{EXE_SUFFIX}", form.file_stem().unwrap().to_str().unwrap());
        let started = Command::new(folder.join(&name)).status();
        assert!(started.is_ok_and(|status| status.success()), "{name}; is it in Cargo.toml?");
    }
}
