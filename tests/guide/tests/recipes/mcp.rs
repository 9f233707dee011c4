//! Tools of an MCP server: one route, and the tool is in the body.

use std::time::Duration;

// recipe
use actix_web::{HttpRequest, post, web};
use ratelimit_actix::{Check, IntoCaller, Policy, admit};

/// Ten calls of one tool by one account in a minute.
static TOOL: Policy = Policy::new("tool", 10, Duration::from_secs(60));

#[post("/mcp/{account}")]
async fn mcp(req: HttpRequest, by: web::Path<u64>, call: web::Json<Call>) -> String {
    let by = (*by, &*call.params.name).into_caller();
    if let Err(rejected) = admit(&req, [Check::new(&TOOL, &by)]).await {
        let wait = rejected.rejection().retry_after().unwrap_or_default().as_secs() + 1;
        return call.failed(&format!("{rejected}; try again in {wait} s"));
    }
    call.succeeded(&run(&call).await)
}
// end

use actix_web::http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Call {
    id: u64,
    params: Params,
}

#[derive(Deserialize)]
struct Params {
    name: String,
}

impl Call {
    fn failed(&self, text: &str) -> String {
        self.result(text, true)
    }

    fn succeeded(&self, text: &str) -> String {
        self.result(text, false)
    }

    /// The result of a tool: a model reads its text, also that of an error, while a 429 ends in the client.
    fn result(&self, text: &str, is_error: bool) -> String {
        let content = [json!({ "type": "text", "text": text })];
        json!({ "jsonrpc": "2.0", "id": self.id, "result": { "content": content, "isError": is_error } })
            .to_string()
    }
}

async fn run(call: &Call) -> String {
    format!("{} ran", call.params.name)
}

#[actix_web::test]
async fn each_tool_has_its_count_and_a_denial_is_a_result_with_the_wait() {
    crate::on_both_stores(async |limiter| {
        let app = tests::service!(limiter, mcp);
        let ask = async |account: u64, tool: &str| -> Value {
            let call =
                json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": { "name": tool } });
            let request = tests::answer::request(Method::POST, &format!("/mcp/{account}"))
                .insert_header(("content-type", "application/json"))
                .set_payload(call.to_string());
            let answer = tests::send(&app, request).await;
            assert_eq!(answer.status, 200);
            serde_json::from_str(&answer.body).unwrap()
        };
        for _ in 0..10 {
            assert_eq!(ask(1, "search").await["result"]["isError"], false);
        }
        let denied = ask(1, "search").await;
        assert_eq!((&denied["id"], &denied["result"]["isError"]), (&json!(7), &json!(true)));
        let text = denied["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("rate limit exceeded; try again in "), "{text}");
        assert_eq!(ask(1, "read").await["result"]["content"][0]["text"], "read ran");
        assert_eq!(ask(2, "search").await["result"]["isError"], false);
    })
    .await;
}
