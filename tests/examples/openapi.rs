//! The document of the example `openapi`, read as a client reads it, and judged by a validator that is not
//! ours.

use roas::v3_1::spec::Spec;
use roas::validation::{Options, Validate};
use serde_json::{Value, json};
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
        let is_number = value.parse::<u64>().is_ok();
        assert_eq!(header["schema"]["type"], if is_number { "integer" } else { "string" }, "{name}: {value}");
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

/// What the validator finds wrong. A tag that the document does not describe is no mistake.
fn faults(document: &Value) -> Vec<String> {
    let spec: Spec = match serde_json::from_value(document.clone()) {
        Ok(spec) => spec,
        Err(error) => return vec![error.to_string()],
    };
    match spec.validate(Options::IgnoreMissingTags.into(), None) {
        Ok(()) => Vec::new(),
        Err(error) => error.errors.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn a_validator_accepts_the_document() {
    let document = document();
    assert_eq!(faults(&document), Vec::<String>::new());
}

/// The validator looks at what the limits add, so its consent means something.
#[test]
fn the_validator_rejects_a_document_with_a_mistake() {
    let document = document();
    let breaks = [
        ("a response without a description", "responses/429", json!({})),
        ("a header field that is a text", "responses/429/headers/retry-after", json!("60")),
        ("a reference to nothing", "responses/429", json!({ "$ref": "#/components/responses/denied" })),
        ("a parameter of the path that is not described", "parameters", json!([])),
    ];
    for (what, place, value) in breaks {
        let mut broken = document.clone();
        *broken.pointer_mut(&format!("/paths/~1users~1{{id}}/get/{place}")).unwrap() = value;
        assert!(!faults(&broken).is_empty(), "the validator accepts {what}");
    }
}
