//! The server takes what the description lets a caller send, and refuses the rest with status 400.

use serde_json::{Value, json};
use tenure_pool::event::EventKind;

use super::schema::fits;
use super::world::World;

/// Names whose values no schema can tell: patterns of keys, and the server's own marks in a list.
const LOOSE: [&str; 3] = ["match", "error", "cursor"];

/// A parameter as a schema sees the text in an address.
fn read(schema: &Value, text: &str) -> Value {
    match schema["type"].as_str() {
        Some("integer" | "boolean") if !text.starts_with('+') => {
            serde_json::from_str(text).unwrap_or_else(|_| json!(text))
        }
        _ => json!(text),
    }
}

/// Texts at the edges of this schema, and of all others.
fn texts(schema: &Value) -> Vec<String> {
    let mut texts: Vec<_> = [
        "",
        " ",
        "0",
        "1",
        "-1",
        "+1",
        "1.5",
        "x",
        "true",
        "false",
        "yes",
        "0:1",
        "1:",
        ":1",
        "a:b",
        "1h",
        "1h 30m",
        "1.5h",
        "soon",
        "1",
        "-1h",
        "running",
        "running,queued",
        "running,",
        "Running",
        "R",
        "P,Q",
        "X",
        "a,b",
        "a,,b",
        ",",
        "*",
        "[",
        "/w==",
        "_w",
        "YQ==",
        "YQ",
        "YR==",
        "Y",
        "é",
        "1000",
        "1001",
        "18446744073709551616",
    ]
    .map(str::to_owned)
    .into();
    texts.extend(EventKind::ALL.map(|kind| kind.word().to_owned()));
    texts.extend([512, 513].map(|length| "k".repeat(length)));
    for (word, by) in [("minimum", -1), ("maximum", 1)] {
        texts.extend(
            schema[word].as_i64().iter().flat_map(|edge| [edge.to_string(), (edge + by).to_string()]),
        );
    }
    texts
}

#[tokio::test(flavor = "multi_thread")]
async fn each_parameter_is_taken_as_the_description_says() {
    let world = World::serving(1, &["--show-payloads", "--queues", "shop"]).await;
    let description = world.json("/openapi.json").await;
    let (schemas, mut found) = (&description["components"]["schemas"], Vec::new());
    let bearer = format!("Bearer {}", world.page.token.as_deref().unwrap());
    for (path, of) in description["paths"].as_object().unwrap() {
        let params = of["get"]["parameters"].as_array().into_iter().flatten();
        for param in params.filter(|param| param["in"] == "query") {
            let (name, schema) = (param["name"].as_str().unwrap(), &param["schema"]);
            for text in texts(schema) {
                let query: String =
                    form_urlencoded::Serializer::new(String::new()).append_pair(name, &text).finish();
                let address = format!("{path}?{query}");
                let answer = world.page.ask("GET", &address, &[("authorization", &bearer)], None).await;
                let (taken, described) = (answer.status != 400, fits(schema, &read(schema, &text), schemas));
                if taken && !described || described && !taken && !LOOSE.contains(&name) {
                    found.push(format!("{address}: {} {}", answer.status, answer.body));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_body_is_taken_as_the_description_says() {
    let world = World::new(1).await;
    let description = world.json("/openapi.json").await;
    let (schemas, mut found) = (&description["components"]["schemas"], Vec::new());
    let long = |length: usize| json!("k".repeat(length));
    // Fields of any body, each with values at its edges.
    let fields = [
        ("key64", vec![json!("YQ=="), json!("YQ"), json!("YR=="), json!("*"), json!("")]),
        ("key", vec![json!(""), long(512), long(513)]),
        ("reason", vec![json!(""), long(900), long(901), long(1_024), long(1_025)]),
        ("for_ms", vec![json!(0), json!(1), json!(86_400_000_000_u64), json!(86_400_000_001_u64), json!(-1)]),
        ("payload", vec![json!("")]),
        ("payload64", vec![json!("/w=="), json!("*"), json!("")]),
        ("policy", vec![json!("on-failure"), json!("sometimes")]),
        ("how", vec![json!("submit"), json!("soon")]),
        ("match", vec![json!("x"), json!("[")]),
        ("error", vec![json!("x"), json!("[")]),
        ("limit", vec![json!(0), json!(1), json!(1_000), json!(1_001)]),
        ("cursor", vec![json!("x")]),
        ("node", vec![json!("n1"), json!("")]),
        ("worker", vec![json!(1), json!(-1)]),
        ("shard", vec![json!(0), json!(-1)]),
        ("colour", vec![json!("red")]),
    ];
    for (path, of) in description["paths"].as_object().unwrap() {
        let Some(schema) = of["post"].pointer("/requestBody/content/application~1json/schema") else {
            continue;
        };
        // Of what is there by itself, and of a job by its key, a node by its name, a worker by its number.
        let bases = [json!({}), json!({"key": "nobody"}), json!({"node": "nobody"}), json!({"worker": 1})];
        let mut bodies: Vec<_> = bases.to_vec();
        for (base, (name, values)) in
            bases.iter().flat_map(|base| fields.iter().map(move |field| (base, field)))
        {
            for value in values.iter().chain(&[json!(null), json!(true)]) {
                let mut body = base.clone();
                body[*name] = value.clone();
                bodies.push(body);
            }
        }
        bodies.push(json!({"key": "nobody", "payload": "a", "payload64": "YQ=="}));
        bodies.push(json!({"key": "nobody", "payload": null, "payload64": "YQ=="}));
        for body in bodies {
            let answer = world.post(path, &body).await;
            let (taken, described) = (answer.status != 400, fits(schema, &body, schemas));
            let is_loose = LOOSE.iter().any(|name| body.get(name).is_some());
            if taken && !described || described && !taken && !is_loose {
                found.push(format!("{path} {body}: {} {}", answer.status, answer.body));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
