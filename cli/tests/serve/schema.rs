//! Judges values by the schemas of the description.

use regex::Regex;
use serde_json::Value;

/// Whether a value fits a schema.
pub(crate) fn fits(schema: &Value, value: &Value, all: &Value) -> bool {
    let mut found = Vec::new();
    faults(schema, value, all, "", &mut found);
    found.is_empty()
}

/// The faults of a value by a schema, for the words of schemas in the description.
pub(crate) fn faults(schema: &Value, value: &Value, all: &Value, at: &str, into: &mut Vec<String>) {
    let fields = schema.as_object().unwrap();
    if let Some(name) = fields.get("$ref").and_then(Value::as_str) {
        let name = name.strip_prefix("#/components/schemas/").unwrap();
        let schema = all.get(name).unwrap_or_else(|| panic!("there is no schema {name}"));
        return faults(schema, value, all, at, into);
    }
    for (word, said) in fields {
        let is_fit = match word.as_str() {
            "type" => match said {
                Value::Array(kinds) => kinds.iter().any(|kind| is_of(kind, value)),
                kind => is_of(kind, value),
            },
            "const" => value == said,
            "enum" => said.as_array().unwrap().contains(value),
            "minimum" => value.as_f64().is_none_or(|value| value >= said.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|value| value <= said.as_f64().unwrap()),
            "minLength" => {
                value.as_str().is_none_or(|text| text.chars().count() as u64 >= said.as_u64().unwrap())
            }
            "maxLength" => {
                value.as_str().is_none_or(|text| text.chars().count() as u64 <= said.as_u64().unwrap())
            }
            "pattern" => {
                value.as_str().is_none_or(|text| Regex::new(said.as_str().unwrap()).unwrap().is_match(text))
            }
            "oneOf" => said.as_array().unwrap().iter().filter(|one| fits(one, value, all)).count() == 1,
            "not" => !fits(said, value, all),
            "required" => {
                let mut names = said.as_array().unwrap().iter();
                !value.is_object() || names.all(|name| value.get(name.as_str().unwrap()).is_some())
            }
            "properties" => {
                for (name, schema) in said.as_object().unwrap() {
                    if let Some(value) = value.get(name) {
                        faults(schema, value, all, &format!("{at}.{name}"), into);
                    }
                }
                true
            }
            "additionalProperties" => {
                assert_eq!(said, false, "{at}");
                let known =
                    |name: &String| fields.get("properties").is_some_and(|all| all.get(name).is_some());
                value.as_object().into_iter().flatten().all(|(name, _)| known(name))
            }
            "items" => {
                for (number, value) in value.as_array().into_iter().flatten().enumerate() {
                    faults(said, value, all, &format!("{at}[{number}]"), into);
                }
                true
            }
            "description" | "format" => true,
            other => panic!("{at}: the word {other}"),
        };
        if !is_fit {
            into.push(format!("{at}: {value} does not fit {word} {said}"));
        }
    }
}

fn is_of(kind: &Value, value: &Value) -> bool {
    match kind.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("the type {other}"),
    }
}
