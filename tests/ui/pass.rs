//! Every accepted form of the attribute, in a program in `pass/`, compiles and starts.

use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn every_accepted_form_starts() {
    let folder = Path::new(env!("CARGO_BIN_EXE_pass-forms")).parent().unwrap();
    let forms = include_str!("pass/forms.rs");
    for file in fs::read_dir(env!("CARGO_MANIFEST_DIR")).unwrap() {
        let path = file.unwrap().path();
        let form = path.file_stem().unwrap().to_str().unwrap();
        if path.extension().is_none_or(|of| of != "rs") || forms.contains(&format!("mod {form};")) {
            continue;
        }
        let started = Command::new(folder.join(format!("pass-{form}{EXE_SUFFIX}"))).status();
        assert!(started.is_ok_and(|status| status.success()), "{form}; is it in forms.rs or Cargo.toml?");
    }
}
