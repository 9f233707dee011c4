//! The document of the example `openapi`, read as a client reads it, and judged by a validator that is not ours.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;
use tests::client;
use tests::demo::Demo;

const OPENAPI: &str = env!("CARGO_BIN_EXE_demo-openapi");

fn document() -> Value {
    let demo = Demo::start(OPENAPI, &[]);
    serde_json::from_str(&client::get(demo.address, "/openapi.json", &[]).body).unwrap()
}

#[test]
fn operations_with_limits_say_what_the_limits_answer() {
    let document = document();
    let statuses = |path: &str, method: &str| -> Vec<String> {
        document["paths"][path][method]["responses"].as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(statuses("/users/{id}", "get"), ["200", "429"]);
    assert_eq!(statuses("/orders", "post"), ["201", "400", "429", "503"]);
    assert_eq!(statuses("/health", "get"), ["200"]);
    assert!(document["paths"]["/health"]["get"]["x-ratelimit"].is_null());
    let parameters = &document["paths"]["/users/{id}"]["get"]["parameters"];
    assert_eq!(parameters[0]["name"], "id", "the attribute leaves what utoipa finds");
}

/// What the document promises is what the service sends.
#[test]
fn a_denial_is_as_the_document_describes_it() {
    let demo = Demo::start(OPENAPI, &[]);
    let document: Value =
        serde_json::from_str(&client::get(demo.address, "/openapi.json", &[]).body).unwrap();
    let denied =
        (0..30).map(|_| client::get(demo.address, "/users/7", &[])).find(|reply| reply.status == 429);
    let denied = denied.unwrap();
    let described = &document["paths"]["/users/{id}"]["get"]["responses"]["429"];
    for (name, header) in described["headers"].as_object().unwrap() {
        let value = denied.header(name).unwrap_or_else(|| panic!("no field {name}"));
        assert_eq!(header["schema"]["type"], "integer");
        assert!(value.parse::<u64>().is_ok(), "{name}: {value}");
    }
    let content = described["content"].as_object().unwrap();
    assert_eq!(content.keys().next().unwrap(), denied.header("content-type").unwrap());
    let body: Value = serde_json::from_str(&denied.body).unwrap();
    let schema = &content.values().next().unwrap()["schema"];
    for required in schema["required"].as_array().unwrap() {
        assert!(!body[required.as_str().unwrap()].is_null(), "{required} in {body}");
    }
    for name in body.as_object().unwrap().keys() {
        assert!(!schema["properties"][name].is_null(), "{name} is not described");
    }
}

/// Set where a missing validator is a failure.
const REQUIRED: &str = "OPENAPI_REQUIRED";

#[test]
fn a_validator_accepts_the_document() {
    let module = "openapi_spec_validator";
    let is_there = Command::new("python3").args(["-c", &format!("import {module}")]).output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        assert!(
            std::env::var_os(REQUIRED).is_none(),
            "{REQUIRED} is set, and python3 has no module {module}"
        );
        // Not `eprintln!`, which the test harness captures: a skipped test must be seen.
        let line = format!("skipped: a_validator_accepts_the_document needs python3 with {module}\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return;
    }
    let validate = |document: &Value| {
        let mut child = Command::new("python3")
            .args(["-m", module, "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(document.to_string().as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let mut document = document();
    let output = validate(&document);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    // The validator looks at the responses of limits, too: a response needs a description.
    let denied = &mut document["paths"]["/users/{id}"]["get"]["responses"]["429"];
    denied.as_object_mut().unwrap().remove("description").unwrap();
    assert!(!validate(&document).status.success(), "the validator accepts a response without a description");
}
