//! The tests that notice what the table of the core names.

use std::path::Path;

use tenure_protocol::mutation::Mutation;

use super::core::By::{self, Core, Failure, Model, Runtime, Scenario, Simulator};

/// The sign that the line is noticed; `None` if there is none.
pub(crate) fn noticed(mutation: Mutation, by: By) -> Option<String> {
    match by {
        Simulator(property) => Some(format!("the simulator, by {property}")),
        Scenario(name) => {
            let scenario = super::scenario(name)?;
            super::notices_in_memory(scenario, mutation).then(|| name.to_owned())
        }
        Core(name) => ["mutants.rs", "mutants/granting.rs"]
            .into_iter()
            .find_map(|file| named(&format!("../../protocol/src/core/tests/{file}"), mutation, name)),
        Runtime(name) => named("../../pool/src/runtime/actors/tests.rs", mutation, name),
        Model(name) => named("../sim/tests/model/main.rs", mutation, name),
        Failure(file, name) => named(&format!("tests/failures/{file}.rs"), mutation, name),
    }
}

/// Checks that the test exists and leaves the line out, itself or by a constant of its file that it names.
fn named(file: &str, mutation: Mutation, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).ok()?;
    let from = |start: &str, end: &str| {
        let rest = &text[text.find(start)?..];
        Some(rest[..rest.find(end)?].to_owned())
    };
    let registered = from(&format!("    {name}:"), "\",").or_else(|| from(&format!("    {name}:"), "\";"));
    let test = registered.or_else(|| from(&format!("fn {name}()"), "\n}\n"))?;
    let words = test.split(|c: char| !c.is_alphanumeric() && c != '_');
    let constants = words.filter_map(|word| {
        from(&format!("const {word}:"), ";\n").or_else(|| from(&format!("const fn {word}("), "\n}\n"))
    });
    let whole = constants.fold(test.clone(), |whole, constant| whole + &constant);
    let asked = format!("{mutation:?}");
    let has = whole.split(|c: char| !c.is_alphanumeric()).any(|word| word == asked);
    has.then(|| format!("{file} {name}"))
}

/// The names of all mutations, as their file has them.
pub(crate) fn all() -> Vec<String> {
    let text = include_str!("../../../../../protocol/src/mutation.rs");
    let variants = text.split("pub enum Mutation {").nth(1).and_then(|rest| rest.split("\n}").next());
    let name = |line: &str| line.strip_prefix("    ")?.strip_suffix(',').map(str::to_owned);
    variants.unwrap_or_default().lines().filter_map(name).collect()
}
